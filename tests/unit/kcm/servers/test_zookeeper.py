"""The configuration of a ZooKeeper server."""

from __future__ import annotations

from pathlib import Path

from kcm.servers.jars import Jars
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper

JARS = Jars(connector=[], broker=[Path("/zk.jar")])


def test_given_properties_override_the_defaults(java: str, tmp_path: Path) -> None:
    """zoo.cfg has the port, the folder, and the given properties in place of the defaults."""
    server = ZooKeeper(
        Supervisor(tmp_path), JARS, tmp_path, port=2181, properties={"maxSessionTimeout": "120000"}
    )
    command = server.prepare()
    written = (tmp_path / "zoo.cfg").read_text().splitlines()
    assert command[0] == java
    assert command[-4:] == [
        "-cp",
        "/zk.jar",
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        str(tmp_path / "zoo.cfg"),
    ]
    assert "clientPort=2181" in written
    assert f"dataDir={tmp_path / 'data'}" in written
    assert [line for line in written if "maxSession" in line] == ["maxSessionTimeout=120000"]


def test_another_release_has_its_own_classpath(java: str, tmp_path: Path) -> None:
    """An old ZooKeeper does not load the jars of this release."""
    old = [Path("/old.jar")]
    command = ZooKeeper(Supervisor(tmp_path), JARS, tmp_path, port=2181, classpath=old).prepare()
    assert command[0] == java
    assert command[command.index("-cp") + 1] == "/old.jar"
