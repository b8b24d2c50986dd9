"""The scripts that are played on real Kafka and on the simulator, and how they are recorded.

As a program it plays them all and puts the recordings where the unit tests take them from.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

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
from controller_simulator.cluster.settings import SimulatorSettings
from kcm.servers.jars import Jars, ensure_jars
from kcm.servers.supervisor import Supervisor
from tests.component.comparison.scripted_cluster import QUIET_S, ScriptedCluster
from tests.support.recordings import Recording, save_recording
from tests.support.release_jars import jars_of
from tests.support.releases import NEWEST_KAFKA, OLD_PROTOCOL, OLDER_KAFKAS, KafkaRelease
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

_P = TopicPartition

STORY: tuple[ScriptedOperation, ...] = (
    StartBroker(0),
    StartBroker(1),
    StartBroker(2),
    CreateTopic("a", ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1))),
    CreateTopic("b", ((1, 2), (2, 1)), {"min.insync.replicas": "2"}),
    CreateTopic("single", ((2,),)),
    CreatePartitions("b", ((0, 1), (2, 0))),
    StallBroker(2, ("a",)),
    StopBroker(1),
    StartBroker(1),
    ElectPreferred(),
    KillBroker(2),
    StartBroker(2),
    ElectPreferredByZnode((_P("a", 2),)),
    ElectPreferred(),
    BounceBroker(0),
    DeleteController(),
    Reassign(((_P("b", 0), (0, 1)), (_P("b", 1), (0, 2)))),
    Reassign(((_P("single", 0), (1, 0)),)),
    ReassignByZnode(((_P("a", 3), (1, 0)),)),
    CreateTopic("u", ((1, 2),)),
    KillBroker(2),
    Reassign(((_P("single", 0), (1, 2)),)),  # refused: the new replica is dead
    ReassignByZnode(((_P("single", 0), (1, 2)),)),  # not refused, but waits for it
    Reassign(((_P("single", 0), None),)),
    KillBroker(1),
    StartBroker(2),
    AlterTopicConfig("u", {"unclean.leader.election.enable": "true"}),
    StartBroker(1),
    ElectPreferred(),
    CreateTopic("gone", ((0, 1, 2), (1, 2, 0))),
    DeleteTopic("gone"),
    CreateTopic("halted", ((0, 1, 2),)),
    StopBroker(2),
    DeleteTopic("halted"),  # halted by a dead replica
    StartBroker(2),
    DeleteController(),
    CreateTopic("v", ((1, 2),)),
    StopBroker(2),
    StopBroker(1),
    StartBroker(2),
    ElectUnclean((_P("v", 0),)),
    StartBroker(1),
    DeleteTopic("b"),
    CreateTopic("moved", ((0, 1),)),
    KillBroker(2),
    ReassignByZnode(((_P("moved", 0), (2, 0)),)),
    DeleteTopic("moved"),  # waits
    StartBroker(2),
    ExpireSession(1),
    ElectPreferred(),
    ExpireSession(None),
    DeleteTopic("a"),
)
"""Everything that an operator and fate do, on three brokers that do not rebalance by themselves."""

REBALANCE: tuple[ScriptedOperation, ...] = (
    StartBroker(0),
    StartBroker(1),
    StartBroker(2),
    CreateTopic("a", ((0, 1, 2), (1, 2, 0), (2, 0, 1))),
    StopBroker(1),
    StartBroker(1),
    KillBroker(2),
    StartBroker(2),
)
"""auto.leader.rebalance.enable at work."""

LOG_DIRS: tuple[ScriptedOperation, ...] = (
    StartBroker(0),
    StartBroker(1),
    StartBroker(2),
    CreateTopic("a", ((1, 2), (2, 1), (1, 0), (0, 1))),
    CreateTopic("b", ((1, 2, 0), (0, 2, 1))),
    CreateTopic("single", ((1,), (1,))),
    FailLogDir(1, ()),  # which replicas it takes is seen when it is played
    ElectPreferred(),
    DeleteTopic("a"),  # halted by the replicas that cannot be deleted
    StopBroker(1),
    StartBroker(1),
)
"""A log directory fails, and is empty when its broker starts again."""

OLD_PROTOCOL_STORY: tuple[ScriptedOperation, ...] = (
    StartBroker(0),
    StartBroker(1),
    StartBroker(2),
    CreateTopic("a", ((0, 1, 2), (1, 2, 0))),
    StallBroker(2, ("a",)),
    StopBroker(1),
    StartBroker(1),
    ElectPreferred(),
    Reassign(((_P("a", 0), (1, 2)),)),
    DeleteTopic("a"),
)
"""inter.broker.protocol.version 2.6: leaders write their ISR themselves and notify by znode."""


SHORT_STORY: tuple[ScriptedOperation, ...] = (
    StartBroker(0),
    StartBroker(1),
    StartBroker(2),
    CreateTopic("a", ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2), (2, 1, 0))),
    StopBroker(1),
    StartBroker(1),
    ElectPreferred(),
    DeleteController(),
    Reassign(((_P("a", 0), (1, 2)),)),
    DeleteTopic("a"),
)
"""One of each kind: topics, brokers, elections, a controller, a move, a deletion."""


RELEASE_STORY: tuple[ScriptedOperation, ...] = (
    StartBroker(0),
    StartBroker(1),
    StartBroker(2),
    CreateTopic("a", ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1)), {"min.insync.replicas": "2"}),
    CreateTopic("u", ((1, 2),)),
    StallBroker(2, ("a",)),
    StopBroker(1),
    StartBroker(1),
    ElectPreferred(),
    DeleteController(),
    Reassign(((_P("a", 0), (1, 2)),)),
    KillBroker(2),
    KillBroker(1),
    StartBroker(2),
    AlterTopicConfig("u", {"unclean.leader.election.enable": "true"}),
    StartBroker(1),
    CreatePartitions("u", ((2, 1),)),
    DeleteTopic("a"),
)
"""What a release may write otherwise: each znode, an ISR that a leader changes, an unclean election."""


@dataclass(frozen=True)
class Play:
    """A script, the cluster that plays it, and where its recording is kept."""

    name: str
    script: tuple[ScriptedOperation, ...]
    kafka: KafkaRelease = NEWEST_KAFKA
    auto_leader_rebalance: bool = False
    quiet_s: float = QUIET_S

    @property
    def settings(self) -> SimulatorSettings:
        """How the simulator is set to be like that cluster."""
        return msgspec.structs.replace(
            self.kafka.settings, auto_leader_rebalance=self.auto_leader_rebalance
        )

    def record(self, supervisor: Supervisor, jars: Jars, folder: Path) -> Recording:
        """Play the script on real servers of its release and return ZooKeeper's record of it."""
        cluster = ScriptedCluster(
            supervisor,
            replace(jars, broker=jars_of(self.kafka.release)),
            folder,
            name=self.name,
            protocol=self.kafka.protocol,
            auto_leader_rebalance=self.auto_leader_rebalance,
            quiet_s=self.quiet_s,
        )
        try:
            return cluster.play(self.script)
        finally:
            cluster.close()


PLAYS = (
    Play("real_kafka_3_9", STORY),
    Play("real_kafka_3_9_rebalance", REBALANCE, auto_leader_rebalance=True),
    Play("real_kafka_3_9_log_dirs", LOG_DIRS),
    Play(
        OLD_PROTOCOL.recording,
        OLD_PROTOCOL_STORY,
        OLD_PROTOCOL,
        quiet_s=8.5,  # notifications of ISRs wait 5 s for more, and are looked for every 2.5 s
    ),
    *(Play(kafka.recording, RELEASE_STORY, kafka) for kafka in OLDER_KAFKAS),
)
"""The plays whose recordings are kept."""

SHORT = Play("short", SHORT_STORY)
"""For a quick answer; everything in it is in the others, too."""


def main() -> None:
    """Record the plays that are named again; all of them, if none is."""
    for play in PLAYS:
        if sys.argv[1:] and play.name not in sys.argv[1:]:
            continue
        with (
            tempfile.TemporaryDirectory() as folder,
            Supervisor(Path(folder), kill_on_exit=True) as supervisor,
        ):
            save_recording(play.name, play.record(supervisor, ensure_jars(), Path(folder)))


if __name__ == "__main__":
    main()
