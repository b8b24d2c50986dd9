"""Compare each znode's versions in ZooKeeper with the log `kcm.changes`: nothing lost, nothing twice, in order.

The truth are the transactions that ZooKeeper's servers wrote to their own disks; of the monitor, only
the format of the log's records is used, and which znodes it publishes. What is asserted:

- **True.** Each `set` is one version of its znode: path, mzxid, czxid, version, owner and payload are
  those of a transaction, and it was not yet replaced at the zxid of the answer that it came in. Each
  `deleted` is of a znode that did not exist at that zxid, or at some moment after it.
- **In order.** Generations rise, and within one the seqs have no gap. A znode's mzxid never goes back.
  Between two resyncs, which is one connection, the zxids of the answers never go back.
- **None twice.** A record that is in the log again at its position is the same one, and counted: readers skip
  it, and it is only there if Kafka had reported the topic as missing (`Publisher`). From the start of one resync to the next, no version
  of a znode is reported twice, and no absence, except that absences may repeat while the resync lasts.
- **None lost.** A watch says only that a znode has changed, so versions that are replaced before they
  are read are merged, and ZooKeeper promises no more. But a notification comes before every answer that
  knows of its change, and the watcher reads what was notified first, first (`DirtyPaths`). So a version
  must be in the log if the log holds changes of `ANSWERS` answers that ZooKeeper gave, since the last
  resync, after the version was written and before it was replaced. Of a znode that came and went unread, nothing is.
- **Whole.** At the end of a resync the log holds each znode that ZooKeeper held at its first answer, in
  that version or a later one, or the znode was deleted since. The number and digest of each resync and
  reconciliation are those of the znodes reported up to it.
- **Newest.** At a quiet moment the newest version of each znode is in the log, and no other znode.

Records of a generation that was replaced do not count, as for every reader of the log. A log that was
lost with its disk begins anew: what it held is not asked for.
"""

from __future__ import annotations

import bisect
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from controller_model.records.changes import (
    Batch,
    ChangeKind,
    ZnodeChange,
    decode_message,
    digest_text,
    znode_digest,
)
from controller_model.sources.zookeeper.znode_kinds import is_published, published_data
from controller_simulator.zookeeper.transactions import Changed, Commit, Created
from kcm.servers.kafka import QUIET_LIBRDKAFKA
from pipeline.topics import topic_names
from tests.faults.judge import STALE_S
from tests.support.txn_log import read_txn_logs
from tests.support.waiting import DEADLINE_S

ANSWERS = 12
"""After so many answers the read of a changed path has been answered: four requests of changed paths and two of a walk
may be on their way when it is notified, one of the four with this path, which is then read again behind four others."""
TIMEOUT_S = DEADLINE_S
LOOKS = 5
"""How often the log is read, STALE_S apart, while it differs: what is late on a busy machine comes, what is wrong stays."""
NEVER = 1 << 63
CHANGES = topic_names("kcm").changes


class Version(NamedTuple):
    """What a znode held from a zxid on; `data` is None from a deletion on."""

    zxid: int
    czxid: int = 0
    version: int = -1
    data: str | None = None
    owner: int = 0


Versions = Mapping[str, Sequence[Version]]
"""By path, the oldest first."""


class Checked(NamedTuple):
    """What came of a check, of all that is new since the one before."""

    versions: int = 0
    """Versions of published znodes in ZooKeeper, deletions included."""
    merged: int = 0
    """Those of them that were replaced before they could be read, or while no watcher watched."""
    problems: tuple[str, ...] = ()
    repeated: int = 0
    """Records that were sent again, as readers notice by their positions."""


