"""The checks of `python -m tests.faults` on the recorded files of a real quorum: each planted fault is found."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller_model.kafka.metadata_records import Partition, PartitionChange
from controller_model.records.metadata_log import (
    MetadataSlice,
    SnapshotFinished,
    SnapshotPart,
    SnapshotStarted,
)
from kraft_source.folder import MetadataFolder
from kraft_source.slices import Made
from tests.faults.judge import judge
from tests.faults.metadata_history import MetadataComparison
from tests.faults.metadata_truth import MetadataLogs, MetadataTruth
from tests.faults.shown import LIVE, Sample, Shown
from tests.support.metadata_folders import ABANDONED, VOTER, Truth, unpack

Log = list[Any]
Edit = Callable[[Log], Log]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Truth]:
    """Three controllers' folders: one that went on without its quorum, and two that did not."""
    folder = tmp_path_factory.mktemp("folders")
    truth = unpack(folder)
    shutil.copytree(folder / VOTER, folder / "other-voter")
    return [folder / ABANDONED, folder / VOTER, folder / "other-voter"], truth


def published(folder: Path, *, only_proven: bool = True) -> Log:
    """Return what a watcher would have published of a folder."""
    read = MetadataFolder(folder)
    proof = read.prove()
    if not only_proven:
        proof = proof._replace(end=proof.log_end)
    return [each.record for each in read.records("c", proof) if isinstance(each, Made)]


def problems_of(dirs: list[Path], log: Log) -> list[str]:
    """Return what the check says of a log."""
    logs = MetadataLogs(dirs)
    logs.read()
    comparison = MetadataComparison(logs.committed)
    comparison.read(log)
    comparison.finish(up_to=logs.committed[-1].last_offset)
    return comparison.problems


def changed(log: Log, of: type, **fields: Any) -> Log:
    """Return a log in which one record of a partition says something else."""
    found = list(log)
    for number, each in enumerate(found):
        batches = list(each.batches) if isinstance(each, MetadataSlice) else []
        for place, batch in enumerate(batches):
            for index, record in enumerate(batch.records):
                if not isinstance(record, of):
                    continue
                records = list(batch.records)
                records[index] = msgspec.structs.replace(record, **fields)
                batches[place] = msgspec.structs.replace(batch, records=tuple(records))
                found[number] = msgspec.structs.replace(each, batches=tuple(batches))
                return found
    raise AssertionError(f"no {of.__name__}")


def with_records(log: Log, edit: Callable[[Any], Any]) -> Log:
    """Return a log whose first slice with records is edited."""
    number = next(n for n, each in enumerate(log) if each.batches)
    return [*log[:number], edit(log[number]), *log[number + 1 :]]


def _without_last_record(each: Any) -> Any:
    last = each.batches[-1]
    shorter = msgspec.structs.replace(last, records=last.records[:-1], offsets=last.offsets[:-1])
    return msgspec.structs.replace(each, batches=(*each.batches[:-1], shorter))


def _a_second_later(each: Any) -> Any:
    first = msgspec.structs.replace(each.batches[0], at=each.batches[0].at + 1_000)
    return msgspec.structs.replace(each, batches=(first, *each.batches[1:]))


EDITS: dict[str, tuple[Edit, str]] = {
    "another leader": (lambda log: changed(log, PartitionChange, leader=77), "in the files"),
    "another ISR": (lambda log: changed(log, Partition, isr=(77,)), "in the files"),
    "a record is missing": (lambda log: with_records(log, _without_last_record), "in the files"),
    "another time": (lambda log: with_records(log, _a_second_later), "in the files"),
    "a slice is missing": (lambda log: [*log[:2], *log[3:]], "offsets are lost"),
    "the end is missing": (lambda log: log[:-1], "the log ends at"),
    "another order": (lambda log: [*log[:1], log[2], log[1], *log[3:]], "offsets are lost"),
    "another epoch": (
        lambda log: [msgspec.structs.replace(log[0], epoch=9), *log[1:]],
        "of epoch 9 is",
    ),
    "another history before": (
        lambda log: [*log[:2], msgspec.structs.replace(log[2], after_epoch=9), *log[3:]],
        "after epoch 9",
    ),
}


def test_a_log_that_is_cut_and_written_again_is_read_again(
    recorded: tuple[list[Path], Truth], tmp_path: Path
) -> None:
    """A controller that led alone drops what the quorum never had, and copies what it has: longer or shorter batches."""
    dirs, _ = recorded
    voter = tmp_path / "voter"
    shutil.copytree(dirs[0], voter)
    logs = MetadataLogs([voter, dirs[1]])
    alone = len(logs.read())
    shutil.rmtree(voter)
    shutil.copytree(dirs[1], voter)
    whole = MetadataLogs(dirs[1:])
    whole.read()
    assert 0 < alone < len(whole.committed)
    assert logs.read() == whole.committed[alone:]


