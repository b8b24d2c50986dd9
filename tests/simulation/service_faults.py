"""The faults around the fold's service, by name.

The rule is that of `faults`; what is planned here for later queries ends when all faults are ended.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from streaming.failures import FailureKind
from tests.simulation.spark import TROUBLES, Way, newest_batch
from tests.simulation.stage import has_idle_partition

if TYPE_CHECKING:
    from tests.simulation.service import ServicedFold

OFTEN = 0.06
"""The share of the cluster's acts before which a fault occurs."""

DAMAGED = 0.01
"""The same for damage to a file of the checkpoint, in the seeds that have a partition that no cluster uses."""

_NESTED = 100_000

_HEALING = {FailureKind.KAFKA, FailureKind.WORKER, FailureKind.HUNG}
"""Failures that waiting cures."""

_HEALED = [name for name, trouble in TROUBLES.items() if trouble.kind in _HEALING]
_BLAMED = [name for name, trouble in TROUBLES.items() if trouble.kind not in _HEALING]


def queries_fail(fold: ServicedFold) -> bool:
    """Queries fail one after another: with failures that waiting cures, with others, or with both."""
    rng = fold.rng
    pool = rng.choice((_HEALED, _HEALED, _BLAMED, list(TROUBLES)))
    for _ in range(rng.randint(1, 6)):
        fold.troubles.append((TROUBLES[rng.choice(pool)], rng.choice((0, 0, 0, 1, 5))))
    return True


def failures_far_between(fold: ServicedFold) -> bool:
    """Failures of unknown cause are unrelated: batches end between them."""
    for _ in range(8):
        fold.troubles.append((TROUBLES[fold.rng.choice(("worker dies", "JVM dies"))], 3))
    return True


def kafka_away(fold: ServicedFold) -> bool:
    """The fold does not reach the pipeline's Kafka, and its queries may fail because of it."""
    rng = fold.rng
    fold.cut_off_until = fold.world.clock.now + rng.choice((2_000, 10_000, 40_000))
    if rng.random() < 0.7 and fold.query is not None and fold.query.works:
        fold.query.failure = TROUBLES[rng.choice(("Kafka is away", "Kafka's name is not known"))]
    return True


def jvm_dies(fold: ServicedFold) -> bool:
    """Spark's JVM is killed."""
    if fold.session is None or not fold.session.alive:
        return False
    fold.session.die()
    return True


def jvm_hangs(fold: ServicedFold) -> bool:
    """Spark's JVM does not answer."""
    if fold.session is None or not fold.session.alive:
        return False
    fold.session.is_silent = True
    return True


def start_fails(fold: ServicedFold) -> bool:
    """Spark's JVM dies, and the next one does not start, or hangs while it does."""
    fold.next_session = fold.rng.choice((Way.REFUSED, Way.SILENT))
    return jvm_dies(fold)


def disk_full(fold: ServicedFold) -> bool:
    """The disk of the checkpoint is full."""
    fold.full_until = fold.world.clock.now + fold.rng.choice((2_000, 20_000, 40_000))
    return True


def killed(fold: ServicedFold) -> bool:
    """The process is killed."""
    if not fold.is_up:
        return False
    fold.kill()
    return True


def stopped(fold: ServicedFold) -> bool:
    """The process gets SIGTERM and ends cleanly."""
    if not fold.is_up:
        return False
    fold.end_in_order()
    return True


def checkpoint_damaged(fold: ServicedFold) -> bool:
    """Nothing can be read from the checkpoint, however Spark reports it."""
    lineage = fold.judge.lineage
    if lineage is None:
        return False
    fold.damaged[lineage.name] = TROUBLES[fold.rng.choice(_BLAMED)]
    return True


