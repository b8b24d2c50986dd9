"""The invariants: what must hold after every batch, at every event, and once all is quiet.

The rule: the oracle knows the truth (every value that any znode ever had) and the log (what was
written, lost and repeated), and judges the fold only by its state. A broken invariant raises
`BrokenError` with one line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import NOWHERE, AsOf, Position
from controller_model.records.changes import (
    ChangeKind,
    ZnodeChange,
    decode_message,
    digest_text,
    znode_digest,
)
from controller_model.records.completeness import LATE_MS, Completeness, Stage, Status
from controller_model.records.election_requests import ElectionRequest
from controller_model.records.event_records import EventId, EventRecord, decode_event
from controller_model.records.events import ControllerElected, TopicCreated, TopicDeleted
from controller_model.sources.zookeeper.denied_paths import root_of
from controller_model.sources.zookeeper.znode_kinds import WATCHED_SUBTREES, is_published
from controller_model.state.control_plane import ControlPlane
from controller_model.state.log_state import STEP_MS, LogState
from exporter.core.records import ClusterSnapshot
from streaming.state_codec import read_control
from tests.simulation.edge import Edge, Proof
from tests.simulation.fold import InputRow, State
from tests.simulation.stage import CLUSTER

if TYPE_CHECKING:
    from exporter.core.records import ClusterSnapshot
    from tests.simulation.topic import Stored
    from tests.simulation.world import World

LIVE_LAG_MS = 4_000
"""What is shown as live was true within this time, also where two parts become silent one after the other."""

MINORITY_LAG_MS = 20_000
"""The same while a server has not noticed that it is cut off from its peers and answers with old data."""

PROOFS = {ChangeKind.RESYNC_FINISHED, ChangeKind.RECONCILED}
"""Records that can prove the state."""
_LIVE = {Status.LIVE, Status.CLOCKS_DISAGREE}
_ZNODES = {ChangeKind.SET, ChangeKind.DELETED}

_SETS_CLOCKS = (
    *("watcher's clock set", "fold's clock set", "exporter's clock set", "ZooKeeper's clock set"),
    "hours pass in the log",
)
"""The faults after which clocks may disagree."""


class BrokenError(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


class Note(NamedTuple):
    """What the oracle remembers of the way to a state."""

    position: Position = NOWHERE
    watcher: str = ""
    hole: bool = False
    """A gap was read, and nothing has proved the state since."""
    resync: tuple[int, int] | None = None
    """Generation and id of the current resync, while it has no gap."""
    late: bool = False
    """The current resync came from a server that was behind what had been read before."""
    mixed: bool = False
    """Another history was found during the current resync, so it mixes two of them."""
    read_zxid: int = 0
    """The highest read_zxid so far, in this history."""
    rebasing: bool = False
    """A rebase has begun, and nothing has proved the state since."""
    highest: Mapping[str, int] = {}
    """The highest mzxid ever held of each path, in this history."""


class Batch(NamedTuple):
    """The content of a batch, for the checks."""

    note: Note
    news: list[ZnodeChange]
    whole: int | None
    """The index in `news` of a resync's end that must be accepted; None: there is none."""
    holed_at: int
    """The index of the last gap; -1: none."""
    late: bool
    """A part of it belongs to a resync from a server that was behind (`Note.late`)."""
    asked: list[tuple[int, ElectionRequest]]
    """Requests of `kcm elect`, each with the index in `news` before which it comes."""

    def records(self) -> Iterator[ZnodeChange | ElectionRequest]:
        """Yield news and requests in their order."""
        for index in range(len(self.news) + 1):
            yield from (request for at, request in self.asked if at == index)
            yield from self.news[index : index + 1]


