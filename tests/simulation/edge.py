"""A watcher's process: the real decisions and the real inbox, with sockets and Kafka played.

The rule: it does what zk_source.service, publisher and readback do with commands and what comes
in, and decides nothing itself. A paused process takes nothing in, yet what was under way arrives.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.records.changes import ChangeKind, SessionState, ZnodeChange, decode_message
from controller_model.records.views import ClusterView, decode_view
from tests.simulation.topic import Stored
from tests.simulation.zookeeper import Answer, Connection, Notice, Server
from tests.support.histories import encode_changes
from zk_source.watcher.commands import Command, GiveUp, GiveWay, ReplaceClient, Send
from zk_source.watcher.watcher import Intervals, Watcher
from zk_source.wire.inbox import (
    Inbox,
    Item,
    Notification,
    OtherWatcher,
    Overflow,
    Reply,
    SessionChanged,
)
from zk_source.wire.operations import Err, Sync

if TYPE_CHECKING:
    from tests.simulation.world import World

CLUSTER = "prod"
SESSION_MS = 6_000
MOST_WAITING = 150
MOST_IN_FLIGHT = 4
_VIEW_KEY = f"{CLUSTER}/cluster"


class Proof(NamedTuple):
    """What a resync or a reconciliation could have seen: the server's zxids at its start and its end."""

    era: int
    first: int
    last: int


