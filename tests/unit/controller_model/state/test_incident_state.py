"""A sample at a position of the log is sure only while the watcher has a ZooKeeper session."""

from __future__ import annotations

import pytest

from controller_model.state.incident_state import HealthSample


@pytest.mark.parametrize(("unsure_since", "is_sure"), [(None, True), (0, False), (7, False)])
def test_a_health_sample_is_sure_without_an_unsure_since(
    unsure_since: int | None, is_sure: bool
) -> None:
    """A time of 0 is a time, too."""
    sample = HealthSample(
        at=9,
        offline=0,
        under_replicated=0,
        is_vacant=False,
        vacancy_min_ms=0,
        vacancy_max_ms=0,
        is_zombie=False,
        foreign=(),
        live=(1,),
        unsure_since=unsure_since,
    )
    assert sample.is_sure is is_sure
