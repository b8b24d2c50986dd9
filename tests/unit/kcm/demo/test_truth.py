"""The truth of the demo: figures counted from ZooKeeper's raw JSON, and which differences it names."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kcm.demo.figures import FIGURE_NAMES, TrueFigures, differences
from kcm.demo.truth import figures_of_metadata, figures_of_znodes, state_path


def _topic(partitions: dict[str, list[int]]) -> bytes:
    return json.dumps(
        {"version": 3, "topic_id": "x", "partitions": partitions, "adding_replicas": {}}
    ).encode()


def _state(leader: int, isr: list[int]) -> bytes:
    return json.dumps(
        {"controller_epoch": 3, "leader": leader, "version": 1, "leader_epoch": 0, "isr": isr}
    ).encode()


@pytest.fixture
def znodes() -> dict[str, bytes]:
    """A cluster whose broker 2 is dead: one partition led wrongly, one offline, one healthy, one new."""
    return {
        "/controller": b'{"version":2,"brokerid":0,"timestamp":"1","kraftControllerEpoch":-1}',
        "/controller_epoch": b"7",
        "/brokers/ids/0": b"",
        "/brokers/ids/1": b"",
        "/brokers/topics/t": _topic({"0": [2, 0, 1], "1": [0, 1, 2], "2": [2], "10": [1, 0]}),
        "/brokers/topics/u": _topic({"0": [1, 0]}),
        state_path("t", 0): _state(0, [0, 1]),
        state_path("t", 1): _state(0, [0, 1]),
        state_path("t", 2): _state(-1, [2]),
        state_path("u", 0): _state(1, [1, 0]),
    }


def test_every_figure_is_counted_from_raw_json(znodes: dict[str, bytes]) -> None:
    """Each figure equals a count of the znodes by hand."""
    assert figures_of_znodes(znodes, base_epoch=5) == TrueFigures(
        controller=0,
        epoch=7,
        elections=2,
        brokers=(0, 1),
        leaders=((0, 2), (1, 1)),
        not_led=((2, 2),),
        topics=2,
        partitions=5,
        offline=1,
        under_replicated=2,
        imbalance=2,
    )


def test_broker_0_is_a_controller(znodes: dict[str, bytes]) -> None:
    """Broker id 0 is valid, and a missing /controller is -1."""
    assert figures_of_znodes(znodes).controller == 0
    del znodes["/controller"]
    assert figures_of_znodes(znodes).controller == -1


def test_a_cluster_that_never_had_a_controller_has_no_epoch(znodes: dict[str, bytes]) -> None:
    """Without /controller_epoch, neither epoch nor elections are known."""
    del znodes["/controller_epoch"]
    figures = figures_of_znodes(znodes, base_epoch=5)
    assert (figures.epoch, figures.elections) == (None, None)


def test_elections_are_unknown_before_the_first_step(znodes: dict[str, bytes]) -> None:
    """Without the epoch at the start there is nothing to count elections from."""
    assert figures_of_znodes(znodes).elections is None


def test_a_written_leader_that_is_dead_is_offline(znodes: dict[str, bytes]) -> None:
    """A partition whose leader is gone is offline before the controller has written so."""
    znodes[state_path("t", 0)] = _state(2, [2, 0, 1])
    figures = figures_of_znodes(znodes)
    assert figures.offline == 2
    assert figures.leaders == ((0, 1), (1, 1), (2, 1))


def test_a_partition_without_state_is_new_and_nothing_else(znodes: dict[str, bytes]) -> None:
    """It is counted, but is neither offline nor imbalanced."""
    before = figures_of_znodes(znodes)
    znodes["/brokers/topics/new"] = _topic({"0": [2, 1], "1": [1, 2]})
    after = figures_of_znodes(znodes)
    assert after == replace(before, topics=before.topics + 1, partitions=before.partitions + 2)


def test_an_empty_cluster_is_all_zeros() -> None:
    """An empty ZooKeeper gives zeros, no controller and an unknown epoch."""
    figures = figures_of_znodes({})
    assert (figures.controller, figures.epoch, figures.brokers) == (-1, None, ())
    assert (figures.topics, figures.partitions, figures.offline, figures.imbalance) == (0, 0, 0, 0)


def _metadata(partitions: dict[int, tuple[int, list[int], list[int]]]) -> Any:
    """Metadata of one topic in confluent-kafka's shape: (leader, replicas, isr) by partition."""
    return SimpleNamespace(
        controller_id=0,
        brokers={0: None, 1: None},
        topics={
            "t": SimpleNamespace(
                partitions={
                    number: SimpleNamespace(leader=leader, replicas=replicas, isrs=isr)
                    for number, (leader, replicas, isr) in partitions.items()
                }
            )
        },
    )


def test_metadata_agrees_with_znodes_apart_from_the_epoch() -> None:
    """They agree when all is equal except the epoch, which brokers do not report."""
    znodes = {
        "/controller": b'{"version":1,"brokerid":0}',
        "/controller_epoch": b"4",
        "/brokers/ids/0": b"",
        "/brokers/ids/1": b"",
        "/brokers/topics/t": _topic({"0": [0, 1], "1": [1, 2]}),
        state_path("t", 0): _state(1, [1]),
        state_path("t", 1): _state(-1, [2]),
    }
    zookeeper = figures_of_znodes(znodes, base_epoch=1)
    reported = figures_of_metadata(_metadata({0: (1, [0, 1], [1]), 1: (-1, [1, 2], [2])}))
    assert differences(zookeeper, reported) == ["epoch", "elections"]
    late = figures_of_metadata(_metadata({0: (0, [0, 1], [0, 1]), 1: (-1, [1, 2], [2])}))
    assert "under_replicated" in differences(zookeeper, late)


OF_KRAFT: Any = {
    "fenced": (2,),
    **dict.fromkeys(("elr", "empty_isr", "under_min_isr", "unclean", "voters", "candidacies"), 1),
}


@pytest.mark.parametrize("name", FIGURE_NAMES)
def test_each_figure_is_compared(name: str, znodes: dict[str, bytes]) -> None:
    """A difference in any one figure is named, and nothing else is."""
    truth = replace(figures_of_znodes(znodes, base_epoch=5), **OF_KRAFT)
    value = getattr(truth, name)
    wrong: Any = value + 1 if isinstance(value, int) else (*value, value[0])
    assert differences(truth, replace(truth, **{name: wrong})) == [name]
    assert differences(truth, truth) == []