class History:
    """The two sides of one environment, compared after each of its cells."""

    def __init__(self, data_dirs: Iterable[Path], bootstrap_servers: Callable[[], str]) -> None:
        """Name the dataDir of each member of the ensemble, and the pipeline's Kafka."""
        self._data_dirs = tuple(data_dirs)
        self._bootstrap_servers = bootstrap_servers
        self._known: set[tuple[str, int]] = set()
        self._told: set[str] = set()
        self._repeated = 0

    def check(self) -> Checked:
        """Compare all that was ever written; return what is new. All members must serve."""
        up_to = committed(self._data_dirs)[-1].zxid
        for _ in range(LOOKS):
            time.sleep(STALE_S)
            batches = read_log(self._bootstrap_servers())
            log = tuple(change for batch in batches for change in batch.changes)
            versions = versions_of(committed(self._data_dirs))
            comparison = Comparison(versions)
            comparison.read(log)
            comparison.finish(up_to=up_to)
            if self._told.issuperset(comparison.problems):
                break
        every = {
            (path, each.zxid)
            for path, found in versions.items()
            for each in found
            if each.zxid <= up_to
        }
        new, self._known = every - self._known, every
        problems = [each for each in comparison.problems if each not in self._told]
        self._told.update(problems)
        repeated, self._repeated = comparison.repeated - self._repeated, comparison.repeated
        merged = len(new - comparison.reported)
        return Checked(len(new), merged, tuple(problems), max(0, repeated))


def committed(data_dirs: Iterable[Path]) -> list[Commit]:
    """Return the history of an ensemble whose members all serve: the union of what they have written.

    A member that comes back cuts off what was never committed; what it got as a snapshot, others have written.
    """
    of_members = [read_txn_logs(folder / "version-2") for folder in data_dirs]
    found = {commit.zxid: commit for commits in of_members for commit in commits}
    return [found[zxid] for zxid in sorted(found)]


def versions_of(commits: Iterable[Commit]) -> Versions:
    """Return the versions of each published znode; of several in one transaction, the last one is seen."""
    found: dict[str, list[Version]] = defaultdict(list)
    for commit in commits:
        for write in commit.writes:
            if not is_published(write.path):
                continue
            history = found[write.path]
            match write:
                case Created(data=data, owner=owner):
                    new = Version(commit.zxid, commit.zxid, 0, data, owner)
                case Changed(data=data, version=version):
                    new = history[-1]._replace(zxid=commit.zxid, version=version, data=data)
                case _:
                    new = Version(commit.zxid)
            if history and history[-1].zxid == commit.zxid:
                history.pop()
            history.append(new)
    return found


