"""Make the page of the releases of Kafka and ZooKeeper that tests run: docs/versions.md.

The rule: the rows are the tests' own table, the operations are counted in the tests' scripts, and
the differences of a release follow from the settings that the simulator needs to match it.
"""

from __future__ import annotations

import msgspec

from tests.component.comparison.scripts import PLAYS, RELEASE_STORY
from tests.support.releases import (
    KAFKA_3_7_FORMATS,
    KAFKAS,
    KRAFT_RUNS,
    NEWEST_KAFKA,
    ZOOKEEPERS,
    KafkaRelease,
)
from tools.docs.markdown import code, page, plain, table

ABOUT = """Each row is a run on real servers of that release: `make test-all` does it, but for the releases of Kafka between the oldest and the newest on
ZooKeeper, and on 3.9 for the older protocol, automatic rebalance and failed log directories, whose runs are recorded. A release that the package repository does not
serve is skipped there, with the reason."""

KAFKA = f"""## Kafka

Three brokers and a ZooKeeper of the release run a script. Then ZooKeeper's own transaction log is held, write by write and zxid by zxid, against what the model of
Kafka's controller writes for the same script, and what the monitor shows of both, field by field, at each moment at which the cluster rests. Each run's
log is kept in `tests/recorded`, and `make test` compares all of them again; `python -m tests.component.comparison.scripts` records them anew. The differences in
the last column are all that was found: they are settings of the model, and the monitor reads either form.

On the older releases the script is {len(RELEASE_STORY)} operations: {{kinds}}. Anything else is compared on 3.9 alone."""

ZOOKEEPER = """## ZooKeeper

A watcher starts on a server of the release, follows changes znode by znode, loses the server and resyncs once it is back, follows deletions of a
znode, of a topic and its return, reconciles, and stops. At each step its log is exactly the tree that ZooKeeper has. The server itself is
asked what is watched."""

KRAFT = f"""## KRaft

Three controllers and brokers of a release are formatted by Kafka's own tool and started: static quorums ({code("controller.quorum.voters")}) and dynamic ones,
controllers alone and nodes that are brokers, too ({code("process.roles=broker,controller")}). Topics come and go, the active controller is killed and comes back, replicas leave their ISRs and
join them, preferred replicas are elected. After each step the views are what AdminClient says of the cluster, and at the end each record is what each controller has in its
own files. On the oldest and the newest release copies of their folders {code("__cluster_metadata-0")} are read as well, and each decision of Kafka's own QuorumController
is compared with what the model holds and foretells, command by command (`tests/component/kraft/test_lock_step.py`). The formats of messages and records are held against those of
{KAFKA_3_7_FORMATS.version}, too."""

LIMITS = """## Limits

- Kafka before 2.8 is not run. Below `inter.broker.protocol.version` 2.7 leaders write their ISR themselves: that is compared on 3.9 with 2.6. A `/controller` whose epoch
  follows in a transaction of its own, as before Kafka 2.1, is read, by tests without servers.
- Kafka 4 has no ZooKeeper mode.
- A cluster under migration to KRaft is read as far as ZooKeeper shows it; no run has a KRaft controller.
- ZooKeeper as an ensemble of three is run on 3.8 alone ([reliability](reliability.md))."""

DIFFERENCES = {
    "kraft_controller_epoch": "`/controller` is of version 1, without `kraftControllerEpoch`",
    "features_version": "`/feature` is of version 1",
    "leader_recovery_supported": "no `leader_recovery_state` after an unclean election",
    "topic_ids": "topics have no id",
    "alter_partition": "leaders write their ISR themselves and announce it under `/isr_change_notification`; brokers register in version 4",
}
"""What a release writes differently, by the setting of the simulator that differs from that of 3.9."""


def versions_page() -> str:
    """Return the page."""
    kinds = dict.fromkeys(type(operation).__name__ for operation in RELEASE_STORY)
    return page(
        "Versions",
        ABOUT,
        KAFKA.format(kinds=", ".join(map(code, kinds))),
        table(
            ("Kafka", "On ZooKeeper", "Compared", "Written otherwise than by 3.9"),
            ((_called(k), k.zookeeper, _compared(k), _differs(k)) for k in reversed(KAFKAS)),
        ),
        ZOOKEEPER,
        table(
            ("ZooKeeper", "Comes with Kafka", "Watched by"),
            (
                (
                    each.release.version,
                    each.brought_by,
                    "a recursive watch on each subtree"
                    if each.has_recursive_watches
                    else "one-shot watches on each znode",
                )
                for each in reversed(ZOOKEEPERS)
            ),
        ),
        KRAFT,
        table(
            ("Kafka", "Quorum", "Nodes"),
            (
                (
                    run.release.version,
                    "dynamic" if run.dynamic else "static",
                    "brokers and controllers in one" if run.combined else "controllers apart",
                )
                for run in reversed(KRAFT_RUNS)
            ),
        ),
        LIMITS,
    )


def _called(kafka: KafkaRelease) -> str:
    if kafka.protocol is None:
        return kafka.release.version
    protocol = "{}.{}".format(*kafka.protocol)
    return f"{kafka.release.version}, {code('inter.broker.protocol.version')} {protocol}"


def _compared(kafka: KafkaRelease) -> str:
    scripts = [play.script for play in PLAYS if play.kafka == kafka]
    kinds = {type(operation) for script in scripts for operation in script}
    return f"{sum(map(len, scripts))} operations of {len(kinds)} kinds"


def _differs(kafka: KafkaRelease) -> str:
    newest = msgspec.structs.asdict(NEWEST_KAFKA.settings)
    own = msgspec.structs.asdict(kafka.settings)
    return plain("; ".join(DIFFERENCES[name] for name in own if own[name] != newest[name]))
