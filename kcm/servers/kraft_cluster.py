"""A KRaft cluster on this machine: its controllers and brokers, each to be stopped, killed, paused and started again."""

import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from kcm.servers.jars import Jars
from kcm.servers.kafka import READY_DEADLINE_S, KraftController, KraftModeBroker, Node
from kcm.servers.quorum import ControllerListener, Leader, Properties, Quorum
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import UnreachableError

SESSION_MS = 3000  # Kafka's default of 9 s is what each wait for a fenced broker would take
_POLL_S = 0.02


class KraftCluster:
    """A quorum, and the brokers on it; an id among controllers and brokers is one node with both roles."""

    def __init__(
        self,
        supervisor: Supervisor,
        jars: Jars,
        folder: Path,
        *,
        controllers: Sequence[int] = (3001, 3002, 3003),
        brokers: Sequence[int] = (1, 2, 3),
        dynamic: bool = False,
        listener: ControllerListener | None = None,
        format_arguments: Sequence[str] = (),
        session_timeout_ms: int = SESSION_MS,
        properties: Properties | None = None,
        name: str = "kraft",
    ) -> None:
        """Describe all nodes; `properties` are those of each, `name` begins the names of their processes."""
        self.quorum = Quorum(
            controllers, dynamic=dynamic, listener=listener, format_arguments=format_arguments
        )
        shared = {
            "broker.session.timeout.ms": session_timeout_ms,
            # Controllers compare the two; a broker that starts is asked for several heartbeats.
            "broker.heartbeat.interval.ms": min(session_timeout_ms, SESSION_MS) // 4,
            **(properties or {}),
        }
        self.brokers = {
            broker: KraftModeBroker(
                broker,
                self.quorum,
                supervisor,
                jars,
                folder / f"broker-{broker}",
                session_timeout_ms=session_timeout_ms,
                name=f"{name}-broker-{broker}",
                properties=shared,
            )
            for broker in brokers
        }
        self.controllers: dict[int, Node] = {
            voter: self.brokers[voter]
            if voter in self.brokers
            else KraftController(
                voter,
                self.quorum,
                supervisor,
                jars,
                folder / f"controller-{voter}",
                name=f"{name}-controller-{voter}",
                properties=shared,
            )
            for voter in controllers
        }

    @property
    def nodes(self) -> list[Node]:
        """All nodes, controllers first."""
        own = [node for broker, node in self.brokers.items() if broker not in self.controllers]
        return [*self.controllers.values(), *own]

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses for clients."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def start(self) -> Leader:
        """Start every node that does not run, wait until each serves and each broker names all, and return the leader.

        librdkafka drops a broker that one answer to a metadata request lacks, with what it was just asked.
        Raises UnreachableError when a broker's metadata does not name all others in time.
        """
        self.start_controllers()
        leader = self._start(self.brokers.values())
        deadline = time.monotonic() + READY_DEADLINE_S
        for broker in self.brokers.values() if len(self.brokers) > 1 else ():
            while (lacks := broker.lacks(self.brokers)) is not None:
                broker.check()
                if time.monotonic() >= deadline:
                    raise broker.not_ready(broker.name, READY_DEADLINE_S, lacks)
                time.sleep(_POLL_S)
        return leader

    def start_controllers(self) -> Leader:
        """Start the controllers, and wait until most of them follow one leader: brokers may start then.

        A broker that copies the records of the first leader, and has to drop them for those of a second one, forgets
        for good who the voters are, and so never registers (Kafka 4.4.0,
        KRaftControlRecordStateMachine.truncateNewEntries).
        """
        return self._start(self.controllers.values())

    def _start(self, nodes: Collection[Node]) -> Leader:
        for node in nodes:
            node.start(wait=False)
        for node in nodes:
            node.wait_ready()
        return self.await_leader(self._is_followed)

    def _is_followed(self, leader: Leader) -> bool:
        """Whether most controllers know this leader."""
        knowing = sum(each.known_leader() == leader for each in self.controllers.values())
        return 2 * knowing > len(self.controllers)

    def kill(self) -> None:
        """Kill every node."""
        for node in self.nodes:
            node.request_kill()
        for node in self.nodes:
            node.kill()

    def leader(self) -> Leader | None:
        """Return the running controller that leads by its own `quorum-state`, and its epoch; None without one.

        One that is paused is still named until another leads, with a larger epoch.
        """
        known = ((v, c.known_leader()) for v, c in self.controllers.items() if c.running)
        leaders = [found for voter, found in known if found is not None and found.id == voter]
        return max(leaders, key=lambda leader: leader.epoch, default=None)

    def await_leader(
        self,
        is_wanted: Callable[[Leader], bool] = lambda _: True,
        deadline_s: float = READY_DEADLINE_S,
    ) -> Leader:
        """Wait for a leader for which `is_wanted` is true, and return it.

        Raises UnreachableError when there is none in time.
        """
        deadline = time.monotonic() + deadline_s
        while (leader := self.leader()) is None or not is_wanted(leader):
            if time.monotonic() >= deadline:
                raise UnreachableError(
                    f"no such leader of controllers {', '.join(map(str, self.controllers))} within "
                    f"{deadline_s:g} s; last seen: {leader}"
                )
            time.sleep(_POLL_S)
        return leader
