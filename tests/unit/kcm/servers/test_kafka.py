"""The identity of brokers; tests/component/servers runs them."""

from __future__ import annotations

import re
from pathlib import Path
from unittest import mock

import pytest

from kcm.servers import kafka
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker, ZooKeeperModeBroker
from kcm.servers.quorum import random_id
from kcm.servers.supervisor import Supervisor

JARS = Jars(connector=[], broker=[Path("/kafka.jar")])


def test_the_pipelines_broker_keeps_its_identity(java: str, tmp_path: Path) -> None:
    """Its folder is formatted once: a second start finds the same cluster id."""
    broker = KraftBroker(Supervisor(tmp_path), JARS, tmp_path)
    assert broker.prepare()[0] == java
    formatted = (tmp_path / "logs" / "meta.properties").read_text()
    assert re.search(r"^cluster\.id=\S{22}$", formatted, re.MULTILINE)
    broker.prepare()
    assert (tmp_path / "logs" / "meta.properties").read_text() == formatted
    assert len(broker.ports) == 2


def test_ids_have_kafkas_form() -> None:
    """22 characters of URL-safe base64; one in 64 would begin with a hyphen, which Kafka refuses."""
    ids = {random_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert all(re.fullmatch(r"[\w][\w-]{21}", each) for each in ids)


def test_a_busy_zookeeper_is_asked_again_whether_a_session_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that is started while its last session lasts ends at once: no answer in time is not the end of it."""
    answered = mock.Mock(side_effect=[TimeoutError("late"), "0x10:\n\t/brokers/ids/1", "none"])
    monkeypatch.setattr(kafka, "four_letter_word", answered)
    broker = ZooKeeperModeBroker(
        1,
        Supervisor(tmp_path),
        JARS,
        tmp_path,
        zookeeper_connect="localhost:2181",
        session_timeout_ms=4_000,
    )
    broker._await_expiry()
    assert answered.call_count == 3
    answered.side_effect = ConnectionRefusedError("nobody is there")
    broker._await_expiry()
    assert answered.call_count == 4
