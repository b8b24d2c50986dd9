"""Recommendations and what-ifs in the API's words, over the model's insights.

The rule: partitions are counted, and a bounded number of them named; only the elections of a
recommendation are listed whole, because somebody is to run them, and those come in pages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from controller_model.insights.cluster_facts import ClusterFacts
from controller_model.insights.loss import Loss, lose, lose_each, lose_groups, safety
from controller_model.insights.pairs import lose_pairs
from controller_model.insights.rebalance import (
    AutoRebalance,
    Chunk,
    NextRebalance,
    Recommendation,
    election_command,
    next_check_at,
    next_rebalance,
    recommend,
)
from controller_model.kafka.ids import TopicPartition
from controller_model.records.views import BrokerView
from exporter.api.account_answers import partition_answer
from exporter.core.parameters import whole_number
from exporter.core.records import ClusterSnapshot
from exporter.partitions.partition_pages import all_partitions

EXAMPLES = 20
"""Partitions that are named for a reason; the number of all stands beside."""

MOST_PAIRS = 20
"""Pairs of brokers that are told, the worst; the number of all stands beside."""

_MARK_BYTES = 6
"""Enough that two recommendations that follow each other never share it."""

Json = dict[str, Any]


class Told(NamedTuple):
    """A recommendation, and a mark that another one has not."""

    recommendation: Recommendation
    mark: str


def recommendation_of(snapshot: ClusterSnapshot, facts: ClusterFacts, broker: int | None) -> Told:
    """Return which preferred elections to run, for one broker or (None) for all."""
    partitions = all_partitions(snapshot.topics.values())
    if broker is not None:
        partitions = (each for each in partitions if each.preferred == broker)
    told = recommend(partitions, facts)
    digest = hashlib.blake2b(digest_size=_MARK_BYTES)
    for chunk in told.chunks:
        digest.update(chunk.json.encode())
    return Told(told, digest.hexdigest())


def read_chunk_cursor(text: str) -> tuple[int, str | None]:
    """Return after which chunk a page begins, and of which recommendation; raises ValueError.

    None: of whichever there is now.

    >>> read_chunk_cursor("20/5e0fbc1a93d7"), read_chunk_cursor("3")
    ((20, '5e0fbc1a93d7'), (3, None))
    """
    number, slash, mark = text.partition("/")
    if slash and not mark:
        raise ValueError(text)
    return whole_number(number), mark or None


def rebalance_of(snapshot: ClusterSnapshot, facts: ClusterFacts) -> NextRebalance:
    """Return what the controller's own next check would do."""
    assumed = AutoRebalance(
        leader_imbalance_per_broker_percentage=snapshot.view.rebalance.threshold_percentage
    )
    return next_rebalance(all_partitions(snapshot.topics.values()), facts, assumed)


def recommendation_answer(of: Told, *, broker: int | None, after: int, limit: int) -> Json:
    """Return a page of a recommendation: `limit` chunks after the chunk with this number."""
    told, mark = of
    shown = told.chunks[after : after + limit]
    end = after + len(shown)
    return {
        "broker": broker,
        "imbalance_before": told.imbalance_before,
        "imbalance_after": told.imbalance_after,
        "partition_count": sum(len(chunk.partitions) for chunk in told.chunks),
        "chunk_count": len(told.chunks),
        "chunks": [_chunk(number, chunk) for number, chunk in enumerate(shown, after + 1)],
        "next": f"{end}/{mark}" if end < len(told.chunks) else None,
        "brokers": [
            {
                "broker": before.broker,
                "preferred": before.preferred,
                "not_led_before": before.not_led,
                "not_led_after": then.not_led,
                "ratio_before": before.ratio,
                "ratio_after": then.ratio,
            }
            for before, then in zip(told.brokers_before, told.brokers_after, strict=True)
        ],
        "blocked": _blocked(told.blocked),
    }


def rebalance_answer(told: NextRebalance, *, elected_at: int | None, now: int) -> Json:
    """Return what the controller's next check would do, and when it comes at the earliest."""
    at = None if elected_at is None else next_check_at(elected_at, now, told.assumed)
    return {
        "assumed": msgspec.to_builtins(told.assumed),
        "at_earliest": at,
        "exceeding": told.exceeding,
        "elects": len(told.elect),
        "blocked": _blocked(told.blocked),
    }


def command_of(brokers: Iterable[BrokerView]) -> str:
    """Return the command that runs an election out of a file, by a broker that is there."""
    servers = (f"{_host(b.host)}:{b.port}" for b in brokers if b.live and b.host and b.port)
    return election_command(next(servers, None))


