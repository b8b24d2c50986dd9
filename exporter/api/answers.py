"""Define the answers of /api/v1 as records: the name of each field, and what it may hold.

An answer is made from its record, and so is its schema in the OpenAPI document; the two
cannot differ. The model's own records (a cluster, a broker, an event) are referred to by the name of
their schema, because the API writes parts of them differently: numbers of 64 bits as text, partitions
by name. Within v1 fields may be added; none is renamed or removed.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from controller_model.insight.flapping import BlamedBroker, FlappingPartition
from controller_model.insight.loss import StopRisk
from controller_model.insight.pending_writes import PendingWrite
from controller_model.insight.quorum_loss import QuorumLoss, QuorumState
from controller_model.insight.rebalance import AutoRebalance, Blocked, BrokerElections
from controller_model.records.completeness import Completeness
from controller_model.records.incidents import Incident
from controller_model.records.pending_writes import ControllerHealth
from controller_model.records.views import Counts
from exporter.partitions.partition_pages import PartitionDetail, TopicSummary
from rehearsal.report import OutageList, RehearsedStep, Unknown

Json = dict[str, Any]

SCHEMAS = "#/components/schemas/"
"""Where the OpenAPI document holds the schemas."""

Long = Annotated[str, Meta(description="A number of 64 bits, as text.")]
NextPage = Annotated[str, Meta(description="The `after` of the next page; null: the end.")]

# What the API writes differently from the model; see `exporter.api.openapi`.
BrokerWords = Annotated[Any, Meta(extra_json_schema={"$ref": f"{SCHEMAS}BrokerAndSafety"})]
EventWords = Annotated[Any, Meta(extra_json_schema={"$ref": f"{SCHEMAS}Event"})]
RecommendedWords = Annotated[Any, Meta(extra_json_schema={"$ref": f"{SCHEMAS}Recommended"})]
GradeWords = Annotated[Any, Meta(extra_json_schema={"$ref": f"{SCHEMAS}Grade"})]
PartitionName = Annotated[Any, Meta(extra_json_schema={"$ref": f"{SCHEMAS}TopicPartition"})]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an answer."""


class Root(Answer, frozen=True, kw_only=True):
    """Where to begin. Both are relative to the address of this answer."""

    openapi: str
    clusters: str


class Problem(Answer, frozen=True, kw_only=True):
    """An error as RFC 9457 defines it."""

    type: str
    title: str
    status: int
    detail: str


class Place(Answer, frozen=True, kw_only=True):
    """Up to which change of the log an answer holds."""

    lineage: str
    generation: Long
    seq: int


class AboutCluster(Answer, frozen=True, kw_only=True):
    """The fields with which each answer about a cluster begins, before its own."""

    name: str
    as_of: Place
    completeness: Completeness


class SummaryController(Answer, frozen=True, kw_only=True):
    """The controller of a cluster in the list of clusters."""

    id: int | None
    """-1: nobody; None: not known."""
    epoch: int | None


class Summary(Answer, frozen=True, kw_only=True):
    """A cluster in the list of clusters."""

    name: str
    href: Annotated[str, Meta(description="Relative to the address of this answer.")]
    completeness: Completeness
    controller: SummaryController
    elections: int | None
    brokers_live: tuple[int, ...] | None
    counts: Counts


class Clusters(Answer, frozen=True, kw_only=True):
    """The clusters."""

    clusters: list[Summary]
    next: NextPage | None


class StopSafety(Answer, frozen=True, kw_only=True):
    """Whether a broker may be stopped, and how many partitions that would harm."""

    safe: bool | None
    """None: it is not known."""
    why: str | None
    offline: int | None
    under_min_isr: int | None
    stranded: int | None
    unclean: int | None
    """As a what-if counts them; None: it is not known."""


class Brokers(Answer, frozen=True, kw_only=True):
    """A page of brokers."""

    brokers: list[BrokerWords]
    next: NextPage | None


class Topics(Answer, frozen=True, kw_only=True):
    """A page of topics."""

    topics: list[TopicSummary]
    next: NextPage | None


class Partitions(Answer, frozen=True, kw_only=True):
    """A page of partitions."""

    partitions: list[PartitionDetail]
    next: NextPage | None


class PartitionsFound(Answer, frozen=True, kw_only=True):
    """A page of the partitions that a search found."""

    matched: Annotated[int, Meta(description="Partitions of the whole cluster that fit.")]
    partitions: list[PartitionDetail]
    next: NextPage | None


class Events(Answer, frozen=True, kw_only=True):
    """A page of events."""

    events: list[EventWords]
    older: Annotated[str, Meta(description="The `before` of older events.")] | None
    newer: Annotated[str, Meta(description="The `after` of newer events.")] | None
    held_from: (
        Annotated[int, Meta(description="When the oldest event was that is still held.")] | None
    )


class Incidents(Answer, frozen=True, kw_only=True):
    """The newest incidents."""

    total: int
    incidents: tuple[Incident, ...]


class BlockedElections(Answer, frozen=True, kw_only=True):
    """Partitions whose preferred replica cannot be elected: how many, and the first of them."""

    reason: Blocked
    partition_count: int
    examples: list[PartitionName]


