"""An ensemble in memory and a reader of the log, to test the watcher's decisions.

The server answers requests one by one and in order, and sends a change's notification before every
reply that shows the change, as ZooKeeper guarantees. It guarantees no more: a read may be executed,
then a change notified, and only then the read's reply sent. An old server knows neither recursive
watches nor multiReads: it returns an error and then closes the connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from controller_model.kafka.ids import AsOf
from controller_model.records.changes import (
    ChangeKind,
    SessionState,
    ZnodeChange,
    digest_text,
    znode_digest,
)
from controller_model.records.views import ClusterConfig, ClusterView, LogView, ResyncWanted
from tests.support.samples import cluster_view
from zk_source.watcher.commands import Command, Send
from zk_source.watcher.subscriptions import Watches
from zk_source.watcher.watcher import Intervals, Watcher
from zk_source.wire.operations import (
    AddWatch,
    Children,
    Err,
    EventType,
    MultiRead,
    Op,
    Read,
    Refused,
    Request,
    Result,
    SingleRead,
    Sync,
    ZnodeData,
)

SERVER = "zk:2181"
START_MS = 1_000_000

STATE = "/brokers/topics/t/partitions/0/state"
PUBLISHED = ("/brokers/ids/0", "/brokers/topics/t", STATE, "/controller", "/cluster/id")
"""The published znodes of a small Kafka cluster."""


Answer = tuple[int, int, int, tuple[Result, ...]]
"""A reply: token, zxid, error, results."""

CLOSED = ()
"""The last reply on a connection that the server closed."""


class Ensemble:
    """A tree of znodes with zxids, watches, and one client's connection."""

    def __init__(self) -> None:
        self.zxid = 0
        self.nodes: dict[str, ZnodeData] = {"/": ZnodeData(b"", 0, 0, 0, 0, 0, 0, 0)}
        self.closed: set[str] = set()
        self.broken: set[str] = set()
        """Paths whose reads fail with an error of the server."""
        self.refusal: Err = Err.OK
        """The answer to a request for a recursive watch."""
        self.old = False
        """The server knows neither recursive watches nor multiReads."""
        self.connected = False
        self.to_client: deque[Answer | tuple[int, str] | tuple[()]] = deque()
        self.requests: deque[Send] = deque()
        self._executed: deque[Answer] = deque()
        self._watched: list[str] = []
        self.data_watches: set[str] = set()
        self.child_watches: set[str] = set()

    def put(self, path: str, data: bytes = b"{}") -> None:
        """Create or set a znode, and create its parents."""
        parent = path.rpartition("/")[0]
        if parent and parent not in self.nodes:
            self.put(parent, b"")
        self.zxid += 1
        held = self.nodes.get(path)
        if held is None:
            self.nodes[path] = ZnodeData(data, self.zxid, self.zxid, 1, self.zxid, 0, 0, 0)
            self._notify(EventType.CREATED, path)
            self._notify_parent(path)
        else:
            self.nodes[path] = held._replace(
                data=data, mzxid=self.zxid, mtime=self.zxid, version=held.version + 1
            )
            self._notify(EventType.DATA_CHANGED, path)

    def delete(self, path: str) -> None:
        """Delete a znode and everything below it, leaves first."""
        below = sorted((p for p in self.nodes if f"{p}/".startswith(f"{path}/")), reverse=True)
        for each in below:
            self.zxid += 1
            del self.nodes[each]
            self._notify(EventType.DELETED, each)
            self._notify_parent(each)

    def connect(self) -> None:
        """Start a connection without watches."""
        self.connected = True
        self._watched.clear()
        self.data_watches.clear()
        self.child_watches.clear()
        self.requests.clear()
        self._executed.clear()
        self.to_client.clear()

    def disconnect(self) -> None:
        """End the connection: requests and replies in flight are lost."""
        self.connect()
        self.connected = False

    def execute_one(self) -> bool:
        """Execute the oldest request without sending its reply yet; False when there is none."""
        if not self.requests:
            return False
        send = self.requests.popleft()
        zxid = self.zxid
        err, results = self._answer(send.request)
        self._executed.append((send.token, zxid, err, results))
        return True

    def answer_one(self) -> bool:
        """Send the oldest reply, executing its request if necessary; False when there is none."""
        if not self._executed and not self.execute_one():
            return False
        answer = self._executed.popleft()
        self.to_client.append(answer)
        if answer[2] == Err.UNIMPLEMENTED:
            self.requests.clear()
            self._executed.clear()
            self.to_client.append(CLOSED)
        return True

    def children(self, path: str) -> tuple[str, ...]:
        """Return the names of a znode's children."""
        prefix = path.rstrip("/") + "/"
        below = (p.removeprefix(prefix) for p in self.nodes if p.startswith(prefix))
        return tuple(name for name in below if name and "/" not in name)

    def _answer(self, request: Request) -> tuple[int, tuple[Result, ...]]:
        match request:
            case AddWatch() | MultiRead() if self.old:
                return Err.UNIMPLEMENTED, ()
            case AddWatch(path=path):
                if self.refusal is Err.OK:
                    self._watched.append(path)
                return self.refusal, ()
            case Sync():
                return Err.OK, ()
            case MultiRead(reads=reads):
                return Err.OK, tuple(self._read(read) for read in reads)
            case SingleRead():
                return self._read_and_watch(request)

    def _read_and_watch(self, request: SingleRead) -> tuple[int, tuple[Result, ...]]:
        op, path = request.op, request.path
        result = self._read((op, path))
        refused = isinstance(result, Refused)
        if not refused or op is Op.EXISTS:
            watches = self.child_watches if op is Op.GET_CHILDREN else self.data_watches
            watches.add(path)
        return (result.code, ()) if isinstance(result, Refused) else (Err.OK, (result,))

    def _read(self, read: Read) -> Result:
        op, path = read
        if path not in self.nodes:
            return Refused(Err.NO_NODE)
        if path in self.broken:
            return Refused(Err.MARSHALLING)
        if path in self.closed:
            return Refused(Err.NO_AUTH)
        if op is Op.GET_CHILDREN:
            return Children(self.children(path))
        node = self.nodes[path]._replace(num_children=len(self.children(path)))
        return node._replace(data=b"") if op is Op.EXISTS else node

    def _notify(self, type_: EventType, path: str) -> None:
        if any(f"{path}/".startswith(f"{root}/") for root in self._watched):
            self.to_client.append((type_, path))
        armed = path in self.data_watches
        self.data_watches.discard(path)
        if type_ is EventType.DELETED and path in self.child_watches:
            armed = True
            self.child_watches.discard(path)
        if armed:
            self.to_client.append((type_, path))

    def _notify_parent(self, path: str) -> None:
        parent = path.rpartition("/")[0] or "/"
        if parent in self.child_watches:
            self.child_watches.discard(parent)
            self.to_client.append((EventType.CHILDREN_CHANGED, parent))


