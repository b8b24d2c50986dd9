"""The ZooKeeper that the watcher's tests may freeze, kill and empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kcm.servers.jars import Jars
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper


@pytest.fixture(scope="session")
def mortal_zookeeper(supervisor: Supervisor, jars: Jars) -> Iterator[ZooKeeper]:
    """One for the session; tests use it through `own_zookeeper`."""
    server = ZooKeeper(supervisor, jars, supervisor.folder / "mortal", name="mortal-zookeeper")
    yield server
    server.kill()


@pytest.fixture
def own_zookeeper(mortal_zookeeper: ZooKeeper) -> ZooKeeper:
    """The server, running again after the last test; it may hold what that one left."""
    mortal_zookeeper.start()
    return mortal_zookeeper
