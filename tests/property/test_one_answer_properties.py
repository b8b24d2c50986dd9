"""Gauge, status, page, what-if and rehearsal give one answer to the loss of a broker, for every history.

Histories are random, and partly edited by hand: leaders outside of their ISR, ISRs with brokers that are gone or not
assigned, controller epochs above the cluster's, epochs that go back.
"""

from __future__ import annotations

import random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from controller_model.history.log_facts import facts_of
from controller_model.insight.loss import lose, safety, settled
from controller_model.kafka.ids import NO_LEADER
from controller_model.metrics.brokers import BROKER as BROKER_METRICS
from controller_model.records.views import BrokerView
from exporter.api.insight_answers import loss_answer, safe_to_stop
from rehearsal.rehearse import CannotRehearseError, rehearse
from rehearsal.steps import read_step
from tests.property.brute_force import Seen, seen
from tests.support.histories import Fold, History, small_cluster
from tests.support.rehearsing import names

BROKERS = range(4)


def edit_state(history: History, draws: random.Random) -> None:
    """Write one partition's state as somebody may by hand, or as Kafka does."""
    partition = draws.randint(0, 2)
    by_hand = draws.random() < 0.5
    replicas = (list(BROKERS) * 2)[partition : partition + 3]
    isr = draws.sample(BROKERS if by_hand else replicas, draws.randint(1, 3))
    history.state(
        "t",
        partition,
        leader=draws.choice([-1, *BROKERS] if by_hand else isr),
        isr=isr,
        leader_epoch=draws.randint(0, 9),
        controller_epoch=history.epoch + draws.randint(0, 2) * by_hand,
    )


def edited_cluster(draws: random.Random) -> Fold:
    """Return a cluster of one topic after brokers died or came back, and after edits by hand."""
    history = small_cluster(t={p: (list(BROKERS) * 2)[p : p + 3] for p in range(3)})
    history.broker(3)
    fold = Fold(min_isr=draws.randint(1, 3))
    for _ in range(draws.randint(1, 8)):
        choice = draws.random()
        broker = draws.choice(BROKERS)
        is_registered = f"/brokers/ids/{broker}" in history.znodes
        if choice < 0.7:
            edit_state(history, draws)
        elif choice < 0.85 and is_registered and broker:
            history.broker_gone(broker)
        elif choice < 0.85 and not is_registered:
            history.broker(broker)
        elif choice < 0.9:
            history.epoch = draws.randint(0, history.epoch)
            history.set("/controller_epoch", str(history.epoch))
        elif choice < 0.95:
            content = {"unclean.leader.election.enable": "true"}
            history.set("/config/topics/t", {"version": 1, "config": content})
        else:
            history.heartbeat()
        if draws.random() < 0.5:
            fold.follow(history)
    fold.follow(history)
    return fold


def agree(view: BrokerView, now: Seen) -> None:
    """The answers about one live broker are one answer, or say that they do not know."""
    loss = lose(now.partitions, now.facts, {view.id})
    judged = safety(loss, now.facts)
    answer = loss_answer(loss, now.facts, {view.id})
    shown = safe_to_stop(view)  # of status and page
    gauge = {
        name: [value for _, value in BROKER_METRICS[f"kafka_broker_{name}"].read(view)]
        for name in ("safe_to_stop", "offline_if_lost_partitions")
    }
    assert (answer.safe, answer.offline) == (judged.safe, len(loss.offline))
    assert shown.safe in {None, judged.safe}
    assert gauge["safe_to_stop"] == ([] if shown.safe is None else [int(shown.safe)])
    for name, figure in (("offline", shown.offline), ("stranded", shown.stranded)):
        assert figure in {None, len(getattr(loss, name))}
    assert gauge["offline_if_lost_partitions"] == ([] if shown.offline is None else [shown.offline])
    try:
        rehearsed = rehearse(now.facts, now.partitions, [read_step(f"kill-broker:{view.id}")])
    except CannotRehearseError:
        return
    (step,) = rehearsed.steps
    assert set(names(step.went_offline)) == {*loss.offline, *loss.stranded}
    assert set(names(step.unclean)) >= set(loss.unclean)
    # Where elections are aborted, nobody removes what is gone from the ISR before the loss. Where the leader holds no
    # replica, nobody removes it afterwards. What gets a leader only by the loss does not get worse.
    facts = now.facts
    unsettled = {
        p.id
        for p in now.partitions
        if p.leader not in p.replicas
        or (facts.aborts_elections(p) and not facts.live.issuperset(p.isr))
        or settled(p, facts, facts.live)[0] == NO_LEADER
    }
    assert set(names(step.went_under_min_isr)) ^ set(loss.under_min_isr) <= unsettled


@given(st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_one_answer_about_a_cluster_that_was_edited_by_hand(draws: random.Random) -> None:
    """About each broker, whatever was written by hand."""
    fold = edited_cluster(draws)
    now = seen(fold)
    # What a replayed log is rehearsed on are the same facts.
    replayed = facts_of(fold.state)
    assert msgspec.structs.replace(now.facts, gone_since={}, racks=replayed.racks) == replayed
    for view in now.brokers.values():
        if view.record.live:
            agree(view, now)
