"""What a rehearsal's outcome may depend on and ZooKeeper does not hold.

Nothing is assumed silently. Each assumption of a rehearsal (a follower that is out of the ISR
stays out, brokers do not rebalance by themselves) is listed here.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from controller_model.insight.wording import counted
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_simulator.cluster.operations import DeleteTopic, StopBroker
from rehearsal.build_cluster import lagging
from rehearsal.report import Unknown
from rehearsal.steps import RollingRestart, Step


def unknown_of(
    facts: ClusterFacts, partitions: Iterable[PartitionFacts], steps: Sequence[Step]
) -> tuple[Unknown, ...]:
    """Return what is not known of a cluster in which these steps are rehearsed."""
    asked = {type(step) for step in steps}
    found = [*_of_partitions(facts, list(partitions)), *_of_requests(facts), *_ALWAYS]
    if asked & {StopBroker, RollingRestart}:
        found.append(_CONTROLLED_SHUTDOWN)
    if DeleteTopic in asked:
        found.append(_DELETE_TOPIC)
    return tuple(found)


def _of_partitions(
    facts: ClusterFacts, partitions: Collection[PartitionFacts]
) -> Iterable[Unknown]:
    known: dict[Unknown, Callable[[PartitionFacts], bool]] = {
        _MIN_ISR: lambda p: not p.counts or facts.min_isr_of(p) is not None,
        _UNCLEAN: lambda p: p.deleting or facts.is_unclean_known(p),
        _LAGGING: lambda p: not lagging(facts, p),
        _REASSIGNING: lambda p: not p.reassigning,
    }
    for unknown, is_known in known.items():
        count = sum(not is_known(partition) for partition in partitions)
        if count:
            text = f"{counted(count, 'partition')}: {unknown.text}"
            yield Unknown(what=unknown.what, text=text)


def _of_requests(facts: ClusterFacts) -> Iterable[Unknown]:
    for path in facts.requests:
        yield Unknown(
            what=path,
            text="the request is under way or waits for a controller; the rehearsal ignores it: rehearse again when "
            "the znode is deleted",
        )


_MIN_ISR = Unknown(
    what="min.insync.replicas",
    text="set in the brokers' own files, so whether they fall below it is not known (kcm doctor says how to "
    "set min_insync_replicas)",
)
_UNCLEAN = Unknown(
    what="unclean.leader.election.enable",
    text="set in the brokers' own files; the rehearsal assumes false, and lists the partitions that might "
    "get an unclean leader",
)
_LAGGING = Unknown(
    what="followers out of the ISR",
    text="whether live replicas that are out of the ISR catch up is not known; the rehearsal assumes that "
    "they do not",
)
_REASSIGNING = Unknown(
    what="reassignments under way",
    text="the progress of the copies is not known; the rehearsal assumes that they make no progress",
)
_ALWAYS = (
    Unknown(
        what="auto.leader.rebalance.enable",
        text="set in the brokers' own files; if it is true (Kafka's default), the controller may hold preferred "
        "elections within minutes; the rehearsal assumes false",
    ),
    Unknown(
        what="log directories",
        text="only the brokers know which have failed; the rehearsal assumes that none has",
    ),
)
_CONTROLLED_SHUTDOWN = Unknown(
    what="controlled.shutdown.enable",
    text="set in the brokers' own files; if it is false, a stop acts like a kill that ends the session at once; the rehearsal assumes true",
)
_DELETE_TOPIC = Unknown(
    what="delete.topic.enable",
    text="set in the brokers' own files; if it is false, the deletion is refused; the rehearsal assumes true",
)
