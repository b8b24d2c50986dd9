"""Each part is killed in the middle of things, the cluster moves on, and nothing is lost."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from kcm.demo.cluster import ELECTION_DEADLINE_S
from kcm.demo.figures import TrueFigures
from kcm.demo.run import CLUSTER_NAME, StepOutcome
from kcm.run.pipeline_processes import READY_DEADLINE_S
from tests.system.noted_story import ZooKeeperRun

DEADLINE_S = READY_DEADLINE_S
"""As long as a start may take: Spark starts anew."""
pytestmark = pytest.mark.timeout(600)


def _shown(scene: ZooKeeperRun) -> dict[str, Any]:
    url = f"{scene.pipeline.exporter_url}/api/v1/clusters/{CLUSTER_NAME}"
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
        shown: dict[str, Any] = json.load(answer)
    return shown


def _elections(outcomes: list[StepOutcome], scene: ZooKeeperRun) -> int:
    """Return how many elections there were until now, by the truth."""
    assert outcomes
    latest = scene.cluster.truth.observations.latest
    assert latest is not None
    assert latest.figures.elections is not None
    return latest.figures.elections


@pytest.mark.parametrize("part", ["exporter", "stream", "watcher"])
def test_an_election_while_a_part_is_dead_is_counted(
    part: str, scene: ZooKeeperRun, outcomes: list[StepOutcome]
) -> None:
    """After kill -9, an election that it does not see, a start: every figure is the truth's again.

    Event ids rise without a repetition, over the restart of the fold from its checkpoint, too.
    """
    before = _elections(outcomes, scene)
    since = _shown(scene)["counters_since"]
    scene.pipeline.processes[part].kill()
    scene.cluster.controller.depose(ELECTION_DEADLINE_S)
    scene.pipeline.processes[part].start()

    def elected(now: TrueFigures) -> bool:
        return now.controller >= 0 and (now.elections or 0) >= before + 1

    outcome = scene.compare(f"{part} killed, /controller deleted", elected, deadline_s=DEADLINE_S)

    assert outcome.problem == ""
    assert outcome.shown == outcome.truth
    shown = _shown(scene)
    assert shown["counters_since"] == since  # the same lineage: no counter began again
    ids = [record["id"] for record in shown["events"]]
    assert len(ids) == len(set(ids))


def test_a_restarted_watcher_takes_a_new_generation(
    scene: ZooKeeperRun, outcomes: list[StepOutcome]
) -> None:
    """Its predecessor's generation is never used again, so a late record of it cannot win."""
    assert outcomes
    before = int(_shown(scene)["as_of"]["generation"])
    scene.pipeline.processes["watcher"].kill()
    scene.pipeline.processes["watcher"].start()
    outcome = scene.compare(
        "watcher killed",
        lambda _now: int(_shown(scene)["as_of"]["generation"]) > before,
        deadline_s=DEADLINE_S,
    )
    assert outcome.problem == ""
