"""Makes the watcher's decisions: when to read, to resync, to publish, to give up.

No socket, no thread, no clock. The `on_...` methods report what happened, each with the
time; `commands()` returns what to do, in order. So a simulation drives the same decisions as a real
ensemble.

A connection's life: watches are armed (`arming`), the server is asked to catch up (`readiness`), a
resync begins, the tree is walked while changed paths are read at the same time (`tree_reader`), the
resync ends, reconciliations follow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controller_model.records.changes import SessionState
from controller_model.records.views import ClusterView
from source_log.generation_fencing import FencingDecision, Generations, OtherWatcher
from zk_source.watcher.arming import Arming
from zk_source.watcher.commands import Command, GiveWay, NoBrokers, Outbox, ReplaceClient, Sent
from zk_source.watcher.readiness import PROBE, ReadinessCheck, ResyncReadiness, Wait
from zk_source.watcher.recorder import Recorder
from zk_source.watcher.session_tracker import SessionTracker
from zk_source.watcher.subscriptions import Watches
from zk_source.watcher.tree_reader import TreeReader
from zk_source.watcher.tree_walk import Purpose
from zk_source.wire.operations import (
    AddWatch,
    Err,
    MultiRead,
    ReadRequest,
    Refused,
    Request,
    Result,
    SingleRead,
    Sync,
)

RETRY_MS = 1_000
"""The pause before the tree is read again after a server refused a read. It doubles up to
`MAX_RETRY_MS`. It is short again when a try was followed by more than `MAX_RETRY_MS` without a
refusal."""

MAX_RETRY_MS = 60_000

_POLL_MS = 200
"""The longest wait between two checks of what is due."""

_DENIED_INTERVAL_MS = 1_000
"""The shortest time between heartbeats that name newly denied paths: until then, what is below those paths counts as live."""

_WALK_POLL_MS = 5
"""The longest wait while a walk's allowance of reads is used up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """How often, how fast, and how long to wait."""

    heartbeat_ms: int = 10_000
    reconciliation_ms: int = 300_000
    resync_ms: int = 86_400_000
    resync_reads_per_s: float = 50_000
    reconciliation_reads_per_s: float = 5_000
    new_client_ms: int = 15_000
    """Without a connection for this long, the session is given up for a new one."""


class _ResyncRequest(NamedTuple):
    """A resync that is due now or later."""

    reason: str
    not_before_ms: int = 0
    """The earliest time for it; 0 means at once."""
    new_generation: bool = False