def test_what_a_watcher_publishes_is_what_the_controllers_have(
    recorded: tuple[list[Path], Truth],
) -> None:
    """Nothing is said of a log that is right; what is published twice is only counted."""
    dirs, _ = recorded
    log = published(dirs[1])
    assert problems_of(dirs, log) == []
    assert problems_of(dirs, [*log, *log[1:3]]) == []


@pytest.mark.parametrize("name", EDITS)
def test_each_planted_fault_of_a_log_is_found(
    recorded: tuple[list[Path], Truth], name: str
) -> None:
    """Content, time, order, epochs, gaps and the end are compared."""
    dirs, _ = recorded
    edit, said = EDITS[name]
    problems = problems_of(dirs, edit(published(dirs[1])))
    assert problems
    assert said in problems[0]


def test_records_that_were_never_committed_are_found(recorded: tuple[list[Path], Truth]) -> None:
    """A leader without its quorum has them in its own file; no majority has."""
    dirs, _ = recorded
    log = published(dirs[0], only_proven=False)
    assert any("of epoch" in each or "in the files" in each for each in problems_of(dirs, log))


def snapshot_of(log: Log, edit: Callable[[list[Any]], list[Any]]) -> Log:
    """Return a log that begins with a snapshot, whose records may be edited."""
    number = next(n for n, each in enumerate(log) if each.last > 50)  # some topics
    last = log[number]
    of = {
        "v": last.v,
        "cluster": "c",
        "generation": 1,
        "watcher": "w",
        "observed_at": last.observed_at,
    }
    place = {**of, "end": last.last + 1, "epoch": last.epoch}
    records = [r for each in log[: number + 1] for batch in each.batches for r in batch.records]
    return [
        SnapshotStarted(**place),
        SnapshotPart(**place, number=1, records=tuple(edit(records))),
        SnapshotFinished(**place, parts=1),
        *log[number + 1 :],
    ]


def test_a_snapshot_is_compared_with_what_the_records_add_up_to(
    recorded: tuple[list[Path], Truth],
) -> None:
    """One that is whole is right; one without a partition, or with another ISR, is not."""
    dirs, _ = recorded
    log = published(dirs[1])
    assert problems_of(dirs, snapshot_of(log, lambda records: records)) == []

    def without(records: list[Any]) -> list[Any]:
        last = max(n for n, each in enumerate(records) if isinstance(each, Partition))
        return [*records[:last], *records[last + 1 :]]

    def other_isr(records: list[Any]) -> list[Any]:
        return [
            msgspec.structs.replace(each, isr=(77,)) if isinstance(each, Partition) else each
            for each in records
        ]

    for edit in (without, other_isr):
        assert problems_of(dirs, snapshot_of(log, edit)), edit.__name__


def test_the_truth_of_the_files_is_that_of_an_admin_client(
    recorded: tuple[list[Path], Truth],
) -> None:
    """Leaders, ISRs and live brokers; a shown value that is old, or never was true, is found."""
    dirs, admin = recorded
    truth = MetadataTruth(dirs)
    truth.start()
    truth.settled()
    truth.close()
    figures = truth.figures()
    assert figures.controller == admin.leaders[-1][0]
    assert figures.epoch == admin.leaders[-1][1]
    assert set(figures.brokers) == set(admin.live)
    parts = {
        (topic, number): part
        for topic, partitions in admin.topics.items()
        for number, part in partitions.items()
    }
    assert figures.partitions == len(parts)
    known = truth.known()
    shown = {}
    for (topic, number), part in parts.items():
        newest = known[f"/brokers/topics/{topic}/partitions/{number}/state"][-1]
        state = msgspec.json.decode(newest.data or b"")
        assert (state["leader"], set(state["isr"])) == (part.leader, set(part.isr))
        shown[topic, number] = Shown(newest.version, state["leader"], tuple(state["isr"]))
    now = time.time()
    sample = Sample(now, now, LIVE, shown, *admin.leaders[-1], figures.brokers)
    assert judge([sample], known)[0][3:] == (0.0, "", "")
    assert judge([sample._replace(controller=-1)], known)[0][3:] == (0.0, "", "")
    place = next(iter(shown))
    never = sample._replace(partitions={**shown, place: shown[place]._replace(leader=77)})
    assert judge([never], known)[0].wrong == f"{place[0]}-{place[1]}"
    stale = sample._replace(epoch=admin.leaders[0][1])
    assert judge([stale], known)[0].old_s > 0
