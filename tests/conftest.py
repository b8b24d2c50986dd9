"""Real servers for the tests that need them, started once, when the first test asks for one; and how examples are drawn.

A unit test asks for none, so none is started for it. Every server ends with the session, and with
this process should it be killed.
"""

from __future__ import annotations

import gc
import os
import uuid
from collections.abc import Iterator

import hypothesis
import pytest
import structlog
from kazoo.client import KazooClient

from kcm.servers.class_archive import KAFKA_CLASSES, SPARK_CLASSES, ensure_class_archive
from kcm.servers.jars import Jars, ensure_jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from pipeline.java import find_java
from tests.support.waiting import DEADLINE_S
from tests.support.worlds import WORLD_ENDS

hypothesis.settings.register_profile(
    "kcm",
    deadline=None,  # machines are shared; a slow example is not a wrong one
    derandomize=True,  # nothing may be flaky: a new example comes with a change of the test
    max_examples=70,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("kcm")

_GROUPS = {
    "pipeline": {"supervisor", "jars"},
    "world": {"world"},
    "kraft": {"kraft_board"},
    "quorums": set(),
    "watcher": set(),
    "comparison": {"record"},
    "chart": set(),
    "faults": {"faults"},
    "browser": {"browser"},
    "release": {"built"},
}
"""The groups of tests that keep to one process each, and the fixtures that put a test into them.

The last one that fits counts. Their order is that in which they are begun: the longest go side by
side, and whichever process is done first takes the next. Tests of no group only compute; they fill
what time is left.
"""

_OF_FOLDERS = {
    "kraft": "quorums",
    "chart": "chart",
    "examples": "watcher",
    "servers": "watcher",
    "watcher": "watcher",
}
"""Folders whose tests would be in the group `pipeline`, and the group that they make: all in one would be the last to end, by far."""

_LAST = {"drill"}
"""Fixtures that leave shared servers other than they were: tests with them end their group."""


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that share servers into one group, and the groups before everything else."""
    order = {name: place for place, name in enumerate([*_GROUPS, ""])}
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        if group:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: (order[groups[item]], bool(_asked(item) & _LAST)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to go on where xdist has not taken the groups: each process would start all servers."""
    if not session.config.getoption("loadgroup", default=False):
        return  # not a process of --dist loadgroup
    for item in session.items:
        group = _group(item)
        if group and not item.nodeid.endswith(f"@{group}"):
            raise pytest.UsageError(f"pytest-xdist does not put {item.nodeid} into group {group}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Let no finalizer run while a failure is reported, for which pytest parses the sources of its traceback.

    One that raises is reported with a traceback of its own, for which Python parses as well. One parser inside the other
    ends in a SystemError in Python 3.11.0 to 3.11.7 (CPython's issue 106905), and with it the whole session.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if was_enabled:
            gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End the world's servers with its last test: while they run, they take what the others need."""
    yield
    if _group(item) == "world" and (nextitem is None or _group(nextitem) != "world"):
        item.config.stash.get(WORLD_ENDS, lambda: None)()


def _group(item: pytest.Item) -> str:
    """Return the group of a test; empty for one that starts no shared server."""
    asked = _asked(item)
    group = next((name for name in reversed(_GROUPS) if asked & _GROUPS[name]), "")
    return _OF_FOLDERS.get(item.path.parent.name, group) if group == "pipeline" else group


def _asked(item: pytest.Item) -> set[str]:
    """Return the fixtures that a test asks for, and those that they ask for."""
    return set(getattr(item, "fixturenames", ()))


@pytest.fixture
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take all KCM_ variables away: a test hears its own settings only."""
    for name in list(os.environ):
        if name.upper().startswith("KCM_"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Undo what a test sets for logs: it writes to that test's standard error, which is closed after it."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()


@pytest.fixture(scope="session")
def jars() -> Jars:
    """All jars, downloaded at the first run on a machine, and what lets Spark and Kafka start sooner."""
    had = ensure_jars()
    java = find_java(os.environ)
    ensure_class_archive(SPARK_CLASSES, had.connector, java)
    ensure_class_archive(KAFKA_CLASSES, had.broker, java)
    return had


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
    client.start(timeout=DEADLINE_S)
    try:
        client.create(path)
    finally:
        client.stop()
        client.close()
    return path


@pytest.fixture(scope="session")
def pipeline_broker(supervisor: Supervisor, jars: Jars) -> KraftBroker:
    """One KRaft broker for the session; tests use topics of their own and leave it running."""
    server = KraftBroker(
        supervisor,
        jars,
        supervisor.folder / "pipeline-kafka",
        # It is killed once only, and on busy cores its heartbeats may be later than the demo's session lasts.
        properties={"broker.session.timeout.ms": 6_000},
    )
    server.start()
    return server