class LeaderElectionFile(Answer, frozen=True, kw_only=True):
    """The content of a file for kafka-leader-election.sh (--path-to-json-file)."""

    partitions: list[PartitionName]


class ElectionChunk(Answer, frozen=True, kw_only=True):
    """A part of a recommendation, small enough for one run."""

    number: int
    partition_count: int
    imbalance_after: int
    election: LeaderElectionFile


class NextCheck(Answer, frozen=True, kw_only=True):
    """What the next automatic rebalance of the controller would do."""

    assumed: AutoRebalance
    at_earliest: int | None
    exceeding: tuple[int, ...]
    elects: int
    blocked: list[BlockedElections]


class Triggered(Answer, frozen=True, kw_only=True):
    """The recommendation that the monitor made by itself, and the grades of earlier ones."""

    standing: RecommendedWords | None
    graded: list[GradeWords]


class Recommendations(Answer, frozen=True, kw_only=True):
    """A page of a recommendation, and what the controller's automatic rebalance would do."""

    broker: int | None
    imbalance_before: int
    imbalance_after: int
    partition_count: int
    chunk_count: int
    chunks: list[ElectionChunk]
    next: NextPage | None
    brokers: tuple[BrokerElections, ...]
    blocked: list[BlockedElections]
    bootstrap_server: str | None
    """The address of a live broker; None: none is known."""
    command: str
    next_rebalance: NextCheck
    triggered: Triggered


class LossReason(Answer, frozen=True, kw_only=True):
    """Why brokers must not be lost: how many partitions, and the first of them."""

    risk: StopRisk
    text: str
    partition_count: int
    examples: list[PartitionName]


class BrokerShare(Answer, frozen=True, kw_only=True):
    """How many partitions a broker takes over, or leads after the loss."""

    broker: int
    partition_count: int


class LossAnswer(Answer, frozen=True, kw_only=True):
    """What the loss of brokers and controllers would do."""

    brokers: list[int]
    racks: list[str]
    safe: bool | None
    reasons: list[LossReason]
    notes: tuple[str, ...]
    offline: int
    stranded: int
    under_min_isr: Annotated[int, Meta(description="Null: not known of some partitions.")] | None
    min_isr_unknown: Annotated[
        int, Meta(description="Partitions of which it is not known whether they fall below it.")
    ]
    unclean: int
    leaders_moved: list[BrokerShare]
    leaders_after: list[BrokerShare]
    beyond_members: (
        Annotated[
            dict[str, int | None],
            Meta(description="Of a pair: partitions that only the loss of both would harm."),
        ]
        | None
    )
    quorum: (
        Annotated[QuorumLoss, Meta(description="Null: no controller of a KRaft quorum is lost.")]
        | None
    )


class WhatIf(Answer, frozen=True, kw_only=True):
    """What would break if brokers, or controllers of a KRaft quorum, were lost now."""

    losses: list[LossAnswer]
    quorum: Annotated[QuorumState, Meta(description="Null: not a KRaft cluster.")] | None
    pair_count: (
        Annotated[int, Meta(description="Pairs that break more together than apart.")] | None
    )


class RehearsalAnswer(Answer, frozen=True, kw_only=True):
    """What the controller would do, operation by operation."""

    steps: tuple[RehearsedStep, ...]
    outages: OutageList
    pending_writes: Annotated[
        int, Meta(description="Partitions with pending writes before the first step.")
    ]
    is_zombie: Annotated[
        bool, Meta(description="The controller is a zombie: the next one makes the pending writes.")
    ]
    unknown: tuple[Unknown, ...]


class Flapping(Answer, frozen=True, kw_only=True):
    """What changed again and again within a window: ISRs, and the controller."""

    since: int
    until: int
    held_from: (
        Annotated[
            int,
            Meta(description="When the oldest event was that is held; before it nothing is known."),
        ]
        | None
    )
    times: Annotated[int, Meta(description="How many times within the window is flapping.")]
    partition_count: Annotated[int, Meta(description="Partitions whose ISR flaps.")]
    partitions: tuple[FlappingPartition, ...]
    blames: tuple[BlamedBroker, ...]
    unexplained: int
    unexplained_partition_count: Annotated[
        int, Meta(description="Partitions in which replicas left for an unknown reason.")
    ]
    controller_flaps: bool | None
    controller_elections: (
        Annotated[
            int,
            Meta(
                description="By ZooKeeper's times and since counting began, as "
                "kafka_controller_recent_elections counts them. Null: not known, as the two beside it."
            ),
        ]
        | None
    )
    controller_changes: Annotated[int, Meta(description="Elections of another broker.")] | None


class PendingWritesAnswer(Answer, frozen=True, kw_only=True):
    """The controller's pending writes."""

    health: ControllerHealth
    pending_since: int | None
    counts: Annotated[dict[str, int], Meta(description="By kind; those without partitions too.")]
    partition_count: int
    writes: list[PendingWrite]


ANSWERS = tuple(Answer.__subclasses__())
"""All records of this module."""
