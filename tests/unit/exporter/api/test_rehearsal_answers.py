"""Rehearsals over the API: what they answer, and what is refused."""

from __future__ import annotations

import msgspec
import pytest

from controller_model.kafka.ids import Position
from controller_model.records.event_records import EventId, EventRecord
from controller_model.records.events import FailoverWork
from controller_model.records.views import Counts
from exporter.api import endpoints, rehearsal_answers
from tests.support.api_server import Served
from tests.support.samples import T0, as_of, cluster_view

PATH = "/api/v1/clusters/prod/rehearsal"


def test_a_rehearsal_lists_the_effect_of_each_step(served: Served) -> None:
    """The steps are in order, with the outages and what is not known; the answer agrees with the what-if."""
    answer = served.json(PATH, step=["kill-broker:0", "start-broker:0"])
    assert answer["name"] == "prod"
    assert answer["completeness"]["status"] == "live"
    killed, started = answer["steps"]
    assert (killed["operation"], killed["number"]) == ("kill-broker:0", 1)
    (loss,) = served.json("/api/v1/clusters/prod/what-if", lose_broker=0)["losses"]
    assert killed["went_offline"]["count"] == loss["offline"] == 3
    assert started["came_online"]["partitions"] == killed["went_offline"]["partitions"]
    assert {"offline": 3}.items() <= {
        kind: sum(o["kind"] == kind and o["from_step"] == 1 for o in answer["outages"]["outages"])
        for kind in ("offline",)
    }.items()
    assert "auto.leader.rebalance.enable" in {each["what"] for each in answer["unknown"]}
    short = served.json(PATH, step="kill-broker:0", limit=1)
    assert short["steps"][0]["went_offline"]["count"] == 3
    assert len(short["steps"][0]["went_offline"]["partitions"]) == 1
    assert len(short["outages"]["outages"]) == 1


def test_the_last_failover_gives_the_estimate_for_the_next(served: Served) -> None:
    """The newest failover that had leaders to write counts; without one the time is not known."""
    ask = {"step": "kill-broker:0"}
    first = served.json(PATH, **ask)["steps"][0]["failover"]
    assert first["at_most_ms"] is None
    works = (
        FailoverWork(
            at=T0, position=Position(1, 1), controller=0, epoch=1, took_ms=ms, partitions=n
        )
        for n, ms in ((10, 400), (0, 7))
    )
    for place, work in enumerate(works):
        served.publish(EventRecord(v=1, cluster="prod", id=EventId("L1", 1, 1, place), event=work))
    known = served.json(PATH, **ask)["steps"][0]["failover"]
    assert known["at_most_ms"] == 400
    assert known["at_least_ms"] == 400 * known["partitions"] // 10


@pytest.mark.parametrize(
    ("steps", "names"),
    [
        ([], ["step", "stop-broker:1"]),
        (["explode"], ["step", "'explode'", "kill-broker"]),
        (["stop-broker:1", "kill-broker:x"], ["kill-broker", "'x'"]),
        (["reassign:{}"], ["kafka-reassign-partitions"]),
        (["delete-topic:" + "t" * 24_000], ["longer than 24000"]),
    ],
)
def test_a_bad_step_is_refused_with_the_accepted_values(
    served: Served, steps: list[str], names: list[str]
) -> None:
    """The problem has the name of the parameter, and what it may be."""
    answer = served.get(PATH, {"step": steps})
    assert answer.status_code == 400
    assert all(name in answer.json()["detail"] for name in names), answer.text


def test_a_rehearsal_without_a_controller_is_refused_with_409(served: Served) -> None:
    """The answer is a 409, because the state of the cluster may change."""
    view = cluster_view(at=as_of(2))
    assert view.controller is not None
    none = msgspec.structs.replace(view.controller, id=-1)
    served.write(msgspec.structs.replace(view, controller=none))
    answer = served.get(PATH, {"step": "delete-controller"})
    assert answer.status_code == 409
    assert "no live broker is the controller" in answer.json()["detail"]


def test_a_rehearsal_that_needs_too_much_work_or_memory_is_refused(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for too little memory and for too much work; each refusal says what to do instead."""
    served.write(cluster_view(at=as_of(2), counts=Counts(partitions=10)))
    monkeypatch.setattr(rehearsal_answers, "MAX_WORK", 20)
    answer = served.get(PATH, {"step": ["rolling-restart", "stop-broker:0"]})
    assert answer.status_code == 400
    assert "kcm rehearse --from-topic" in answer.json()["detail"]
    least = 10 * rehearsal_answers.PARTITION_BYTES
    for left, status in ((least - 1, 400), (least, 200), (None, 200)):
        monkeypatch.setattr(endpoints, "memory_left", lambda left=left: left)
        answer = served.get(PATH, {"step": "stop-broker:0"})
        assert answer.status_code == status
        assert ("MiB of memory" in answer.text) == (status == 400)