class Edge:
    """One process of `kcm watch`."""

    def __init__(self, world: World, name: str, intervals: Intervals) -> None:
        self.world = world
        self.name = name
        self.inbox = Inbox()
        self.watcher = Watcher(CLUSTER, name, self.now, intervals=intervals)
        self.alive = True
        self.paused = False
        self.clock_ahead_ms = 0
        self.connection: Connection | None = None
        self.waiting: deque[ZnodeChange] = deque()
        self._in_flight: deque[bytes] = deque()
        self._published_at = 0
        self._reported_at = 0
        self._muted = False
        self._client = 0
        self._client_zxid = 0
        self._down_at: int | None = None
        self._results: dict[int, Any] = {}
        self._wake_at = 0
        self._noticed: set[str] = set()
        """Paths that were notified since their values were published last."""
        self._noticed_last: list[str] = []
        """Those of this turn, whose values may be published after it only."""
        self._reported: list[str] = []
        self._resyncing = True
        self._walk: object = None
        self._walk_first = 0
        self._view_zxid = 0
        self._synced_for = 0
        """What the view reported when the server was asked to catch up."""
        self._rebased_at = (0, 0)
        self._followed_from = world.log.end
        self._start()

    @property
    def now(self) -> int:
        """The process's steady clock."""
        return self.world.clock.now

    def _start(self) -> None:
        history = self.world.history()
        self.watcher.generations.saw(history[0])
        if history[1] is not None:
            self._note_view(history[1])
            self.watcher.on_view(history[1], self.now)
        self._new_client()
        self.wake(0)

    def end(self) -> None:
        """Let the process die."""
        self.alive = False
        if self.connection is not None:
            self.connection.close()

    def pause(self) -> None:
        """Stop the process as SIGSTOP does; its session ends in time."""
        self.paused = True
        self.world.clock.after(SESSION_MS, self._expire_if_paused)

    def _expire_if_paused(self) -> None:
        if self.paused and self.connection is not None:
            self.cut()

    def go_on(self) -> None:
        """Continue after a pause."""
        self.paused = False
        self.wake(0)
        self._send_next()

    # --- ZooKeeper --------------------------------------------------------------------------

    def _new_client(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        self._client += 1
        self._client_zxid = 0
        self._down_at = None
        self._try_to_connect(self._client)

    def _try_to_connect(self, client: int) -> None:
        if not self.alive or client != self._client or self.connection is not None:
            return
        rng = self.world.rng
        server = self.world.server_for(self)
        if self.paused or server is None or server.zxid < self._client_zxid:
            self.world.clock.after(rng.randint(100, 900), lambda: self._try_to_connect(client))
            return
        self._connect(server)

    def _connect(self, server: Server) -> None:
        if self._down_at is not None and self.now - self._down_at > SESSION_MS:
            self.put(SessionChanged(self._client, SessionState.LOST, server.name))
            self._client_zxid = 0
        self._down_at = None
        self.connection = Connection(server, self.world.clock, self.world.rng, self._deliver)
        server.connect(self.connection)
        self.put(SessionChanged(self._client, SessionState.CONNECTED, server.name))

    def cut(self) -> None:
        """Lose the connection; try again soon."""
        if self.connection is None:
            return
        server = self.connection.server
        self.connection.close()
        self.connection = None
        self._down_at = self.now
        self.put(SessionChanged(self._client, SessionState.SUSPENDED, server.name))
        client = self._client
        pause = self.world.rng.randint(20, 600)
        self.world.clock.after(pause, lambda: self._try_to_connect(client))

    def _deliver(self, connection: Connection, item: Answer | Notice | None) -> None:
        if connection is not self.connection or not self.alive:
            return
        if item is None:
            self.cut()
        elif isinstance(item, Notice):
            self.inbox.put_notification(item.type, item.path)
        else:
            self._client_zxid = max(self._client_zxid, item.zxid)
            self._results[item.token] = item.results
            self.inbox.put(Reply(item.token, item.zxid, item.err, b"", 0))
        self.wake(0)

    # --- the loop ---------------------------------------------------------------------------

    def put(self, item: Item) -> None:
        """Put something into the inbox."""
        self.inbox.put(item)
        self.wake(0)

    def wake(self, delay_ms: int) -> None:
        """Plan the next turn, unless one comes sooner."""
        when = self.now + delay_ms
        if self.now < self._wake_at <= when:
            return
        self._wake_at = when
        self.world.clock.at(when, lambda: self._wake(when))

    def _wake(self, when: int) -> None:
        if when == self._wake_at and self.alive and not self.paused:
            self._wake_at = 0
            self.turn()

    def turn(self) -> None:
        """Take in what has happened, decide, act."""
        item = self.inbox.take(0)
        while item is not None:
            self._take_in(item)
            item = self.inbox.take(0)
        if self._muted and not self.waiting and not self._in_flight:
            self._muted = False
            self.watcher.on_pipeline_back(self.now)
        self.watcher.reader.room = len(self.waiting) < MOST_WAITING // 2
        self.watcher.recorder.clock_ahead_ms = self.clock_ahead_ms
        self.watcher.on_tick(self.now)
        self._carry_out()
        if self.alive:
            self.wake(max(1, self.watcher.wait_ms(self.now)))

    def _take_in(self, item: Item) -> None:
        now = self.now
        match item:
            case Notification(type=type_, path=path):
                self._noticed.add(path)
                self._noticed_last.append(path)
                self.watcher.on_event(type_, path, now)
            case Reply():
                results = self._results.pop(item.token, ())
                self.watcher.on_reply(item.token, item.zxid, item.err, results, now)
            case SessionChanged(client=client) if client == self._client:
                self.watcher.on_session(SessionState(item.state), item.server, now)
            case Overflow(dropped=dropped):
                self.watcher.on_overflow(dropped, now)
            case ClusterView():
                self._note_view(item)
                self.watcher.on_view(item, now)
            case OtherWatcher():
                self.watcher.on_other_watcher(item, now)

    def _note_view(self, view: ClusterView) -> None:
        if (view.as_of.generation, view.as_of.seq) >= self._rebased_at:
            self._view_zxid = view.log.read_zxid

    def _carry_out(self) -> None:
        for command in self.watcher.commands():
            if self.alive:
                self._do(command)
        if len(self.waiting) > MOST_WAITING and not self._muted:
            self._muted = True
            dropped = len(self.waiting)
            self.waiting.clear()
            self.world.hit("changes dropped by the watcher")
            self.watcher.on_dropped(dropped, "Kafka did not take changes in time", self.now)
        self._noticed.difference_update(self._reported)
        self._reported.clear()
        self._noticed.update(self._noticed_last)
        self._noticed_last.clear()
        self._note_walk()
        self._pump()

    def _do(self, command: Command) -> None:
        match command:
            case ZnodeChange():
                self.waiting.append(command)
                self._note_proof(command)
                self._note_value(command)
            case Send(token=token, request=request):
                if isinstance(request, Sync):
                    self._synced_for = self._view_zxid
                if self.connection is not None:
                    self.connection.send(command)
                else:
                    self.inbox.put(Reply(token, 0, Err.CONNECTION_LOSS, b"", 0))
            case ReplaceClient():
                self._new_client()
            case GiveUp() | GiveWay():
                self.world.trace(f"{self.name} gives up: {command.message}")
                self.end()

    def _note_walk(self) -> None:
        walk = self.watcher.reader.walk
        if walk is not self._walk:
            self._walk = walk
            if walk is not None and self.connection is not None:
                self._walk_first = self.connection.server.zxid

    def _note_value(self, change: ZnodeChange) -> None:
        if change.kind is ChangeKind.RESYNC_STARTED:
            self._resyncing = True
        elif change.kind is ChangeKind.RESYNC_FINISHED:
            self._resyncing = False
        elif change.path and not self._resyncing and not self.world.zk.old:
            # A watch that fires once may take several reads to follow, one after the other.
            self.world.oracle.on_value(change, noticed=change.path in self._noticed)
            self._reported.append(change.path)

    def _note_proof(self, change: ZnodeChange) -> None:
        if change.kind is ChangeKind.RESYNC_STARTED and self.connection is not None:
            if change.rebase:
                self._rebased_at = change.position
                self._view_zxid = 0
            zxid = self.connection.server.zxid
            self.world.oracle.on_resync_started(change, zxid, self._synced_for)
        if change.kind in {ChangeKind.RESYNC_FINISHED, ChangeKind.RECONCILED}:
            era = self.world.zk.era
            last = self.connection.server.zxid if self.connection is not None else 0
            if self.connection is not None:
                self.world.proofs[change.watcher, change.position] = Proof(
                    era, self._walk_first, last
                )

    # --- the pipeline's Kafka ---------------------------------------------------------------

    def _pump(self) -> None:
        rng = self.world.rng
        while self.waiting and len(self._in_flight) < MOST_IN_FLIGHT:
            size = min(len(self.waiting), rng.choice((1, 3, 10, 60)))
            changes = [self.waiting.popleft() for _ in range(size)]
            self._in_flight.append(encode_changes(changes))
            self._published_at = max(self._published_at, self.now + rng.choice((1, 2, 5, 40)))
            self.world.clock.at(self._published_at, self._send_next)

    def _send_next(self) -> None:
        """Let Kafka take the oldest message, unless it is away or we are stopped."""
        world = self.world
        if not self._in_flight or not self.alive or self.paused:
            return
        if world.kafka_away_until > self.now:
            world.clock.at(world.kafka_away_until + 1, self._send_next)
            return
        message = self._in_flight.popleft()
        world.append_change(message)
        if self._in_flight:
            world.clock.after(1, self._send_next)
        self.wake(0)

    def on_view_record(self, record: Stored) -> None:
        """Hear of a record of the views, a little later."""
        if record.key != _VIEW_KEY or record.value is None or not self.alive:
            return
        view = read_view(record.value)
        if view is not None:
            self._report_later(view)

    def on_log_record(self, record: Stored) -> None:
        """Hear of a record of the log by another watcher, a little later."""
        if not self.alive:
            return
        origin = read_origin(record.value or b"")
        if origin is not None and origin.watcher != self.name:
            other = OtherWatcher(CLUSTER, origin.watcher, origin.generation, origin.observed_at)
            self._report_later(other)

    def _report_later(self, item: Item) -> None:
        self._reported_at = max(self._reported_at, self.now + self.world.rng.choice((2, 10, 100)))
        self.world.clock.at(self._reported_at, lambda: self.put(item))


def read_view(value: bytes) -> ClusterView | None:
    """Return what readback makes of a cluster's view."""
    view = decode_view(value)
    return view if isinstance(view, ClusterView) else None


def read_origin(message: bytes) -> ZnodeChange | None:
    """Return the change of a message with the highest generation; None for garbage."""
    try:
        changes = decode_message(message).changes
    except UnreadableRecordError:
        return None
    return max(changes, key=lambda change: change.generation, default=None)
