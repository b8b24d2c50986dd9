"""A real Kafka cluster that plays a script, and ZooKeeper's own record of what came of it.

After every operation the script waits until nothing has been written for a while and each
leader has every live replica in its ISR. That moment is a quiet point; it is known by the zxid of
the last commit before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import ElectionType, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.operations import (
    DeleteController,
    DeleteTopic,
    ElectPreferred,
    ElectUnclean,
    KillBroker,
    Reassign,
    StartBroker,
    StopBroker,
)
from controller_simulator.zookeeper.payload_writers import (
    encode_partitions,
    encode_reassign_partitions,
)
from kcm.demo.truth import quiet_logger
from kcm.servers.controller_handle import ControllerHandle
from kcm.servers.jars import Jars
from kcm.servers.kafka import QUIET_LIBRDKAFKA, ZooKeeperModeBroker
from kcm.servers.ports import HOST
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from tests.component.comparison.cluster_at_rest import ClusterAtRest, state_path
from tests.component.comparison.kafka_requests import alter_partition_reassignments
from tests.support.recordings import QuietPoint, Recording
from tests.support.scripted_operations import (
    AlterTopicConfig,
    BounceBroker,
    CreatePartitions,
    CreateTopic,
    ElectPreferredByZnode,
    ExpireSession,
    FailLogDir,
    ReassignByZnode,
    ScriptedOperation,
    StallBroker,
)
from tests.support.txn_log import read_txn_logs
from tests.support.waiting import wait_until
from zk_source.ensemble.four_letter_words import four_letter_word

BROKER_IDS = (0, 1, 2)
SESSION_TIMEOUT_MS = 9000  # what each kill and each bounce waits for
STALLED_SESSION_TIMEOUT_MS = 21_000
"""Of a broker that the script freezes: without a ping a session lasts at least two thirds of it."""
REPLICA_LAG_MS = (
    3000  # a follower that stalls leaves the ISR 3-4.5 s later; less flaps on busy cores
)
QUIET_S = 1.5  # nothing written for so long: longer than a leader's checks of its ISR
REST_DEADLINE_S = 120.0  # a session's end, a start on busy cores, and the replicas' way back
REST_POLL_S = 0.1
EXPIRY_S = 60.0  # a session's end on busy cores, and a registration
STALL_DEADLINE_S = 12.0  # far longer than a follower is waited for; its session lasts 14 s
NOT_ELECTED = {
    KafkaError.ELECTION_NOT_NEEDED,
    KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
NO_CONTROLLER = {KafkaError.NOT_CONTROLLER, KafkaError._TIMED_OUT}
REQUEST_DEADLINE_S = 60.0
PROTOCOL_VERSION = "inter.broker.protocol.version"
IMBALANCE_CHECK_S = 3  # leader.imbalance.check.interval.seconds where rebalancing is on

CHANGES_ISR = (
    StallBroker,
    FailLogDir,
    ExpireSession,
    StartBroker,
    StopBroker,
    BounceBroker,
    Reassign,
    ReassignByZnode,
)
"""After these leaders have changed their ISRs, and may have more to change later."""

PROPERTIES: dict[str, str | int] = {
    "replica.lag.time.max.ms": REPLICA_LAG_MS,
    "replica.fetch.wait.max.ms": 300,  # Kafka wants it below the lag
    "replica.socket.timeout.ms": 5000,
    "controller.socket.timeout.ms": 5000,
}


_Answer = TypeVar("_Answer")


def stalls_before_it_ends(broker_id: int, script: Sequence[ScriptedOperation]) -> bool:
    """Return whether a broker that runs stalls before the script stops it or kills it."""
    for operation in script:
        if getattr(operation, "broker", None) == broker_id:
            if isinstance(operation, StallBroker):
                return True
            if isinstance(operation, StopBroker | KillBroker):
                return False
    return False


def _write_to_each(producer: Producer, states: Sequence[str], *, deadline_s: float) -> None:
    """Write a record to each partition of these state znodes; its leader must take it in time."""
    refused: list[KafkaError] = []
    for path in states:
        parts = path.split("/")
        producer.produce(
            parts[3],
            b"x",
            partition=int(parts[5]),
            on_delivery=lambda error, _message: refused.append(error) if error else None,
        )
    left = producer.flush(deadline_s)
    assert not left, f"{left} of {len(states)} leaders took no record within {deadline_s:g} s"
    assert not refused, refused


class ScriptedCluster(ClusterAtRest):
    """A ZooKeeper and brokers that exist only to play one script."""

    def __init__(
        self,
        supervisor: Supervisor,
        jars: Jars,
        folder: Path,
        *,
        name: str,
        protocol: tuple[int, int] | None = None,
        auto_leader_rebalance: bool = False,
        quiet_s: float = QUIET_S,
    ) -> None:
        """Start a ZooKeeper; the brokers are described, and start as the script says.

        `protocol` is inter.broker.protocol.version, None for the release's own.
        """
        spoken = {} if protocol is None else {PROTOCOL_VERSION: "{}.{}".format(*protocol)}
        self._log_dirs = {
            broker: [folder / f"kafka-{broker}" / name for name in ("logs", "more-logs")]
            for broker in BROKER_IDS
        }
        self._lost: dict[int, set[TopicPartition]] = {}
        """By broker, the replicas in log directories that failed."""
        self._quiet_s = quiet_s
        self._rebalances = auto_leader_rebalance
        self._zookeeper = ZooKeeper(supervisor, jars, folder / "zookeeper", name=f"{name}-zk")

        def describe(broker: int, session_timeout_ms: int, port: int | None) -> ZooKeeperModeBroker:
            return ZooKeeperModeBroker(
                broker,
                supervisor,
                jars,
                folder / f"kafka-{broker}",
                zookeeper_connect=self._zookeeper.connect_string,
                name=f"{name}-kafka-{broker}",
                port=port,
                session_timeout_ms=session_timeout_ms,
                properties={
                    **PROPERTIES,
                    **spoken,
                    "auto.leader.rebalance.enable": str(auto_leader_rebalance).lower(),
                    "leader.imbalance.check.interval.seconds": IMBALANCE_CHECK_S,
                    "log.dirs": ",".join(map(str, self._log_dirs[broker])),
                },
            )

        self._describe = describe
        self._brokers = {id_: describe(id_, SESSION_TIMEOUT_MS, None) for id_ in BROKER_IDS}
        self._zookeeper.start()
        self._zk = KazooClient(hosts=self._zookeeper.connect_string, logger=quiet_logger())
        self._zk.start(timeout=20)
        self._log = folder / "zookeeper" / "data" / "version-2"
        bootstrap = ",".join(broker.bootstrap_servers for broker in self._brokers.values())
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "socket.timeout.ms": 10_000,
            **QUIET_LIBRDKAFKA,
        }
        self._settings = settings
        self._quiet: list[QuietPoint] = []

    def close(self) -> None:
        """Stop our client and kill the servers: their data is of no more use."""
        self._zk.stop()
        self._zk.close()
        for server in [*self._brokers.values(), self._zookeeper]:
            server.kill()

    def play(self, script: Sequence[ScriptedOperation]) -> Recording:
        """Play a script to its end and return ZooKeeper's own record of it."""
        for place, operation in enumerate(script):
            if isinstance(operation, StartBroker):
                self._set_session(operation.broker, script[place + 1 :])
            played = None
            # what Kafka refuses is compared like the rest: neither side may write anything
            with suppress(KafkaException, NodeExistsError, NoNodeError):
                played = self._PLAYS[type(operation)](self, operation)
            self._rest(played or operation)
        return Recording(tuple(read_txn_logs(self._log)), tuple(self._quiet))

    def _set_session(self, broker_id: int, to_come: Sequence[ScriptedOperation]) -> None:
        """Give a broker that starts a session which outlives its stalls, if it has any to come."""
        stalls = stalls_before_it_ends(broker_id, to_come)
        timeout_ms = STALLED_SESSION_TIMEOUT_MS if stalls else SESSION_TIMEOUT_MS
        port = self._brokers[broker_id].port
        self._brokers[broker_id] = self._describe(broker_id, timeout_ms, port)

    # --- coming to rest -------------------------------------------------------------------

    def _rest(self, operation: ScriptedOperation) -> None:
        self._quiet.append(QuietPoint(self._come_to_rest(operation), operation))

    def _come_to_rest(self, operation: ScriptedOperation, *, frozen: int | None = None) -> int:
        """Wait until the brokers other than the frozen one have no more to do; return the last zxid."""
        started = time.monotonic()
        quiet_s = self._quiet_s if isinstance(operation, CHANGES_ISR) else QUIET_S
        while True:
            last = self._last_zxid()
            quiet_since = time.monotonic()
            while self._last_zxid() == last and time.monotonic() - quiet_since < quiet_s:
                time.sleep(REST_POLL_S)
            try:
                problem = self._unrest(frozen=frozen)
            except NoNodeError as error:
                problem = f"a znode went while it was looked at: {error}"
            if problem is None and self._last_zxid() == last:
                return last
            assert time.monotonic() - started < REST_DEADLINE_S, f"{operation}: {problem}"
            time.sleep(REST_POLL_S)

    def _last_zxid(self) -> int:
        port = self._zookeeper.port
        answer = four_letter_word(HOST, port, "srvr", deadline_s=REST_DEADLINE_S)
        return next(int(line[6:], 16) for line in answer.splitlines() if line.startswith("Zxid: "))

    # --- the operations -------------------------------------------------------------------

    def _start(self, operation: StartBroker) -> None:
        self._lost.pop(operation.broker, None)
        self._brokers[operation.broker].start()

    def _stop(self, operation: StopBroker) -> None:
        self._brokers[operation.broker].stop()

    def _kill(self, operation: KillBroker) -> None:
        self._brokers[operation.broker].kill()

    def _bounce(self, operation: BounceBroker) -> None:
        self._brokers[operation.broker].kill()
        self._brokers[operation.broker].start()

    def _expire(self, operation: ExpireSession) -> None:
        """Freeze a broker until the others have dealt with its session's end; then it registers again.

        If it came back earlier, a new controller might read /brokers/ids before or after it did.
        """
        chosen = operation.broker
        broker = self._controller() if chosen is None else self._brokers[chosen]
        path = f"/brokers/ids/{broker.broker_id}"
        before = self._czxid(path)
        broker.pause()
        try:
            wait_until(lambda: self._czxid(path), lambda czxid: czxid == 0, deadline_s=EXPIRY_S)
            self._come_to_rest(operation, frozen=broker.broker_id)
        finally:
            broker.resume()
        wait_until(lambda: self._czxid(path), lambda czxid: czxid > before, deadline_s=EXPIRY_S)

    def _fail_log_dir(self, operation: FailLogDir) -> FailLogDir:
        """Take one of a broker's log directories away; return the operation with what was in there.

        The broker notices when it cannot write its checkpoint of high watermarks.
        """
        failed = self._log_dirs[operation.broker][0]
        names = sorted(path.name for path in failed.iterdir() if path.is_dir())
        parts = (name.rpartition("-") for name in names)
        lost = tuple(TopicPartition(topic, int(number)) for topic, _, number in parts)
        before = self._zk.exists("/log_dir_event_notification").cversion
        failed.rename(failed.with_name("lost"))  # at once: the broker writes to it all the time
        wait_until(
            lambda: self._zk.exists("/log_dir_event_notification").cversion,
            lambda cversion: cversion > before,
            deadline_s=REQUEST_DEADLINE_S,
        )
        self._lost[operation.broker] = set(lost)
        return FailLogDir(operation.broker, lost)

    def _stall(self, operation: StallBroker) -> None:
        """Freeze a follower until its leaders have dropped it, then let it come back.

        It is frozen once the leaders have taken a record of the script. A client that has yet to find
        them may ask the frozen broker for them, and waits for its answer for ten seconds.
        """
        broker = self._brokers[operation.broker]
        registered = self._czxid(f"/brokers/ids/{operation.broker}")
        producer = Producer({**self._settings, "acks": 1})
        states = [
            state_path(topic, partition)
            for topic in operation.topics
            for partition in self._json(f"/brokers/topics/{topic}")["partitions"]
        ]
        states = [path for path in states if self._json(path)["leader"] != operation.broker]
        _write_to_each(producer, states, deadline_s=REQUEST_DEADLINE_S)
        broker.pause()
        frozen = time.monotonic()
        try:
            _write_to_each(producer, states, deadline_s=STALL_DEADLINE_S)
            wait_until(
                lambda: [p for p in states if operation.broker in self._json(p)["isr"]],
                lambda left: not left,
                deadline_s=STALL_DEADLINE_S - (time.monotonic() - frozen),
            )
            still = self._czxid(f"/brokers/ids/{operation.broker}")
        finally:
            broker.resume()
        took_s = time.monotonic() - frozen
        assert still == registered, f"{operation} ended the session, after {took_s:.1f} s"

    def _create_topic(self, operation: CreateTopic) -> None:
        new = NewTopic(
            operation.topic,
            num_partitions=len(operation.assignment),
            replica_assignment=[list(replicas) for replicas in operation.assignment],
            config=operation.config,
        )
        self._ask(lambda admin: admin.create_topics([new])[operation.topic].result())

    def _create_partitions(self, operation: CreatePartitions) -> None:
        there = len(self._json(f"/brokers/topics/{operation.topic}")["partitions"])
        new = NewPartitions(
            operation.topic,
            there + len(operation.assignment),
            replica_assignment=[list(replicas) for replicas in operation.assignment],
        )
        self._ask(lambda admin: admin.create_partitions([new])[operation.topic].result())

    def _delete_topic(self, operation: DeleteTopic) -> None:
        topic = operation.topic
        with suppress(KafkaException):  # REQUEST_TIMED_OUT: when it is done ZooKeeper shows
            self._ask(
                lambda admin: admin.delete_topics([topic], operation_timeout=0)[topic].result()
            )

    def _ask(self, request: Callable[[AdminClient], _Answer]) -> _Answer:
        """Return what an administrator is answered, who asks again while no controller is known.

        Each asks as a new client: one that has seen brokers die may look for them for long.
        """
        deadline = time.monotonic() + REQUEST_DEADLINE_S
        while True:
            try:
                return request(AdminClient(self._settings))
            except KafkaException as error:
                if error.args[0].code() not in NO_CONTROLLER or time.monotonic() > deadline:
                    raise

    def _alter_config(self, operation: AlterTopicConfig) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in operation.config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, operation.topic, incremental_configs=entries)
        self._ask(lambda admin: admin.incremental_alter_configs([resource])[resource].result())

    def _reassign(self, operation: Reassign) -> None:
        alter_partition_reassignments(HOST, self._controller().port, dict(operation.targets))

    def _controller(self) -> ZooKeeperModeBroker:
        return self._brokers[self._json("/controller")["brokerid"]]

    def _elect_preferred(self, operation: ElectPreferred) -> None:
        self._elect(ElectionType.PREFERRED, operation.partitions)

    def _elect_unclean(self, operation: ElectUnclean) -> None:
        self._elect(ElectionType.UNCLEAN, operation.partitions)

    def _elect(self, kind: ElectionType, partitions: Sequence[TopicPartition]) -> None:
        chosen = [ClientPartition(topic, partition) for topic, partition in partitions] or None
        answers = self._ask(lambda admin: admin.elect_leaders(kind, chosen).result())
        errors = {e if isinstance(e, KafkaError) else e.args[0] for e in answers.values() if e}
        assert {error.code() for error in errors} <= NOT_ELECTED, errors

    def _elect_by_znode(self, operation: ElectPreferredByZnode) -> None:
        data = encode_partitions(operation.partitions)
        self._zk.create("/admin/preferred_replica_election", data)

    def _reassign_by_znode(self, operation: ReassignByZnode) -> None:
        data = encode_reassign_partitions(dict(operation.targets))
        self._zk.create("/admin/reassign_partitions", data)

    def _delete_controller(self, _operation: DeleteController) -> None:
        ControllerHandle(self._zk, self._zookeeper.port).depose(REST_DEADLINE_S)

    def _czxid(self, path: str) -> int:
        stat = self._zk.exists(path)
        return 0 if stat is None else int(stat.czxid)

    _PLAYS: dict[type, Callable[[ScriptedCluster, Any], ScriptedOperation | None]] = {  # noqa: RUF012  # a constant table
        StartBroker: _start,
        StopBroker: _stop,
        KillBroker: _kill,
        BounceBroker: _bounce,
        ExpireSession: _expire,
        FailLogDir: _fail_log_dir,
        StallBroker: _stall,
        CreateTopic: _create_topic,
        CreatePartitions: _create_partitions,
        DeleteTopic: _delete_topic,
        AlterTopicConfig: _alter_config,
        Reassign: _reassign,
        ElectPreferred: _elect_preferred,
        ElectUnclean: _elect_unclean,
        ElectPreferredByZnode: _elect_by_znode,
        ReassignByZnode: _reassign_by_znode,
        DeleteController: _delete_controller,
    }
