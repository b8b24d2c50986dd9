"""What the demo starts, its addresses, and how long it waits."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from kcm.demo import scene
from kcm.demo.comparison import LIVE
from kcm.demo.scene import CLUSTER_NAME, Scene
from kcm.demo.story_state import StoryState
from kcm.run.exporter_client import STATUS
from kcm.servers.process import Process
from kcm.servers.prometheus import Prometheus
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import EnvironmentProblemError, UnreachableError
from tests.support.waiting import wait_until
from tests.unit.kcm.demo.figures import HEALTHY

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_the_pipeline_watches_the_storys_cluster(described: Scene) -> None:
    """It passes the settings of the brokers' files, which are found nowhere else."""
    watcher = described.pipeline.processes["watcher"]
    assert watcher.env["KCM_CLUSTER"] == CLUSTER_NAME
    assert watcher.env["KCM_ZOOKEEPER"] == described.cluster.zookeeper.connect_string
    assert watcher.env["KCM_MIN_INSYNC_REPLICAS"] == f"{CLUSTER_NAME}=1"
    assert watcher.env["KCM_AUTO_LEADER_REBALANCE"] == f"{CLUSTER_NAME}=false"
    assert described.pipeline.broker is not None
    assert described.pipeline.bootstrap_servers not in described.cluster.bootstrap_servers


def test_places_list_the_addresses_of_all_servers(described: Scene, owner: Supervisor) -> None:
    """Prometheus is listed only where it runs."""
    url = described.pipeline.exporter_url
    places = described.places()
    assert places == {
        "metrics": f"{url}/metrics",
        "API": f"{url}/api/v1/clusters/{CLUSTER_NAME}",
        "watched ZooKeeper": described.cluster.zookeeper.connect_string,
        "watched brokers": described.cluster.bootstrap_servers,
        "pipeline's own Kafka": described.pipeline.bootstrap_servers,
        "logs": str(owner.folder / "logs"),
    }
    described.prometheus = Prometheus(owner, owner.folder / "prometheus", targets={})
    assert described.places() == {**places, "Prometheus": described.prometheus.url}


def test_a_comparison_is_of_the_truth_and_what_the_monitor_shows(
    described: Scene, owner: Supervisor
) -> None:
    """It also has the status of the figures, and raises as soon as a process dies."""
    described.cluster.truth.observations.add(0.0, HEALTHY)
    comparison = described.comparison(quiet_s=0.0, deadline_s=0.0)
    assert comparison.settle("x", lambda _: True).problem == (
        "the monitor shows nothing: not polled yet"
    )
    described.monitor.observations.add(1.0, HEALTHY)
    problem = comparison.settle("x", lambda _: True, ask_kafka=False).problem
    assert problem == "the monitor says that its figures are not live: not polled yet"
    described.monitor._trouble = ""
    described.monitor.scrape = {(STATUS, LIVE): 1.0}
    assert comparison.settle("x", lambda _: True, ask_kafka=False).ok
    ended = Process(owner, "ended", [sys.executable, "-c", "raise SystemExit(7)"])
    ended.start()
    wait_until(lambda: not ended.running)
    with pytest.raises(EnvironmentProblemError, match="ended ended with exit code 7"):
        comparison.settle("x", lambda _: True)


class Waits:
    """Starts what a scene waits for."""

    def __init__(self, scene_: Scene, owner: Supervisor, story: StoryState) -> None:
        self.scene = scene_
        self.story = story
        self._owner = owner

    def for_(
        self, name: str, health: Callable[[], str | None], argv: list[str] | None = None
    ) -> None:
        """Start a program that is healthy when `health` says so."""
        process = Process(self._owner, name, argv or SLEEPS, health=health)
        process.start()
        self.scene._starting(name, process)

    def ready(self) -> dict[str, bool]:
        """Return what the story says is ready."""
        return {each.name: each.ready_s is not None for each in self.story.components}


@pytest.fixture
def waits(described: Scene, owner: Supervisor, monkeypatch: pytest.MonkeyPatch) -> Waits:
    """A scene that checks often whether its processes are ready."""
    monkeypatch.setattr(scene, "POLL_S", 0.001)
    return Waits(described, owner, described.story)


def test_components_become_ready_independently(waits: Waits) -> None:
    """A component that is not ready is asked again; all are ready before it continues."""
    asked = iter(["not yet", "not yet", None])
    waits.for_("slow", lambda: next(asked))
    waits.for_("fast", lambda: None)
    waits.scene._await_all()
    assert waits.ready() == {"slow": True, "fast": True}
    lines = [line.split("] ")[1] for line in waits.story.lines]
    assert lines[:2] == ["starting slow", "starting fast"]
    assert [line.split()[0] for line in lines[2:]] == ["fast", "slow"]


def test_a_component_that_is_never_ready_is_named_with_its_last_answer(
    waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes at the deadline, with the name that was shown."""
    monkeypatch.setattr(scene, "READY_DEADLINE_S", 0.0)
    waits.for_("fast", lambda: None)
    waits.for_("the pipeline's own Kafka", lambda: "connection refused")
    with pytest.raises(
        UnreachableError, match="the pipeline's own Kafka was not ready within 0 s; last seen: conn"
    ):
        waits.scene._await_all()
    assert waits.ready() == {"fast": True, "the pipeline's own Kafka": False}


def test_a_component_that_dies_during_the_wait_is_an_error_at_once(waits: Waits) -> None:
    """The error has its exit code, and comes long before the deadline."""
    waits.for_("slow", lambda: "not yet")
    waits.for_("dies", lambda: "not yet", [sys.executable, "-c", "raise SystemExit(9)"])
    with pytest.raises(EnvironmentProblemError, match="dies ended with exit code 9"):
        waits.scene._await_all()


def test_leaving_a_scene_ends_its_own_clients(described: Scene) -> None:
    """This also holds for a scene that never started; the supervisor stops the servers."""
    described.__exit__()
    described.cluster.load.write_to("t", 1)
    assert not described.cluster.load._thread.is_alive()
