"""Answer recommendations and what-ifs in the API's terms, from the model's insights.

Partitions are counted, and a bounded number of them is named. Only the elections of a
recommendation are all listed, because they are there to be run; those are answered in pages.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from controller_model.insight.commands import kafka_election
from controller_model.insight.loss import Loss, StopRisk, lose, lose_each, lose_groups, safety
from controller_model.insight.pairs import lose_pairs
from controller_model.insight.quorum_loss import QuorumLoss, QuorumState, lose_controllers
from controller_model.insight.rebalance import (
    AutoRebalance,
    Blocked,
    Chunk,
    NextRebalance,
    Recommendation,
    next_check_at,
    next_rebalance,
    recommend,
)
from controller_model.kafka.cluster_facts import ClusterFacts
from controller_model.kafka.ids import TopicPartition, broker_address
from controller_model.records.recommendations import RebalanceSummary
from controller_model.records.views import BrokerView
from exporter.api.answers import (
    BlockedElections,
    BrokerShare,
    ElectionChunk,
    Json,
    LeaderElectionFile,
    LossAnswer,
    LossReason,
    NextCheck,
    Recommendations,
    StopSafety,
    Triggered,
    WhatIf,
)
from exporter.api.cluster_answers import by_name
from exporter.core.parameters import whole_number
from exporter.core.records import ClusterSnapshot

EXAMPLES = 20
"""Most partitions named for one reason; their total number is given next to them."""

MAX_PAIRS = 20
"""Most pairs of brokers listed, the worst first; their total number is given next to them."""

_DIGEST_BYTES = 6
"""Bytes of a recommendation's digest: enough that two successive recommendations never share one."""


class IdentifiedRecommendation(NamedTuple):
    """A recommendation, and a digest that no other one has."""

    recommendation: Recommendation
    digest: str


def recommendation_of(
    snapshot: ClusterSnapshot, facts: ClusterFacts, broker: int | None
) -> IdentifiedRecommendation:
    """Return which preferred elections to run, for one broker or (None) for all."""
    partitions = snapshot.all_partitions()
    if broker is not None:
        partitions = (each for each in partitions if each.preferred == broker)
    recommendation = recommend(partitions, facts)
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for chunk in recommendation.chunks:
        digest.update(chunk.json.encode())
    return IdentifiedRecommendation(recommendation, digest.hexdigest())


def read_chunk_cursor(text: str) -> tuple[int, str | None]:
    """Return the chunk after which a page begins, and the digest of its recommendation.

    A digest of None means the current recommendation. Raises ValueError for any other text.

    >>> read_chunk_cursor("20/5e0fbc1a93d7"), read_chunk_cursor("3")
    ((20, '5e0fbc1a93d7'), (3, None))
    """
    number, slash, digest = text.partition("/")
    if slash and not digest:
        raise ValueError(text)
    return whole_number(number), digest or None


def rebalance_of(snapshot: ClusterSnapshot, facts: ClusterFacts) -> NextRebalance:
    """Return what the next automatic rebalance of the controller would do."""
    rebalance = snapshot.view.rebalance or RebalanceSummary()
    assumed = AutoRebalance(
        auto_leader_rebalance_enable=rebalance.auto_leader_rebalance,
        leader_imbalance_per_broker_percentage=rebalance.threshold_percentage,
    )
    return next_rebalance(snapshot.all_partitions(), facts, assumed)


