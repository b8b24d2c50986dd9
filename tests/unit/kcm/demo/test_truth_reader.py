"""The truth as it changes: each change gets the moment at which the first watch fired."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from kazoo.exceptions import ConnectionLoss

from kcm.demo import truth_reader
from kcm.demo.truth import TrueFigures
from kcm.demo.truth_reader import KafkaTruth, ZooKeeperTruth, quiet_logger
from tests.support.kazoo_in_memory import KazooInMemory
from tests.support.waiting import wait_until


def state(leader: int) -> bytes:
    """Return the state of a partition that is led by a broker, with both replicas in sync."""
    return json.dumps(
        {"controller_epoch": 1, "leader": leader, "version": 1, "leader_epoch": 0, "isr": [0, 1]}
    ).encode()


@pytest.fixture
def ensemble() -> KazooInMemory:
    """Two brokers with one topic of two partitions, and a controller."""
    client = KazooInMemory()
    for broker in (0, 1):
        client.put(f"/brokers/ids/{broker}")
    client.put("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0,1],"1":[1,0]}}')
    client.put("/brokers/topics/t/partitions/0/state", state(0))
    client.put("/brokers/topics/t/partitions/1/state", state(1))
    client.put("/controller", b'{"version":1,"brokerid":0}')
    client.put("/controller_epoch", b"7")
    return client


@pytest.fixture
def truth(ensemble: KazooInMemory, monkeypatch: pytest.MonkeyPatch) -> Iterator[ZooKeeperTruth]:
    """A reader of the ensemble that has read it once."""
    monkeypatch.setattr(truth_reader, "READ_PAUSE_S", 0.001)
    monkeypatch.setattr(truth_reader, "RETRY_PAUSE_S", 0.01)
    monkeypatch.setattr(truth_reader, "KazooClient", lambda **_: ensemble)
    reader = ZooKeeperTruth("zk:2181")
    reader.start()
    seen(reader, lambda now: now.controller == 0)
    yield reader
    reader.close()


def seen(reader: ZooKeeperTruth, holds: Callable[[TrueFigures], bool]) -> TrueFigures:
    """Wait until the reader's figures satisfy `holds`, and return them."""
    latest = wait_until(
        lambda: reader.observations.latest, lambda now: now is not None and holds(now.figures)
    )
    assert latest is not None
    return latest.figures


def test_all_figures_are_read_at_the_start(truth: ZooKeeperTruth) -> None:
    """Elections are not known until the epoch from which they count is set."""
    latest = truth.observations.latest
    assert latest is not None
    assert latest.figures == TrueFigures(
        controller=0,
        epoch=7,
        elections=None,
        brokers=(0, 1),
        leaders=((0, 1), (1, 1)),
        not_led=(),
        topics=1,
        partitions=2,
        offline=0,
        under_replicated=0,
        imbalance=0,
    )
    truth.begin(5)
    assert seen(truth, lambda now: now.elections is not None).elections == 2


def test_every_kind_of_change_is_seen(truth: ZooKeeperTruth, ensemble: KazooInMemory) -> None:
    """The changes come one after another: the next reading sets a fired watch again."""
    ensemble.put("/brokers/topics/t/partitions/0/state", state(1))
    seen(truth, lambda now: now.leaders == ((1, 2),))
    ensemble.remove("/brokers/ids/0")
    assert seen(truth, lambda now: now.brokers == (1,)).under_replicated == 0
    ensemble.remove("/controller")
    seen(truth, lambda now: now.controller == -1)
    ensemble.put("/controller_epoch", b"8")
    ensemble.put("/controller", b'{"version":1,"brokerid":1}')
    assert seen(truth, lambda now: now.controller == 1).epoch == 8
    ensemble.put("/brokers/topics/u", b'{"version":1,"partitions":{"0":[1]}}')
    seen(truth, lambda now: now.topics == 2)
    ensemble.put("/brokers/topics/u/partitions/0/state", state(1))
    assert seen(truth, lambda now: now.leaders == ((1, 3),)).partitions == 3


