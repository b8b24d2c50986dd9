"""Recommendations and what-ifs in the API's words, over the model's insights.

The rule: partitions are counted, and a bounded number of them named; only the elections of a
recommendation are listed whole, because somebody is to run them, and those come in pages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from controller_model.insights.cluster_facts import ClusterFacts
from controller_model.insights.loss import Loss, lose, lose_each, lose_groups, safety
from controller_model.insights.pairs import lose_pairs
from controller_model.insights.rebalance import (
    AutoRebalance,
    Blocked,
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
from exporter.api.account_answers import Json
from exporter.api.answers import (
    BlockedElections,
    BrokerElections,
    BrokerShare,
    ElectionChunk,
    LeaderElectionFile,
    LossAnswer,
    LossReason,
    NextCheck,
    StopSafety,
)
from exporter.core.parameters import whole_number
from exporter.core.records import ClusterSnapshot
from exporter.partitions.partition_pages import all_partitions

EXAMPLES = 20
"""Partitions that are named for a reason; the number of all stands beside."""

MOST_PAIRS = 20
"""Pairs of brokers that are listed, the worst; the number of all stands beside."""

_DIGEST_BYTES = 6
"""Enough that two recommendations that follow each other never share it."""


class IdentifiedRecommendation(NamedTuple):
    """A recommendation, and a digest that another one has not."""

    recommendation: Recommendation
    digest: str


class ChunksPage(NamedTuple):
    """Chunks of a recommendation, and where to go on; None at the end."""

    chunks: list[ElectionChunk]
    next: str | None


class Losses(NamedTuple):
    """What losses would do; `pair_count` is None where pairs were not asked for."""

    losses: list[LossAnswer]
    pair_count: int | None = None


def recommendation_of(
    snapshot: ClusterSnapshot, facts: ClusterFacts, broker: int | None
) -> IdentifiedRecommendation:
    """Return which preferred elections to run, for one broker or (None) for all."""
    partitions = all_partitions(snapshot.topics.values())
    if broker is not None:
        partitions = (each for each in partitions if each.preferred == broker)
    recommendation = recommend(partitions, facts)
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for chunk in recommendation.chunks:
        digest.update(chunk.json.encode())
    return IdentifiedRecommendation(recommendation, digest.hexdigest())


def read_chunk_cursor(text: str) -> tuple[int, str | None]:
    """Return after which chunk a page begins, and of which recommendation; raises ValueError.

    None: of whichever there is now.

    >>> read_chunk_cursor("20/5e0fbc1a93d7"), read_chunk_cursor("3")
    ((20, '5e0fbc1a93d7'), (3, None))
    """
    number, slash, digest = text.partition("/")
    if slash and not digest:
        raise ValueError(text)
    return whole_number(number), digest or None


def rebalance_of(snapshot: ClusterSnapshot, facts: ClusterFacts) -> NextRebalance:
    """Return what the controller's own next check would do."""
    assumed = AutoRebalance(
        leader_imbalance_per_broker_percentage=snapshot.view.rebalance.threshold_percentage
    )
    return next_rebalance(all_partitions(snapshot.topics.values()), facts, assumed)


def chunks_page(of: IdentifiedRecommendation, *, after: int, limit: int) -> ChunksPage:
    """Return `limit` chunks after the chunk with this number."""
    chunks = of.recommendation.chunks
    shown = chunks[after : after + limit]
    end = after + len(shown)
    return ChunksPage(
        [_chunk(number, chunk) for number, chunk in enumerate(shown, after + 1)],
        f"{end}/{of.digest}" if end < len(chunks) else None,
    )


def broker_elections(recommendation: Recommendation) -> list[BrokerElections]:
    """Return what a recommendation does for each broker."""
    pairs = zip(recommendation.brokers_before, recommendation.brokers_after, strict=True)
    return [
        BrokerElections(
            broker=before.broker,
            preferred=before.preferred,
            not_led_before=before.not_led,
            not_led_after=after.not_led,
            ratio_before=before.ratio,
            ratio_after=after.ratio,
        )
        for before, after in pairs
    ]


def next_check_answer(check: NextRebalance, *, elected_at: int | None, now: int) -> NextCheck:
    """Return what the controller's next check would do, and when it comes at the earliest."""
    at = None if elected_at is None else next_check_at(elected_at, now, check.assumed)
    return NextCheck(
        assumed=check.assumed,
        at_earliest=at,
        exceeding=check.exceeding,
        elects=len(check.elect),
        blocked=blocked_answer(check.blocked),
    )