def fill(zk: Ensemble) -> None:
    """Create a small Kafka cluster."""
    for path in PUBLISHED:
        zk.put(path, b'{"version":"1","id":"one"}' if path == "/cluster/id" else b"{}")


def view(
    *,
    generation: int = 1,
    seq: int = 1,
    watcher: str = "aaaaaa",
    read_zxid: int = 0,
    cluster_id: str | None = None,
    wanted: ResyncWanted | None = None,
) -> ClusterView:
    """Return the fold's view of a watcher's log, by default of its first generation."""
    return cluster_view(
        at=AsOf("l", generation, seq),
        log=LogView(watcher=watcher, read_zxid=read_zxid),
        config=ClusterConfig(cluster_id=cluster_id),
        resync_wanted=wanted,
    )


class Reader:
    """The state of a reader of the log: the fold's rules in their simplest form."""

    def __init__(self) -> None:
        self.changes: list[ZnodeChange] = []
        self.mzxids: dict[str, int] = {}
        self.last: dict[ChangeKind, ZnodeChange] = {}
        self._confirmed: set[str] | None = None
        self._expected = (0, 0)

    def read(self, change: ZnodeChange) -> None:
        """Apply one change; fails on a gap in the seqs."""
        self.changes.append(change)
        self.last[change.kind] = change
        generation, seq = self._expected
        if change.generation > generation:
            generation, seq = change.generation, 1
            assert change.kind is ChangeKind.RESYNC_STARTED, "a generation begins with a resync"
        assert (change.generation, change.seq) == (generation, seq)
        self._expected = (generation, seq + 1)
        self._apply(change)

    def skip(self, changes: int) -> None:
        """Skip changes that were dropped before they arrived here."""
        generation, seq = self._expected
        self._expected = (generation, seq + changes)

    def _apply(self, change: ZnodeChange) -> None:
        match change.kind:
            case ChangeKind.SET:
                assert change.mzxid is not None
                self.mzxids[change.path] = change.mzxid
                if self._confirmed is not None:
                    self._confirmed.add(change.path)
            case ChangeKind.DELETED:
                self.mzxids.pop(change.path, None)
                if self._confirmed is not None:
                    self._confirmed.discard(change.path)
            case ChangeKind.RESYNC_STARTED:
                self._confirmed = set()
            case ChangeKind.RESYNC_FINISHED:
                confirmed = self._confirmed or set()
                self.mzxids = {p: z for p, z in self.mzxids.items() if p in confirmed}
                self._check_digest(change)
                self._confirmed = None
            case ChangeKind.RECONCILED:
                self._check_digest(change)

    def _check_digest(self, change: ZnodeChange) -> None:
        assert change.znodes == len(self.mzxids)
        assert change.digest == digest_of(self.mzxids)


