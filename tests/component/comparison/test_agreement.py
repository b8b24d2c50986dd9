"""Real Kafka, 3.9 and older, and the simulator play the same scripts, and write the same znodes.

Each run makes a new recording of the newest release and of the oldest. Those of all plays are kept: unit tests compare
them with the simulator, and `python -m tests.component.comparison.scripts` makes them again.
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
from tests.support.releases import OLDER_KAFKAS

NEWEST, OLDEST = PLAYS[0], next(play for play in PLAYS if play.kafka == OLDER_KAFKAS[0])
RUN = [SHORT, *(pytest.param(play, marks=pytest.mark.full) for play in (NEWEST, OLDEST))]


@pytest.fixture
def record(supervisor: Supervisor, jars: Jars, tmp_path: Path) -> Callable[[Play], Recording]:
    """Plays a script on servers that exist for it alone."""
    return lambda play: play.record(supervisor, jars, tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("play", RUN, ids=lambda play: play.name)
def test_real_kafka_writes_what_the_simulator_writes(
    play: Play, record: Callable[[Play], Recording]
) -> None:
    """Every write, every zxid and the snapshot at every quiet point are the same."""
    agreement = agree(record(play), play.settings)
    print(f"{play.name}: {agreement.summary()}")  # noqa: T201 - the share is to be seen with -s
    assert agreement.differences == []
    assert agreement.quiet_points == len(play.script)
    assert agreement.predicted_share > 0.9, agreement.given
