"""The records of the log `kcm.changes`: what the watcher saw, in order; of a KRaft cluster, `metadata_log`.

The rule: a reader needs `path` and `data`; every other field may be absent, and an absent field
is not checked. Records are written and read here only, so the three parts cannot disagree.
"""

import base64
import binascii
import enum
import hashlib
from collections.abc import Callable, Iterable
from typing import Annotated

import msgspec

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import Position, new_tuple
from controller_model.records.decoding import DECODING_ERRORS, Name
from controller_model.records.election_requests import ElectionRequest
from controller_model.records.metadata_log import METADATA_LOG_VERSION, AnyMetadataRecord

VERSION = 1
"""The version that is written; a reader skips records of any other, and counts them."""

MAX_CHANGES_PER_MESSAGE = 125
"""Changes in one message: enough to make the cost per message negligible. Spark limits a batch by the number of
messages alone, so the largest message must not be much larger than the usual one under load (`Publisher.pump`)."""

MAX_MESSAGE_BYTES = 128 * 1024
"""Bytes of one message; a single change that is larger is sent alone."""

MAX_CHANGE_BYTES = 8 * 1024 * 1024 - 64 * 1024
"""Bytes of the largest change that is sent with its data: the topics' 8 MiB minus room for framing."""

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""ZooKeeper's widest numbers; a wider one in the log is damage, and could not be stored."""
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""A znode's version. A number that is summed over records must be far narrower than the sum that can be stored."""
Dropped = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
"""A number of dropped changes; the limit is more than any watcher drops."""


class ChangeKind(enum.StrEnum):
    """What a change reports."""

    SET = "set"
    """The znode exists with this data: created, changed, or read again."""
    DELETED = "deleted"
    RESYNC_STARTED = "resync_started"
    RESYNC_FINISHED = "resync_finished"
    RECONCILED = "reconciled"
    """A reconciliation has ended: the number and digest of what the watcher has published so far."""
    HEARTBEAT = "heartbeat"


class SessionState(enum.StrEnum):
    """The watcher's ZooKeeper session, in kazoo's words."""

    CONNECTED = "CONNECTED"
    """The log is at most one notification behind ZooKeeper."""
    SUSPENDED = "SUSPENDED"
    """The connection is lost, the session may live; nothing is seen until a resync has ended."""
    LOST = "LOST"
    """The session has ended; nothing is seen until a new one has resynced."""


class ZnodeChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One change of one cluster, as it is in the log.

    Times are milliseconds since 1970: `ctime` and `mtime` by ZooKeeper's clock, `observed_at` by
    the watcher's. `read_zxid` is the zxid in the header of the reply that the data came in.
    """

    v: int
    cluster: str
    generation: Int64
    watcher: Name
    seq: Int64
    kind: ChangeKind
    observed_at: Int64
    path: str = ""
    data: str | None = None
    data_base64: str | None = None
    data_omitted: bool = False
    """The payload is not in the log, because it is too large or confidential."""
    czxid: Int64 | None = None
    mzxid: Int64 | None = None
    version: Int32 | None = None
    ephemeral_owner: Int64 | None = None
    ctime: Int64 | None = None
    mtime: Int64 | None = None
    read_zxid: Int64 | None = None
    resync: Int64 | None = None
    """The id of a resync, on both its control records; rises within a generation."""
    reason: str | None = None
    """Why a resync was started, in an operator's words."""
    answers: Int64 | None = None
    """The number of the fold's request that a resync answers."""
    rebase: bool = False
    """ZooKeeper's history was replaced: in this resync a value wins whatever its mzxid is."""
    znodes: Int64 | None = None
    """How many znodes a resync or a reconciliation covers."""
    digest: Name | None = None
    """The digest over these znodes (`digest_text`)."""
    denied: tuple[str, ...] = ()
    """Paths that the watcher may not read: what depends on them is unknown. If there are too many to
    name, an ancestor stands for the paths below it."""
    denied_more: Int64 = 0
    """How many denied paths are not named."""
    dropped: Dropped | None = None
    """Changes that this watcher has dropped since it started, because it could not buffer them."""
    session: SessionState | None = None
    session_since: Int64 | None = None
    """Since when the session has been CONNECTED, or has not."""
    zookeeper: Name | None = None
    """The server of the session, as host:port."""

    @property
    def position(self) -> Position:
        """The change's place in its cluster's log."""
        return new_tuple(Position, (self.generation, self.seq))

    def payload(self) -> bytes:
        """Return the znode's bytes; empty if there are none.

        Raises UnreadableRecordError if the payload was left out or `data_base64` is damaged.
        """
        if self.data_omitted:
            raise UnreadableRecordError("the payload is too large for the log")
        if self.data is not None:
            return self.data.encode()
        if self.data_base64 is None:
            return b""
        try:
            return base64.b64decode(self.data_base64, validate=True)
        except binascii.Error as error:
            raise UnreadableRecordError(f"data_base64 is damaged: {error}") from None


AnyRecord = ZnodeChange | AnyMetadataRecord
"""What a watcher writes, of each source."""


class Batch(msgspec.Struct, frozen=True):
    """The records of one message, and how many of them could not be read."""

    changes: tuple[ZnodeChange, ...]
    unreadable: int = 0
    """Records that are damaged or of another version; they leave a hole in the seqs."""
    requests: tuple[ElectionRequest, ...] = ()
    """Requests for elections: no watcher wrote them, they have no seq, and arrive in messages of their own."""
    metadata: tuple[AnyMetadataRecord, ...] = ()
    """Records of a KRaft cluster, which has no changes of znodes."""

    @property
    def records(self) -> tuple[AnyRecord, ...]:
        """What watchers wrote, whatever their source."""
        return (*self.changes, *self.metadata)


