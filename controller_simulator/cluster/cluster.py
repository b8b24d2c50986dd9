"""Runs the simulator's event loop: which broker handles which event, and in which order.

One event at a time. Writes fire watches. First every broker learns who the controller is,
then the controller handles its events, and only when it has none left do followers catch up. This
module decides nothing: the modules that hold Kafka's rules do.
"""

from collections import deque
from collections.abc import Callable, Iterable

from controller_model.kafka.ids import TopicPartition
from controller_model.sources.zookeeper.config_payloads import decode_config_change
from controller_simulator.cluster.active_controller import ActiveController
from controller_simulator.cluster.broker import SimulatedBroker
from controller_simulator.cluster.events import (
    AlterPartition,
    ControllerEvent,
    ControllerSignal,
    LeaderAndIsrResponse,
    StateChange,
    TopicUncleanEnable,
    event_of,
)
from controller_simulator.cluster.leadership import handle_event
from controller_simulator.cluster.settings import Choices, SimulatorSettings
from controller_simulator.controller.context import LeaderIsrAndControllerEpoch
from controller_simulator.controller.controller_io import ISR_CHANGES_PATH, Transition, state_path
from controller_simulator.controller.lifecycle import CONTROLLER_PATH, handle_lifecycle_event
from controller_simulator.controller.phases import ElectionStep, LifecycleEvent, Phase
from controller_simulator.controller.requests import LeaderAndIsrRequest, Request
from controller_simulator.zookeeper.payload_writers import encode_partition_state, encode_partitions
from controller_simulator.zookeeper.transactions import (
    Commit,
    Committed,
    ControllerMovedError,
    Created,
    CreateZnode,
    Removed,
    SetZnode,
)
from controller_simulator.zookeeper.tree import ZnodeTree

CONFIG_CHANGES = "/config/changes/"
TOPIC_ENTITIES = "topics/"

MAX_FAILED_FAILOVERS = 5
"""After so many failed failovers no broker tries to be elected before the next operation.  A
failover that Kafka aborts with an exception gives /controller away, and the failover of the next broker is
aborted, too: real clusters continue like that without end."""


Observer = Callable[[SimulatedBroker, ControllerEvent | ElectionStep, Transition], None]
"""A function of the controller, the event or step of the failover, and its result."""


