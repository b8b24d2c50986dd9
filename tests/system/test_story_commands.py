"""`kcm doctor` and `kcm elect` on the story's cluster, its pipeline and brokers."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from kcm.__main__ import main
from kcm.demo.run import CLUSTER_NAME, StepOutcome
from kcm.queries.api_client import ExporterApi, cluster_path
from pipeline.clock import clock_ms
from tests.support.waiting import DEADLINE_S, wait_until
from tests.system.noted_story import ZooKeeperRun

pytestmark = pytest.mark.timeout(600)

PARTITIONS = 12
BACK_IN_SYNC_S = 90.0
LIVE_S = 60.0
CLUSTER = cluster_path(CLUSTER_NAME)


class Moved:
    """The story's cluster after a broker was stopped and started again: others lead its partitions."""

    def __init__(self, scene: ZooKeeperRun) -> None:
        self.scene = scene
        self.api = ExporterApi(scene.pipeline.exporter_url, within_s=DEADLINE_S)
        self.broker = next(b for b in (2, 1) if b != self.shown()["controller"]["id"])
        self.topic = f"elect-{uuid.uuid4().hex[:6]}"
        scene.cluster.create_topic(self.topic, partitions=PARTITIONS, replication_factor=3)
        server = scene.cluster.brokers[self.broker]
        server.stop()
        wait_until(
            lambda: self.shown()["brokers_live"],
            lambda live: self.broker not in live,
        )
        server.start()
        wait_until(self.is_back_in_sync, deadline_s=BACK_IN_SYNC_S)
        assert self.electable() >= PARTITIONS // 3

    def shown(self) -> Any:
        """Return the cluster as the monitor shows it."""
        return self.api.get(CLUSTER)

    def is_back_in_sync(self) -> bool:
        """Return whether the broker could get back all that it should lead: the number then stays."""
        if self.broker not in self.shown()["brokers_live"]:
            return False
        brokers = self.api.get(f"{CLUSTER}/brokers")["brokers"]
        (broker,) = (each for each in brokers if each["id"] == self.broker)
        return bool(0 < broker["preferred_not_led"] == broker["preferred_electable"])

    def electable(self) -> int:
        """Return how many partitions the broker could get back now."""
        if self.broker not in self.shown()["brokers_live"]:
            return 0
        path = f"{CLUSTER}/recommendations"
        count: int = self.api.get(path, broker=self.broker)["partition_count"]
        return count

    def elected(self, by: str | None, *, since: int) -> set[tuple[str, int]]:
        """Return the partitions that were given back to the broker since, by who is said to have asked for it."""
        asked = {"kind": "LeadersElected", "limit": 100, "since": since}
        events = self.api.get(f"{CLUSTER}/events", **asked)["events"]
        return {
            (each["topic"], each["partition"])
            for event in events
            if event["election"] == "preferred" and event["to_broker"] == self.broker
            if event.get("by") == by
            for each in event["partitions"]
        }

    def run(
        self, capsys: pytest.CaptureFixture[str], *arguments: str, code: int
    ) -> tuple[str, str]:
        """Run the command, which must end so; return what it printed on both streams.

        On a busy machine the figures may not follow, and then it begins nothing; or a controller loses
        its session while it elects, and never answers. Then it is run again, as an operator does.
        """
        given = ("--exporter", self.scene.pipeline.exporter_url, "--wait", "60", *arguments)

        def ran() -> tuple[int, str, str]:
            capsys.readouterr()
            ended = main(["elect", *given])
            return ended, *capsys.readouterr()

        def has_begun(ran: tuple[int, str, str]) -> bool:
            _, out, err = ran
            is_lost = "Kafka did not answer" in err and "done        0 of" in out
            return not is_lost and "nothing was done; see kcm status" not in err

        ended, out, err = wait_until(ran, has_begun, deadline_s=2 * LIVE_S)
        assert ended == code, (out, err)
        return out, err


@pytest.fixture(scope="module")
def moved(scene: ZooKeeperRun, outcomes: list[StepOutcome]) -> Moved:
    """A cluster in which one broker leads less than it should."""
    assert outcomes
    return Moved(scene)


