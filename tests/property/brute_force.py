"""The definitions of all facts and figures, written a second time: over znodes and over partitions.

The counts here know neither contributions nor totals. `Truth` reads ZooKeeper's znodes without the
model; `check` reads the partitions out of the topic views and applies the definitions, one
partition after the other.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

import msgspec
import pytest

from controller_model.fold.projection import SentViews
from controller_model.history.snapshot import Snapshot, encode_snapshot
from controller_model.insight.loss import Loss, lose_each, safety
from controller_model.insight.rebalance import recommend
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.records.view_facts import cluster_facts, partitions_in
from controller_model.records.views import BrokerView, ClusterView, TopicView
from exporter.partitions.conditions import JUDGES, Condition, judge, none_counted
from tests.support.histories import Fold, History

MIN_ISR = 1
"""min.insync.replicas where no znode has it, as the folds of these histories are given it."""


def plain(reported: Snapshot) -> dict[str, Any]:
    """Return a snapshot as its readers see it."""
    decoded: dict[str, Any] = json.loads(encode_snapshot(reported))
    return decoded


class Truth:
    """ZooKeeper's znodes, read by Kafka's definitions, without the model."""

    def __init__(self, history: History) -> None:
        self.znodes = history.znodes
        self.live = {int(name): held for name, held in self.under("/brokers/ids/").items()}
        self.deleting = set(self.under("/admin/delete_topics/"))
        self.topics = {
            name: json.loads(held.data) for name, held in self.under("/brokers/topics/").items()
        }
        self.partitions = [
            (name, int(partition), replicas, self.state(name, partition))
            for name, topic in self.topics.items()
            for partition, replicas in topic["partitions"].items()
        ]

    def under(self, folder: str) -> dict[str, Any]:
        """Return the children of a path."""
        return {
            path.removeprefix(folder): held
            for path, held in self.znodes.items()
            if path.startswith(folder) and "/" not in path.removeprefix(folder)
        }

    def state(self, topic: str, partition: str) -> dict[str, Any] | None:
        """Return a partition's state, and its version under `epoch`."""
        held = self.znodes.get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if held is None:
            return None
        return {**json.loads(held.data), "epoch": held.version}

    def moving(self, topic: str, partition: int, which: str) -> list[int]:
        """Return the adding or removing replicas of a partition."""
        replicas: list[int] = self.topics[topic][which].get(str(partition), [])
        return replicas

    def min_isr(self, topic: str, leader: int) -> int:
        """Return min.insync.replicas: the topic's, the leader's, the default or the assumed one."""
        for path in (f"topics/{topic}", f"brokers/{leader}", "brokers/<default>"):
            held = self.znodes.get(f"/config/{path}")
            config = {} if held is None else json.loads(held.data)["config"]
            if "min.insync.replicas" in config:
                return int(config["min.insync.replicas"])
        return MIN_ISR

    def counts(self) -> dict[str, int]:
        """Return the cluster's figures."""
        found: Counter[str] = Counter()
        for name, partition, replicas, state in self.partitions:
            adding = self.moving(name, partition, "adding_replicas")
            found["partitions"] += 1
            found["reassigning"] += bool(
                adding or self.moving(name, partition, "removing_replicas")
            )
            if state is None or name in self.deleting:
                continue
            leader, isr = state["leader"], state["isr"]
            online = leader in self.live
            least = min(self.min_isr(name, leader), len(replicas))
            found["offline"] += not online
            found["under_replicated"] += len(set(replicas) - set(adding)) > len(isr)
            found["under_min_isr"] += online and len(isr) < least
            found["at_min_isr"] += online and len(isr) == least
            exempt = replicas[0] in adding
            balanced = replicas[0] not in isr if exempt else leader == replicas[0]
            found["preferred_imbalance"] += not balanced
        found["topics"], found["deleting_topics"] = len(self.topics), len(self.deleting)
        return found

    def broker(self, broker: int) -> dict[str, Any]:
        """Return what is true of a broker now."""
        mine = [
            (name, state, replicas)
            for name, _, replicas, state in self.partitions
            if replicas[0] == broker and name not in self.deleting
        ]
        lost = [state for _, state, _ in mine if state is not None and state["leader"] != broker]
        return {
            "live": broker in self.live,
            "leaders": sum(s is not None and s["leader"] == broker for *_, s in self.partitions),
            "replicas": sum(broker in replicas for _, _, replicas, _ in self.partitions),
            "preferred": len(mine),
            "imbalance_ratio": len(lost) / len(mine) if mine else 0.0,
        }

    def partition(
        self, topic: str, partition: int, replicas: list[int], state: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Return a partition as a snapshot has it."""
        name = "NewPartition"
        if state is not None:
            name = "OnlinePartition" if state["leader"] in self.live else "OfflinePartition"
        state = state or {}
        return {
            "replicas": replicas,
            "adding": self.moving(topic, partition, "adding_replicas"),
            "removing": self.moving(topic, partition, "removing_replicas"),
            "leader": state.get("leader"),
            "isr": state.get("isr"),
            "leader_epoch": state.get("leader_epoch"),
            "controller_epoch": state.get("controller_epoch"),
            "partition_epoch": state.get("epoch"),
            "leader_recovery_state": state.get("leader_recovery_state"),
            "state": name,
        }


def check_snapshot(history: History, reported: dict[str, Any]) -> None:
    """Compare a snapshot, taken after a resync, with the znode tree: every fact and every figure."""
    truth = Truth(history)
    assert reported["complete"] is True
    held = history.znodes.get("/controller")
    assert reported["controller"]["id"] == (
        None if held is None else json.loads(held.data)["brokerid"]
    )
    partitions: dict[str, dict[str, Any]] = {name: {} for name in truth.topics}
    for name, partition, replicas, state in truth.partitions:
        partitions[name][str(partition)] = truth.partition(name, partition, replicas, state)
    assert {name: topic["partitions"] for name, topic in reported["topics"].items()} == partitions
    assert {n for n, topic in reported["topics"].items() if topic["deleting"]} == (
        truth.deleting & set(truth.topics)
    )
    for broker, facts in reported["brokers"].items():
        epoch, registrations = facts.pop("epoch"), facts.pop("registrations")
        assert facts == truth.broker(int(broker))
        if facts["live"]:
            assert epoch == truth.live[int(broker)].czxid
        assert (registrations > 0) is (epoch is not None)
    assigned = {broker for _, _, replicas, _ in truth.partitions for broker in replicas}
    assert {int(broker) for broker in reported["brokers"]} >= assigned | set(truth.live)
    figures = truth.counts()
    for name in ("missed_updates", "unreadable", "stale"):
        reported["counts"].pop(name)
    assert reported["counts"] == {name: figures[name] for name in reported["counts"]}


class Seen(NamedTuple):
    """The views as a reader holds them."""

    cluster: ClusterView
    brokers: dict[int, BrokerView]
    partitions: list[PartitionFacts]
    topics: set[str]
    facts: ClusterFacts


def seen(fold: Fold) -> Seen:
    """Read all views of a cluster, as a new reader would."""
    fold.sent = SentViews()
    fold.state.changed.update(dict.fromkeys(fold.state.topics.names()))
    views = fold.views().values()
    brokers = {view.id: view for view in views if isinstance(view, BrokerView)}
    topics = [view for view in views if isinstance(view, TopicView)]
    (cluster,) = (view for view in views if isinstance(view, ClusterView))
    return Seen(
        cluster=cluster,
        brokers=brokers,
        partitions=[partition for view in topics for partition in partitions_in(view)],
        topics={view.name for view in topics},
        facts=cluster_facts(cluster, brokers.values()),
    )


def check(fold: Fold) -> None:
    """Compare every figure with its definition."""
    now = seen(fold)
    _check_cluster(now)
    _check_brokers(now)
    _check_recommendation(now)
    _check_conditions(now)


def _check_cluster(now: Seen) -> None:
    counts, live = now.cluster.counts, set(now.cluster.brokers_live or ())
    everything = now.partitions
    stated = [p for p in everything if p.leader is not None and not p.deleting]
    led = [p for p in stated if p.leader in live]
    assert counts.topics == len(now.topics)
    assert counts.partitions == len(everything)
    assert counts.offline == len(stated) - len(led)
    assert counts.leaderless == sum(p.leader in {-1, -2} for p in stated)
    assert counts.pending_leader_writes == counts.offline - counts.leaderless
    assert counts.without_state == sum(p.leader is None for p in everything)
    assert counts.under_replicated == sum(
        len(p.replicas) - len(p.adding) > len(p.isr) for p in stated
    )
    lacking = [p for p in stated if len(p.replicas) - len(p.adding) > len(p.isr)]
    assert counts.under_replicated_reassigning == sum(bool(p.adding) for p in lacking)
    assert counts.under_replicated_at_min_isr == sum(
        len(p.isr) == _least(p, now) for p in lacking if p in led
    )
    assert counts.under_min_isr == sum(len(p.isr) < _least(p, now) for p in led)
    assert counts.at_min_isr == sum(len(p.isr) == _least(p, now) for p in led)
    assert counts.reassigning == sum(bool(p.adding or p.removing) for p in everything)
    assert counts.replication_factor_1 == sum(len(p.replicas) == 1 for p in everything)
    assert counts.preferred_imbalance == sum(
        p.replicas[0] in p.isr if p.replicas[0] in p.adding else p.leader != p.replicas[0]
        for p in stated
    )
    assert counts.preferred_electable == sum(
        p.leader != p.replicas[0] and p.replicas[0] in live and p.replicas[0] in p.isr
        for p in stated
    )
    assert counts.min_isr_blocks == sum(
        len(p.replicas) > 1 and _least(p, now) == len(p.replicas)
        for p in (p if p in stated else msgspec.structs.replace(p, leader=-1) for p in everything)
    )
    assert counts.replicas_on_gone_brokers == sum(
        replica not in live for p in everything for replica in p.replicas
    )


def _least(partition: PartitionFacts, now: Seen) -> int:
    """Return min.insync.replicas, which the fold of these histories is given."""
    by_broker, default = now.cluster.config.broker_min_isr, now.cluster.min_isr_assumed
    own = partition.min_isr or by_broker.get(str(partition.leader), by_broker.get("<default>"))
    least = default if own is None else own
    assert least is not None
    return min(least, len(partition.replicas))


def _check_brokers(now: Seen) -> None:
    live = set(now.cluster.brokers_live or ())
    stated = [p for p in now.partitions if p.leader is not None and not p.deleting]
    assigned = [p for p in now.partitions if not p.deleting and p.replicas]
    replicas = Counter(r for p in now.partitions for r in p.replicas)
    leaders = Counter(p.leader for p in now.partitions)
    preferred = Counter(p.replicas[0] for p in assigned)
    losses = lose_each(now.partitions, now.facts)
    for id_, view in now.brokers.items():
        not_led = [p for p in stated if p.replicas[0] == id_ and p.leader != id_]
        member = [p for p in stated if id_ in p.isr]
        assert view.record.live == (id_ in live)
        assert view.replicas == replicas[id_]
        assert view.leaders == leaders[id_]
        assert view.preferred == preferred[id_]
        assert view.preferred_not_led == len(not_led)
        assert view.preferred_electable == (
            sum(id_ in p.isr for p in not_led) if id_ in live else 0
        )
        assert view.imbalance_ratio == (len(not_led) / preferred[id_] if preferred[id_] else 0.0)
        assert view.in_isr == len(member)
        if id_ in live:
            skew = preferred[id_] * len(live) / len(assigned) - 1 if assigned else 0.0
            assert view.leader_skew == pytest.approx(skew, abs=0.0005)
            _check_loss(view, losses[id_], now)
        else:
            assert view.leader_skew is None
            assert (view.offline_if_lost, view.under_min_isr_if_lost, view.safe_to_stop) == (
                0,
                0,
                None,
            )
    assert set(now.brokers) == set(now.cluster.brokers_known)


def _check_loss(view: BrokerView, loss: Loss, now: Seen) -> None:
    """A broker's figures are those of the what-if, or not known, which they are only while totals cannot tell."""
    figures = {
        "offline": view.offline_if_lost,
        "under_min_isr": view.under_min_isr_if_lost,
        "stranded": view.stranded_if_lost,
        "unclean": view.unclean_if_lost,
    }
    for name, figure in figures.items():
        assert figure in {None, len(getattr(loss, name))}, (view.id, name, figure)
    judged = safety(loss, now.facts)
    assert view.safe_to_stop in {None, judged.safe}
    assert not view.breaks_if_lost or judged.safe is False
    facts = now.facts
    counted = [p for p in now.partitions if p.counts]
    gone = {broker for p in counted for broker in p.isr if broker not in facts.live}
    uniform = not set(now.cluster.config.broker_min_isr) - {"<default>"}
    uniform = uniform and (
        facts.live.issuperset(now.cluster.brokers_known) or not any(map(facts.unclean_of, counted))
    )
    if uniform and len(gone) <= 1:
        # A follower's ISR may hold the broker that is gone or another one: only then is it not known.
        assert view.offline_if_lost is not None
        assert view.stranded_if_lost is not None
        assert view.under_min_isr_if_lost is not None or gone
    if uniform and not gone:
        assert None not in figures.values()
        assert view.safe_to_stop is judged.safe


def _check_recommendation(now: Seen) -> None:
    wanted = recommend(now.partitions, now.facts)
    counts = now.cluster.counts
    assert wanted.imbalance_before == counts.preferred_imbalance
    newer = sum(len(tps) for reason, tps in wanted.blocked.items() if "epoch" in reason)
    assert sum(len(c.partitions) for c in wanted.chunks) + newer == counts.preferred_electable
    assert {b.broker: b.ratio_before for b in wanted.brokers} == {
        id_: view.imbalance_ratio for id_, view in now.brokers.items() if view.preferred
    }


COUNTED = {
    Condition.OFFLINE: "offline",
    Condition.UNDER_REPLICATED: "under_replicated",
    Condition.UNDER_MIN_ISR: "under_min_isr",
    Condition.AT_MIN_ISR: "at_min_isr",
    Condition.NOT_PREFERRED: "preferred_imbalance",
    Condition.ELECTABLE: "preferred_electable",
    Condition.REASSIGNING: "reassigning",
    Condition.WITHOUT_STATE: "without_state",
    Condition.SINGLE_REPLICA: "replication_factor_1",
    Condition.MIN_ISR_BLOCKING: "min_isr_blocks",
}
"""The figure of each condition of the API's lists of partitions."""

COUNTED_ELSE = {Condition.ON_GONE_BROKERS, Condition.ONE_RACK, Condition.DELETING}
"""The figures count replicas, are the exporter's own (`OneRackCount`), and count topics."""


def _check_conditions(now: Seen) -> None:
    """A condition's list is as long as the figure that links to it."""
    counts = now.cluster.counts
    found = Counter(
        condition
        for each in now.partitions
        for condition, is_met in judge(each, now.facts).items()
        if is_met
    )
    assert {condition: found[condition] for condition in COUNTED} == {
        condition: getattr(counts, figure) for condition, figure in COUNTED.items()
    }
    assert set(JUDGES) == {*COUNTED, *COUNTED_ELSE}
    for condition in Condition:
        assert not (none_counted([condition], counts) and found[condition])
