"""Compare what real clusters did with what a rehearsal predicts for each operation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.kafka.ids import TopicPartition
from rehearsal.rehearse import rehearse
from rehearsal.report import RehearsedStep
from rehearsal.steps import Act
from tests.support.histories import Fold
from tests.support.recordings import Recording
from tests.support.scripted_operations import FailLogDir
from tests.support.watched import facts
from tests.support.znode_log import ZnodeLog

Shape = tuple[int | None, tuple[int, ...], tuple[int, ...]]
"""Leader, members of the ISR by id (their order is a race), replicas."""


@dataclass
class Comparison:
    """The operations of a recording, compared with their rehearsals."""

    operations: list[str] = field(default_factory=list)
    """The operations that were compared."""
    partitions: int = 0
    """Partitions that were compared, over all of them."""
    changed: int = 0
    differences: list[str] = field(default_factory=list)


def compare(recording: Recording) -> Comparison:
    """Rehearse each operation on the views before it, and compare with the views after it.

    Operations that cannot be rehearsed are left out, and all operations after a failed log
    directory or during a reassignment, whose progress ZooKeeper does not show.
    """
    log, fold, found = ZnodeLog("prod"), Fold(), Comparison()
    fold.feed(log.resync())
    for operation, commits in recording.segments():
        before = facts(fold)
        fold.feed(log.follow(commits))
        if isinstance(operation, FailLogDir):
            break
        is_moving = any(p.reassigning or p.deleting for p in before[0])
        if (
            isinstance(operation, get_args(Act))
            and before[1].controller in before[1].live
            and not is_moving
        ):
            _compare(operation, before, facts(fold), found)
    return found


def _compare(
    operation: Act,
    before: tuple[list[PartitionFacts], ClusterFacts],
    after: tuple[list[PartitionFacts], ClusterFacts],
    found: Comparison,
) -> None:
    (partitions, cluster), (partitions_then, then) = before, after
    step = rehearse(cluster, partitions, [operation]).steps[0]
    said, real = _said(partitions, step), {p.id: _shape(p) for p in partitions_then}
    found.operations.append(step.operation)
    found.partitions += len(said.keys() | real.keys())
    found.changed += step.changes.count
    for id_ in sorted(said.keys() | real.keys()):
        if said.get(id_) != real.get(id_):
            text = f"{step.operation}: {id_}: rehearsed {said.get(id_)}, real {real.get(id_)}"
            found.differences.append(text)
    may_be = step.controller_candidates or (step.controller,)
    if then.controller not in may_be or then.controller_epoch != step.controller_epoch:
        text = f"{step.operation}: controller {then.controller} epoch {then.controller_epoch}"
        found.differences.append(f"{text}; rehearsed {may_be} epoch {step.controller_epoch}")


def _said(partitions: list[PartitionFacts], step: RehearsedStep) -> dict[TopicPartition, Shape]:
    """Return the state of each partition after a step."""
    shapes = {partition.id: _shape(partition) for partition in partitions}
    for change in step.changes.partitions:
        id_ = TopicPartition(change.topic, change.partition)
        if change.deleted:
            del shapes[id_]
        else:
            shapes[id_] = change.leader, tuple(sorted(change.isr)), change.replicas
    return shapes


def _shape(partition: PartitionFacts) -> Shape:
    return partition.leader, tuple(sorted(partition.isr)), partition.replicas