def requests_in_flight(watcher: Watcher) -> int:
    """Return how many of a watcher's requests are waiting for their replies."""
    return len(watcher._out._in_flight)


def digest_of(mzxids: dict[str, int]) -> str:
    """Return the digest of these znodes."""
    digest = 0
    for path, mzxid in mzxids.items():
        digest ^= znode_digest(path, mzxid)
    return digest_text(digest)


class Play:
    """A watcher, an ensemble and a reader, run step by step."""

    def __init__(
        self,
        intervals: Intervals | None = None,
        name: str = "aaaaaa",
        watches: Watches = Watches.AUTO,
    ) -> None:
        self.now_ms = START_MS
        self.zk = Ensemble()
        self.reader = Reader()
        self.watcher = Watcher("c", name, self.now_ms, intervals=intervals, watches=watches)
        self.other_commands: list[Command] = []

    def connect(self) -> None:
        """Start a connection."""
        self.zk.connect()
        self.watcher.on_session(SessionState.CONNECTED, SERVER, self.now_ms)
        self.carry_out()

    def disconnect(self, state: SessionState = SessionState.SUSPENDED) -> None:
        """End the connection."""
        self.zk.disconnect()
        self.watcher.on_session(state, SERVER, self.now_ms)
        self.carry_out()

    def carry_out(self) -> None:
        """Let the watcher decide, and carry out its actions."""
        self.watcher.on_tick(self.now_ms)
        for command in self.watcher.commands():
            match command:
                case ZnodeChange():
                    self.reader.read(command)
                case Send():
                    if self.zk.connected:
                        self.zk.requests.append(command)
                case _:
                    self.other_commands.append(command)

    def deliver_one(self) -> bool:
        """Deliver the oldest notification or reply to the watcher; False when there is none."""
        if not self.zk.to_client:
            return False
        match self.zk.to_client.popleft():
            case (token, zxid, err, results):
                self.watcher.on_reply(token, zxid, err, results, self.now_ms)
            case (type_, path):
                self.watcher.on_event(type_, path, self.now_ms)
            case _:
                self.disconnect()
                self.connect()
        self.carry_out()
        return True

    def pass_time(self, ms: int) -> None:
        """Let time pass."""
        self.now_ms += ms
        self.carry_out()

    def deliver_all(self, most: int = 10_000) -> None:
        """Answer and deliver until nothing is left."""
        self.carry_out()
        for _ in range(most):
            if not (self.deliver_one() or self.zk.answer_one()):
                if not requests_in_flight(self.watcher) and self.watcher.reader.walk is None:
                    return
                self.pass_time(5)
        raise AssertionError(
            f"not delivered: {requests_in_flight(self.watcher)} requests in flight"
        )

    def kinds(self) -> list[ChangeKind]:
        """Return the kinds of all changes except heartbeats, in order."""
        kinds = [change.kind for change in self.reader.changes]
        return [kind for kind in kinds if kind is not ChangeKind.HEARTBEAT]

    def expected(self, paths: Sequence[str]) -> dict[str, int]:
        """Return what a reader must hold for these paths."""
        return {path: self.zk.nodes[path].mzxid for path in paths if path in self.zk.nodes}