def recommendations_answer(
    snapshot: ClusterSnapshot,
    identified: IdentifiedRecommendation,
    check: NextRebalance,
    *,
    broker: int | None,
    shown: slice,
    now: int,
) -> Recommendations:
    """Return the `shown` chunks of a recommendation, and what the next automatic rebalance would do."""
    recommendation, digest = identified
    chunks = recommendation.chunks
    controller, triggered = snapshot.view.controller, snapshot.recommendation
    elected_at = None if controller is None else controller.elected_at
    servers = (
        broker_address(each.host, each.port)
        for each in (broker.record for broker in snapshot.brokers.values())
        if each.live and each.host and each.port
    )
    server = next(servers, None)
    at = None
    if elected_at is not None and snapshot.view.has_zookeeper:
        at = next_check_at(elected_at, now, check.assumed)
    return Recommendations(
        broker=broker,
        imbalance_before=recommendation.imbalance_before,
        imbalance_after=recommendation.imbalance_after,
        partition_count=sum(len(chunk.partitions) for chunk in chunks),
        chunk_count=len(chunks),
        chunks=[_chunk(number, each) for number, each in enumerate(chunks[shown], shown.start + 1)],
        next=f"{shown.stop}/{digest}" if shown.stop < len(chunks) else None,
        brokers=recommendation.brokers,
        blocked=_blocked(recommendation.blocked),
        bootstrap_server=server,
        command=kafka_election(server),
        next_rebalance=NextCheck(
            assumed=check.assumed,
            at_earliest=at,
            exceeding=check.exceeding,
            elects=len(check.elect),
            blocked=_blocked(check.blocked),
        ),
        triggered=Triggered(
            standing=triggered and triggered.standing and by_name(triggered.standing),
            graded=[by_name(grade) for grade in triggered.graded] if triggered else [],
        ),
    )


def _chunk(number: int, chunk: Chunk) -> ElectionChunk:
    return ElectionChunk(
        number=number,
        partition_count=len(chunk.partitions),
        imbalance_after=chunk.imbalance_after,
        election=LeaderElectionFile(partitions=[each._asdict() for each in chunk.partitions]),
    )


def loss_of(
    snapshot: ClusterSnapshot, facts: ClusterFacts, brokers: Collection[int], racks: Sequence[str]
) -> WhatIf:
    """Return what the loss of all these brokers at once would do; `racks` names the racks among them."""
    loss = lose(snapshot.all_partitions(), facts, brokers)
    return _what_if([loss_answer(loss, facts, brokers, racks=racks)])


def loss_of_each_broker(snapshot: ClusterSnapshot, facts: ClusterFacts) -> WhatIf:
    """Return what the loss of each live broker alone would do."""
    found = lose_each(snapshot.all_partitions(), facts)
    return _what_if([loss_answer(loss, facts, (broker,)) for broker, loss in found.items()])


def loss_of_each_rack(snapshot: ClusterSnapshot, facts: ClusterFacts) -> WhatIf:
    """Return what the loss of each rack would do; brokers without a rack are left out."""
    racks = sorted({rack for b in facts.live if (rack := facts.racks.get(b)) is not None})
    in_rack = {rack: facts.in_rack(rack) for rack in racks}
    found = lose_groups(snapshot.all_partitions(), facts, in_rack)
    return _what_if([loss_answer(loss, facts, in_rack[r], racks=[r]) for r, loss in found.items()])


def loss_of_each_pair(snapshot: ClusterSnapshot, facts: ClusterFacts) -> WhatIf:
    """Return the worst pairs of brokers that break more together than apart, and how many such pairs there are."""
    found = lose_pairs(snapshot.all_partitions, facts, most=MAX_PAIRS)
    losses = [
        loss_answer(
            pair.loss,
            facts,
            pair.loss.brokers,
            beyond_members={
                str(risk): None
                if risk is StopRisk.UNDER_MIN_ISR and pair.loss.min_isr_unknown
                else n
                for risk, n in pair.beyond.items()
            },
        )
        for pair in found.worst
    ]
    return _what_if(losses, found.count)


def _what_if(losses: list[LossAnswer], pair_count: int | None = None) -> WhatIf:
    return WhatIf(losses=losses, pair_count=pair_count, quorum=None)


LOSS_OF_EACH = {"broker": loss_of_each_broker, "rack": loss_of_each_rack, "pair": loss_of_each_pair}


def with_quorum(
    found: WhatIf, state: QuorumState, controllers: Collection[int] = (), *, margin: int
) -> WhatIf:
    """Return an answer about brokers together with what each loss does to the quorum.

    A broker that is a controller, too, is lost as both; `controllers` are lost besides.
    """
    losses = []
    for loss in found.losses:
        lost = state.ids.intersection({*loss.brokers, *controllers})
        losses.append(
            _with_quorum_loss(loss, lose_controllers(state, lost, margin=margin)) if lost else loss
        )
    return msgspec.structs.replace(found, losses=losses, quorum=state)