class Oracle:
    """The judge of one run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.checks = 0
        self.live = 0
        """How often figures were shown as live."""
        self._held: tuple[State | None, dict[str, int]] = (None, {})
        self._last_event: EventId | None = None
        self._elected: set[tuple[str, int]] = set()

    # --- after every batch ------------------------------------------------------------------

    def after_batch(self, before: State, after: State, rows: list[InputRow]) -> Note:
        """Judge a batch; return what to remember for the next one."""
        note = before.note or Note()
        control = after.control()
        if control is None:
            return note
        old = before.control()
        log = control.log
        held = marks_of(after)
        batch = read_batch(note, rows)
        if log.view.errors:
            raise BrokenError("no error of our own", log.reason or "an error was counted")
        if old is not None:
            self._check_time(old.now, control.now, batch)
        self._check_digest(control, held)
        verified = log.view.verified_at is not None and (
            old is None or log.view.verified_at != old.log.view.verified_at
        )
        self._check_holes(log, batch, verified=verified)
        rebases = control.source.rebases - (0 if old is None else old.source.rebases)
        if not rebases:  # a resync in which another history is found mixes the two
            self._check_whole(log, batch)
        if verified:
            self._check_proof(control, held, batch)
        newly = log.view.divergent_since is not None and (
            old is None or not old.log.view.divergent_since
        )
        reported = batch.note.hole or batch.late or batch.note.rebasing or rebases
        if newly and not reported:
            raise BrokenError("divergent is true", f"no hole, yet divergent at {log.position}")
        if rebases > 0 and not self.world.zk.era:
            raise BrokenError("a rebase is reported only of another history", f"at {log.position}")
        rebasing = batch.note.rebasing or rebases > 0
        mixed = control.source.resync is not None and (batch.note.mixed or rebases > 0)
        batch = batch._replace(note=batch.note._replace(rebasing=rebasing, mixed=mixed))
        gone = {change.path for change in batch.news if change.kind is ChangeKind.DELETED}
        kept = marks_of(before).keys() - gone
        highest = self._check_order(batch.note, held, kept, log, verified=verified)
        self.checks += 1
        news = batch.note._replace(highest=highest)
        if log.view.verified_at is None or (
            log.view.incomplete_since,
            log.view.divergent_since,
        ) != (None, None):
            return news
        return news._replace(
            hole=False, rebasing=news.rebasing and control.source.resync is not None
        )

    def _is_proved(self, control: ControlPlane) -> bool:
        log = control.log
        trouble = (log.view.incomplete_since, log.view.divergent_since, control.source.resync)
        return log.view.verified_at is not None and trouble == (None, None, None)

    def _check_time(self, before: int, now: int, batch: Batch) -> None:
        """Check that the log's time advances while the watcher's clock does, whatever it showed before."""
        shown = [change.observed_at for change in batch.news]
        passed = shown[-1] - shown[0] if shown and shown == sorted(shown) else 0
        if now < before or now - before < min(passed, LATE_MS) * 8 // 10 - STEP_MS:
            raise BrokenError(
                "the log's time goes on", f"{now - before} ms while {passed} ms passed"
            )

    def _check_digest(self, control: ControlPlane, held: Mapping[str, int]) -> None:
        log = control.log
        if (log.view.znodes, digest_text(control.source.digest)) != (
            len(held),
            digest_text(digest_of(held)),
        ):
            raise BrokenError("the digest is of what is held", f"at {log.position}")

    def _check_holes(self, log: LogState, batch: Batch, *, verified: bool) -> None:
        reported = log.view.incomplete_since is not None or log.view.divergent_since is not None
        if batch.note.hole and not reported and not verified:
            raise BrokenError("a hole is reported", f"up to {log.position}")
        if batch.holed_at >= 0 and not reported:
            later = batch.news[batch.holed_at :]
            if not any(change.kind in PROOFS for change in later):
                raise BrokenError("a hole is reported", f"in the batch up to {log.position}")

    def _check_whole(self, log: LogState, batch: Batch) -> None:
        if batch.whole is None or batch.holed_at > batch.whole:
            return
        later = {change.kind for change in batch.news[batch.whole + 1 :]}
        if ChangeKind.RESYNC_STARTED in later:
            return  # the next one has begun already: until its end nothing need be complete
        if batch.news[batch.whole].denied and ChangeKind.RECONCILED in later:
            return  # a path denied to this one may have been deleted; a reconciliation shows that
        if log.view.incomplete_since is not None or log.view.divergent_since is not None:
            reason = log.reason or "divergent"
            raise BrokenError("a whole resync counts as a proof", f"at {log.position}: {reason}")

    def _check_proof(self, control: ControlPlane, held: Mapping[str, int], batch: Batch) -> None:
        """Check that verified state was the truth at one moment of the proof, for each znode."""
        log = control.log
        proofs = [i for i, change in enumerate(batch.news) if change.kind in PROOFS]
        index = max(
            (i for i in proofs if batch.news[i].observed_at == log.view.verified_at),
            default=proofs[-1],
        )
        if batch.news[index].observed_at != log.view.verified_at and not self._is_proved(control):
            return  # clock set back: the last proof is the verifying one only while all is proved
        change = batch.news[index]
        proof = self.world.proofs.get((change.watcher, change.position))
        if proof is None:
            return
        since = {c.path for c in batch.news[index + 1 :] if c.kind in _ZNODES}
        # Nothing is proved about paths that are reported as denied.
        denied = (path for path in held if root_of(path, control.source.denied_trees))
        wrong = self.untrue(held, proof, leave_out=since.union(denied))
        if wrong:
            raise BrokenError("verified is true", f"at {change.position}: {wrong[:3]}")

    def _check_order(
        self,
        note: Note,
        held: Mapping[str, int],
        kept: Collection[str],
        log: LogState,
        *,
        verified: bool,
    ) -> Mapping[str, int]:
        if note.rebasing:
            return dict(held) if verified else {**note.highest, **held}
        highest = dict(note.highest)
        for path, mzxid in held.items():
            before = highest.get(path, 0)
            if mzxid < before and not self._came_back(path, mzxid, kept):
                raise BrokenError(
                    "nothing moves back", f"{path} from {before} to {mzxid} at {log.position}"
                )
            highest[path] = mzxid
        return highest

    def _came_back(self, path: str, mzxid: int, kept: Collection[str]) -> bool:
        """Return whether a znode that was not held before is a true one of a later history."""
        zk = self.world.zk
        if not zk.era or path in kept:
            return False
        later = zk.past[1:]
        return any(value == mzxid for past in later for _, value in past.get(path, ()))

    def untrue(
        self, held: Mapping[str, int], proof: Proof, leave_out: Iterable[str] = ()
    ) -> list[str]:
        """Return the paths whose held mzxid was not the truth at any moment of the proof."""
        past = self.world.zk.past[proof.era]
        left_out = set(leave_out)
        wrong = []
        for path in held.keys() | past.keys():
            if path in left_out or not is_logged(path) or self.world.zk.was_refused(path):
                continue
            value = held.get(path)
            if not was_so(past.get(path, ()), value, proof.first, proof.last):
                wrong.append(f"{path} held as {value}, was {past.get(path)}")
        return sorted(wrong)

    # --- at the watcher ---------------------------------------------------------------------

    def on_resync_started(self, change: ZnodeChange, server: int, reported: int) -> None:
        """Judge a resync's start on a server at a zxid, given the zxid that the views had reported."""
        if server < reported and not change.rebase:
            raise BrokenError(
                "a resync starts where the view is",
                f"{change.position}: at {server}, not {reported}",
            )

    def on_value(self, change: ZnodeChange, *, noticed: bool) -> None:
        """Judge a value that is published outside a resync."""
        if not noticed:
            raise BrokenError("an event comes before its value", f"{change.path} {change.position}")

    def on_publishing(self, edge: Edge) -> None:
        """Judge whether a watcher may pass changes to Kafka now."""
        lease = edge.lease
        if lease is None:
            return
        if self.world.election.leader is not lease:
            raise BrokenError("only the leader publishes", edge.name)
        if not lease.is_proved:
            raise BrokenError("nothing is published without a proof", edge.name)

    # --- at the exporter --------------------------------------------------------------------

    def on_shown(self, snapshot: ClusterSnapshot, completeness: Completeness, wall: int) -> None:
        """Judge what is shown as true, now or until a moment: each znode's value was the truth not long before."""
        skew = completeness.clock_skew_ms
        if skew and not any(self.world.hits[fault] for fault in _SETS_CLOCKS):
            raise BrokenError("clocks that agree are not said to disagree", f"{skew}")
        if Stage.ZOOKEEPER in skew:
            self.world.hit("ZooKeeper's clock was reported to disagree")
        view, since = snapshot.view, completeness.since
        if completeness.status in _LIVE:
            self.on_live(view.as_of, view.log.digest)
            return
        log = view.log
        if log.verified_at is None or log.is_missing_some or view.unreadable_controller:
            return  # what is not known yet, may not be read or cannot be read is shown as such
        was_true = log.verified_at if completeness.status is Status.DIVERGENT else since
        if was_true is not None and not any(self.world.hits[fault] for fault in _SETS_CLOCKS):
            claim = f"{completeness.status} figures were true until the time that is shown"
            self._judge(view.as_of, log.digest, wall - was_true, claim)

    def on_live(self, as_of: AsOf, digest: str, *, age_ms: int = 0) -> None:
        """Judge figures, by their digest, that were shown as live so long ago."""
        self.live += self._judge(as_of, digest, age_ms, "live is true")

    def _judge(self, as_of: AsOf, digest: str, age_ms: int, claim: str) -> bool:
        """Judge figures that were the truth so long ago; return whether that could be judged."""
        state = self.world.fold.states.get((as_of, digest))
        in_minority = self.world.clock.now - age_ms < self.world.minority_until + LIVE_LAG_MS
        lag_ms = MINORITY_LAG_MS if in_minority else LIVE_LAG_MS
        proof = self.world.recently(lag_ms + age_ms)
        if state is None or proof is None:
            return False
        if self.world.kafka.is_damaged_controller(self._held_by(state)):
            raise BrokenError("an unreadable controller is not live", f"at {as_of}")
        held = self._held_by(state)
        nodes = self.world.zk.tree.nodes
        if held == {path: znode.mzxid for path, znode in nodes.items() if is_logged(path)}:
            return True
        wrong = self.untrue(held, proof)
        if wrong:
            raise BrokenError(claim, f"at {as_of}, {age_ms} ms ago: {wrong[:3]}")
        return True

    def _held_by(self, state: State) -> dict[str, int]:
        if self._held[0] is not state:
            self._held = (state, marks_of(state))
        return self._held[1]

    def on_event(self, record: EventRecord) -> None:
        """Judge an event that an exporter accepts as new."""
        if self._last_event is not None and record.id <= self._last_event:
            raise BrokenError("event ids rise", f"{record.id} after {self._last_event}")
        self._last_event = record.id
        event = record.event
        # A restored history may repeat an election. And a fold that restarted from an older
        # checkpoint, in a log that has lost the change that reported it, learns of it from a
        # resync.
        hits = self.world.hits
        forgot = hits["older checkpoint"] and (
            hits["retention"]
            or hits["records of a topic expired"]
            or hits["stretch of the log lost"]
            or hits["a message was lost"]
        )
        once = not (self.world.zk.era or forgot)
        if once and isinstance(event, ControllerElected) and event.source_number is not None:
            reported = (record.id.lineage, event.source_number)
            if reported in self._elected:
                raise BrokenError("an election is reported once", f"zxid {event.source_number}")
            self._elected.add(reported)

    def on_commit(self, shown: ClusterSnapshot) -> None:
        """Judge what an exporter shows at a commit: it lacks views if and only if it says so."""
        lacks = self.world.published.is_other(shown)
        is_right = lacks is shown.lacks_views or (
            shown.lacks_views and self.world.published.has_stranger
        )
        if shown.view.views_digest is not None and not is_right:
            says = "does not say so" if lacks else "says so, and lacks none"
            place = f"lineage {shown.view.as_of.lineage} at {shown.view.as_of.seq}"
            raise BrokenError("an exporter that lacks views says so", f"{place}: it {says}")
        log = shown.view.log
        if lacks and log.incomplete_since is None and log.divergent_since is None:
            raise BrokenError("what is live is whole", f"at {shown.view.as_of}")

    def on_output(self, before: State, values: list[bytes]) -> None:
        """Judge the ids of the events that a batch reports."""
        row = read_control(before.stored.state())
        last = (0, 0, 0) if row is None else (row.event_generation, row.event_seq, row.event_index)
        for value in values:
            event = decode_event(bytes(value))
            self._check_topic(before, event)
            asking = self.world.asking
            if asking is not None and (wrong := asking.complaint(event.event)) is not None:
                raise BrokenError("only what was asked for is called ours", wrong)
            id_ = event.id
            place = (id_.generation, id_.seq, id_.index)
            if place <= last:
                raise BrokenError("event ids rise", f"{place} after {last} in the fold's output")
            last = place

    def _check_topic(self, before: State, record: EventRecord) -> None:
        """Check that a topic reported as deleted was absent after it was held, and that none is created twice.

        A topic that was deleted and created between two reads makes both events. Its deletion has the
        zxid of the new topic's value; one found by a resync has no zxid, but the resync's range.
        """
        event = record.event
        if not isinstance(event, TopicCreated | TopicDeleted) or self.world.zk.era:
            return
        path, zxid = f"/brokers/topics/{event.topic}", event.source_number
        values = self.world.zk.past[0].get(path, ())
        held = marks_of(before).get(path)
        if isinstance(event, TopicCreated):
            is_same = held is not None and not was_so(values, None, held, zxid or held)
            if is_same and not self.world.kafka.was_damaged(path):
                raise BrokenError("a topic is created once", f"{event.topic} at {zxid}")
            return
        first = last = zxid or 0
        if zxid is None:
            place = Position(record.id.generation, record.id.seq)
            proofs = (proof for (_, at), proof in self.world.proofs.items() if at == place)
            _, first, last = next(proofs, Proof(0, 0, self.world.zk.zxid))
        elif (zxid, zxid) in values:  # created again
            first = 0
        first = max(first, held or 0, *(at for at, _ in values[:1]))
        if not values or not was_so(values, None, first, last):
            raise BrokenError("nothing that lives is deleted", f"{event.topic} by zxid {last}")

    def on_exporter_restart(self) -> None:
        """Record that the next exporter reads all events again."""
        self._last_event = None
        self._elected.clear()


