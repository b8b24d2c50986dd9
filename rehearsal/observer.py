"""What the controller elects and sends in a step, including its failover.

Requests are counted as the controller sends them, to registered brokers; between two steps those are the
running ones.
"""

from collections import Counter, defaultdict

from controller_model.kafka.elections import Strategy
from controller_model.kafka.ids import NO_LEADER, TopicPartition
from controller_model.sources.zookeeper.payloads import decode_partition_state
from controller_model.sources.zookeeper.znode_kinds import ZnodeKind, classify
from controller_simulator.cluster.broker import SimulatedBroker
from controller_simulator.cluster.events import AlterPartition, ControllerEvent
from controller_simulator.cluster.simulator import ZooKeeperModeSimulator
from controller_simulator.controller.controller_io import Transition
from controller_simulator.controller.phases import ElectionStep
from controller_simulator.controller.requests import (
    LeaderAndIsrRequest,
    Request,
    StopReplicaRequest,
)
from controller_simulator.zookeeper.transactions import Multi, SetZnode
from rehearsal.failover import LastFailover, failover_work
from rehearsal.report import BrokerRequests, FailoverEstimate

UNCLEAN = "unclean"
"""The kind of an election from outside the ISR; the others are named by their strategy."""
_REQUEST_COUNTS = [name for name in BrokerRequests.__struct_fields__ if name != "broker"]


class StepObserver:
    """Counts what the controller of this cluster does from now on."""

    def __init__(self, cluster: ZooKeeperModeSimulator) -> None:
        self.isr_changes = 0
        """ISR changes that leaders requested."""
        self._elections: Counter[str] = Counter()
        self._unclean: dict[TopicPartition, None] = {}
        self._sent: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self._was_elected = False
        self._failover_writes = 0
        self._failed_over: set[TopicPartition] = set()
        cluster.on_transition = self._observe_transition

    @property
    def elections(self) -> dict[str, int]:
        """How many elections were held, by kind."""
        return dict(sorted(self._elections.items()))

    @property
    def unclean(self) -> tuple[TopicPartition, ...]:
        """The partitions that got a leader from outside the ISR."""
        return tuple(sorted(self._unclean))

    @property
    def requests(self) -> tuple[BrokerRequests, ...]:
        """How many requests each broker got; brokers without any are absent."""
        return tuple(
            BrokerRequests(broker=broker, **{name: sent[name] for name in _REQUEST_COUNTS})
            for broker, sent in sorted(self._sent.items())
        )

    def failover(
        self, last: LastFailover | None, leaderless_before: set[TopicPartition]
    ) -> FailoverEstimate | None:
        """Return the work of the last elected controller's failover; None if nobody was elected.

        A partition that had no leader before is not a part of it.
        """
        if not self._was_elected:
            return None
        return failover_work(
            len(self._failed_over - leaderless_before), self._failover_writes, last
        )

    def _observe_transition(
        self, _run: SimulatedBroker, cause: ControllerEvent | ElectionStep, done: Transition
    ) -> None:
        for held in done.elections:
            self._elections[UNCLEAN if held.unclean else held.strategy.value] += 1
            if held.unclean:
                self._unclean[held.partition] = None
        is_isr_change = isinstance(cause, AlterPartition)
        self.isr_changes += is_isr_change
        for request in done.requests:
            self._count_request(request, is_isr_change=is_isr_change)
        if isinstance(cause, ElectionStep):
            self._observe_failover(cause, done)

    def _count_request(self, request: Request, *, is_isr_change: bool) -> None:
        sent = self._sent[request.broker]
        if isinstance(request, LeaderAndIsrRequest):
            sent["leader_and_isr"] += 1
            sent["leader_and_isr_partitions"] += len(request.partitions)
        elif isinstance(request, StopReplicaRequest):
            sent["stop_replica"] += 1
            sent["stop_replica_partitions"] += len(request.partitions)
        elif is_isr_change:
            sent["update_metadata_after_isr_changes"] += 1
        else:
            sent["update_metadata"] += 1

    def _observe_failover(self, step: ElectionStep, done: Transition) -> None:
        if step is ElectionStep.SET_UP_FEATURES:
            self._was_elected, self._failover_writes = True, 0
            self._failed_over.clear()
        self._failover_writes += len(done.writes)
        self._failed_over.update(
            held.partition for held in done.elections if held.strategy is Strategy.OFFLINE
        )
        for write in done.writes:
            written = write.writes[-1] if isinstance(write, Multi) else write
            znode = classify(written.path)
            if znode.kind is ZnodeKind.PARTITION_STATE and isinstance(written, SetZnode):
                state = decode_partition_state(written.data.encode())
                if state.leader == NO_LEADER:
                    self._failed_over.update(znode.partitions)
