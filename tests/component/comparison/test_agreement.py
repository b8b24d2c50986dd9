"""Real Kafka, 3.9 and older, and the simulator play the same scripts, and write the same znodes.

Each run makes a new recording; `python -m tests.component.comparison.scripts` puts it among those that the
unit tests use.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kcm.servers.jars import Jars
from kcm.servers.supervisor import Supervisor
from tests.component.comparison.scripts import PLAYS, SHORT, Play
from tests.support.agreement import agree
from tests.support.recordings import Recording

ALL = [SHORT, *(pytest.param(play, marks=pytest.mark.full) for play in PLAYS)]


@pytest.fixture
def record(supervisor: Supervisor, jars: Jars, tmp_path: Path) -> Callable[[Play], Recording]:
    """Plays a script on servers that exist for it alone."""
    return lambda play: play.record(supervisor, jars, tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("play", ALL, ids=lambda play: play.name)
def test_real_kafka_writes_what_the_simulator_writes(
    play: Play, record: Callable[[Play], Recording]
) -> None:
    """Every write, every zxid and the snapshot at every quiet point are the same."""
    agreement = agree(record(play), play.settings)
    print(f"{play.name}: {agreement.summary()}")  # noqa: T201 - the share is to be seen with -s
    assert agreement.differences == []
    assert agreement.quiet_points == len(play.script)
    assert agreement.predicted_share > 0.9, agreement.given
