"""Tests of decoding: kept records in their own form, secrets never, what is unknown counted by name."""

from __future__ import annotations

import base64

import pytest

from controller_model.kafka.metadata_records import (
    BrokerRegistrationChange,
    ClearElr,
    Config,
    EndPoint,
    FeatureLevel,
    FeatureRange,
    FenceBroker,
    KRaftVersion,
    LeaderChange,
    Partition,
    PartitionChange,
    RegisterBroker,
    RegisterController,
    RemoveTopic,
    SnapshotHeader,
    Topic,
    UnfenceBroker,
    UnregisterBroker,
    UnregisterController,
    Voter,
    VoterEndPoints,
    Voters,
    ZkMigrationState,
)
from kraft_source.wire.batches import CorruptBatchError, split_batches
from kraft_source.wire.codec import uvarint
from kraft_source.wire.records import Decoded, Record, decode, transaction_marks
from kraft_source.wire.schemas import RECORDS
from tests.support.metadata_log import (
    Written,
    control_batch,
    raw_value,
    rechecked,
    record_batch,
    uuid_of,
)

TOPIC, DIRECTORY = uuid_of(1), uuid_of(2)
END_POINT = {"name": "PLAINTEXT", "host": "b1", "port": 65_535, "security_protocol": 0}
FEATURE = {"name": "metadata.version", "min_supported_version": 1, "max_supported_version": 25}
PARTITION = {
    "partition_id": 3,
    "topic_id": TOPIC,
    "replicas": (1, 2, 3),
    "isr": (1, 2),
    "removing_replicas": (3,),
    "adding_replicas": (),
    "leader": 1,
    "leader_epoch": 4,
    "partition_epoch": 5,
}
REGISTERED = {
    "broker_id": 1,
    "broker_epoch": 77,
    "incarnation_id": TOPIC,
    "end_points": [END_POINT],
    "features": [FEATURE],
}
VOTER = {"voter_id": 3001, "voter_directory_id": DIRECTORY}