def file_damaged(fold: ServicedFold) -> bool:
    """A power failure or a bad sector damages a file of the checkpoint; Spark notices by its checksums."""
    rng, lineage = fold.damages, fold.judge.lineage
    if lineage is None:
        return False
    folder = fold.root / "lineages" / lineage.name
    paths = [fold.root / "lineage.json"]
    for name in ("offsets", "offsets", "commits"):
        paths += [folder / name / str(n) for n in [newest_batch(folder / name)] if n >= 0]
    path = rng.choice(paths)
    if not path.exists():
        return False
    fold.kill()
    whole = path.read_bytes()
    damaged = [whole[: len(whole) // 2], b"", bytes(len(whole)), b"[" * _NESTED]
    if path.parent == fold.root:
        fold.judge.lineage = None
    else:
        fold.damaged[lineage.name] = TROUBLES["log of the checkpoint is damaged"]
        fold.damaged_files.add(lineage.name)
        digits = [at for at, byte in enumerate(whole) if chr(byte).isdigit()]
        if digits:  # none are left in a file that was damaged before
            at = rng.choice(digits)
            damaged += [whole[:at] + str(digit).encode() + whole[at + 1 :] for digit in range(10)]
    path.write_bytes(rng.choice(damaged))
    return True


def backup_taken(fold: ServicedFold) -> bool:
    """The checkpoint is copied; a copy is kept for long, so that another lineage may have begun since."""
    lineage = fold.judge.lineage
    if lineage is None or (fold.backup is not None and fold.rng.random() < 0.7):
        return False
    folder = fold.root / "lineages" / lineage.name
    fold.backup = (lineage, fold.checkpoints.newest(folder))
    return True


def backup_restored(fold: ServicedFold) -> bool:
    """The copy replaces the checkpoint: it may be of an earlier lineage."""
    if fold.backup is None:
        return False
    fold.kill()
    lineage, last = fold.backup
    shutil.rmtree(fold.root / "lineages", ignore_errors=True)
    fold.checkpoints.go_back(fold.root / "lineages" / lineage.name, last)
    (fold.root / "lineage.json").write_bytes(msgspec.json.encode(lineage))
    fold.judge.lineage = lineage
    fold.world.hit("older checkpoint")
    return True


def log_loses_its_end(fold: ServicedFold) -> bool:
    """The log is restored from an older copy, while a query runs or before the next start."""
    log = fold.world.log
    if not log.cut(max(log.low, log.end - fold.rng.randint(1, 8))):
        return False
    fold.begin_lineage()
    return True


def topic_made_anew(fold: ServicedFold) -> bool:
    """The topic of views or of events is deleted and recreated."""
    fold.rng.choice((fold.world.views, fold.world.events)).make_anew()
    fold.begin_lineage()
    fold.world.exporter.plan()
    return True


SERVICE_FAULTS: Mapping[str, tuple[int, Callable[[ServicedFold], bool]]] = {
    "service: queries fail": (6, queries_fail),
    "service: rare failures": (2, failures_far_between),
    "service: Kafka is away": (3, kafka_away),
    "service: JVM dies": (2, jvm_dies),
    "service: JVM hangs": (1, jvm_hangs),
    "service: start fails": (2, start_fails),
    "service: disk full": (2, disk_full),
    "service: killed": (2, killed),
    "service: stopped": (2, stopped),
    "service: checkpoint damaged": (2, checkpoint_damaged),
    "service: end of the log lost": (3, log_loses_its_end),
    "service: topic recreated": (2, topic_made_anew),
    "service: backup taken": (4, backup_taken),
    "service: backup restored": (3, backup_restored),
}
"""By name: how often, and the function (False: not possible now)."""


def break_something(fold: ServicedFold) -> None:
    """Cause one of the faults, or none."""
    if has_idle_partition(fold.world.seed) and fold.damages.random() < DAMAGED:
        if file_damaged(fold):
            fold.world.hit("service: a file of the checkpoint damaged")
        return
    if fold.rng.random() >= OFTEN:
        return
    weights = [weight for weight, _ in SERVICE_FAULTS.values()]
    (name,) = fold.rng.choices(list(SERVICE_FAULTS), weights)
    if SERVICE_FAULTS[name][1](fold):
        fold.world.hit(name)
