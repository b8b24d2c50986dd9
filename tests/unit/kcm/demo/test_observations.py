"""When figures were first seen, for either side of the demo's comparison."""

from __future__ import annotations

from dataclasses import replace

from kcm.demo.observations import Observation, Observations
from tests.unit.kcm.demo.figures import HEALTHY

AWAY = replace(HEALTHY, offline=1)


def test_unchanged_figures_keep_the_time_of_their_first_poll() -> None:
    """A poll that sees what the last one saw changes nothing."""
    observations = Observations()
    assert observations.latest is None
    observations.add(1.0, HEALTHY)
    observations.add(2.0, HEALTHY)
    assert observations.latest == Observation(1.0, HEALTHY)


def test_became_returns_the_latest_time_of_the_figures_before_a_bound() -> None:
    """Of two times at which the figures arrived, the later counts, unless it is after the bound."""
    observations = Observations()
    for at, figures in ((1.0, HEALTHY), (2.0, AWAY), (3.0, HEALTHY)):
        observations.add(at, figures)
    assert observations.became(HEALTHY, before=9.0) == 3.0
    assert observations.became(HEALTHY, before=2.5) == 1.0
    assert observations.became(AWAY, before=1.5) is None
