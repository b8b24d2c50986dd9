"""Simulates a Kafka cluster in ZooKeeper mode: operations go in, the znode writes of its brokers come out.

Writes come in order, with the zxids, versions and ephemeral owners that ZooKeeper gives
them, and between two operations nothing is under way. So no controller is replaced while it
works, and none keeps requests that it could not send (KAFKA-12315). What real clusters decide by a
race or at random is taken from `Choices`. What administrators ask for is refused with Kafka's error
name, or written in the controller's session. Refused requests take a zxid too, as on a server. The
component test `test_agreement` compares the simulator with real Kafka 3.9, write by write. What
only such scripts do to a cluster is in `tests.support.scripted_simulator`. Sources (Kafka 3.9):
kafka.server.KafkaServer (startup, controlledShutdown),
kafka.zk.KafkaZkClient.createDeleteTopicPath.

>>> cluster = ZooKeeperModeSimulator()
>>> for operation in (StartBroker(0), StartBroker(1), KillBroker(0)):
...     cluster.perform(operation)
>>> cluster.controller.id, cluster.tree.data("/controller_epoch")
(1, '2')
"""

from collections.abc import Callable
from typing import Any

from controller_simulator.cluster.broker import (
    SimulatedBroker,
    create_recursive,
    register,
    start_znodes,
)
from controller_simulator.cluster.cluster import SimulatedCluster
from controller_simulator.cluster.operations import (
    DeleteController,
    DeleteTopic,
    ElectPreferred,
    ElectUnclean,
    KillBroker,
    Operation,
    Reassign,
    StartBroker,
    StopBroker,
)
from controller_simulator.cluster.settings import Choices, SimulatorSettings
from controller_simulator.controller.controller_io import topic_path
from controller_simulator.controller.leader_and_isr_receiver import ReplicaManager
from controller_simulator.controller.lifecycle import CONTROLLER_PATH, Lifecycle
from controller_simulator.controller.phases import LifecycleEvent
from controller_simulator.zookeeper.transactions import DeleteZnode
from controller_simulator.zookeeper.tree import ZnodeTree

FIRST_SESSION = 0x100000000000000
"""Sessions are counted from here, so that a session id is not mistaken for another number."""

CONTROLLED_SHUTDOWN_TRIES = 3
"""How often a broker asks for a controlled shutdown (controlled.shutdown.max.retries)."""

TICK_MS = 1000
"""The time that an operation takes, in milliseconds."""

START_MS = 1_600_000_000_000
"""When a cluster begins, in milliseconds since 1970, unless its tree has a time."""


class ZooKeeperModeSimulator(SimulatedCluster):
    """A cluster in ZooKeeper mode on which operations are performed."""

    def __init__(
        self,
        *,
        settings: SimulatorSettings | None = None,
        choices: Choices | None = None,
        tree: ZnodeTree | None = None,
    ) -> None:
        """Begin with an empty ZooKeeper (or this one) and no brokers."""
        super().__init__(
            tree or ZnodeTree(time_ms=START_MS),
            settings or SimulatorSettings(),
            choices or Choices(),
        )
        self._sessions = max((FIRST_SESSION, *(commit.session for commit in self.commits)))
        self._performers: dict[type, Callable[[Any], str | None]] = {
            StartBroker: lambda asked: self._start(asked.broker),
            StopBroker: lambda asked: self._if_runs(asked.broker, self._stop),
            KillBroker: lambda asked: self._if_runs(asked.broker, self._kill),
            DeleteController: self._delete_controller,
            DeleteTopic: self._by_controller(self._delete_topic),
            Reassign: self._by_controller(self._ask),
            ElectPreferred: self._by_controller(self._ask),
            ElectUnclean: self._by_controller(self._ask),
        }

    def perform(self, operation: Operation) -> str | None:
        """Perform one operation until nothing is under way any more; return why it was refused.

        None = it was not. The text is the names of Kafka's errors, separated by commas, or says that the broker
        runs, or does not run. A part of what was asked may have been done.
        """
        self.tree.time_ms += TICK_MS
        refused = self._performers[type(operation)](operation)
        self.run_until_quiet()
        return refused

    def _if_runs(self, broker: int, act: Callable[[SimulatedBroker], None]) -> str | None:
        run = self.brokers.get(broker)
        if run is None or not run.running:
            return f"broker {broker} does not run"
        act(run)
        return None

    def _start(self, broker: int) -> str | None:
        known = self.brokers.get(broker)
        if known is not None and known.running:
            return f"broker {broker} runs"
        session = self._open_session()
        start_znodes(self.tree, session, self.choices)
        czxid = register(self.tree, session, broker, self.settings)
        life = Lifecycle(broker, kraft_controller_epoch=self.settings.kraft_controller_epoch)
        run = SimulatedBroker(broker, session, life, ReplicaManager(broker, czxid))
        self.brokers[broker] = run
        self.notify(run, LifecycleEvent.STARTUP)
        return None

    def _open_session(self) -> int:
        self._sessions += 1
        self.tree.open_session(self._sessions)
        return self._sessions

    def _stop(self, run: SimulatedBroker) -> None:
        """Let a broker shut down under the controller's control, as long as there is one."""
        run.stopping = True
        if self.settings.controlled_shutdown:
            for _ in range(CONTROLLED_SHUTDOWN_TRIES):
                left = self.control(StopBroker(run.id))
                self.run()
                self.take_back(run)
                if not left:
                    break
        self._end(run)

    def _end(self, run: SimulatedBroker) -> None:
        self._change_life(run, LifecycleEvent.SHUTDOWN)
        self.forget(run)
        self.tree.close_session(run.session)

    def _kill(self, run: SimulatedBroker) -> None:
        """End a broker's process; its session ends later."""
        self.forget(run)
        self.run()  # leaders may drop it before its session expires
        self._end(run)

    def _delete_controller(self, _asked: DeleteController) -> str | None:
        self.tree.attempt(DeleteZnode(CONTROLLER_PATH))
        return None

    # --- what is asked of the controller ----------------------------------------------------

    def _by_controller(self, act: Callable[[Any, int], str | None]) -> Callable[[Any], str | None]:
        """Return a function that performs an operation in the controller's session, or returns Kafka's error without one.

        A controller that hangs does not answer in time.
        """

        def perform(operation: Any) -> str | None:
            run = self.controller
            if run is not None:
                return act(operation, run.session)
            hangs = any(broker.running and broker.hangs for broker in self.brokers.values())
            return "REQUEST_TIMED_OUT" if hangs else "NOT_CONTROLLER"

        return perform

    def _delete_topic(self, asked: DeleteTopic, session: int) -> str | None:
        if not self.settings.delete_topic:
            return "TOPIC_DELETION_DISABLED"
        if self.tree.find(topic_path(asked.topic)) is None:
            return "UNKNOWN_TOPIC_OR_PARTITION"
        create_recursive(self.tree, f"/admin/delete_topics/{asked.topic}", session=session)
        return None

    def _ask(self, asked: Reassign | ElectPreferred | ElectUnclean, _session: int) -> str | None:
        """Let the controller handle a request; return its errors, each once.

        An event that is aborted has no answer, for which the client does not wait for ever.
        """
        answer = self.control(asked)
        if not isinstance(answer, dict):
            return "REQUEST_TIMED_OUT"
        return ", ".join(dict.fromkeys(error for error in answer.values() if error)) or None
