"""An ensemble of three servers: one history, each server at some point of it, watches, connections.

The rule: a server shows a client nothing outside its history, sends a change's notification before
every reply that shows the change, and drops watches with their connection. A server may be behind;
a sync makes it catch up, unless it is cut off from its peers. An old ensemble knows neither
recursive watches nor multiReads: it returns an error and closes the connection.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.simulation.clock import Clock
from zk_source.watcher.commands import Send
from zk_source.wire.operations import (
    AddWatch,
    Children,
    Err,
    EventType,
    MultiRead,
    Op,
    Read,
    Refused,
    Result,
    SingleRead,
    Sync,
    ZnodeData,
)

SERVERS = 3

THROTTLED = -127
"""The error of a request that has waited too long (ZTHROTTLEDOP)."""

REFUSED_LATELY_MS = 120_000
"""After this time a refused value has been read again: after a minute's pause, by a reconciliation."""
_ROOT = ZnodeData(b"", 0, 0, 0, 0, 0, 0, 0)


class Throttle(NamedTuple):
    """How a server delays its clients: it takes each client's requests in one by one; events do not wait.

    Since 3.7 a request that has waited too long is not executed and is answered with a special
    error.
    """

    rng: random.Random
    waits_ms: tuple[int, int]
    """The time between the intake of two requests, at least and at most."""
    refused_after_ms: int
    write_timeout_ms: int
    """A client that has received nothing for so long closes its connection."""

    def wait_ms(self) -> int:
        """Return the time until the next request is taken in."""
        return self.rng.randint(*self.waits_ms)


class Op_(NamedTuple):  # noqa: N801  # `Op` is the protocol's
    """One step of a transaction: a znode's new value, None for a delete."""

    type: EventType
    path: str
    znode: ZnodeData | None


class Refusal(NamedTuple):
    """An error in place of each value of a subtree, for a while."""

    root: str
    err: Err

    def is_of(self, path: str) -> bool:
        """Return whether it applies to a path."""
        return f"{path}/".startswith(f"{self.root}/")


class Transaction(NamedTuple):
    """What happened under one zxid."""

    zxid: int
    steps: tuple[Op_, ...]


class Tree:
    """The znodes at one point of the history."""

    def __init__(self, nodes: dict[str, ZnodeData] | None = None) -> None:
        self.nodes = dict(nodes) if nodes else {"/": _ROOT}
        self.children: dict[str, dict[str, None]] = {}
        for path in self.nodes:
            self._link(path)

    def _link(self, path: str) -> None:
        if path != "/":
            parent, _, name = path.rpartition("/")
            self.children.setdefault(parent or "/", {})[name] = None

    def apply(self, transaction: Transaction) -> None:
        """Apply a transaction."""
        for step in transaction.steps:
            if step.znode is not None:
                self.nodes[step.path] = step.znode
                self._link(step.path)
            else:
                self.nodes.pop(step.path, None)
                parent, _, name = step.path.rpartition("/")
                self.children.get(parent or "/", {}).pop(name, None)

    def read(self, read: Read) -> Result:
        """Return the result of a read of this tree."""
        op, path = read
        znode = self.nodes.get(path)
        if znode is None:
            return Refused(Err.NO_NODE)
        names = self.children.get(path, {})
        return (
            Children(tuple(names))
            if op is Op.GET_CHILDREN
            else znode._replace(num_children=len(names))
        )


class Answer(NamedTuple):
    """A reply to a request."""

    token: int
    zxid: int
    err: int
    results: tuple[Result, ...]


class Notice(NamedTuple):
    """A watch that fired."""

    type: int
    path: str