KEPT: list[tuple[Written, Record]] = [
    (
        Written(
            "RegisterBrokerRecord",
            {**REGISTERED, "rack": "a", "fenced": True, "log_dirs": [DIRECTORY]},
        ),
        RegisterBroker(
            1,
            77,
            TOPIC,
            (EndPoint("PLAINTEXT", "b1", 65_535, 0),),
            (FeatureRange("metadata.version", 1, 25),),
            rack="a",
            log_dirs=(DIRECTORY,),
        ),
    ),
    (
        Written("RegisterBrokerRecord", {**REGISTERED, "fenced": False, "end_points": []}, 0),
        RegisterBroker(1, 77, TOPIC, (), (FeatureRange("metadata.version", 1, 25),), fenced=False),
    ),
    (
        Written("UnregisterBrokerRecord", {"broker_id": 1, "broker_epoch": 77}),
        UnregisterBroker(1, 77),
    ),
    (Written("TopicRecord", {"name": "t", "topic_id": TOPIC}), Topic("t", TOPIC)),
    (Written("PartitionRecord", PARTITION, 0), Partition(**PARTITION)),  # type: ignore[arg-type]  # its own fields
    (
        Written(
            "PartitionRecord",
            {
                **PARTITION,
                "directories": [DIRECTORY] * 3,
                "leader_recovery_state": 1,
                "eligible_leader_replicas": [3],
                "last_known_elr": [2],
            },
        ),
        Partition(
            **PARTITION,  # type: ignore[arg-type]  # its own fields
            directories=(DIRECTORY,) * 3,
            leader_recovery_state=1,
            eligible_leader_replicas=(3,),
            last_known_elr=(2,),
        ),
    ),
    (
        Written("PartitionChangeRecord", {"partition_id": 3, "topic_id": TOPIC}),
        PartitionChange(3, TOPIC),
    ),
    (
        Written(
            "PartitionChangeRecord",
            {
                "partition_id": 3,
                "topic_id": TOPIC,
                "isr": [],
                "leader": -1,
                "leader_recovery_state": 1,
                "eligible_leader_replicas": [2],
                "last_known_elr": [],
                "directories": [DIRECTORY],
                "replicas": [1, 2],
                "adding_replicas": [2],
                "removing_replicas": [],
            },
        ),
        PartitionChange(3, TOPIC, (), -1, (1, 2), (), (2,), 1, (DIRECTORY,), (2,), ()),
    ),
    (Written("FenceBrokerRecord", {"id": 1, "epoch": 77}), FenceBroker(1, 77)),
    (Written("UnfenceBrokerRecord", {"id": 1, "epoch": 77}), UnfenceBroker(1, 77)),
    (Written("RemoveTopicRecord", {"topic_id": TOPIC}), RemoveTopic(TOPIC)),
    (
        Written("FeatureLevelRecord", {"name": "metadata.version", "feature_level": 21}),
        FeatureLevel("metadata.version", 21),
    ),
    (
        Written(
            "BrokerRegistrationChangeRecord",
            {"broker_id": 1, "broker_epoch": 77, "fenced": 1, "log_dirs": [DIRECTORY]},
        ),
        BrokerRegistrationChange(1, 77, fenced=True, log_dirs=(DIRECTORY,)),
    ),
    (
        Written(
            "BrokerRegistrationChangeRecord",
            {"broker_id": 1, "broker_epoch": 77, "fenced": -1, "cordoned_log_dirs": [DIRECTORY]},
        ),
        BrokerRegistrationChange(1, 77, fenced=False),
    ),
    (
        Written(
            "BrokerRegistrationChangeRecord",
            {"broker_id": 1, "broker_epoch": 77, "in_controlled_shutdown": 1},
            1,
        ),
        BrokerRegistrationChange(1, 77, in_controlled_shutdown=True),
    ),
    (Written("ZkMigrationStateRecord", {"zk_migration_state": 2}), ZkMigrationState(2)),
    (
        Written(
            "RegisterControllerRecord",
            {
                "controller_id": 3001,
                "incarnation_id": TOPIC,
                "zk_migration_ready": True,
                "end_points": [END_POINT],
                "features": [FEATURE],
            },
        ),
        RegisterController(
            3001,
            TOPIC,
            zk_migration_ready=True,
            end_points=(EndPoint("PLAINTEXT", "b1", 65_535, 0),),
            features=(FeatureRange("metadata.version", 1, 25),),
        ),
    ),
    (Written("ClearElrRecord", {"topic_name": "t"}), ClearElr("t")),
    (Written("UnregisterControllerRecord", {"controller_id": 3001}), UnregisterController(3001)),
    (
        Written(
            "ConfigRecord",
            {"resource_type": 2, "resource_name": "t", "name": "min.insync.replicas", "value": "2"},
        ),
        Config(2, "t", "min.insync.replicas", "2"),
    ),
    (
        Written(
            "ConfigRecord",
            {"resource_type": 4, "resource_name": "", "name": "unclean.leader.election.enable"},
        ),
        Config(4, "", "unclean.leader.election.enable", None),
    ),
]
CONTROL: list[tuple[Written, Record]] = [
    (
        Written(
            "LeaderChangeMessage",
            {"leader_id": 3001, "voters": [VOTER], "granting_voters": [VOTER]},
        ),
        LeaderChange(3001, 9, (Voter(3001, DIRECTORY),), (Voter(3001, DIRECTORY),)),
    ),
    (
        Written("LeaderChangeMessage", {"leader_id": 3001, "voters": [{"voter_id": 3001}]}, 0),
        LeaderChange(3001, 9, (Voter(3001, None),)),
    ),
    (
        Written("SnapshotHeaderRecord", {"last_contained_log_timestamp": 123}),
        SnapshotHeader(123),
    ),
    (Written("KRaftVersionRecord", {"kraft_version": 1}), KRaftVersion(1)),
    (
        Written(
            "VotersRecord",
            {
                "voters": [
                    {
                        **VOTER,
                        "endpoints": [{"name": "C", "host": "::1", "port": 9093}],
                        "kraft_version_feature": {
                            "min_supported_version": 0,
                            "max_supported_version": 1,
                        },
                    }
                ]
            },
        ),
        Voters((VoterEndPoints(3001, DIRECTORY, (EndPoint("C", "::1", 9093),), 0, 1),)),
    ),
]

SECRET = "hunter2-the-secret"  # noqa: S105  # planted
PLANTED = {
    "SCRAM credential": raw_value(11, 0, SECRET.encode()),
    "SCRAM credential removed": raw_value(22, 0, SECRET.encode()),
    "delegation token": raw_value(10, 0, SECRET.encode()),
    "delegation token removed": raw_value(26, 0, SECRET.encode()),
    "ACL": raw_value(18, 0, SECRET.encode()),
    "ACL removed": raw_value(19, 0, SECRET.encode()),
    "client quota": raw_value(14, 0, SECRET.encode()),
    "producer ids": raw_value(15, 0, SECRET.encode()),
    "a broker's password": Written(
        "ConfigRecord",
        {
            "resource_type": 4,
            "resource_name": "1",
            "name": "listener.name.plaintext.ssl.keystore.password",
            "value": SECRET,
        },
    ),
    "a topic's key that is not kept": Written(
        "ConfigRecord",
        {"resource_type": 2, "resource_name": "t", "name": "retention.ms", "value": SECRET},
    ),
    "a kept key of another resource": Written(
        "ConfigRecord",
        {
            "resource_type": 8,
            "resource_name": "x",
            "name": "min.insync.replicas",
            "value": SECRET,
        },
    ),
}


def decoded(data: bytes) -> Decoded:
    """Return what one batch holds."""
    (batch,) = split_batches(data)
    return decode(batch)


@pytest.mark.parametrize(("written", "expected"), KEPT, ids=lambda each: type(each).__name__)
def test_a_metadata_record_is_kept(written: Written, expected: Record) -> None:
    """Each kept record has its fields in Kafka's terms, and the offset at which it stands."""
    no_op = Written("NoOpRecord")
    assert decoded(record_batch(40, 9, [no_op, written, no_op])) == Decoded(
        [(41, expected)], {}, 0, []
    )