def command_of(brokers: Iterable[BrokerView]) -> str:
    """Return the command that runs an election out of a file, by a broker that is there."""
    servers = (f"{_host(b.host)}:{b.port}" for b in brokers if b.live and b.host and b.port)
    return election_command(next(servers, None))


def _host(host: str) -> str:
    """Return a host as it stands before a port."""
    return f"[{host}]" if ":" in host else host


def loss_of(snapshot: ClusterSnapshot, facts: ClusterFacts, brokers: Collection[int]) -> LossAnswer:
    """Return what the loss of all these brokers at once would do."""
    loss = lose(all_partitions(snapshot.topics.values()), facts, brokers)
    return loss_answer(loss, facts, brokers)


def loss_of_each_broker(snapshot: ClusterSnapshot, facts: ClusterFacts) -> Losses:
    """Return what the loss of each live broker alone would do."""
    losses = lose_each(all_partitions(snapshot.topics.values()), facts)
    return Losses([loss_answer(loss, facts, (broker,)) for broker, loss in losses.items()])


def loss_of_each_rack(snapshot: ClusterSnapshot, facts: ClusterFacts) -> Losses:
    """Return what the loss of each rack would do; brokers without a rack are in none."""
    racks = sorted({rack for b in facts.live if (rack := facts.racks.get(b)) is not None})
    in_rack = {rack: facts.in_rack(rack) for rack in racks}
    losses = lose_groups(all_partitions(snapshot.topics.values()), facts, in_rack)
    return Losses(
        [loss_answer(loss, facts, in_rack[rack], racks=[rack]) for rack, loss in losses.items()]
    )


def loss_of_each_pair(snapshot: ClusterSnapshot, facts: ClusterFacts) -> Losses:
    """Return the worst pairs of those that break more together than apart, and how many are."""
    found = lose_pairs(lambda: all_partitions(snapshot.topics.values()), facts, most=MOST_PAIRS)
    losses = [
        loss_answer(
            pair.loss,
            facts,
            pair.loss.brokers,
            beyond_members={str(risk): count for risk, count in pair.beyond.items()},
        )
        for pair in found.worst
    ]
    return Losses(losses, found.count)


def loss_answer(
    loss: Loss,
    facts: ClusterFacts,
    brokers: Collection[int],
    *,
    racks: Sequence[str] = (),
    beyond_members: dict[str, int] | None = None,
) -> LossAnswer:
    """Return a loss, and whether it is safe."""
    judged = safety(loss, facts)
    return LossAnswer(
        brokers=sorted(brokers),
        racks=list(racks),
        safe=judged.safe,
        reasons=[
            LossReason(
                risk=reason.risk,
                text=reason.text,
                partition_count=len(reason.partitions),
                examples=_examples(reason.partitions),
            )
            for reason in judged.reasons
        ],
        notes=judged.notes,
        offline=len(loss.offline),
        stranded=len(loss.stranded),
        under_min_isr=len(loss.under_min_isr),
        unclean=len(loss.unclean),
        leaders_moved=_shares(loss.moved),
        leaders_after=_shares(loss.leaders_after),
        beyond_members=beyond_members,
    )


MORE_MAY_BREAK = (
    "more may break than is counted: the controller owes leaders or ISRs, or brokers differ in "
    "min.insync.replicas"
)


def safe_to_stop(broker: BrokerView) -> StopSafety:
    """Return whether a broker may be stopped, by the fold's own running counts; None: not known."""
    safe = broker.safe_to_stop
    if not broker.live:
        return StopSafety(safe=safe, why="not registered", offline=0, under_min_isr=0)
    return StopSafety(
        safe=safe,
        why=None if safe is not None else MORE_MAY_BREAK,
        offline=broker.offline_if_lost,
        under_min_isr=broker.under_min_isr_if_lost,
    )


def _chunk(number: int, chunk: Chunk) -> ElectionChunk:
    return ElectionChunk(
        number=number,
        partition_count=len(chunk.partitions),
        imbalance_after=chunk.imbalance_after,
        election=LeaderElectionFile(partitions=[each._asdict() for each in chunk.partitions]),
    )


def blocked_answer(
    blocked: Mapping[Blocked, Sequence[TopicPartition]],
) -> list[BlockedElections]:
    """Return why elections cannot help, each with how many partitions and the first of them."""
    return [
        BlockedElections(
            reason=reason, partition_count=len(partitions), examples=_examples(partitions)
        )
        for reason, partitions in blocked.items()
    ]


def _examples(partitions: Sequence[TopicPartition]) -> list[Json]:
    return [each._asdict() for each in partitions[:EXAMPLES]]


def _shares(counts: Mapping[int, int]) -> list[BrokerShare]:
    return [BrokerShare(broker=broker, partition_count=count) for broker, count in counts.items()]