def read_log(bootstrap_servers: str) -> Iterator[Batch]:
    """Yield the messages of the log as it is now, in the order of their offsets; none holds what cannot be read."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "history",
            "enable.auto.commit": False,
            **QUIET_LIBRDKAFKA,
        }
    )
    try:
        partitions = consumer.list_topics(CHANGES, timeout=TIMEOUT_S).topics[CHANGES].partitions
        for number in partitions:
            place = TopicPartition(CHANGES, number)
            offset, end = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
            consumer.assign([TopicPartition(CHANGES, number, offset)])
            while offset < end:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, f"{CHANGES}-{number} ends at {offset}, not at {end}"
                assert message.error() is None, message.error()
                offset = (message.offset() or 0) + 1
                batch = decode_message(message.value() or b"")
                assert not batch.unreadable, f"{batch.unreadable} records at offset {offset - 1}"
                yield batch
    finally:
        consumer.close()


class _Segment:
    """The log from the start of one resync to the start of the next."""

    def __init__(self, started: ZnodeChange | None) -> None:
        self.started = started
        """None for the beginning of a log that begins elsewhere."""
        self.finished: ZnodeChange | None = None
        self.found: dict[str, int] = {}
        """What the resync found, as `published` was at its end."""
        self.published: dict[str, int] = {}
        """By path, the mzxid of what the log says exists."""
        self.reported: set[tuple[str, int]] = set()
        self.answers: list[int] = []
        """The zxids of the answers, once each, rising."""
        self.last_answer = 0
        """The last one within the resync: from here on versions are missed if they are not in the log."""


class Comparison:
    """Compares the records of a log, one after another, with the versions in ZooKeeper."""

    def __init__(self, versions: Versions) -> None:
        self.problems: list[str] = []
        self.reported: set[tuple[str, int]] = set()
        """The versions in the log, each by its path and zxid; of deletions, those that an absence proves."""
        self.repeated = 0
        self._records: dict[int, ZnodeChange] = {}
        """Those of the newest generation, by seq."""
        self._versions = versions
        self._zxids = {path: [each.zxid for each in found] for path, found in versions.items()}
        self._position = (0, 0)
        self._newest: dict[str, int] = {}
        """By path, the highest mzxid so far."""
        self._segment = _Segment(None)

    def read(self, log: Iterable[ZnodeChange]) -> None:
        """Compare records."""
        for change in filter(self._is_next, log):
            match change.kind:
                case ChangeKind.RESYNC_STARTED:
                    self._end_segment()
                    self._segment = _Segment(change)
                case ChangeKind.RESYNC_FINISHED:
                    self._on_resync_finished(change)
                case ChangeKind.RECONCILED:
                    self._compare_digest(change)
                case ChangeKind.SET:
                    self._on_set(change)
                case ChangeKind.DELETED:
                    self._on_deleted(change)
                case _:
                    pass

    def _is_next(self, change: ZnodeChange) -> bool:
        """Return whether readers take a record: it comes after those before it."""
        generation, seq = self._position
        if change.position <= self._position:
            if change.generation == generation:
                self.repeated += 1
                if self._records.get(change.seq) != change:
                    self._say(change, "is another record at the position of one before")
            return False
        if generation and change.seq != (seq + 1 if change.generation == generation else 1):
            self._say(change, f"follows {generation}/{seq}: records are lost")
        if change.generation != generation:
            self._records.clear()
        self._records[change.seq] = change
        self._position = change.position
        return True

    def finish(self, *, up_to: int) -> None:
        """Compare what the log says exists with ZooKeeper at a zxid at which it was quiet."""
        self._end_segment()
        if self._segment.finished is None:
            self.problems.append("the log ends within a resync")
            return
        for path in self._versions:
            now = self._at(path, up_to)
            held = self._segment.published.get(path)
            if held is not None and held > up_to:
                continue
            if (held or 0) != (now.zxid if now is not None and now.data is not None else 0):
                self.problems.append(f"{path}: the newest in ZooKeeper is {now}, in the log {held}")

    def _on_set(self, change: ZnodeChange) -> None:
        path, mzxid, answer = change.path, change.mzxid or 0, change.read_zxid or 0
        segment = self._segment
        self._on_answer(change, answer)
        true = self._at(path, mzxid)
        found = Version(
            mzxid, change.czxid or 0, change.version or 0, None, change.ephemeral_owner or 0
        )
        if true is None or true.data is None or true._replace(data=None) != found:
            self._say(change, f"is {found}, which is not in ZooKeeper: {true}")
            return
        if change.payload() != published_data(path, true.data.encode()):
            self._say(change, "has another payload than ZooKeeper")
        if self._replaced_at(path, mzxid) <= answer:
            self._say(change, f"was replaced before it was read at {answer:#x}")
        if mzxid < self._newest.get(path, 0):
            self._say(change, f"comes after {self._newest[path]:#x}")
        if (path, mzxid) in segment.reported:
            self._say(change, "is reported twice")
        self._newest[path] = max(mzxid, self._newest.get(path, 0))
        segment.reported.add((path, mzxid))
        segment.published[path] = mzxid
        self.reported.add((path, mzxid))

    def _on_deleted(self, change: ZnodeChange) -> None:
        path, answer = change.path, change.read_zxid or 0
        segment = self._segment
        self._on_answer(change, answer)
        was = segment.published.pop(path, None)
        if was is None and segment.finished is not None:
            self._say(change, "is reported as deleted twice, or never was there")
        at_answer = self._at(path, answer)
        since = 0 if at_answer is None else at_answer.zxid
        gone = [v.zxid for v in self._versions.get(path, ()) if v.data is None and v.zxid >= since]
        if at_answer is not None and not gone:
            self._say(change, f"is in ZooKeeper at {answer:#x} and ever after")
        # The read may have seen a later state than its header says: the first absence is the least that it proves.
        for zxid in gone[:1]:
            segment.reported.add((path, zxid))
            self.reported.add((path, zxid))

    def _on_answer(self, change: ZnodeChange, answer: int) -> None:
        segment = self._segment
        if segment.answers and answer < segment.answers[-1]:
            self._say(change, f"was answered at {answer:#x}, after {segment.answers[-1]:#x}")
        elif not segment.answers or answer > segment.answers[-1]:
            segment.answers.append(answer)

    def _on_resync_finished(self, change: ZnodeChange) -> None:
        segment = self._segment
        if segment.started is None:
            return
        segment.finished = change
        segment.found = dict(segment.published)
        segment.last_answer = segment.answers[-1] if segment.answers else 0
        self._compare_digest(change)

    def _compare_digest(self, change: ZnodeChange) -> None:
        if self._segment.started is None or change.denied:
            return
        digest = 0
        for path, mzxid in self._segment.published.items():
            digest ^= znode_digest(path, mzxid)
        said = (change.znodes, change.digest)
        if said != (len(self._segment.published), digest_text(digest)):
            self._say(change, f"proves {said}, the log {len(self._segment.published)} znodes")

    def _end_segment(self) -> None:
        """Look for what the resync left out, and for what was lost after it."""
        segment = self._segment
        if segment.finished is None or not segment.answers:
            return
        live = bisect.bisect_right(segment.answers, segment.last_answer)
        ended = segment.answers[live] if live < len(segment.answers) else NEVER
        for path, found in self._versions.items():
            then = self._at(path, segment.answers[0])
            was_there = then is not None and then.data is not None and segment.last_answer > 0
            if then is not None and was_there and segment.found.get(path, 0) < then.zxid:
                gone = any(v.data is None and then.zxid < v.zxid <= ended for v in found)
                if path in segment.found or not gone:
                    self._say(segment.finished, f"leaves {path} out, which was {then}")
            for each in found[bisect.bisect_right(self._zxids[path], segment.last_answer) :]:
                after = bisect.bisect_right(segment.answers, each.zxid)
                before = bisect.bisect_left(segment.answers, self._replaced_at(path, each.zxid))
                if before - after < ANSWERS or (path, each.zxid) in segment.reported:
                    continue
                if each.data is not None or self._was_reported(path, each.zxid):
                    what = "deletion" if each.data is None else f"version {each.version}"
                    self.problems.append(
                        f"{path}: {what} at {each.zxid:#x} is lost: {before - after} later answers are in the log"
                    )

    def _was_reported(self, path: str, deleted: int) -> bool:
        """Return whether a znode that was deleted is in the log: else readers need no deletion."""
        was = self._at(path, deleted - 1)
        return was is not None and any(
            was.czxid <= zxid < deleted and (path, zxid) in self._segment.reported
            for zxid in self._zxids[path]
        )

    def _at(self, path: str, zxid: int) -> Version | None:
        """Return the version of a path right after a zxid; None if it had never existed."""
        index = bisect.bisect_right(self._zxids.get(path, ()), zxid)
        return self._versions[path][index - 1] if index else None

    def _replaced_at(self, path: str, zxid: int) -> int:
        zxids = self._zxids[path]
        index = bisect.bisect_right(zxids, zxid)
        return zxids[index] if index < len(zxids) else NEVER

    def _say(self, change: ZnodeChange, what: str) -> None:
        at = "" if change.mzxid is None else f" of {change.mzxid:#x}"
        self.problems.append(
            f"{change.generation}/{change.seq} {change.kind} {change.path}{at} {what}".replace(
                "  ", " "
            )
        )