@pytest.mark.parametrize(("written", "expected"), CONTROL, ids=lambda each: type(each).__name__)
def test_a_control_record_is_kept(written: Written, expected: Record) -> None:
    """Control records stand in batches of their own; a leader change has its batch's epoch."""
    assert decoded(control_batch(40, 9, written)) == Decoded([(40, expected)], {}, 0)


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_a_secret_is_never_decoded(planted: Written | bytes) -> None:
    """A record that may hold a secret is skipped and counted; nothing of it is in what is kept."""
    topic = Written("TopicRecord", {"name": "t", "topic_id": TOPIC})
    found = decoded(record_batch(0, 1, [planted, topic]))
    assert found == Decoded([(1, Topic("t", TOPIC))], {}, 1, [])
    assert SECRET not in repr(found)


def test_no_reader_exists_for_records_that_may_hold_secrets() -> None:
    """What could decode a secret is not there at all: of the tables, none has such an api key."""
    secret = {10, 11, 14, 15, 18, 19, 22, 26}
    assert {message.api_key for message in RECORDS.values()} & secret == set()


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (raw_value(30, 0, b"x"), "metadata record 30 version 0"),
        (raw_value(300, 0, b"x"), "metadata record 300 version 0"),
        (raw_value(3, 9, b"x"), "PartitionRecord version 9"),
        (raw_value(4, 1, b"x"), "ConfigRecord version 1"),
        (raw_value(3, 200, b"x"), "PartitionRecord version 200"),
        (raw_value(3, 1, b"x"), "PartitionRecord version 1, unreadable"),
        (raw_value(4, 0, b"x"), "ConfigRecord version 0, unreadable"),
        (b"\x02\x14\x00\x00", "frame version 2"),
    ],
)
def test_what_only_a_newer_kafka_knows_is_counted(value: bytes, named: str) -> None:
    """It is skipped, told by its name, and what stands beside it is kept."""
    topic = Written("TopicRecord", {"name": "t", "topic_id": TOPIC})
    assert decoded(record_batch(0, 1, [value, topic])) == Decoded(
        [(1, Topic("t", TOPIC))],
        {named: 1},
        0,
        [],
    )


def test_a_record_that_is_longer_than_its_version_says_is_not_guessed() -> None:
    """Bytes behind the last field are no tagged fields: the record is counted as unreadable."""
    longer = raw_value(9, 0, base64.urlsafe_b64decode(TOPIC + "==") + b"\0" + b"more")
    assert decoded(record_batch(0, 1, [longer])).unknown == {
        "RemoveTopicRecord version 0, unreadable": 1
    }


def test_a_tag_of_a_newer_kafka_is_skipped() -> None:
    """A record with a tagged field of a newer Kafka is kept without it."""
    tagged = raw_value(
        9, 0, base64.urlsafe_b64decode(TOPIC + "==") + uvarint(1) + uvarint(77) + b"\x02hi"
    )
    assert decoded(record_batch(0, 1, [tagged])) == Decoded([(0, RemoveTopic(TOPIC))], {}, 0, [])


def test_a_long_batch_has_all_its_records() -> None:
    """Lengths and numbers of more than one byte are read: 10,000 records are the most that Kafka writes at once."""
    name = "t" * 200
    records = [
        Written("TopicRecord", {"name": name, "topic_id": uuid_of(number)})
        for number in range(10_000)
    ]
    assert decoded(record_batch(1_000, 1, records)).records == [
        (1_000 + number, Topic(name, uuid_of(number))) for number in range(10_000)
    ]


def test_marks_of_transactions_are_found() -> None:
    """Where transactions begin, end or are aborted is known, and a batch without such bytes is not looked through."""
    names = ("NoOpRecord", "BeginTransactionRecord", "EndTransactionRecord")
    records = [Written(each) for each in (*names, names[1], "AbortTransactionRecord")]
    (batch,) = split_batches(record_batch(10, 1, records))
    assert transaction_marks(batch) == [(11, 23), (12, 24), (13, 23), (14, 25)]
    (long,) = split_batches(record_batch(10, 1, [records[0]] * 9_999 + records[1:2]))
    assert transaction_marks(long) == [(10 + 9_999, 23)]
    (control,) = split_batches(control_batch(10, 1, Written("SnapshotFooterRecord")))
    assert not transaction_marks(control)


@pytest.mark.parametrize("at", [61, 64, 65, 66], ids=["size", "number", "key", "value's size"])
def test_a_batch_whose_records_do_not_fit_is_refused(at: int) -> None:
    """With a valid checksum too, a record of another size, number or kind is an error of one line."""
    good = record_batch(0, 1, [Written("RemoveTopicRecord", {"topic_id": TOPIC})] * 2)
    for value in set(range(256)) - {good[at]}:
        (batch,) = split_batches(rechecked(good[:at] + bytes([value]) + good[at + 1 :]))
        with pytest.raises(CorruptBatchError, match="the batch at offset 0 is"):
            decode(batch)
