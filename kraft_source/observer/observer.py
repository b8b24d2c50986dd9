"""Decides whom to ask for the metadata log, and what of it is committed.

One request is under way at a time. `next_step` says which, or how long to wait; the runner hands the answer, or
why there is none, to `handle_answer` or `handle_failure`, and gets what is released. Time is an
argument: seconds of a clock that never goes back.

The leader of the quorum alone serves the log (KafkaRaftClient.handleFetchRequest). Whoever else is asked names it with
its epoch and its address, so any reachable voter leads to it. An epoch once seen is not gone below, so a leader
that was deposed and does not know it yet is not believed; only a cluster that was formatted again, or restored, goes on
with an older one. Any number of observers may do the same: no
voter keeps anything about them, and all of them release the same records.

What bounds the work: an answer that brings nothing new is followed by a pause of `PAUSE_S`, and who does not
answer at all is not asked again within `RETRY_S`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kraft_source.observer.held_log import HeldLog
from kraft_source.observer.released import AnotherHistory, Committed, Released
from kraft_source.observer.snapshot_download import SnapshotDownload
from kraft_source.wire.batches import CorruptBatchError
from kraft_source.wire.errors import LEADERSHIP_ERRORS, error_name, refusal
from kraft_source.wire.messages import (
    Answer,
    ControllerEndpoint,
    EpochEnd,
    EpochLeader,
    Fetch,
    FetchAnswer,
    Request,
    SnapshotAnswer,
)

NOTHING = EpochEnd(0, 0)
"""The end of an empty log."""

NO_LEADER = -1
"""What voters answer in place of a leader's id."""

PAUSE_S = 0.1
"""After an answer that brings nothing new: a leader that resigns, and voters without a leader, answer at once."""
RETRY_S = 1.0
"""Within this time nobody is asked again who could not be reached, or sent what cannot be used."""
REFUSED_RETRY_S = 5.0
"""The same for who refuses us: somebody has to change a setting or a right first."""

MAX_WAIT_MS = 500
"""How long a leader may wait for new records before it answers without any: the active controller writes one each 500 ms."""
FOLLOW_UP_MS = 10
"""The same while records wait for their commit, which an older Kafka tells with its next answer only."""
FOLLOW_UPS = 20
"""How many such requests follow one another; then the quorum is slow or lost, and is not asked so often."""

OLD_EPOCH_S = 30.0
"""For so long every answer has to name a leader of an older epoch than ours, before the cluster counts as another one: a
leader that lost its majority resigns within 1.5 x controller.quorum.fetch.timeout.ms (LeaderState.timeUntilCheckQuorumExpires)."""

MIN_TIMEOUT_S = 2.0
"""How long an answer is waited for, in addition to what the request allows: a paused leader has a successor in about 2 s."""
MAX_TIMEOUT_S = 30.0
"""Each timeout doubles the next, so that a large answer arrives over a slow line as well."""

_MS = 1000


class Ask(NamedTuple):
    """Send a request, and report the answer or the failure."""

    endpoint: ControllerEndpoint
    request: Request
    timeout_s: float
    """How long to wait for the whole answer, connecting included."""


class Pause(NamedTuple):
    """Ask nothing until a time."""

    until: float


class ObserverStatus(NamedTuple):
    """What the observer knows of its own sight; times are those it was told, None: it is not so."""

    leader: EpochLeader | None
    """The leader of the newest epoch; an id of -1: a voter says that it has none. None: not known."""
    no_leader_since: float | None
    """Since when a voter says that an epoch above the last leader's has no leader."""
    unreachable_since: float | None
    """Since when no controller has answered."""
    leader_silent_since: float | None
    """Since when the leader has not answered although a voter names it."""
    answered_at: float | None
    """When the leader last answered with the state of its log."""
    high_watermark: int
    """The newest known; -1: none is known."""
    high_watermark_since: float | None
    """Since when the leader's high watermark has stood where it is; it grows each 500 ms while a majority follows."""
    problem: str
    """The last thing that went wrong since the leader last answered, in one line; empty: nothing."""


