"""Rehearse steps: return what the controller would do in each of them.

The simulated controller decides, and this module only records what it wrote, elected and
sent. So every answer is Kafka's own, as far as the facts are true; what they do not hold is listed.

>>> from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
>>> from rehearsal.steps import read_step
>>> facts = ClusterFacts(live=frozenset({1, 2}), controller=1, controller_epoch=7)
>>> led = PartitionFacts(topic="t", partition=0, replicas=(1, 2), leader=1, isr=(1, 2))
>>> rehearsed = rehearse(facts, [led], [read_step("kill-broker:1")])
>>> [(change.leader, change.isr) for change in rehearsed.steps[0].changes.partitions]
[(2, (2,))]
"""

import contextlib
import gc
from collections.abc import Iterable, Iterator, Sequence

from controller_model.insight.pending_writes import list_pending_writes
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.kafka.errors import UnreadableZnodeError
from controller_model.kafka.ids import NO_CONTROLLER, NO_LEADER
from controller_model.records.views import Capability
from controller_model.records.visibility import REHEARSALS
from controller_simulator.cluster.operations import Reassign
from controller_simulator.cluster.simulator import ZooKeeperModeSimulator
from rehearsal.build_cluster import RehearsedChoices, build_cluster
from rehearsal.failover import LastFailover
from rehearsal.observer import StepObserver
from rehearsal.outages import Outages
from rehearsal.races import races_of
from rehearsal.rehearsed_cluster import RehearsedCluster
from rehearsal.report import Changes, LeadersMoved, OutageList, Rehearsal, RehearsedStep, listed
from rehearsal.steps import Act, Step, operations_of, refusal_of_tool, step_text
from rehearsal.unknown import unknown_of

_NEVER = 1_000_000
"""Collections of the middle generation before one of the oldest: more than a rehearsal causes."""


IN_KRAFT = (
    "a KRaft controller runs the cluster, and only the controller of ZooKeeper mode can be rehearsed: "
    "kcm what-if says what the loss of brokers would break"
)


class CannotRehearseError(Exception):
    """There is no controller to rehearse, or it could not go on from the state that it finds."""


def rehearse(
    facts: ClusterFacts,
    partitions: Iterable[PartitionFacts],
    steps: Sequence[Step],
    *,
    last_failover: LastFailover | None = None,
    is_zombie: bool = False,
) -> Rehearsal:
    """Return what the controller would do; raise CannotRehearseError if there is none, or it cannot go on.

    `partitions` must be grouped by topic. `last_failover` is this cluster's last one, None if it is
    not known. A controller that is a zombie does nothing until another one is elected, which then makes
    the pending writes (KafkaController.onControllerFailover).
    """
    if facts.is_kraft:
        raise CannotRehearseError(IN_KRAFT)
    if not REHEARSALS.isdisjoint(facts.hidden):
        lacking = [each.replace("_", " ") for each in Capability if each in facts.hidden]
        raise CannotRehearseError(
            f"not known: the figures lack {', '.join(lacking)}, which the watcher may not read"
        )
    if facts.controller not in facts.live:
        raise CannotRehearseError(
            "no live broker is the controller now: rehearse again when one is elected"
        )
    if facts.is_refused:
        raise CannotRehearseError(
            f"brokers refuse a controller with an epoch below {facts.refused_below}, because the epoch went back: "
            "rehearse again when it is that again, or when all brokers have restarted"
        )
    try:
        with _without_full_collections():
            return _Run(facts, list(partitions), last_failover, is_zombie).perform_steps(steps)
    except UnreadableZnodeError as error:
        raise CannotRehearseError(
            f"the controller would write what Kafka cannot read ({error}): an epoch is near 2147483647, the "
            "largest; rehearse on a log without it"
        ) from None


@contextlib.contextmanager
def _without_full_collections() -> Iterator[None]:
    """Suspend automatic garbage collections of the oldest generation.

    Such a collection examines every object: it takes a quarter of a large rehearsal, and pauses everything else in
    the process. Younger generations, with the cycles of other code, are collected as usual. Of the
    rehearsal's own objects only a controller that has resigned is in a cycle, with its memory: it is
    collected before the next operation.
    """
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, max(old, _NEVER))
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)


