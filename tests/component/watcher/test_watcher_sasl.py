"""A watcher on a real ZooKeeper that talks only to clients who log in by SASL's DIGEST-MD5."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from controller_model.records.changes import ChangeKind
from kcm.doctor.findings import Level
from kcm.doctor.zookeeper import check_cluster
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from pipeline.runtime import KcmError
from tests.component.watcher.watching import LogReader, RunningWatcher, settings_for, watching
from tests.support.waiting import DEADLINE_S, wait_until

USER, PASSWORD = "kcm", "hush:hush"
TOPIC = "/brokers/topics/t"


class SaslZooKeeper(ZooKeeper):
    """A server that knows one user and closes the session of anybody else."""

    def prepare(self) -> list[str]:
        """Write the users down, and show the server's Java where they are."""
        java, *rest = super().prepare()
        users = self.data_dir / "jaas.conf"
        users.write_text(
            "Server { org.apache.zookeeper.server.auth.DigestLoginModule required "
            f'user_{USER}="{PASSWORD}"; }};\n'
        )
        return [java, f"-Djava.security.auth.login.config={users}", *rest]


@pytest.fixture(scope="module")
def guarded(supervisor: Supervisor, jars: Jars) -> Iterator[ZooKeeper]:
    """A ZooKeeper that insists on SASL, with a topic that only its user may read."""
    server = SaslZooKeeper(
        supervisor,
        jars,
        supervisor.folder / "zookeeper-sasl",
        name="zookeeper-sasl",
        properties={
            "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "sessionRequireClientSASLAuth": "true",
        },
    )
    server.start()
    client = KazooClient(
        server.connect_string,
        sasl_options={"mechanism": "DIGEST-MD5", "username": USER, "password": PASSWORD},
    )
    client.start(timeout=DEADLINE_S)
    try:
        client.ensure_path("/brokers/ids")
        client.ensure_path("/brokers/topics")
        client.create(TOPIC, b'{"version":2,"partitions":{"0":[1]}}')
    finally:
        client.stop()
        client.close()
    yield server
    server.stop()


def test_a_watcher_logs_in_by_sasl(guarded: ZooKeeper, pipeline_broker: KraftBroker) -> None:
    """With the user's password, colon and all, it reads the whole tree."""
    settings = settings_for(
        guarded.connect_string, pipeline_broker, zk_auth=f"sasl:{USER}:{PASSWORD}"
    )
    with watching(settings), LogReader(settings) as log:
        log.wait_for(ChangeKind.RESYNC_FINISHED)
        assert log.reader.mzxids[TOPIC]


def test_a_wrong_password_is_reported_as_such(
    guarded: ZooKeeper, pipeline_broker: KraftBroker
) -> None:
    """The watcher ends with a line that names the setting, and does not repeat what it holds."""
    settings = settings_for(guarded.connect_string, pipeline_broker, zk_auth=f"sasl:{USER}:wrong")
    watcher = RunningWatcher(settings)
    try:
        wait_until(lambda: watcher.ended)
    finally:
        watcher.stop()
    assert isinstance(watcher.error, KcmError)
    assert "refused the credentials in zk_auth" in str(watcher.error)
    assert "wrong" not in str(watcher.error)


def test_a_server_without_sasl_is_named_as_such(
    zookeeper: ZooKeeper, pipeline_broker: KraftBroker
) -> None:
    """The watcher and `kcm doctor` end at once, and say which setting asks for it."""
    settings = settings_for(
        zookeeper.connect_string, pipeline_broker, zk_auth=f"sasl:{USER}:{PASSWORD}"
    )
    watcher = RunningWatcher(settings)
    try:
        wait_until(lambda: watcher.ended)
    finally:
        watcher.stop()
    assert "has no SASL, which zk_auth asks for: leave zk_auth empty" in str(watcher.error)
    (finding,) = check_cluster(settings, DEADLINE_S).findings
    assert (finding.level, finding.text) == (
        Level.FAIL,
        "none: ZooKeeper has no SASL, which zk_auth asks for",
    )
    assert finding.todo.startswith("leave zk_auth empty")
