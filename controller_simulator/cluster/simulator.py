"""A simulated Kafka cluster: operations go in, the znode writes of real brokers come out.

The rule: writes come in order, with the zxids, versions and ephemeral owners that ZooKeeper gives
them, and the cluster comes to rest between two operations. So no controller is deposed at work, and
none keeps requests that it could not send (KAFKA-12315). What real clusters decide by a race or at
random is asked of `Choices`. Refused requests take a zxid too, as on a server. The component test
`test_agreement` compares it with real Kafka 3.9, write by write.

>>> from controller_simulator.cluster.operations import CreateTopic
>>> cluster = Simulator()
>>> for operation in (StartBroker(0), CreateTopic("t", ((0,),))):
...     cluster.perform(operation)
>>> cluster.tree.data("/brokers/topics/t/partitions/0/state")
'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller_simulator.cluster.admin import Administrator
from controller_simulator.cluster.broker import (
    SimulatedBroker,
    fail_log_dir,
    register,
    start_znodes,
)
from controller_simulator.cluster.cluster import SimulatedCluster
from controller_simulator.cluster.operations import (
    BounceBroker,
    DeleteController,
    ExpireSession,
    FailLogDir,
    KillBroker,
    Operation,
    StallBroker,
    StartBroker,
    StopBroker,
)
from controller_simulator.cluster.settings import Choices, SimulatorSettings
from controller_simulator.controller.leader_and_isr_receiver import ReplicaManager
from controller_simulator.controller.lifecycle import CONTROLLER_PATH, Lifecycle, handle
from controller_simulator.controller.phases import LifecycleEvent
from controller_simulator.zookeeper.transactions import DeleteZnode
from controller_simulator.zookeeper.tree import ZnodeTree

FIRST_SESSION = 0x100000000000000
"""Sessions are counted from here, so that they are not taken for anything else."""

CONTROLLED_SHUTDOWN_TRIES = 3
"""How often a broker asks to be relieved (controlled.shutdown.max.retries)."""

TICK_MS = 1000
"""The time that an operation takes."""

START_MS = 1_600_000_000_000
"""When a cluster begins, in milliseconds since 1970, unless its tree has a time."""


class Simulator(SimulatedCluster):
    """A cluster that operations are performed on."""

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
        self._admin = Administrator(self)
        self._sessions = max((FIRST_SESSION, *(commit.session for commit in self.commits)))
        self._plays: dict[type, Callable[[Any], str | None]] = {
            StartBroker: lambda asked: self._start(asked.broker),
            StopBroker: lambda asked: self._if_runs(asked.broker, self._stop),
            KillBroker: lambda asked: self._if_runs(asked.broker, self._kill),
            BounceBroker: lambda asked: self._if_runs(asked.broker, self._bounce),
            StallBroker: lambda asked: self._if_runs(
                asked.broker, lambda run: self.stall(run, asked.topics)
            ),
            ExpireSession: self._expire,
            FailLogDir: lambda asked: self._if_runs(
                asked.broker, lambda run: fail_log_dir(self.tree, run, asked.partitions)
            ),
            DeleteController: self._delete_controller,
        }

    def perform(self, operation: Operation) -> str | None:
        """Perform one operation and let the cluster come to rest; return why it was refused.

        None = it was not. The name is Kafka's error, or says what does not run.
        """
        self.tree.time_ms += TICK_MS
        refused = self._plays.get(type(operation), self._admin.ask)(operation)
        self.settle()
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
        """End a broker's process and its session."""
        run.life = handle(run.life, LifecycleEvent.SHUTDOWN, self.tree, session=run.session)
        self.forget(run)
        self.tree.close_session(run.session)

    def _kill(self, run: SimulatedBroker) -> None:
        """End a broker's process; its session ends later."""
        self.forget(run)
        self.run()  # leaders may miss it before ZooKeeper does
        self._end(run)

    def _bounce(self, run: SimulatedBroker) -> None:
        self._kill(run)
        self.run()
        self._start(run.id)

    def _expire(self, asked: ExpireSession) -> str | None:
        """Freeze a broker until its session has ended; then it resigns, and registers again."""
        if asked.broker is not None:
            return self._if_runs(asked.broker, self._lose_session)
        controller = self.controller
        if controller is None:
            return "there is no controller"
        self._lose_session(controller)
        return None

    def _lose_session(self, run: SimulatedBroker) -> None:
        self.freeze(run)
        self.run()  # leaders may miss it before ZooKeeper does
        self.tree.close_session(run.session)
        self.run()
        self.wake(run)
        self.notify(run, LifecycleEvent.EXPIRE)
        self.run()
        run.session = self._open_session()
        czxid = register(self.tree, run.session, run.id, self.settings)
        run.manager.broker_epoch = czxid
        self.notify(run, LifecycleEvent.NEW_SESSION)

    def _delete_controller(self, _asked: DeleteController) -> str | None:
        self.tree.attempt(DeleteZnode(CONTROLLER_PATH))
        return None