class _Run:
    """A rehearsal in progress."""

    def __init__(
        self,
        facts: ClusterFacts,
        partitions: list[PartitionFacts],
        last_failover: LastFailover | None,
        is_zombie: bool,
    ) -> None:
        self._last_failover = last_failover
        self._is_zombie = is_zombie
        self._cluster = build_cluster(facts, partitions, is_zombie=is_zombie)
        self._rehearsed = RehearsedCluster(facts, partitions, self._cluster)
        # Of a partition whose elections are aborted, only a removal that is not due yet is not under way.
        if not is_zombie:
            self._rehearsed.remove_dead_members(
                each.id for each in partitions if not facts.aborts_elections(each)
            )
        made = len(self._rehearsed.observe_changes().changes)
        pending = list_pending_writes(partitions, facts) if is_zombie else ()
        self._pending_writes = made + sum(write.sure for write in pending)
        self._outages = Outages(self._rehearsed)

    def perform_steps(self, steps: Sequence[Step]) -> Rehearsal:
        """Perform all steps, and return what they did."""
        outcomes: list[RehearsedStep] = []
        unknown = unknown_of(self._rehearsed.facts, self._rehearsed.partitions.values(), steps)
        for step in steps:
            facts = self._rehearsed.facts
            for operation in operations_of(step, facts.live, facts.controller):
                if outcomes and outcomes[-1].controller_candidates:
                    gc.collect()
                outcomes.append(self._perform(len(outcomes) + 1, operation))
        return Rehearsal(
            steps=tuple(outcomes),
            outages=OutageList(count=len(self._outages.all), outages=self._outages.all),
            pending_writes=self._pending_writes,
            is_zombie=self._is_zombie,
            unknown=unknown,
        )

    def _perform(self, number: int, operation: Act) -> RehearsedStep:
        cluster, rehearsed = self._cluster, self._rehearsed
        before = rehearsed.facts
        leaderless = {id_ for id_, each in rehearsed.partitions.items() if each.leader == NO_LEADER}
        observer = StepObserver(cluster)
        begin = len(cluster.commits)
        refused = None
        if isinstance(operation, Reassign):
            topics = {id_.topic for id_ in rehearsed.partitions}
            refused = refusal_of_tool(operation, before.live, topics)
        refused = refused or cluster.perform(operation)
        rehearsed.remove_dead_members()
        candidates = _pop_candidates(cluster)
        seen = rehearsed.observe_changes()
        self._outages.apply_changes(number, seen)
        now = rehearsed.facts
        return RehearsedStep(
            number=number,
            operation=step_text(operation),
            refused=refused,
            controller_before=_known(before.controller),
            controller=_known(now.controller),
            controller_epoch=now.controller_epoch,
            controller_candidates=candidates,
            elections=observer.elections,
            leaders_moved=tuple(
                LeadersMoved(broker=broker, partition_count=count)
                for broker, count in seen.leaders_moved.items()
            ),
            changes=Changes(count=len(seen.changes), partitions=seen.changes),
            went_offline=listed(seen.went_offline),
            came_online=listed(rehearsed.led(seen.offline_ended)),
            leaderless_meanwhile=listed(seen.leaderless_meanwhile),
            went_under_min_isr=listed(seen.went_under_min_isr),
            left_under_min_isr=listed(rehearsed.led(seen.under_min_isr_ended)),
            min_isr_unknown=listed(seen.min_isr_unknown),
            unclean=listed(observer.unclean),
            unclean_unknown=listed(rehearsed.unclean_unknown(seen.went_offline)),
            not_reassigned=listed(
                rehearsed.not_on_target(operation) if isinstance(operation, Reassign) else ()
            ),
            requests=observer.requests,
            zookeeper_writes=sum(len(commit.writes) for commit in cluster.commits[begin:]),
            failover=observer.failover(self._last_failover, leaderless),
            races=tuple(races_of(operation, candidates, _known(now.controller), observer)),
        )


def _pop_candidates(cluster: ZooKeeperModeSimulator) -> tuple[int, ...]:
    """Return who could have become controller, in the last race if there were several; clear the record."""
    choices = cluster.choices
    if not isinstance(choices, RehearsedChoices) or not choices.raced:
        return ()
    candidates = choices.raced[-1]
    choices.raced.clear()
    return candidates


def _known(controller: int) -> int | None:
    return None if controller == NO_CONTROLLER else controller