def test_an_empty_ensemble_is_watched_until_something_comes(
    ensemble: KazooInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first broker creates the parents of brokers and topics."""
    ensemble.znodes.clear()
    monkeypatch.setattr(truth_reader, "KazooClient", lambda **_: ensemble)
    reader = ZooKeeperTruth("zk:2181")
    reader.start()
    try:
        seen(reader, lambda now: now.brokers == ())
        ensemble.put("/brokers/ids")
        wait_until(lambda: ("/brokers/ids", True) in ensemble.watches)
        ensemble.put("/brokers/ids/3")
        seen(reader, lambda now: now.brokers == (3,))
    finally:
        reader.close()


@pytest.mark.parametrize("path", ["/controller", "/brokers/ids"])
def test_a_znode_created_before_its_watch_is_set_is_read_again(
    path: str, truth: ZooKeeperTruth, ensemble: KazooInMemory
) -> None:
    """It is missing when it is read, and there when its watch is set, so no event will come."""
    ensemble.remove("/controller")
    for broker in (0, 1):
        ensemble.remove(f"/brokers/ids/{broker}")
    seen(truth, lambda now: (now.controller, now.brokers) == (-1, ()))
    wait_until(lambda: (path, False) in ensemble.watches)

    def come(asked: str) -> None:
        if asked == path and path not in ensemble.znodes:
            ensemble.watches.pop((path, False), None)
            ensemble.znodes[path] = (
                b'{"version":1,"brokerid":1}',
                SimpleNamespace(czxid=99, ctime=1, ephemeralOwner=0),
            )
            if path == "/brokers/ids":
                ensemble.znodes["/brokers/ids/5"] = ensemble.znodes[path]

    ensemble.before_exists = come
    ensemble.put("/brokers/topics/t/partitions/0/state", state(1))
    wanted = {"/controller": lambda now: now.controller == 1}
    seen(truth, wanted.get(path, lambda now: now.brokers == (5,)))


def test_a_change_has_the_time_of_its_watch_event(
    truth: ZooKeeperTruth, ensemble: KazooInMemory
) -> None:
    """This also holds where the reading fails at first or takes long: the monitor gets no advantage."""
    ensemble.fails = [ConnectionLoss(), ConnectionError()]
    before = time.monotonic()
    ensemble.put("/controller_epoch", b"8")
    after = time.monotonic()
    seen(truth, lambda now: now.epoch == 8)
    latest = truth.observations.latest
    assert latest is not None
    assert before <= latest.at <= after
    assert ensemble.fails == []


def test_nothing_is_read_while_nothing_changes(
    truth: ZooKeeperTruth, ensemble: KazooInMemory
) -> None:
    """Each reading sets watches: after a quiet time there is one, from the first reading."""
    time.sleep(0.05)
    assert truth.observations.latest is not None
    assert len(ensemble.watches["/controller", False]) == 1


def test_closing_ends_the_reading_and_the_connection(
    truth: ZooKeeperTruth, ensemble: KazooInMemory
) -> None:
    """Nothing is read any more; a reader that never started can be closed, too."""
    truth.close()
    assert ensemble.did == ["start", "stop", "close"]
    assert not truth._thread.is_alive()
    ZooKeeperTruth("zk:2181").close()


def test_log_lines_of_the_clients_are_dropped() -> None:
    """Lost connections are part of the story; a second call returns the same logger, with one handler."""
    logger = quiet_logger()
    assert quiet_logger() is logger
    assert not logger.propagate
    assert len([each for each in logger.handlers if type(each) is logging.NullHandler]) <= 1
    assert logger.handlers


class Admin:
    """An AdminClient that answers with metadata, or not at all."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def list_topics(self, timeout: float) -> Any:
        """Answer."""
        assert timeout > 0
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_an_unreachable_broker_gives_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is None, not an error; otherwise it is the answer of one of them."""
    asked: dict[str, Any] = {}
    admin = Admin(SimpleNamespace(controller_id=1, brokers={1: None}, topics={}))

    def made(config: dict[str, Any]) -> Admin:
        asked.update(config)
        return admin

    monkeypatch.setattr(truth_reader, "AdminClient", made)
    kafka = KafkaTruth("k:9092")
    assert asked["bootstrap.servers"] == "k:9092"
    figures = kafka.read()
    assert figures is not None
    assert (figures.controller, figures.brokers) == (1, (1,))
    admin.answer = KafkaException(KafkaError(KafkaError._TRANSPORT))
    assert kafka.read() is None