class Connection:
    """A client's connection to a server: the server's messages arrive in order, and late."""

    def __init__(
        self,
        server: Server,
        clock: Clock,
        rng: random.Random,
        deliver: Callable[[Connection, Answer | Notice | None], None],
    ) -> None:
        self.server = server
        self.open = True
        self._clock = clock
        self._rng = rng
        self._deliver = deliver
        self._watched: list[str] = []
        self._data_watches: set[str] = set()
        self._child_watches: set[str] = set()
        self._up_at = 0
        self._down_at = 0
        self._heard_at = 0
        self.silent_until = 0
        """Until then nothing arrives at the client."""

    def send(self, command: Send) -> None:
        """Send a request to the server."""
        sent_at, throttle = self._clock.now, self.server.throttle
        self._up_at = max(self._up_at, sent_at + self._rng.randint(0, 3))
        if throttle is not None:
            self._up_at += throttle.wait_ms()
            self._clock.after(throttle.write_timeout_ms, lambda: self._give_up(sent_at))
        self._clock.at(self._up_at, lambda: self._execute(command, sent_at))

    def _give_up(self, sent_at: int) -> None:
        """Make the client close a connection on which nothing has arrived since it sent a request."""
        if self.open and self._heard_at <= sent_at:
            self._deliver(self, None)

    def _execute(self, command: Send, sent_at: int) -> None:
        if not self.open:
            return
        server, request, throttle = self.server, command.request, self.server.throttle
        match request:
            case _ if (
                throttle is not None and self._clock.now - sent_at > throttle.refused_after_ms
            ):
                self.push(Answer(command.token, server.zxid, THROTTLED, ()))
            case AddWatch() | MultiRead() if server.old:
                self.push(Answer(command.token, server.zxid, Err.UNIMPLEMENTED, ()))
                self.push(None)
            case SingleRead():
                result = self._read_and_watch(request)
                err = result.code if isinstance(result, Refused) else Err.OK
                values = () if isinstance(result, Refused) else (result,)
                self.push(Answer(command.token, server.zxid, err, values))
            case AddWatch() if server.refuses_watches:
                self.push(Answer(command.token, server.zxid, Err.NO_AUTH, ()))
            case AddWatch(path=path):
                self._watched.append(path)
                self.push(Answer(command.token, server.zxid, Err.OK, ()))
            case Sync():
                if not server.cut_off:
                    server.catch_up()
                self.push(Answer(command.token, server.zxid, Err.OK, ()))
            case MultiRead(reads=reads):
                # The reply's zxid is read first, then the values: here both are of one moment.
                results = tuple(server.read(read) for read in reads)
                self.push(Answer(command.token, server.zxid, Err.OK, results))

    def _read_and_watch(self, request: SingleRead) -> Result:
        result = self.server.read((request.op, request.path))
        if not isinstance(result, Refused) or request.op is Op.EXISTS:
            children = request.op is Op.GET_CHILDREN
            (self._child_watches if children else self._data_watches).add(request.path)
        return result

    def notify(self, steps: Iterable[Op_]) -> None:
        """Notify the client of changes that it watches."""
        for step in steps:
            if any(step.path == root or step.path.startswith(f"{root}/") for root in self._watched):
                self.push(Notice(step.type, step.path))
            self._fire(step)

    def _fire(self, step: Op_) -> None:
        """Fire the one-shot watches for a step."""
        type_, path = step.type, step.path
        armed = path in self._data_watches
        self._data_watches.discard(path)
        if type_ is EventType.DELETED and path in self._child_watches:
            armed = True
            self._child_watches.discard(path)
        if armed:
            self.push(Notice(type_, path))
        parent = path.rpartition("/")[0] or "/"
        if type_ is not EventType.DATA_CHANGED and parent in self._child_watches:
            self._child_watches.discard(parent)
            self.push(Notice(EventType.CHILDREN_CHANGED, parent))

    def push(self, item: Answer | Notice | None) -> None:
        """Send something to the client; None: the server closes the connection."""
        soon = self._clock.now + self._rng.choice((0, 1, 2, 3, 30))
        self._down_at = max(self._down_at, self.silent_until, soon)
        self._clock.at(self._down_at, lambda: self._arrive(item))

    def _arrive(self, item: Answer | Notice | None) -> None:
        if self.open:
            self._heard_at = self._clock.now
            self._deliver(self, item)

    def close(self) -> None:
        """Close it: what is in flight is lost."""
        self.open = False
        if self in self.server.connections:
            self.server.connections.remove(self)


class Server:
    """One server: a point on the ensemble's history."""

    def __init__(self, ensemble: Ensemble, name: str) -> None:
        self.name = name
        self.connections: list[Connection] = []
        self.old = ensemble.old
        self.up = True
        self.frozen = False
        """It applies nothing by itself: a lagging follower."""
        self.cut_off = False
        """It does not reach its peers: a sync does not make it catch up."""
        self.throttle: Throttle | None = None
        """How it delays its clients; None: it does not."""
        self._ensemble = ensemble
        self.restart()

    def restart(self) -> None:
        """Start from the ensemble's current state."""
        self.tree = Tree(self._ensemble.tree.nodes)
        self.applied = len(self._ensemble.history)
        self.zxid = self._ensemble.zxid

    @property
    def refuses_watches(self) -> bool:
        """Whether it answers a request for a recursive watch with an error."""
        return self._ensemble.refuses_watches

    def read(self, read: Read) -> Result:
        """Return the result of a read: a value, or the error with which the ensemble refuses it."""
        result = self.tree.read(read)
        for refusal in self._ensemble.refusals:
            if refusal.is_of(read[1]) and not isinstance(result, Refused):
                return Refused(refusal.err)
        return result

    def step(self, transaction: Transaction) -> None:
        """Apply the next transaction."""
        self.tree.apply(transaction)
        self.applied += 1
        self.zxid = transaction.zxid
        for connection in list(self.connections):
            connection.notify(transaction.steps)

    def catch_up(self, most: int = 10**9) -> None:
        """Apply what is committed and not yet applied."""
        for transaction in self._ensemble.history[self.applied : self.applied + most]:
            self.step(transaction)

    def connect(self, connection: Connection) -> None:
        """Accept a client."""
        self.connections.append(connection)

    def drop_clients(self) -> list[Connection]:
        """Close all connections; return them."""
        dropped = list(self.connections)
        for connection in dropped:
            connection.close()
        return dropped


