"""Real servers for the tests that need them, started once, when the first test asks for one.

A unit test asks for none, so none is started for it. Every server ends with the session, and with
this process should it be killed.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from xdist.remote import Producer  # type: ignore[import-untyped]  # xdist tells no types
from xdist.scheduler import (  # type: ignore[import-untyped]  # the same
    LoadScopeScheduling,
)

from kcm.jars.jars import Jars, ensure_jars
from kcm.processes.supervisor import Supervisor
from kcm.stack.kafka import KraftBroker
from kcm.stack.zookeeper import ZooKeeper

_WITH_SERVERS = ("tests/component/", "tests/system/")
_WITHOUT = tuple(
    f"tests/component/test_{name}.py"
    for name in ("chart", "chart_rules", "chart_values", "image", "recorded_rules", "rules")
)
"""Component tests that run a program to its end and start no server: promtool, helm."""


class ServersApart(LoadScopeScheduling):  # type: ignore[misc]  # xdist tells no types of it
    """Keep the tests that start servers on one of two processes, one after the other.

    Several clusters at once would starve each other; tests that only compute can run beside them.
    """

    def _split_scope(self, nodeid: str) -> str:
        starts_servers = nodeid.startswith(_WITH_SERVERS) and not nodeid.startswith(_WITHOUT)
        return "servers" if starts_servers else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ServersApart:
    """Return what shares tests out among processes (`make test` has two)."""
    return ServersApart(config, log)


@pytest.fixture
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take all KCM_ variables away: a test hears its own settings only."""
    for name in list(os.environ):
        if name.upper().startswith("KCM_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def jars() -> Jars:
    """All jars, downloaded at the first run on a machine."""
    return ensure_jars()


@pytest.fixture(scope="session")
def supervisor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    """The owner of the session's servers."""
    with Supervisor(tmp_path_factory.mktemp("stack"), kill_on_exit=True) as owner:
        yield owner


@pytest.fixture(scope="session")
def zookeeper(supervisor: Supervisor, jars: Jars) -> ZooKeeper:
    """One ZooKeeper 3.8 for the session; tests keep to their own `zk_chroot` and leave it running."""
    server = ZooKeeper(supervisor, jars, supervisor.folder / "zookeeper")
    server.start()
    return server


@pytest.fixture
def zk_chroot(zookeeper: ZooKeeper) -> str:
    """The path of a fresh, empty znode of this test's own; append it to `connect_string`."""
    path = f"/test-{uuid.uuid4().hex[:12]}"
    client = KazooClient(hosts=zookeeper.connect_string)
    client.start(timeout=10)
    try:
        client.create(path)
    finally:
        client.stop()
        client.close()
    return path


@pytest.fixture(scope="session")
def pipeline_broker(supervisor: Supervisor, jars: Jars) -> KraftBroker:
    """One KRaft broker for the session; tests use topics of their own and leave it running."""
    server = KraftBroker(supervisor, jars, supervisor.folder / "pipeline-kafka")
    server.start()
    return server