class Observer:
    """Follows the metadata log of one cluster from a place on."""

    def __init__(self, bootstrap: Sequence[ControllerEndpoint], start: EpochEnd = NOTHING) -> None:
        """Begin behind `start`, which was committed: the next offset, and the epoch of the record before it."""
        self._bootstrap = tuple(bootstrap)
        self._nodes: dict[int, ControllerEndpoint] = {}
        """Where controllers listen as voters say, by id."""
        self._log = HeldLog(start)
        self._download: SnapshotDownload | None = None
        self._epoch = start.epoch
        """The newest epoch that any controller has named, or that a record has."""
        self._leader: EpochLeader | None = None
        self._leader_at: ControllerEndpoint | None = None
        """Where the leader is asked; None: it is not known, or does not answer."""
        self._led_epoch = start.epoch
        """The newest epoch of which a leader is known."""
        self._old_epoch_since: float | None = None
        """Since when all answers have named leaders of older epochs than ours."""
        self._old_epoch_at = 0.0
        """When the last one did."""
        self._barred: dict[ControllerEndpoint, float] = {}
        """Who is not asked before a time."""
        self._asked_last: dict[ControllerEndpoint, int] = {}
        self._order = 0
        self._pause_until = 0.0
        self._asked_at = 0.0
        self._wait_ms = 0
        self._timeout_s = MIN_TIMEOUT_S
        self._follow_ups = 0
        self._is_woken_by_commits = False
        self._high_watermark = -1
        self._high_watermark_since: float | None = None
        self._no_leader_since: float | None = None
        self._unreachable_since: float | None = None
        self._leader_silent_since: float | None = None
        self._answered_at: float | None = None
        self._problem = ""

    @property
    def end(self) -> EpochEnd:
        """The offset behind the last record that was handed on, and that record's epoch."""
        return self._log.released

    @property
    def status(self) -> ObserverStatus:
        """What it knows of its own sight."""
        is_vacant = self._no_leader_since is not None
        return ObserverStatus(
            EpochLeader(NO_LEADER, self._epoch) if is_vacant else self._leader,
            self._no_leader_since,
            self._unreachable_since,
            self._leader_silent_since,
            self._answered_at,
            self._high_watermark,
            self._high_watermark_since,
            self._problem,
        )

    def next_step(self, now: float) -> Ask | Pause:
        """Return what to ask now, or until when to ask nothing."""
        if now < self._pause_until:
            return Pause(self._pause_until)
        endpoint = self._leader_at
        if endpoint is None or self._barred.get(endpoint, now) > now:
            candidate = self._next_candidate(now)
            if isinstance(candidate, Pause):
                return candidate
            endpoint = candidate
        self._asked_at = now
        if self._download is not None and endpoint == self._leader_at:
            request: Request = self._download.next_request(self._epoch)
            return Ask(endpoint, request, self._timeout_s)
        self._wait_ms = MAX_WAIT_MS
        if endpoint != self._leader_at:
            self._wait_ms = 0
        elif self._log.is_waiting and not self._is_woken_by_commits:
            self._follow_ups += 1
            if self._follow_ups <= FOLLOW_UPS:
                self._wait_ms = FOLLOW_UP_MS
        end, epoch = self._log.end
        fetch = Fetch(end, epoch, self._epoch, self._wait_ms, self._high_watermark)
        return Ask(endpoint, fetch, self._timeout_s + self._wait_ms / _MS)

    def _next_candidate(self, now: float) -> ControllerEndpoint | Pause:
        """Return who was not asked for the longest time, of those that may be asked; or until when nobody may."""
        known = dict.fromkeys((*self._bootstrap, *self._nodes.values()))
        free = [each for each in known if self._barred.get(each, now) <= now]
        if not free:
            return Pause(min(self._barred[each] for each in known))
        chosen = min(free, key=lambda each: self._asked_last.get(each, 0))
        self._order += 1
        self._asked_last[chosen] = self._order
        return chosen

    def handle_failure(
        self,
        endpoint: ControllerEndpoint,
        text: str,
        now: float,
        *,
        is_refusal: bool = False,
        is_late: bool = False,
    ) -> None:
        """Note that there is no answer, and why in one line; `is_refusal`: waiting will not help."""
        if is_late:
            self._timeout_s = min(2 * self._timeout_s, MAX_TIMEOUT_S)
        if self._unreachable_since is None and not is_refusal:
            self._unreachable_since = now
        is_silent = endpoint == self._leader_at and not is_refusal
        if is_silent and self._leader is not None and self._leader_silent_since is None:
            self._leader_silent_since = now
        self._bar(endpoint, text, now + (REFUSED_RETRY_S if is_refusal else RETRY_S))

    def _bar(self, endpoint: ControllerEndpoint, problem: str, until: float) -> None:
        """Ask somebody else first, and begin a snapshot anew: it is of the one who named it."""
        self._problem = problem
        self._barred[endpoint] = until
        if endpoint == self._leader_at:
            self._leader_at = None
            self._download = None

    def handle_answer(
        self, endpoint: ControllerEndpoint, answer: Answer, now: float
    ) -> list[Released]:
        """Return what an answer releases."""
        self._unreachable_since = None
        if (refused := refusal(answer.error)) is not None:
            text = f"the controller at {endpoint} {refused}"
            self._bar(endpoint, text, now + REFUSED_RETRY_S)
            return []
        if answer.error:
            return self._handle_error(endpoint, answer, now)
        self._timeout_s = MIN_TIMEOUT_S
        try:
            if isinstance(answer, SnapshotAnswer):
                released = self._read_snapshot(answer)
            else:
                released = self._read_log(endpoint, answer, now)
        except CorruptBatchError as error:
            self._bar(endpoint, f"the controller at {endpoint}: {error}", now + RETRY_S)
            return []
        self._problem = ""
        return released

    def _handle_error(
        self, endpoint: ControllerEndpoint, answer: Answer, now: float
    ) -> list[Released]:
        """Learn from an error who leads; pause where it does not lead to somebody new."""
        self._problem = f"the controller at {endpoint} answers {error_name(answer.error)}"
        self._download = None
        before = self._leader, self._leader_at
        if isinstance(answer, FetchAnswer):
            self._nodes.update(answer.endpoints)
        if answer.error in LEADERSHIP_ERRORS:
            self._leader_at = None
            if answer.leader is not None and self._is_another_history(answer.leader, now):
                return self._begin_anew(EpochEnd(-1, answer.leader.epoch))
            if answer.leader is not None:
                self._learn_leader(answer.leader, now)
        is_new = self._leader_at is not None and (self._leader, self._leader_at) != before
        if not is_new:
            self._pause_until = now + PAUSE_S
        return []

    def _is_another_history(self, leader: EpochLeader, now: float) -> bool:
        """Return whether leaders of older epochs than ours are named for longer than a deposed one can last."""
        if leader.epoch >= self._epoch:
            self._old_epoch_since = None
        if leader.epoch >= self._epoch or leader.id < 0:
            return False
        # Whoever was paused meanwhile, we or the one that answers, has proved nothing by it.
        if self._old_epoch_since is None or now - self._old_epoch_at > OLD_EPOCH_S / 3:
            self._old_epoch_since = now
        self._old_epoch_at = now
        return now - self._old_epoch_since >= OLD_EPOCH_S

    def _begin_anew(self, theirs: EpochEnd) -> list[Released]:
        """Forget the log, which is another one now: nothing of it can be trusted to belong to theirs."""
        released = self._log.released
        self._log = HeldLog(NOTHING)
        self._download = self._old_epoch_since = self._leader = self._leader_at = None
        self._epoch = self._led_epoch = 0
        return [AnotherHistory(released, theirs)]

    def _learn_leader(self, leader: EpochLeader, now: float) -> None:
        """Follow what a voter says of the newest epoch; what it says of an older one is past."""
        if leader.epoch < self._epoch:
            return
        if leader.epoch > self._epoch:
            self._epoch = leader.epoch
            self._leader = self._leader_at = self._leader_silent_since = None
        if leader.id >= 0:
            self._leader = leader
            self._leader_at = self._nodes.get(leader.id)
            self._led_epoch = leader.epoch
            self._no_leader_since = None
        elif leader.epoch > self._led_epoch and self._no_leader_since is None:
            self._no_leader_since = now

    def _read_log(
        self, endpoint: ControllerEndpoint, answer: FetchAnswer, now: float
    ) -> list[Released]:
        """Return what an answer of the leader releases: it answered without an error, so it leads our epoch."""
        if answer.leader is not None:
            self._learn_leader(answer.leader, now)
        self._leader_at = endpoint
        self._old_epoch_since = self._leader_silent_since = None
        self._answered_at = now
        self._is_woken_by_commits = answer.is_woken_by_commits
        place = answer.diverging or answer.snapshot
        if place is not None:
            return self._rejoin(answer, place)
        before = self._log.end
        self._log.append(answer.records, self._epoch)
        is_news = self._log.end != before or answer.high_watermark != self._high_watermark
        if answer.high_watermark != self._high_watermark:
            self._high_watermark = answer.high_watermark
            self._high_watermark_since = now
        # The leader's log agrees with ours up to our end, or it would have said so: its high watermark counts for us.
        batches = self._log.release(answer.high_watermark)
        if batches or not self._log.is_waiting:
            self._follow_ups = 0
        if not is_news and self._wait_ms > FOLLOW_UP_MS and now - self._asked_at < PAUSE_S:
            self._pause_until = now + PAUSE_S  # it should have waited
        return [Committed(batches, answer.high_watermark)] if batches else []

    def _rejoin(self, answer: FetchAnswer, place: EpochEnd) -> list[Released]:
        """Cut off what the leader's log does not have, or begin its snapshot."""
        end, released = self._log.end, self._log.released
        if answer.diverging is not None:
            is_ours = self._log.truncate(place)
            if is_ours and self._log.end == end:
                raise CorruptBatchError(f"its log diverges at {place.end_offset}, behind our end")
        elif self._log.drop():
            return []  # perhaps that alone is not in the leader's log
        else:
            is_ours = place.end_offset >= released.end_offset and place.epoch >= released.epoch
            self._download = SnapshotDownload(place)
        return [] if is_ours else self._begin_anew(place)

    def _read_snapshot(self, answer: SnapshotAnswer) -> list[Released]:
        download = self._download
        if download is None:
            return []
        released = list(download.read(answer))
        if download.is_finished:
            self._log = HeldLog(download.snapshot)
            self._download = None
        return released
