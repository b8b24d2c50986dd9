"""Decodes records of the metadata log: those that kcm keeps, and nothing else.

The log holds secrets in plain text: SCRAM credentials, delegation tokens, passwords of key stores. So there is a
list of what may be decoded, and no reader for anything else. Of a configuration only the resource and the
key are read; its value is read where the key is one of `CONFIG_KEYS`. A record, or a version of one, that
only a newer Kafka knows is counted by its name, and never guessed: figures may lack what it says.
"""

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from controller_model.kafka.metadata_records import (
    BROKER_RESOURCE,
    CONFIG_KEYS,
    TOPIC_RESOURCE,
    BrokerRegistrationChange,
    ClearElr,
    Config,
    EndPoint,
    FeatureLevel,
    FeatureRange,
    FenceBroker,
    KRaftVersion,
    LeaderChange,
    MetadataRecord,
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
from kraft_source.wire.batches import HEADER_BYTES, CorruptBatchError, RecordBatch
from kraft_source.wire.codec import READ_ERRORS, Reader, Values, compiled, read_uvarint, reader
from kraft_source.wire.schemas import CONTROL_RECORDS, RECORDS

Record = MetadataRecord | SnapshotHeader
Make = Callable[..., Record]

BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION = 23, 24, 25

_CONFIG = 4
_NO_OP = 20
_SECRET = frozenset({10, 11, 14, 15, 18, 19, 22, 26})
"""Known records that are never decoded: delegation tokens (10, 26), SCRAM credentials (11, 22), client quotas (14),
producer ids (15), ACLs (18, 19)."""
_WITHOUT_CONTENT = frozenset({_NO_OP, BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION})
_FRAME_VERSION = 1
_MARK = re.compile(rb"\x01[\x17-\x19]")
"""How the value of a record begins that marks a transaction: frame version and api key."""
_MIN_VALUE_BYTES = 3
"""The frame's version, the api key and the record's version have a byte each."""
_CONTROL_KEY = struct.Struct(">hh")
_CONTROL_VERSION = struct.Struct(">h")
_RESOURCES = frozenset({TOPIC_RESOURCE, BROKER_RESOURCE})


def _end_points(values: tuple[Values, ...]) -> tuple[EndPoint, ...]:
    return tuple(EndPoint(**each) for each in values)


def _features(values: tuple[Values, ...]) -> tuple[FeatureRange, ...]:
    return tuple(FeatureRange(**each) for each in values)


def _register_broker(
    *,
    end_points: tuple[Values, ...],
    features: tuple[Values, ...],
    cordoned_log_dirs: object = None,  # noqa: ARG001  # no figure is made of it
    **values: Any,
) -> RegisterBroker:
    return RegisterBroker(
        end_points=_end_points(end_points), features=_features(features), **values
    )


def _register_controller(
    *, end_points: tuple[Values, ...], features: tuple[Values, ...], **values: Any
) -> RegisterController:
    return RegisterController(
        end_points=_end_points(end_points), features=_features(features), **values
    )


def _registration_change(
    *,
    fenced: int = 0,
    in_controlled_shutdown: int = 0,
    log_dirs: tuple[str, ...] = (),
    cordoned_log_dirs: object = None,  # noqa: ARG001  # no figure is made of it
    **values: Any,
) -> BrokerRegistrationChange:
    """Return the change: 1 is fenced, -1 unfenced, 0 and an empty list are no change (BrokerRegistrationFencingChange)."""
    return BrokerRegistrationChange(
        fenced=None if fenced == 0 else fenced > 0,
        in_controlled_shutdown=in_controlled_shutdown > 0,
        log_dirs=log_dirs or None,
        **values,
    )


def _leader_change(
    *,
    voters: tuple[Values, ...],
    granting_voters: tuple[Values, ...],
    **values: Any,
) -> LeaderChange:
    return LeaderChange(
        voters=tuple(Voter(**each) for each in voters),
        granting_voters=tuple(Voter(**each) for each in granting_voters),
        **values,
    )


def _voters(*, voters: tuple[Values, ...]) -> Voters:
    return Voters(
        tuple(
            VoterEndPoints(
                each["voter_id"],
                each["voter_directory_id"],
                _end_points(each["endpoints"]),
                **each["kraft_version_feature"],
            )
            for each in voters
        )
    )


_KEPT: Mapping[str, Make] = {
    "RegisterBrokerRecord": _register_broker,
    "UnregisterBrokerRecord": UnregisterBroker,
    "TopicRecord": Topic,
    "PartitionRecord": Partition,
    "ConfigRecord": Config,
    "PartitionChangeRecord": PartitionChange,
    "FenceBrokerRecord": FenceBroker,
    "UnfenceBrokerRecord": UnfenceBroker,
    "RemoveTopicRecord": RemoveTopic,
    "FeatureLevelRecord": FeatureLevel,
    "BrokerRegistrationChangeRecord": _registration_change,
    "ZkMigrationStateRecord": ZkMigrationState,
    "RegisterControllerRecord": _register_controller,
    "ClearElrRecord": ClearElr,
    "UnregisterControllerRecord": UnregisterController,
}
_CONTROL_KEPT: Mapping[str, Make] = {
    "LeaderChangeMessage": _leader_change,
    "SnapshotHeaderRecord": SnapshotHeader,
    "KRaftVersionRecord": KRaftVersion,
    "VotersRecord": _voters,
}


def _readers() -> dict[tuple[int, int], tuple[Reader, Make]]:
    """Return the reader of each version of each record that is kept, and what makes the record of its values."""
    return {
        (message.api_key, version): (reader(message, version), make)
        for name, make in _KEPT.items()
        if (message := RECORDS[name]).api_key is not None
        for version in range(message.versions[0], message.versions[1] + 1)
    }


_READERS = _readers()
_CONFIG_NAME = compiled(
    [each for each in RECORDS["ConfigRecord"].fields if each.name != "value"],
    0,
    is_flexible=True,
    is_head=True,
)
"""Reads all of a configuration but its value."""


class Decoded(NamedTuple):
    """What a batch holds, as far as it is kept."""

    records: list[tuple[int, Record]]
    """With the offset of each."""
    unknown: Mapping[str, int]
    """What was skipped because only a newer Kafka knows it, or because it could not be read, by name."""
    withheld: int
    """How many records were skipped because they may hold secrets."""
    marks: Sequence[tuple[int, int]] = ()
    """The offsets at which a metadata transaction begins, ends or is aborted, with the record's api key."""


def decode(batch: RecordBatch) -> Decoded:
    """Return the kept records of a batch, and what was skipped.

    Raises CorruptBatchError where the batch does not hold the records that its header announces.
    """
    return (_control if batch.is_control else _metadata)(batch)


def _metadata(batch: RecordBatch) -> Decoded:
    # Nearly all of a watcher's time is spent in this loop, so lengths of one byte are read in place.
    data, at, skipped = batch.data, HEADER_BYTES, _Skipped()
    offset, readers = batch.offset, _READERS
    kept: list[tuple[int, Record]] = []
    marks: list[tuple[int, int]] = []
    for number in range(batch.record_count):
        end, at = _value(batch, at, number)
        api_key, version = data[at + 1], data[at + 2]
        found = readers.get((api_key, version))
        if found is None or data[at] != _FRAME_VERSION or api_key == _CONFIG:
            if BEGIN_TRANSACTION <= api_key <= ABORT_TRANSACTION:
                marks.append((offset + number, api_key))
            if (record := skipped.judge(data[at:end])) is not None:
                kept.append((offset + number, record))
        else:
            read, make = found
            try:
                values, stop = read(data, at + 3)
                if stop != end:
                    raise ValueError("it is longer than its version says")
                kept.append((offset + number, make(**values)))
            except READ_ERRORS:
                skipped.count(f"{_name(api_key)} version {version}, unreadable")
        at = end + 1  # no headers
    _check_end(batch, at)
    return Decoded(kept, skipped.unknown, skipped.withheld, marks)


class _Skipped:
    """Counts what is not kept."""

    def __init__(self) -> None:
        self.unknown: dict[str, int] = {}
        self.withheld = 0

    def count(self, name: str) -> None:
        """Count a record that is not known."""
        self.unknown[name] = self.unknown.get(name, 0) + 1

    def judge(self, value: bytes) -> Record | None:
        """Return a configuration that is kept; count what is unknown or withheld, and return None."""
        try:
            frame, at = read_uvarint(value, 0)
            api_key, at = read_uvarint(value, at)
            version, at = read_uvarint(value, at)
        except READ_ERRORS:
            self.count("a record without an api key")
            return None
        if frame != _FRAME_VERSION:
            self.count(f"frame version {frame}")
        elif api_key in _SECRET:
            self.withheld += 1
        elif api_key == _CONFIG and version == 0:
            return self._config(value, at)
        elif api_key not in _WITHOUT_CONTENT:
            self.count(f"{_name(api_key)} version {version}")
        return None

    def _config(self, value: bytes, at: int) -> Record | None:
        try:
            named, _ = _CONFIG_NAME(value, at)
            if named["resource_type"] in _RESOURCES and named["name"] in CONFIG_KEYS:
                read, make = _READERS[_CONFIG, 0]
                return make(**read(value, at)[0])
        except READ_ERRORS:
            self.count("ConfigRecord version 0, unreadable")
        else:
            self.withheld += 1
        return None


def _control(batch: RecordBatch) -> Decoded:
    """Return the records of a control batch; one that cannot be read is counted, like one that is not known."""
    data, at, skipped = batch.data, HEADER_BYTES, _Skipped()
    kept: list[tuple[int, Record]] = []
    try:
        for number in range(batch.record_count):
            size, at = _varint(data, at)
            end = at + size
            _, at = _varint(data, at + 1)
            _, at = _varint(data, at)
            size, at = _varint(data, at)
            _, kind = _CONTROL_KEY.unpack_from(data, at)
            _, at = _varint(data, at + size)
            name = CONTROL_RECORDS.get(kind, f"control record {kind}")
            (version,) = _CONTROL_VERSION.unpack_from(data, at)
            make, message = _CONTROL_KEPT.get(name), RECORDS.get(name)
            if message is None or not message.versions[0] <= version <= message.versions[1]:
                skipped.count(f"{name} version {version}")
            elif make is not None:
                values, _ = reader(message, version)(data, at)
                del values["version"]  # known before it is read
                if make is _leader_change:
                    values["epoch"] = batch.epoch
                kept.append((batch.offset + number, make(**values)))
            at = end
    except READ_ERRORS:
        skipped.count("a control batch, unreadable")
    return Decoded(kept, skipped.unknown, skipped.withheld)


def transaction_marks(batch: RecordBatch) -> Sequence[tuple[int, int]]:
    """Return `Decoded.marks` of a batch; its records are looked through only where some bytes are those of a mark."""
    return decode(batch).marks if _MARK.search(batch.data, HEADER_BYTES) else ()


def _value(batch: RecordBatch, at: int, number: int) -> tuple[int, int]:
    """Return where the value of a batch's record ends and begins; raise CorruptBatchError if it is no metadata record."""
    data = batch.data
    try:
        size = data[at]
        if size > 127:  # noqa: PLR2004  # more bytes follow, as below
            size, at = read_uvarint(data, at)
        else:
            at += 1
        end, whole = at + (size >> 1), size
        # Behind one byte of attributes: the time's difference to the batch's, and the offset's.
        while data[at + 1] > 127:  # noqa: PLR2004
            at += 1
        delta = data[at + 2]
        if delta > 127:  # noqa: PLR2004
            delta, at = read_uvarint(data, at + 2)
        else:
            at += 3
        is_keyed = data[at] != 1  # -1: no key
        size = data[at + 1]
        if size > 127:  # noqa: PLR2004
            size, at = read_uvarint(data, at + 1)
        else:
            at += 2
        is_negative = (whole | size) & 1
        if (
            delta != number << 1
            or is_keyed
            or is_negative
            or at + (size >> 1) + 1 != end
            or size < _MIN_VALUE_BYTES << 1
            or data[end - 1] != 0
        ):
            raise ValueError
    except READ_ERRORS:
        raise CorruptBatchError(
            f"record {number} of the batch at offset {batch.offset} is no record of a metadata log"
        ) from None
    return end - 1, at


def _check_end(batch: RecordBatch, at: int) -> None:
    if at != len(batch.data):
        raise CorruptBatchError(f"the batch at offset {batch.offset} is longer than its records")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, at = read_uvarint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _name(api_key: int) -> str:
    names = (name for name, message in RECORDS.items() if message.api_key == api_key)
    return next(names, f"metadata record {api_key}")