class Ensemble:
    """The leader's tree and history, and the servers."""

    def __init__(self, clock: Clock, rng: random.Random, *, old: bool) -> None:
        self.clock = clock
        self.rng = rng
        self.old = old
        self.tree = Tree()
        self.zxid = 1 << 32
        self.era = 0
        """Grows by one whenever the history is replaced."""
        self.history: list[Transaction] = []
        self.past: list[dict[str, list[tuple[int, int | None]]]] = [{}]
        """By era and path: (zxid, the mzxid from that zxid on)."""
        self.servers = [Server(self, f"zk{number}:2181") for number in range(SERVERS)]
        self.changes = 0
        self.refuses_watches = False
        self.refusals: list[Refusal] = []
        self._ended: list[tuple[Refusal, int]] = []
        """Earlier refusals, and when they ended."""
        self.clock_ahead_ms = 0

    def write(self, *writes: tuple[str, bytes | None], owner: int = 0) -> None:
        """Commit one transaction: (path, new payload), None for a delete."""
        self.zxid += 1
        steps = tuple(self._step(path, payload, owner) for path, payload in writes)
        transaction = Transaction(self.zxid, steps)
        self.history.append(transaction)
        for path, payload in writes:
            value = None if payload is None else self.zxid
            self.past[-1].setdefault(path, []).append((self.zxid, value))
        self.changes += len(writes)
        for server in self.servers:
            self.clock.after(self.rng.choice((0, 0, 1, 5, 40)), self._apply_to(server))

    def _apply_to(self, server: Server) -> Callable[[], None]:
        def apply() -> None:
            if server.up and not server.frozen and not server.cut_off:
                server.catch_up(1)

        return apply

    def _step(self, path: str, payload: bytes | None, owner: int) -> Op_:
        if payload is None:
            step = Op_(EventType.DELETED, path, None)
        else:
            held = self.tree.nodes.get(path)
            now = self.clock.now + self.clock_ahead_ms
            if held is None:
                znode = ZnodeData(payload, self.zxid, self.zxid, now, now, 0, owner, 0)
                step = Op_(EventType.CREATED, path, znode)
            else:
                znode = held._replace(
                    data=payload, mzxid=self.zxid, mtime=now, version=held.version + 1
                )
                step = Op_(EventType.DATA_CHANGED, path, znode)
        self.tree.apply(Transaction(self.zxid, (step,)))
        return step

    def refuse(self, refusal: Refusal) -> None:
        """Start to refuse reads."""
        self.refusals.append(refusal)

    def end_refusal(self, refusal: Refusal) -> None:
        """Answer reads again: no event reports that."""
        if refusal in self.refusals:
            self.refusals.remove(refusal)
            self._ended.append((refusal, self.clock.now))

    def end_refusals(self) -> None:
        """Answer all reads again."""
        self.refuses_watches = False
        for refusal in list(self.refusals):
            self.end_refusal(refusal)

    def was_refused(self, path: str) -> bool:
        """Return whether reads of a path are refused, or were within the time of some reconciliations."""
        lately = (each for each, at in self._ended if at > self.clock.now - REFUSED_LATELY_MS)
        return any(refusal.is_of(path) for refusal in (*self.refusals, *lately))

    def exists(self, path: str) -> bool:
        """Return whether a znode exists on the leader."""
        return path in self.tree.nodes

    def data(self, path: str) -> bytes:
        """Return a znode's payload on the leader."""
        return self.tree.nodes[path].data

    def names(self, path: str) -> list[str]:
        """Return the names of a znode's children on the leader."""
        return sorted(self.tree.children.get(path, {}))

    def replace_history(self, nodes: dict[str, ZnodeData], zxid: int) -> None:
        """Start another history from a backup; every connection is closed."""
        for server in self.servers:
            server.drop_clients()
        self.tree = Tree(nodes)
        self.zxid = zxid
        self.history = []
        self.era += 1
        begin = {path: [(0, znode.mzxid)] for path, znode in nodes.items()}
        self.past.append({path: list(values) for path, values in begin.items()})
        for server in self.servers:
            server.restart()
