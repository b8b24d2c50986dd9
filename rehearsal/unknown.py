"""What a rehearsal's outcome may depend on, and ZooKeeper does not hold.

The rule: nothing is assumed silently. Where a rehearsal has to assume something to continue (a
follower that is out of the ISR stays out, brokers do not rebalance by themselves) it is listed here.
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
            text="the request is under way, or waits for a controller; the rehearsal leaves it out: begin "
            "again once the znode is gone",
        )


_MIN_ISR = Unknown(
    what="min.insync.replicas",
    text="it stands in the brokers' own files, so whether they fall below it is not known (kcm doctor "
    "says how to set min_insync_replicas)",
)
_UNCLEAN = Unknown(
    what="unclean.leader.election.enable",
    text="it stands in the brokers' own files; the rehearsal holds no unclean election of them, and "
    "names those that might get one",
)
_LAGGING = Unknown(
    what="followers out of the ISR",
    text="whether live replicas that are out of the ISR catch up is not known; the rehearsal leaves "
    "them out",
)
_REASSIGNING = Unknown(
    what="reassignments under way",
    text="how far the copies are is not known; the rehearsal leaves them as they are",
)
_ALWAYS = (
    Unknown(
        what="auto.leader.rebalance.enable",
        text="stands in the brokers' own files: where it is on, which is Kafka's default, the "
        "controller may hold preferred elections within minutes; the rehearsal holds none by itself",
    ),
    Unknown(
        what="log directories",
        text="which of them have failed only the brokers know: the rehearsal takes all for good",
    ),
)
_CONTROLLED_SHUTDOWN = Unknown(
    what="controlled.shutdown.enable",
    text="stands in the brokers' own files: where it is off, a stop is a kill that ends its session",
)
_DELETE_TOPIC = Unknown(
    what="delete.topic.enable",
    text="stands in the brokers' own files: where it is off, the deletion is refused",
)