class SimulatedCluster:
    """A ZooKeeper and brokers, of which one is the controller."""

    def __init__(self, tree: ZnodeTree, settings: SimulatorSettings, choices: Choices) -> None:
        self.tree = tree
        self.settings = settings
        self.choices = choices
        self.brokers: dict[int, SimulatedBroker] = {}
        """The last run of each broker that was ever started."""
        self._seen = len(tree.commits)
        self._failed_failovers = 0
        self._lifecycle_events: deque[tuple[SimulatedBroker, LifecycleEvent]] = deque()
        self._events: deque[ControllerEvent] = deque()
        self._queued: set[ControllerEvent] = set()
        self._inboxes: dict[int, list[Request]] = {}
        self._lagging: dict[TopicPartition, None] = {}
        self.on_transition: Observer = lambda _run, _cause, _done: None
        """Called after each event with all that the controller wrote and sent, before brokers get it."""

    @property
    def commits(self) -> list[Commit]:
        """Everything that was written, as ZooKeeper's transaction log has it."""
        return self.tree.commits

    @property
    def controller(self) -> SimulatedBroker | None:
        """The broker that is the controller now; None while there is none."""
        return next((b for b in self.brokers.values() if b.controller is not None), None)

    @property
    def _active(self) -> ActiveController | None:
        """The controller of that broker; None while there is none."""
        run = self.controller
        return None if run is None else run.controller

    @property
    def live(self) -> tuple[int, ...]:
        """The brokers that run, by id."""
        return tuple(sorted(b.id for b in self.brokers.values() if b.running))

    def run_until_quiet(self) -> None:
        """Handle events until nothing is under way any more."""
        self._failed_failovers = 0
        while True:
            self.run()
            before = len(self.tree.commits)
            self._propagate_isr_changes()
            if self.settings.auto_leader_rebalance:
                self._events.append(ControllerSignal.AUTO_REBALANCE)
            self.run()
            if len(self.tree.commits) == before:
                return

    def add_lagging(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that followers of these partitions may catch up with their leaders when nothing else is under way."""
        self._lagging.update(dict.fromkeys(partitions))

    def notify(self, run: SimulatedBroker, event: LifecycleEvent) -> None:
        """Queue an event about the controller's election for a broker."""
        self._lifecycle_events.append((run, event))

    def forget(self, run: SimulatedBroker) -> None:
        """Remove a broker's process, with everything in its memory."""
        run.running = False
        run.controller = None
        run.manager.partitions.clear()
        self._inboxes.pop(run.id, None)

    # --- events -----------------------------------------------------------------------------

    def run(self) -> None:
        """Handle events, and let followers catch up, until both are done."""
        while True:
            self._fire_watches()
            if self._lifecycle_events:
                self._handle_lifecycle_event(*self._lifecycle_events.popleft())
                if self._failed_failovers > MAX_FAILED_FAILOVERS:
                    self._lifecycle_events.clear()
            elif self._drop_slow_followers():
                continue
            elif self._events and not ((run := self.controller) is not None and run.stalled):
                event = self._events.popleft()
                self._queued.discard(event)
                self.control(event)
            elif self._lagging:
                partition = self.choices.catches_up(self._lagging.keys())
                if not self._expand_isr(partition):
                    del self._lagging[partition]
            else:
                return

    def _queue_event(self, event: ControllerEvent) -> None:
        """Queue an event that watches cause, unless it is queued already: a watch fires once."""
        watched = not isinstance(event, StateChange) or not self.settings.alter_partition
        if watched and event not in self._queued:
            self._queued.add(event)
            self._events.append(event)

    def _fire_watches(self) -> None:
        """Fire the watches of everything written since the last call."""
        commits = self.tree.commits
        while self._seen < len(commits):
            commit = commits[self._seen]
            self._seen += 1
            for write in commit.writes:
                if write.path == CONTROLLER_PATH:
                    self._fire_watches_of_controller(write)
                elif isinstance(write, Created) and write.path.startswith(CONFIG_CHANGES):
                    self._fire_watches_of_config(write)
                event = event_of(write)
                if event is not None:
                    self._queue_event(event)

    def _fire_watches_of_controller(self, write: Committed) -> None:
        runs = [b for b in self.brokers.values() if b.running and not (b.stalled or b.hangs)]
        event = LifecycleEvent.CONTROLLER_CHANGE
        if isinstance(write, Removed) and runs:
            event = LifecycleEvent.REELECT
            fastest = self.choices.first(tuple(sorted(run.id for run in runs)))
            runs.sort(key=lambda run: (run.id != fastest, run.id))
        self._lifecycle_events.extend((run, event) for run in runs)

    def _fire_watches_of_config(self, write: Created) -> None:
        """Notify the controller that unclean leader election was enabled for a topic."""
        entity = decode_config_change(write.data.encode())
        if not entity.startswith(TOPIC_ENTITIES):
            return
        topic = entity.removeprefix(TOPIC_ENTITIES)
        active = self._active
        if active is not None and active.reader.unclean_leader_election(topic):
            self._events.append(TopicUncleanEnable(topic))

    def _handle_lifecycle_event(self, run: SimulatedBroker, event: LifecycleEvent) -> None:
        """Handle an event of the election, and do the steps of a failover that follows."""
        self._change_life(run, event)
        while (step := run.life.next_step) is not None and run.controller is not None:
            self._fail_over(run, run.controller, step)

    def _change_life(self, run: SimulatedBroker, event: LifecycleEvent) -> None:
        """Set the broker's lifecycle after an event; a term ends with its epoch."""
        life = handle_lifecycle_event(run.life, event, self.tree, session=run.session)
        goes_on = life.is_active and life.epoch == run.life.epoch
        run.life = life
        if not goes_on:
            is_elected = life.phase is Phase.FAILOVER
            run.controller = self.begin_term(run) if is_elected else None

    def begin_term(self, run: SimulatedBroker) -> ActiveController:
        """Return a new controller, with an empty memory, for a broker that has won."""
        return ActiveController(self.tree, self.settings, run.life, session=run.session)

    def _fail_over(
        self, run: SimulatedBroker, controller: ActiveController, step: ElectionStep
    ) -> None:
        event = LifecycleEvent.STEP_DONE
        try:
            with controller.io.event():
                controller.run(step)
            done = controller.commit()
        except ControllerMovedError:
            event = LifecycleEvent.CONTROLLER_MOVED
        else:
            self.on_transition(run, step, done)
            self.deliver(done.requests)
            if done.aborted is not None:
                event = LifecycleEvent.FAILED
                self._failed_failovers += 1
        self._change_life(run, event)

    def control(self, event: ControllerEvent) -> object:
        """Let the controller handle an event now; return its answer, None without a controller."""
        run = self.controller
        if run is None or run.controller is None or run.stalled:
            return None
        try:
            answer = handle_event(run.controller, event)
            done = run.controller.commit()
        except ControllerMovedError:
            self._lifecycle_events.append((run, LifecycleEvent.CONTROLLER_MOVED))
            return None
        if isinstance(event, AlterPartition) and isinstance(answer, LeaderIsrAndControllerEpoch):
            self.brokers[event.broker].altered(event, partition_epoch=answer.partition_epoch)
        self.on_transition(run, event, done)
        self.deliver(done.requests)
        return answer

    def deliver(self, requests: Iterable[Request]) -> None:
        """Give brokers their requests, and the controller their answers."""
        active = self._active
        for request in requests:
            broker = self.brokers.get(request.broker)
            if broker is None or not broker.running:
                continue
            if broker.stalled:
                self._inboxes.setdefault(broker.id, []).append(request)
                continue
            deleting = frozenset(() if active is None else active.context.topics_to_be_deleted)
            answer = broker.receive(request, deleting=deleting)
            if isinstance(request, LeaderAndIsrRequest):
                # Below inter.broker.protocol 2.7, leaders may have changed the ISR that they were sent.
                self.add_lagging(
                    sent.partition
                    for sent in request.partitions
                    if len(sent.isr) < len(sent.replicas) or not self.settings.alter_partition
                )
            if isinstance(answer, LeaderAndIsrResponse) and not (
                answer.offline
                or (active is not None and active.context.replicas_on_offline_dirs.get(broker.id))
            ):
                continue
            if answer is not None:
                self._events.append(answer)

    # --- in-sync replicas -------------------------------------------------------------------

    def _drop_slow_followers(self) -> bool:
        """Let a leader drop the followers that have fallen behind, if `choices` names any.

        It drops all of them in one write (Partition.maybeShrinkIsr).
        """
        slow = self.choices.falls_behind()
        if slow is None:
            return False
        partition, followers = slow
        if not self._alter_led_isr(
            partition, lambda isr: tuple(member for member in isr if member not in followers)
        ):
            return False
        self._lagging[partition] = None
        return True

    def take_back(self, run: SimulatedBroker) -> None:
        """Let leaders take a follower that shuts down back into the ISR, if `choices` names one.

        A leader reads for a fetch under its lock and counts the fetch later: under a new epoch, if
        one arrived in between (Partition.fetchRecords). Since 2.7 the controller refuses such an
        ISR.
        """
        if self.settings.alter_partition:
            return
        is_altered = True
        while is_altered and (partition := self.choices.taken_back(run.id)) is not None:
            is_altered = self._alter_led_isr(partition, lambda isr: (*isr, run.id))

    def _expand_isr(self, partition: TopicPartition) -> bool:
        """Let one follower that has caught up join the ISR; return whether one did."""
        for leader in self.brokers.values():
            hosted = leader.manager.partitions.get(partition)
            if hosted is None or hosted.leader != leader.id:
                continue  # true of most brokers, so it is checked first
            if not leader.running or leader.stalled or not hosted.serves:
                continue
            caught_up = tuple(
                replica
                for replica in hosted.replicas
                if replica not in hosted.isr
                and (follower := self.brokers.get(replica)) is not None
                and follower.fetches(partition, leader)
                and self.choices.keeps_up(partition, replica)
            )
            if caught_up:
                joins = self.choices.joins(partition, hosted.isr, caught_up)
                return self._alter_isr(leader, partition, (*hosted.isr, joins))
        return False

    def _alter_led_isr(
        self, partition: TopicPartition, alter: Callable[[tuple[int, ...]], tuple[int, ...]]
    ) -> bool:
        """Let the broker that believes it leads change its ISR; return whether it was changed."""
        return any(
            leader.leads(partition)
            and self._alter_isr(leader, partition, alter(leader.manager.partitions[partition].isr))
            for leader in self.brokers.values()
        )

    def _alter_isr(
        self, leader: SimulatedBroker, partition: TopicPartition, isr: tuple[int, ...]
    ) -> bool:
        """Change an ISR by the protocol of the release; return whether it was changed."""
        event = leader.alter_partition(partition, isr)
        if self.settings.alter_partition:
            return isinstance(self.control(event), LeaderIsrAndControllerEpoch)
        hosted = leader.manager.partitions[partition]
        data = encode_partition_state(event.leader_and_isr, hosted.controller_epoch)
        write = SetZnode(state_path(partition), data.decode(), hosted.partition_epoch)
        if not isinstance(self.tree.attempt(write, session=leader.session), Commit):
            return False
        leader.altered(event, partition_epoch=hosted.partition_epoch + 1)
        leader.isr_changes.append(partition)
        return True

    def _propagate_isr_changes(self) -> None:
        """Let leaders announce the ISRs that they wrote themselves (ZkAlterPartitionManager)."""
        for leader in self.brokers.values():
            if leader.running and leader.isr_changes:
                changed = tuple(dict.fromkeys(leader.isr_changes))
                leader.isr_changes.clear()
                path = self.tree.next_in_sequence(f"{ISR_CHANGES_PATH}/isr_change_")
                data = encode_partitions(changed).decode()
                self.tree.attempt(CreateZnode(path, data), session=leader.session)