def _with_quorum_loss(loss: LossAnswer, quorum: QuorumLoss) -> LossAnswer:
    """Return a loss that is safe only if it is for the partitions and for the quorum."""
    reasons = [each for each in loss.reasons if each.risk is not StopRisk.NOT_LIVE]
    is_broker = len(reasons) == len(loss.reasons)
    both = {quorum.safe, loss.safe} if is_broker else {quorum.safe}
    safe = False if False in both else (None if None in both else True)
    return msgspec.structs.replace(loss, safe=safe, reasons=reasons, quorum=quorum)


def of_controllers_only() -> WhatIf:
    """Return the answer for nodes that are no brokers: no partition is harmed."""
    nothing = LossAnswer(
        brokers=[],
        racks=[],
        safe=True,
        reasons=[],
        notes=(),
        offline=0,
        stranded=0,
        under_min_isr=0,
        min_isr_unknown=0,
        unclean=0,
        leaders_moved=[],
        leaders_after=[],
        beyond_members=None,
        quorum=None,
    )
    return _what_if([nothing])


def loss_of_each_controller(
    of_brokers: WhatIf, state: QuorumState, *, margin: int, with_brokers: bool
) -> WhatIf:
    """Return what the loss of each controller alone would do, by the answer for each broker; with all brokers, if wanted."""
    both = {each for loss in of_brokers.losses for each in loss.brokers}
    losses = [
        loss
        for loss in with_quorum(of_brokers, state, margin=margin).losses
        if with_brokers or loss.quorum is not None
    ]
    for controller in sorted(state.ids - both):
        alone = with_quorum(of_controllers_only(), state, (controller,), margin=margin)
        losses += alone.losses
    return WhatIf(losses=losses, pair_count=None, quorum=state)


def loss_answer(
    loss: Loss,
    facts: ClusterFacts,
    brokers: Collection[int],
    *,
    racks: Sequence[str] = (),
    beyond_members: dict[str, int | None] | None = None,
) -> LossAnswer:
    """Return the answer for one loss: whether it is safe, and what it would do."""
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
        under_min_isr=None if loss.min_isr_unknown else len(loss.under_min_isr),
        min_isr_unknown=len(loss.min_isr_unknown),
        unclean=len(loss.unclean),
        leaders_moved=_shares(loss.moved),
        leaders_after=_shares(loss.leaders_after),
        beyond_members=beyond_members,
        quorum=None,
    )


MORE_MAY_BREAK = (
    "more may break than is counted: ISRs hold several brokers that are gone, brokers differ in "
    "min.insync.replicas, or some of the cluster cannot be seen"
)


QUORUM_BREAKS = "it is a controller, too, and the quorum would have no majority without it"

QUORUM_NOT_KNOWN = (
    "it is a controller, too, and it is not known which of the others are caught up (kcm what-if "
    "says why)"
)

MIN_ISR_NOT_KNOWN = (
    "min.insync.replicas is not known: it is set in the brokers' own files (setting "
    "min_insync_replicas)"
)


def safe_to_stop(broker: BrokerView) -> StopSafety:
    """Return whether a broker may be stopped, by the counts that the fold keeps; `safe` is None where it is not known."""
    if broker.record.live is False:
        return StopSafety(
            safe=None, why="not registered", offline=0, under_min_isr=0, stranded=0, unclean=0
        )
    why = None
    if broker.quorum_keeps_majority is False:
        why = QUORUM_BREAKS
    elif broker.safe_to_stop is None:
        why = MIN_ISR_NOT_KNOWN if broker.min_isr_unknown_if_lost else MORE_MAY_BREAK
        if not broker.more_if_lost:
            why = QUORUM_NOT_KNOWN
    return StopSafety(
        safe=broker.safe_to_stop,
        why=why,
        offline=broker.offline_if_lost,
        under_min_isr=broker.under_min_isr_if_lost,
        stranded=broker.stranded_if_lost,
        unclean=broker.unclean_if_lost,
    )


def _blocked(blocked: Mapping[Blocked, Sequence[TopicPartition]]) -> list[BlockedElections]:
    """Return the reasons why elections cannot help, each with its number of partitions and the first of them."""
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
