"""Kafka's JVM maps the classes of an archive that fits, and starts as well with one that does not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcm.servers.class_archive import KAFKA_CLASSES, archive_path, find_class_archive
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker, ZooKeeperModeBroker
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from pipeline.java import find_java
from tests.support.loaded_classes import MAPPED, loaded_classes, noting


@pytest.fixture
def own_supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor of this test's own: that of the session may have a broker of the same name."""
    with Supervisor(tmp_path / "stack", kill_on_exit=True) as supervisor:
        yield supervisor


def kafkas_classes(broker: KraftBroker | ZooKeeperModeBroker, folder: Path) -> list[str]:
    """Start a broker, and return what its JVM noted of the classes of Kafka that it loaded, besides those that it makes of lambdas."""
    noted = folder / "loaded"
    broker.jvm_options = (noting(noted),)
    broker.start()
    broker.stop()
    return loaded_classes(noted, "kafka", "org.apache.kafka")


@pytest.mark.full
@pytest.mark.parametrize(("in_kraft_mode", "share"), [(True, 0.95), (False, 0.75)])
def test_a_broker_starts_from_an_archive_that_fits(
    jars: Jars,
    zookeeper: ZooKeeper,
    zk_chroot: str,
    own_supervisor: Supervisor,
    tmp_path: Path,
    *,
    in_kraft_mode: bool,
    share: float,
) -> None:
    """It is made by a broker in KRaft mode; one in ZooKeeper mode takes from it what both need."""
    assert find_class_archive(KAFKA_CLASSES, jars.broker, find_java(os.environ)), (
        "this Java made none"
    )
    own = tmp_path / "data"
    broker = (
        KraftBroker(own_supervisor, jars, own)
        if in_kraft_mode
        else ZooKeeperModeBroker(
            1,
            own_supervisor,
            jars,
            own,
            zookeeper_connect=f"{zookeeper.connect_string}{zk_chroot}",
            session_timeout_ms=6_000,
        )
    )
    loaded = kafkas_classes(broker, tmp_path)
    assert len(loaded) > 1_000
    assert sum(MAPPED in line for line in loaded) > share * len(loaded)


@pytest.mark.full
def test_a_broker_starts_without_an_archive_that_does_not_fit(
    jars: Jars, own_supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged one costs time, and nothing else: nothing of it is in the broker's log."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = archive_path(KAFKA_CLASSES, jars.broker, find_java(os.environ))
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"no classes" * 1_000)
    broker = KraftBroker(own_supervisor, jars, tmp_path / "data")
    loaded = kafkas_classes(broker, tmp_path)
    assert any(str(archive) in each for each in map(str, broker.argv))
    assert len(loaded) > 1_000
    assert not [line for line in loaded if MAPPED in line]
    assert "archive" not in broker.log_path.read_text().lower()