encode_change: Callable[[ZnodeChange], bytes] = msgspec.json.Encoder().encode
"""Returns one change as JSON."""
_changes_decoder = msgspec.json.Decoder(tuple[ZnodeChange, ...])
_raw_decoder = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_change_decoder = msgspec.json.Decoder(ZnodeChange)
_request_decoder = msgspec.json.Decoder(ElectionRequest)
_metadata_decoder = msgspec.json.Decoder(tuple[AnyMetadataRecord, ...])
_metadata_record_decoder = msgspec.json.Decoder(AnyMetadataRecord)
_METADATA = b'[{"record":'
"""How a message of a KRaft cluster begins, so that it is not decoded as changes first."""


def differ(known: int | str | None, reported: int | str | None) -> bool:
    """Return whether a record contradicts what is known; a value absent on either side is not checked.

    >>> differ(7, 8), differ(7, None)
    (True, False)
    """
    return known is not None and reported is not None and known != reported


def data_fields(payload: bytes) -> dict[str, str]:
    """Return the field that carries a payload: text if it is UTF-8, base64 otherwise.

    >>> data_fields(b"ok"), data_fields(bytes([255]))
    ({'data': 'ok'}, {'data_base64': '/w=='})
    """
    try:
        return {"data": payload.decode()}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(payload).decode()}


def join_changes(encoded: Iterable[bytes]) -> bytes:
    """Return a message made of changes that are encoded already."""
    return b"[" + b",".join(encoded) + b"]"


def decode_message(message: bytes) -> Batch:
    """Return the changes of a message, skipping and counting those that cannot be read.

    Raises UnreadableRecordError when the message as a whole is not an array of records.
    """
    if message.startswith(_METADATA):
        try:
            metadata = _metadata_decoder.decode(message)
        except DECODING_ERRORS:
            return _decode_one_by_one(message)
        read = tuple([each for each in metadata if each.v == METADATA_LOG_VERSION])
        return Batch((), len(metadata) - len(read), metadata=read)
    try:
        changes = _changes_decoder.decode(message)
    except DECODING_ERRORS:
        return _decode_one_by_one(message)
    ours = tuple([change for change in changes if change.v == VERSION])
    return Batch(ours, len(changes) - len(ours))


def _decode_one_by_one(message: bytes) -> Batch:
    try:
        records = _raw_decoder.decode(message)
    except DECODING_ERRORS as error:
        raise UnreadableRecordError(f"not an array of changes: {error}") from None
    changes = []
    requests = []
    metadata = []
    for record in records:
        try:
            change = _change_decoder.decode(record)
        except DECODING_ERRORS:
            if (request := decode_request(record)) is not None:
                requests.append(request)
            elif (read := decode_metadata(record)) is not None:
                metadata.append(read)
            continue
        if change.v == VERSION:
            changes.append(change)
    unreadable = len(records) - len(changes) - len(requests) - len(metadata)
    return Batch(tuple(changes), unreadable, tuple(requests), tuple(metadata))


def decode_metadata(record: bytes | msgspec.Raw) -> AnyMetadataRecord | None:
    """Return the record of a KRaft cluster; None if it is not one of this version."""
    try:
        read = _metadata_record_decoder.decode(record)
    except DECODING_ERRORS:
        return None
    return read if read.v == METADATA_LOG_VERSION else None


def decode_request(record: bytes | msgspec.Raw) -> ElectionRequest | None:
    """Return the election request in a record; None if it is not one of this version."""
    try:
        request = _request_decoder.decode(record)
    except DECODING_ERRORS:
        return None
    return request if request.v == VERSION else None


_BLAKE2B_64 = hashlib.blake2b(digest_size=8)
"""To be copied, which costs a third less than creating a new one."""
_from_bytes = int.from_bytes


def znode_digest(path: str, mzxid: int) -> int:
    """Return a znode's 64-bit part of a digest; XOR the parts over a set of znodes.

    BLAKE2b is the same on every machine and in every release, and costs about a microsecond.

    >>> znode_digest("/controller", 87) == znode_digest("/controller", 88)
    False
    """
    hashed = _BLAKE2B_64.copy()
    hashed.update(path.encode("utf-8", "surrogatepass") + b"\0%d" % mzxid)
    return _from_bytes(hashed.digest())


def moved_digest(path: str, old_mzxid: int, new_mzxid: int) -> int:
    """Return what to XOR into a digest when a znode's mzxid changes, in 3/4 of the time of two parts.

    >>> moved_digest("/a", 1, 2) == znode_digest("/a", 1) ^ znode_digest("/a", 2)
    True
    """
    old = _BLAKE2B_64.copy()
    old.update(path.encode("utf-8", "surrogatepass") + b"\0")
    new = old.copy()
    old.update(b"%d" % old_mzxid)
    new.update(b"%d" % new_mzxid)
    return _from_bytes(old.digest()) ^ _from_bytes(new.digest())


def digest_text(digest: int) -> str:
    """Return a digest as the log carries it: text, since JSON readers round 64-bit numbers.

    >>> digest_text(255)
    '00000000000000ff'
    """
    return f"{digest:016x}"