def _host(host: str) -> str:
    """Return a host as it stands before a port."""
    return f"[{host}]" if ":" in host else host


def loss_of(snapshot: ClusterSnapshot, facts: ClusterFacts, brokers: Collection[int]) -> Json:
    """Return what the loss of all these brokers at once would do."""
    loss = lose(all_partitions(snapshot.topics.values()), facts, brokers)
    return loss_answer(loss, facts, brokers)


def loss_of_each_broker(snapshot: ClusterSnapshot, facts: ClusterFacts) -> Json:
    """Return what the loss of each live broker alone would do."""
    losses = lose_each(all_partitions(snapshot.topics.values()), facts)
    return losses_answer([loss_answer(loss, facts, (broker,)) for broker, loss in losses.items()])


def loss_of_each_rack(snapshot: ClusterSnapshot, facts: ClusterFacts) -> Json:
    """Return what the loss of each rack would do; brokers without a rack are in none."""
    racks = sorted({rack for b in facts.live if (rack := facts.racks.get(b)) is not None})
    in_rack = {rack: facts.in_rack(rack) for rack in racks}
    losses = lose_groups(all_partitions(snapshot.topics.values()), facts, in_rack)
    return losses_answer(
        [
            loss_answer(loss, facts, in_rack[rack]) | {"racks": [rack]}
            for rack, loss in losses.items()
        ]
    )


def loss_of_each_pair(snapshot: ClusterSnapshot, facts: ClusterFacts) -> Json:
    """Return the worst pairs of those that break more together than apart, and how many are."""
    found = lose_pairs(lambda: all_partitions(snapshot.topics.values()), facts, most=MOST_PAIRS)
    losses = [
        loss_answer(pair.loss, facts, pair.loss.brokers)
        | {"beyond_members": {str(risk): count for risk, count in pair.beyond.items()}}
        for pair in found.worst
    ]
    return losses_answer(losses, pair_count=found.count)


def losses_answer(losses: Sequence[Json], *, pair_count: int | None = None) -> Json:
    """Return what is told about losses; None: it was not asked which pairs break more."""
    return {"losses": losses, "pair_count": pair_count}


def loss_answer(loss: Loss, facts: ClusterFacts, asked: Collection[int]) -> Json:
    """Return a loss and the verdict on it."""
    verdict = safety(loss, facts)
    return {
        "brokers": sorted(asked),
        "racks": [],
        "safe": verdict.safe,
        "reasons": [
            {
                "risk": reason.risk,
                "text": reason.text,
                "partition_count": len(reason.partitions),
                "examples": _examples(reason.partitions),
            }
            for reason in verdict.reasons
        ],
        "notes": verdict.notes,
        "offline": len(loss.offline),
        "stranded": len(loss.stranded),
        "under_min_isr": len(loss.under_min_isr),
        "unclean": len(loss.unclean),
        "leaders_moved": [_share(broker, count) for broker, count in loss.moved.items()],
        "leaders_after": [_share(broker, count) for broker, count in loss.leaders_after.items()],
        "beyond_members": None,
    }


MORE_MAY_BREAK = (
    "more may break than is counted: the controller owes leaders or ISRs, or brokers differ in "
    "min.insync.replicas"
)


def safe_to_stop(broker: BrokerView) -> Json:
    """Return whether a broker may be stopped, by the fold's own running counts; None: not known."""
    safe = broker.safe_to_stop
    if not broker.live:
        return {"safe": safe, "why": "not registered", "offline": 0, "under_min_isr": 0}
    why = None if safe is not None else MORE_MAY_BREAK
    offline, under = broker.offline_if_lost, broker.under_min_isr_if_lost
    return {"safe": safe, "why": why, "offline": offline, "under_min_isr": under}


def _chunk(number: int, chunk: Chunk) -> Json:
    return {
        "number": number,
        "partition_count": len(chunk.partitions),
        "imbalance_after": chunk.imbalance_after,
        "election": {"partitions": [partition_answer(each) for each in chunk.partitions]},
    }


def _blocked(blocked: Mapping[Any, Sequence[TopicPartition]]) -> list[Json]:
    return [
        {
            "reason": str(reason),
            "partition_count": len(partitions),
            "examples": _examples(partitions),
        }
        for reason, partitions in blocked.items()
    ]


def _examples(partitions: Sequence[TopicPartition]) -> list[Json]:
    return [partition_answer(each) for each in partitions[:EXAMPLES]]


def _share(broker: int, count: int) -> Json:
    return {"broker": broker, "partition_count": count}
