"""The history check of `python -m tests.faults` on the recorded transactions of a real cluster: each planted fault is found."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from controller_model.records.changes import ChangeKind, ZnodeChange
from tests.faults.history import ANSWERS, Comparison, versions_of
from tests.support.recordings import load_recording
from tests.support.znode_log import ZnodeLog

COMMITS = load_recording("real_kafka_3_9").commits
VERSIONS = versions_of(COMMITS)
MIDDLE = len(COMMITS) // 2

Log = list[ZnodeChange]
Edit = Callable[[Log], Log]


def written() -> Log:
    """Return the log of a watcher that began with an empty tree, resynced in the middle and missed nothing."""
    log = ZnodeLog("faults")
    log.resync()
    log.follow(COMMITS[:MIDDLE])
    log.resync()
    log.follow(COMMITS[MIDDLE:])
    seen: dict[str, int] = {}
    found = []
    for change in log.changes:  # several writes of a transaction are one answer
        if change.kind is ChangeKind.RESYNC_STARTED:
            seen.clear()
        if change.kind is not ChangeKind.SET or seen.get(change.path) != change.mzxid:
            found.append(change)
        if change.mzxid is not None:
            seen[change.path] = change.mzxid
    return numbered(found)


def numbered(log: Log) -> Log:
    """Return the records with seqs without a gap, as a watcher would have given them."""
    return [msgspec.structs.replace(each, seq=seq) for seq, each in enumerate(log, 1)]


def problems_of(log: Log) -> list[str]:
    """Return what the check says of a log."""
    comparison = Comparison(VERSIONS)
    comparison.read(log)
    comparison.finish(up_to=COMMITS[-1].zxid)
    return comparison.problems


LOG = written()
FINISHED = [at for at, each in enumerate(LOG) if each.kind is ChangeKind.RESYNC_FINISHED]


def live(kind: ChangeKind, *, replaced: bool) -> int:
    """Return where the log holds a change of a version that was replaced long after it, or never."""
    for at in range(FINISHED[1] + 1, len(LOG)):
        each = LOG[at]
        later = [z.zxid for z in VERSIONS.get(each.path, ()) if z.zxid > (each.read_zxid or 0)]
        answers = {z.read_zxid for z in LOG[at + 1 :] if later and (z.read_zxid or 0) < later[0]}
        if (
            each.kind is kind
            and bool(later) == replaced
            and (not replaced or len(answers) >= ANSWERS)
        ):
            return at
    raise AssertionError(f"no such {kind}")


REPLACED, NEWEST = live(ChangeKind.SET, replaced=True), live(ChangeKind.SET, replaced=False)
DELETED = live(ChangeKind.DELETED, replaced=False)


def without(at: int) -> Edit:
    """Lose a change; the watcher gave the next one its seq."""
    return lambda log: numbered([*log[:at], *log[at + 1 :]])


def again(at: int) -> Edit:
    """Report a change twice."""
    return lambda log: numbered([*log[: at + 1], log[at], *log[at + 1 :]])


def changed(at: int, **fields: object) -> Edit:
    """Report a change with other fields."""
    return lambda log: [*log[:at], msgspec.structs.replace(log[at], **fields), *log[at + 1 :]]


def test_the_log_of_a_watcher_that_misses_nothing_is_sound() -> None:
    """Every version is found in it, and none is counted as merged."""
    comparison = Comparison(VERSIONS)
    comparison.read(LOG)
    comparison.finish(up_to=COMMITS[-1].zxid)
    assert comparison.problems == []
    every = {(path, each.zxid) for path, found in VERSIONS.items() for each in found}
    assert every - comparison.reported == set()
    assert len(every) > 100, "a recording worth reading"


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        pytest.param(without(REPLACED), "is lost:", id="a version that was replaced is lost"),
        pytest.param(
            without(NEWEST), "the newest in ZooKeeper is", id="the newest version is lost"
        ),
        pytest.param(without(DELETED), "the newest in ZooKeeper is", id="a deletion is lost"),
        pytest.param(
            lambda log: [*log[:REPLACED], *log[REPLACED + 1 :]],
            "records are lost",
            id="a record is lost after it was numbered",
        ),
        pytest.param(
            lambda log: numbered(
                [each for each in log if each.kind is not ChangeKind.RESYNC_FINISHED]
            ),
            "the log ends within",
            id="no resync has ended",
        ),
        pytest.param(without(FINISHED[1] - 1), "leaves", id="a resync leaves a znode out"),
        pytest.param(
            changed(FINISHED[1], digest="00"), "proves", id="a resync proves another digest"
        ),
        pytest.param(again(REPLACED), "is reported twice", id="a version is reported twice"),
        pytest.param(
            again(DELETED), "is reported as deleted twice", id="an absence is reported twice"
        ),
        pytest.param(
            lambda log: [
                *log[: REPLACED + 1],
                msgspec.structs.replace(log[REPLACED], version=77),
                *log[REPLACED + 1 :],
            ],
            "is another record at the position of one before",
            id="another record at a position",
        ),
        pytest.param(
            lambda log: numbered([*log[:REPLACED], *log[REPLACED + 1 :], log[REPLACED]]),
            "was answered at",
            id="a version comes late",
        ),
        pytest.param(changed(REPLACED, data="{}"), "another payload", id="another payload"),
        pytest.param(changed(REPLACED, version=77), "not in ZooKeeper", id="another version"),
        pytest.param(changed(NEWEST, mzxid=7), "not in ZooKeeper", id="another zxid"),
        pytest.param(
            changed(REPLACED, read_zxid=COMMITS[-1].zxid),
            "was replaced before it was read",
            id="a value that is older than its answer",
        ),
    ],
)
def test_a_planted_fault_is_found(edit: Edit, said: str) -> None:
    """Each of them is told as what it is."""
    assert any(said in problem for problem in problems_of(edit(LOG))), problems_of(edit(LOG))


def test_versions_that_are_replaced_unread_may_be_merged() -> None:
    """Of a znode that changes faster than it is read, the newest version is enough; if it lasted, each is needed."""
    path = max(VERSIONS, key=lambda path: len(VERSIONS[path]))
    own = [each for each in LOG if each.path == path and each.kind is ChangeKind.SET][-1]
    cluster = ZnodeLog("faults")
    burst = Comparison({path: VERSIONS[path]})
    burst.read(numbered([*cluster.resync(), own]))
    burst.finish(up_to=own.mzxid or 0)
    assert burst.problems == []
    assert len(burst.reported) == 1 < len(VERSIONS[path])


def test_records_of_a_replaced_generation_do_not_count() -> None:
    """A former watcher's late record is no duplicate, and no going back."""
    late = msgspec.structs.replace(LOG[NEWEST], generation=0, seq=900)
    assert problems_of([*LOG, late]) == []


def test_a_record_that_was_sent_again_counts_as_repeated() -> None:
    """Readers skip it by its position."""
    comparison = Comparison(VERSIONS)
    comparison.read([*LOG[: REPLACED + 1], *LOG[REPLACED - 2 :]])
    comparison.finish(up_to=COMMITS[-1].zxid)
    assert (comparison.problems, comparison.repeated) == ([], 3)