def read_batch(note: Note, rows: list[InputRow]) -> Batch:
    """Return the new changes in the rows and where the gaps are: the log's rules in their simplest form."""
    news: list[ZnodeChange] = []
    whole: int | None = None
    holed_at = -1
    late = note.late
    asked: list[tuple[int, ElectionRequest]] = []
    for change in records_in(rows):
        if isinstance(change, ElectionRequest):
            asked.append((len(news), change))
            continue
        same = change.generation == note.position.generation
        if change.position <= note.position or (
            same and note.watcher and change.watcher != note.watcher
        ):
            continue
        begins = change.kind is ChangeKind.RESYNC_STARTED
        follows = change.seq == note.position.seq + 1 if same else (begins and change.seq == 1)
        if not follows:
            holed_at = len(news)
        note = note._replace(
            position=change.position,
            watcher=change.watcher,
            hole=note.hole or not follows,
            resync=note.resync if same and follows else None,
        )
        name = (change.generation, change.resync or 0)
        if begins:
            rebasing = note.rebasing or change.rebase
            read_zxid = 0 if change.rebase else note.read_zxid
            note = note._replace(
                resync=name, rebasing=rebasing, read_zxid=read_zxid, late=False, mixed=False
            )
        elif change.kind is ChangeKind.RESYNC_FINISHED:
            if note.resync == name:
                whole = None if note.late or note.mixed else len(news)
                note = note._replace(hole=False)
            note = note._replace(resync=None)
        if change.read_zxid is not None:
            note = note._replace(
                late=note.late or change.read_zxid < note.read_zxid,
                read_zxid=max(note.read_zxid, change.read_zxid),
            )
        late = late or note.late
        news.append(change)
    return Batch(note, news, whole, holed_at, late, asked)