class Watcher:
    """The decisions for one cluster."""

    def __init__(
        self,
        cluster: str,
        name: str,
        now_ms: int,
        *,
        intervals: Intervals | None = None,
        watches: Watches = Watches.AUTO,
        term: int | None = None,
    ) -> None:
        self._cluster = cluster
        self._intervals = intervals or Intervals()
        self._out = Outbox()
        self._arming = Arming(watches, self._out)
        self._readiness = ReadinessCheck()
        self.generations = Generations(name, term=term)
        self.recorder = Recorder(cluster, self.generations)
        self.reader = TreeReader(self.recorder, self._out, self._arming)
        self.session = SessionTracker(now_ms)
        self.events = 0
        self.resyncs = 0
        self.reconciliations = 0
        self.overflows = 0
        """Notifications that were dropped."""
        self.muted = False
        """Whether changes were dropped, and nothing is published until the pipeline's Kafka is back."""
        self._probed: list[Result] = []
        self._requested: _ResyncRequest | None = None
        self._retry_ms = RETRY_MS
        self._retried_at = now_ms
        """When the tree could be read again after the last refusal."""
        self._heartbeat_at = now_ms
        self._denied_named: tuple[str, ...] = ()
        """The denied paths that the newest heartbeat named."""
        self._reconcile_at: int | None = None
        self._resync_at = now_ms
        """When a full resync is due that nothing else requested. The end of each resync sets it."""

    def commands(self) -> list[Command]:
        """Return the commands in order and forget them."""
        return self._out.pop_commands()

    def request(self, token: int) -> Request | None:
        """Return a request that waits for its reply; None when the reply no longer matters."""
        return self._out.request(token)

    @property
    def armed(self) -> bool:
        """Whether there is a connection and its watches are set."""
        return self.session.connected and self._arming.done

    def wait_ms(self, now_ms: int) -> int:
        """Return for how many ms nothing needs doing if nothing happens."""
        if self.reader.walk is not None:
            return _WALK_POLL_MS
        return max(0, min(self._heartbeat_at - now_ms, _POLL_MS))

    # --- what happened ----------------------------------------------------------------------

    def on_session(
        self, state: SessionState, server: str, now_ms: int, *, silent_ms: int = 0
    ) -> None:
        """Handle a change of the connection or the session. `silent_ms`: how long ago ZooKeeper answered."""
        self._out.forget(lambda _: True)
        self._stop_reading()
        self._arming.on_session(state, server, now_ms)
        if state is not SessionState.CONNECTED:
            self.session.connection_down(state, now_ms, silent_ms=silent_ms)
            self._heartbeat(now_ms)
            return
        self.session.connection_up(server)
        self._request_resync("connected again" if self.generations.generation else "start")

    def on_event(self, type_: int, path: str, now_ms: int) -> None:
        """Handle a notification; the path's value is read afterwards."""
        self.events += 1
        if not self.session.watching:
            return  # the walk of the resync that follows reads the path
        for read in self._arming.subscription.to_read(type_, path):
            if self.reader.dirty.full:
                self.on_overflow(1, now_ms)
                return
            self.reader.dirty.mark(read)

    def on_reply(
        self, token: int, zxid: int, err: int, results: Sequence[Result], now_ms: int
    ) -> None:
        """Handle the answer to a request; an answer from an earlier connection is ignored."""
        sent = self._out.pop_request(token)
        if sent is None or err == Err.CONNECTION_LOSS:
            return  # a change of the session's state follows
        match sent.request:
            case AddWatch(path=path):
                self._arming.on_answer(path, err, now_ms)
            case Sync():
                self._readiness.on_sync(zxid if err == Err.OK else 0)
            case MultiRead():
                self._on_reads(sent, zxid, err, results, now_ms)
            case SingleRead():
                found = results if err == Err.OK else (Refused(err),)
                self._on_reads(sent, zxid, Err.OK, found, now_ms)
        self._readiness.highest_zxid = max(self._readiness.highest_zxid, zxid)

    def on_tick(self, now_ms: int) -> None:
        """Do what is due. Called after everything else that happened, and when time passes."""
        if not self.session.connected:
            self._check_connection(now_ms)
        self._start_what_is_due(now_ms)
        self.reader.read_changed()
        ended = self.reader.continue_walk(now_ms)
        if ended is not None:
            self._on_walk_ended(ended, now_ms)
        if now_ms >= self._heartbeat_at or self._is_denied_news(now_ms):
            self._heartbeat(now_ms)

    def on_view(self, view: ClusterView, now_ms: int) -> None:
        """Handle the fold's view: how far it is, whom it follows, which resync it requests."""
        if not view.has_zookeeper:
            message = (
                f"the name {self._cluster!r} is that of a KRaft cluster here, watched by {view.log.watcher}: give "
                "this cluster another --cluster"
            )
            self._out.add(GiveWay(message))
            return
        self._readiness.on_view(view)
        watcher, generation = view.log.watcher, view.as_of.generation
        decision = self.generations.judge_view(watcher, generation, now_ms)
        if decision is not FencingDecision.IGNORE:
            self._request_new_generation(watcher, generation, now_ms)
        wanted = self._readiness.unanswered
        if wanted is not None and self.generations.generation:
            self._request_resync(f"asked for: {wanted.reason}")

    def on_other_watcher(self, other: OtherWatcher, now_ms: int) -> None:
        """Handle a record that another watcher wrote under our cluster's name."""
        match self.generations.judge_record(other.watcher, other.generation, now_ms):
            case FencingDecision.TAKE_NEW_GENERATION:
                self._request_new_generation(other.watcher, other.generation, now_ms)
            case FencingDecision.GIVE_WAY:
                clock_ms = now_ms + self.recorder.clock_ahead_ms
                age_s = max(0, clock_ms - other.observed_at) / 1000
                message = (
                    f"cluster {self._cluster!r} has another watcher, {other.watcher}, which wrote "
                    f"to the log {age_s:.1f} s ago: stop one of the two, let an election choose "
                    "(election_path), or give this cluster another name"
                )
                self._out.add(GiveWay(message))
            case FencingDecision.IGNORE:
                pass

    def on_views_cut(self) -> None:
        """Note that Kafka has lost views, which the fold counts as published: a resync makes it publish all."""
        if self.generations.generation:
            self._request_resync("the pipeline's Kafka has lost views")

    def on_overflow(self, dropped: int, now_ms: int) -> None:
        """Note that notifications were dropped."""
        self.overflows += dropped
        self._on_watches_lost("more notifications than the memory allows", now_ms)

    def on_silence(self, silent_ms: int, now_ms: int) -> None:
        """Note that a connection that seems to be up gives no answer: only a new client helps."""
        self.on_session(SessionState.LOST, "", now_ms, silent_ms=silent_ms)
        self._out.add(ReplaceClient(f"no answer for {silent_ms / 1000:.0f} s"))

    def on_dropped(self, changes: int, reason: str, now_ms: int) -> None:
        """Note that changes were dropped; nothing more is published for now."""
        self.recorder.dropped += changes
        self.muted = True
        self._on_watches_lost(f"{reason}: {changes} changes dropped", now_ms)

    def on_pipeline_back(self, now_ms: int) -> None:
        """Note that the pipeline's Kafka accepts changes again."""
        self.muted = False
        self._heartbeat_at = now_ms

    def on_stop(self, now_ms: int) -> None:
        """Publish a last heartbeat, so that readers learn at once that the session has ended."""
        self.session.connection_down(SessionState.LOST, now_ms)
        self._heartbeat(now_ms)

    # --- towards a resync -------------------------------------------------------------------

    def _start_what_is_due(self, now_ms: int) -> None:
        resyncing = self.reader.doing(Purpose.RESYNC)
        if not self.armed or self.muted or resyncing:
            return
        if self._requested is None:
            if now_ms >= self._arming.again_ms:
                self._on_watches_lost("recursive watches are tried again", now_ms)
                self._arming.on_session(SessionState.CONNECTED, self.session.server, now_ms)
                return
            if now_ms >= self._resync_at:
                self._request_resync("the last one was long ago")
            elif self._reconcile_at is not None and now_ms >= self._reconcile_at:
                self._reconcile_at = None
                self.reader.start_walk(
                    Purpose.RECONCILIATION, self._intervals.reconciliation_reads_per_s
                )
        due = self._requested is not None and now_ms >= self._requested.not_before_ms
        if due and self._readiness.start(now_ms):
            self._probe()

    def _probe(self) -> None:
        """Let the server catch up, and read what decides whether a resync may begin."""
        self._probed.clear()
        self._out.send(Sync("/"))
        most = self._arming.subscription.most_reads
        for begin in range(0, len(PROBE), most):
            request = self._arming.subscription.request(PROBE[begin : begin + most])
            self._out.send(request, walk=PROBE)

    def _on_reads(
        self, sent: Sent, zxid: int, err: int, results: Sequence[Result], now_ms: int
    ) -> None:
        reads = sent.request.reads if isinstance(sent.request, ReadRequest) else ()
        if err != Err.OK:
            problem: str | None = f"reading {reads[0][1]} failed with error {err}"
        elif sent.walk is PROBE:
            self._probed += results
            if len(self._probed) == len(PROBE):
                self._on_probe(self._probed, now_ms)
            return
        else:
            problem = self.reader.on_values(sent, reads, results, zxid, now_ms)
        if problem is not None:
            self._on_watches_lost(problem, now_ms, pause_ms=self._next_retry_ms(now_ms))

    def _next_retry_ms(self, now_ms: int) -> int:
        if now_ms - self._retried_at > MAX_RETRY_MS:
            self._retry_ms = RETRY_MS
        pause_ms = self._retry_ms
        self._retry_ms = min(2 * pause_ms, MAX_RETRY_MS)
        self._retried_at = now_ms + pause_ms
        return pause_ms

    def _on_probe(self, results: Sequence[Result], now_ms: int) -> None:
        match self._readiness.judge(results, now_ms):
            case ResyncReadiness(rebase=rebase) if self._requested is not None:
                self._start_resync(self._requested, now_ms, rebase=rebase)
            case Wait(no_brokers=True):
                self._out.add(NoBrokers())
            case Wait(why=why):
                self._out.warn("waiting before the resync", reason=why)

    def _start_resync(self, request: _ResyncRequest, now_ms: int, *, rebase: bool) -> None:
        self._requested = None
        if request.new_generation or not self.generations.generation:
            self.generations.begin_next(now_ms)
        self.resyncs += 1
        answers = self._readiness.answer()
        self._out.add(
            self.recorder.resync_started(
                now_ms, reason=request.reason, answers=answers, rebase=rebase
            )
        )
        if rebase:
            self._readiness.rebased_at(self.generations.position)
            self._out.warn("ZooKeeper's history was replaced: the resync is a rebase")
        self.session.report(SessionState.CONNECTED, now_ms)
        self._heartbeat(now_ms)
        self.reader.start_walk(Purpose.RESYNC, self._intervals.resync_reads_per_s)

    def _on_walk_ended(self, purpose: Purpose, now_ms: int) -> None:
        if purpose is Purpose.RESYNC:
            self._out.add(self.recorder.resync_finished(now_ms))
            self._resync_at = now_ms + self._intervals.resync_ms
        else:
            self._out.add(self.recorder.reconciled(now_ms))
            self.reconciliations += 1
        self._reconcile_at = now_ms + self._intervals.reconciliation_ms

    def _request_resync(
        self, reason: str, *, not_before_ms: int = 0, new_generation: bool = False
    ) -> None:
        """Note that a resync is due; of several requests, the first one's reason is kept."""
        first = self._requested or _ResyncRequest(reason)
        self._requested = first._replace(
            not_before_ms=max(first.not_before_ms, not_before_ms),
            new_generation=first.new_generation or new_generation,
        )

    # --- when something was missed ----------------------------------------------------------

    def _check_connection(self, now_ms: int) -> None:
        down_ms = self.session.down_ms(now_ms)
        if down_ms < self._intervals.new_client_ms:
            return
        self.session.down_again(now_ms)
        if self.session.state is not SessionState.LOST:
            self.session.connection_down(SessionState.LOST, now_ms)
            self._heartbeat(now_ms)
        self._out.add(ReplaceClient(f"no connection for {down_ms / 1000:.0f} s"))

    def _on_watches_lost(self, reason: str, now_ms: int, *, pause_ms: int = 0) -> None:
        """Stop publishing and request a resync: events or values were missed on a live connection."""
        self._stop_reading()
        self.session.watches_lost(now_ms)
        self._heartbeat(now_ms)
        self._request_resync(reason, not_before_ms=now_ms + pause_ms)
        self._out.warn("a resync is needed", reason=reason)

    def _request_new_generation(self, other: str, generation: int, now_ms: int) -> None:
        if self._requested is not None and self._requested.new_generation:
            return  # that resync is due already
        self._stop_reading()
        self.session.watches_lost(now_ms)
        self._request_resync(f"watcher {other} wrote generation {generation}", new_generation=True)
        self._out.warn(
            "another watcher writes under this cluster's name: taking a new generation",
            other_watcher=other,
            generation=generation,
        )

    def _stop_reading(self) -> None:
        self.reader.abandon_reads()
        self._readiness.stop()

    def _is_denied_news(self, now_ms: int) -> bool:
        """Return whether to report newly denied paths now: not during a walk, which may meet thousands."""
        heartbeat_sent_at = self._heartbeat_at - self._intervals.heartbeat_ms
        if self.reader.walk is not None or now_ms < heartbeat_sent_at + _DENIED_INTERVAL_MS:
            return False
        named = self.recorder.denied.named
        return named is not self._denied_named and not set(named).issubset(self._denied_named)

    def _heartbeat(self, now_ms: int) -> None:
        self._heartbeat_at = now_ms + self._intervals.heartbeat_ms
        self._denied_named = self.recorder.denied.named
        if self.generations.generation and not self.muted:
            self._out.add(
                self.recorder.heartbeat(
                    now_ms,
                    session=self.session.state,
                    since_ms=self.session.since_ms,
                    server=self.session.server,
                )
            )
