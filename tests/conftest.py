"""Real servers for the tests that need them, started once, when the first test asks for one.

A unit test asks for none, so none is started for it. Every server ends with the session, and with
this process should it be killed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kcm.stack.jars import Jars, ensure_jars
from kcm.stack.kafka import KraftBroker
from kcm.stack.supervisor import Supervisor
from kcm.stack.zookeeper import ZooKeeper

_HERE = Path(__file__).parent
_WITH_SERVERS = (_HERE / "component", _HERE / "system")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that start servers on one of two processes, one after the other.

    Several clusters at once would starve each other; the tests that only compute can run beside them.
    """
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in _WITH_SERVERS):
            item.add_marker(pytest.mark.xdist_group("servers"))


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