def decoded(rows: Iterable[InputRow | Stored]) -> Iterable[ZnodeChange]:
    """Yield the changes in the readable rows."""
    return (record for record in records_in(rows) if isinstance(record, ZnodeChange))


def records_in(rows: Iterable[InputRow | Stored]) -> Iterable[ZnodeChange | ElectionRequest]:
    """Yield the changes in the readable rows, and the requests for elections in the cluster."""
    for row in rows:
        try:
            batch = decode_message(row.value or b"")
        except UnreadableRecordError:
            continue
        yield from (request for request in batch.requests if request.cluster == CLUSTER)
        yield from batch.changes


def marks_of(state: State) -> dict[str, int]:
    """Return the mzxid of every znode that a state holds, by path."""
    control = state.control()
    if control is None:
        return {}
    held = {path: stat.order for path, stat in control.source.stats.items()}
    for name, topic in state.all_topics().items():
        if topic.origin is not None:
            held[f"/brokers/topics/{name}"] = topic.origin.order
        if topic.config_origin is not None:
            held[f"/config/topics/{name}"] = topic.config_origin.order
        for partition, record in topic.partitions.items():
            if record.origin is not None:
                path = f"/brokers/topics/{name}/partitions/{partition}/state"
                held[path] = record.origin.order
    return held


def digest_of(held: Mapping[str, int]) -> int:
    """Return the digest over znodes."""
    digest = 0
    for path, mzxid in held.items():
        digest ^= znode_digest(path, mzxid)
    return digest


def was_so(
    values: Iterable[tuple[int, int | None]], value: int | None, first: int, last: int
) -> bool:
    """Return whether a path had this value at some zxid from `first` to `last`.

    >>> was_so([(5, 5), (9, None)], 5, 8, 20), was_so([(5, 5), (9, None)], 5, 9, 20)
    (True, False)
    """
    began, current = 0, None
    for zxid, new in values:
        if current == value and began <= last and zxid > first:
            return True
        began, current = zxid, new
    return current == value and began <= last


_PREFIXES = tuple(f"{root}/" for root in WATCHED_SUBTREES)


def is_logged(path: str) -> bool:
    """Return whether a watcher publishes this path."""
    return is_published(path) and f"{path}/".startswith(_PREFIXES)
