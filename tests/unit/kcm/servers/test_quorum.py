"""What the nodes of a quorum are told, and what they wrote down of its leader; tests/component/servers runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.servers.jars import Jars
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.quorum import (
    METADATA_FOLDER,
    ControllerListener,
    Leader,
    Quorum,
    read_leader,
    write_ids,
)
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import EnvironmentProblemError

JARS = Jars(connector=[], broker=[Path("/kafka.jar")])


@pytest.mark.parametrize(
    ("text", "leader"),
    [
        ('{"leaderId":3001,"leaderEpoch":7,"votedId":-1}', Leader(3001, 7)),
        ('{"leaderId":-1,"leaderEpoch":8,"votedId":3001}', None),
        ('{"leaderId":3001,"lead', None),
        ("{}", None),
        (None, None),
    ],
)
def test_a_leader_is_read_from_what_a_node_wrote_down(
    tmp_path: Path, text: str | None, leader: Leader | None
) -> None:
    """A node that knows none, one that replaces its file, and one that has none yet, name no leader."""
    (tmp_path / METADATA_FOLDER).mkdir()
    if text is not None:
        (tmp_path / METADATA_FOLDER / "quorum-state").write_text(text)
    assert read_leader(tmp_path) == leader


def test_the_voters_of_a_static_quorum_stand_in_each_configuration() -> None:
    """Those of a dynamic one are in the log; its nodes are told whom to ask."""
    static, dynamic = Quorum((1, 2)), Quorum((1, 2), dynamic=True)
    voters = ",".join(f"{voter}@127.0.0.1:{port}" for voter, port in static.ports.items())
    assert static.properties()["controller.quorum.voters"] == voters
    assert "controller.quorum.voters" not in dynamic.properties()
    bootstrap = dynamic.properties()["controller.quorum.bootstrap.servers"]
    assert bootstrap == dynamic.bootstrap_controllers


def test_a_listener_is_the_same_for_all_nodes() -> None:
    """Its protocol is in the map of each, and so are its passwords."""
    own = Quorum((1,), listener=ControllerListener("SASL_SSL", {"a": "b"})).properties()
    assert own["a"] == "b"
    assert own["listener.security.protocol.map"] == "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL"


def test_ids_are_written_once(tmp_path: Path) -> None:
    """A folder that has ids keeps them: Kafka refuses to start with others."""
    write_ids(tmp_path, "cluster", 1, "directory")
    write_ids(tmp_path, "another", 2, "directory")
    assert "cluster.id=cluster\nnode.id=1\n" in (tmp_path / "meta.properties").read_text()


def test_an_id_among_voters_and_brokers_is_one_node(tmp_path: Path) -> None:
    """It has both roles and both listeners; the others have one."""
    cluster = KraftCluster(
        Supervisor(tmp_path), JARS, tmp_path, controllers=(1, 3001), brokers=(1, 2)
    )
    roles = {node.name: node.config()["process.roles"] for node in cluster.nodes}
    assert roles == {
        "kraft-broker-1": "broker,controller",
        "kraft-controller-3001": "controller",
        "kraft-broker-2": "broker",
    }
    assert len(cluster.brokers[1].ports) == 2
    assert len(cluster.brokers[2].ports) == 1
    assert cluster.leader() is None


def test_a_tool_that_has_ended_well_is_no_process_that_died(tmp_path: Path) -> None:
    """Who watches over all processes, as `kcm demo` does, is told of failures only."""
    config = tmp_path / "node" / "server.properties"
    config.parent.mkdir()
    with Supervisor(tmp_path) as owner:
        Quorum([3001]).format(owner, ["/bin/true"], config, 3001)
        owner.check()
        with pytest.raises(EnvironmentProblemError, match="ended with exit code 1"):
            Quorum([3001]).format(owner, ["/bin/false"], config, 3001)