def test_the_doctor_reports_no_failure(
    scene: ZooKeeperRun, moved: Moved, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a real cluster every check runs, and the two clusters are distinguished."""
    zookeeper = scene.cluster.zookeeper.connect_string
    url = scene.pipeline.exporter_url
    assert moved.shown()

    def examined() -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        code = main(["doctor", "--json", "--zookeeper", zookeeper, "--exporter", url])
        return code, {each["about"]: each for each in json.loads(capsys.readouterr().out)}

    # Figures that are late for a moment are found, too.
    code, found = wait_until(examined, lambda examined: examined[0] == 0, deadline_s=LIVE_S)
    assert code == 0
    assert [each for each in found.values() if each["level"] == "fail"] == []
    assert found["apart"]["level"] == "ok"
    assert found["permissions"]["level"] == "ok"
    assert "migration" not in found
    assert f"clock, ZooKeeper of {CLUSTER_NAME}" in found


def test_elect_refuses_a_kafka_of_another_cluster(
    moved: Moved, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pipeline's own Kafka is another cluster than the one shown, as the cluster id shows."""
    servers = moved.scene.pipeline.bootstrap_servers
    out, err = moved.run(capsys, "--bootstrap-servers", servers, "--confirm", code=2)
    assert out == ""
    assert "correct --bootstrap-servers" in err


def test_elect_without_confirm_requests_nothing(
    moved: Moved, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan is printed, with an exit code of its own, and no leader moves."""
    before = moved.electable()
    servers = moved.scene.cluster.bootstrap_servers
    out, err = moved.run(
        capsys, "--bootstrap-servers", servers, "--broker", str(moved.broker), code=7
    )
    assert err == ""
    assert out.endswith("nothing was done: give --confirm to run the elections\n")
    assert moved.electable() == before


def test_elect_moves_the_leaders_back_and_the_monitor_shows_it(
    moved: Moved, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A file is elected first, then the rest in chunks; what was planned is what is shown afterwards."""
    servers = moved.scene.cluster.bootstrap_servers
    broker = str(moved.broker)
    url = moved.scene.pipeline.exporter_url

    def recommended() -> tuple[int, str]:
        capsys.readouterr()
        code = main(["recommend", "--exporter", url, "--broker", broker, "--json"])
        return code, capsys.readouterr().out

    # Exit code 6 says that the figures are late, which a busy machine makes them for a moment.
    _, election = wait_until(recommended, lambda found: found[0] == 0, deadline_s=LIVE_S)
    two = json.loads(election)["partitions"][:2]
    began = clock_ms()
    path = tmp_path / "election.json"
    path.write_text(json.dumps({"partitions": two}))
    common = ("--bootstrap-servers", servers, "--confirm", "--pause", "0")
    out, err = moved.run(capsys, *common, "--file", str(path), code=0)
    assert err == ""
    assert "grade       cannot name these elections" in out
    assert "done        2 of 2 elected, 0 did not need it" in out
    named = (*common, "--pipeline-servers", moved.scene.pipeline.bootstrap_servers)
    out, err = moved.run(capsys, *named, "--broker", broker, "--chunk", "3", code=0)
    assert err == ""
    assert "cannot name" not in out
    assert "chunk 2 of " in out
    of_the_file = {(each["topic"], each["partition"]) for each in two}
    # Events are in another topic than the figures, by which the command saw that it was done.
    wait_until(lambda: moved.elected(None, since=began), lambda found: found == of_the_file)
    least = PARTITIONS // 3 - len(two)
    ours = wait_until(lambda: moved.elected("kcm", since=began), lambda found: len(found) >= least)
    assert of_the_file.isdisjoint(ours)
    assert moved.electable() == 0
    brokers = moved.api.get(f"{CLUSTER}/brokers")["brokers"]
    (shown,) = [each for each in brokers if each["id"] == moved.broker]
    assert shown["preferred_not_led"] == 0
    out, _ = moved.run(capsys, *common, "--broker", broker, code=0)
    assert "nothing to elect" in out
