"""Decode lines of a log that others wrote or cut: only a path is required, and given fields are checked.

A field that a record lacks, or that is null in it, is not checked. It is filled in from
earlier records, so that `replay` gets a complete record and finds nothing to count or to question:
without a seq the record is the next one, without a watcher it is the same watcher's, without a kind
it is a `set`.
"""

import msgspec

from controller_model.kafka.ids import Position
from controller_model.records.changes import (
    VERSION,
    ChangeKind,
    Int64,
    ZnodeChange,
    decode_metadata,
    decode_request,
)
from controller_model.records.decoding import DECODING_ERRORS
from controller_model.records.election_requests import ElectionRequest
from controller_model.records.metadata_log import METADATA_LOG_VERSION, AnyMetadataRecord

ABSENT = -(2**63)
"""A number that no log holds: it marks a field that the record lacks."""


class LooseChange(ZnodeChange, frozen=True, kw_only=True, omit_defaults=True):
    """A change in which any field may be missing."""

    v: int = VERSION
    cluster: str = ""
    generation: Int64 = ABSENT
    watcher: str = ""
    seq: Int64 = ABSENT
    kind: ChangeKind = ChangeKind.SET
    observed_at: Int64 = ABSENT

    @property
    def is_complete(self) -> bool:
        """Whether replay can apply it as it is."""
        numbers = (self.generation, self.seq, self.observed_at)
        return ABSENT not in numbers and self.watcher != ""

    @property
    def has_place(self) -> bool:
        """Whether it holds its own position in the log."""
        return ABSENT not in {self.generation, self.seq}


class LooseLine(msgspec.Struct, frozen=True):
    """The records of a line, and how many of them could not be read."""

    changes: tuple[LooseChange, ...]
    unreadable: int = 0
    reason: str = ""
    """What is wrong with the first unreadable record."""
    ends_unreadable: bool = False
    """Whether the last record is unreadable, so that no change of the line follows it."""
    requests: tuple[ElectionRequest, ...] = ()
    """Records that request elections: no watcher wrote them, and they are not changes."""
    metadata: tuple[AnyMetadataRecord, ...] = ()
    """Records of a KRaft cluster, which has no changes of znodes; none of their fields may be missing."""

    @property
    def records(self) -> tuple[LooseChange | AnyMetadataRecord, ...]:
        """What watchers wrote, whatever their source."""
        return (*self.changes, *self.metadata)


_line_decoder = msgspec.json.Decoder(LooseChange | tuple[LooseChange, ...])
_raw_decoder = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_change_decoder = msgspec.json.Decoder(LooseChange)
_encoder = msgspec.json.Encoder()
_NULL = msgspec.Raw(b"null")
_metadata_decoder = msgspec.json.Decoder(AnyMetadataRecord | tuple[AnyMetadataRecord, ...])
_METADATA = (b'{"record":', b'[{"record":')
"""How a line of a KRaft cluster begins."""


def decode_line(line: bytes) -> LooseLine:
    """Return the changes of a line: one record, or an array of them.

    An unreadable record is counted, and the others are returned. A line that is not JSON is one record.

    >>> decode_line(b'{"path": "/controller_epoch", "data": "7"}').changes[0].kind.value
    'set'
    >>> decode_line(b'[{"path": "/a"}, {"path": 1}, {"v": 9}]').unreadable
    2
    """
    if line.startswith(_METADATA):
        return _decode_metadata_line(line)
    try:
        decoded = _line_decoder.decode(line)
    except DECODING_ERRORS:
        return _decode_one_by_one(line)
    changes = decoded if isinstance(decoded, tuple) else (decoded,)
    return _decode_one_by_one(line) if any(map(_complaint, changes)) else LooseLine(changes)


def _decode_metadata_line(line: bytes) -> LooseLine:
    try:
        decoded = _metadata_decoder.decode(line)
    except DECODING_ERRORS:
        return _decode_one_by_one(line)
    records = decoded if isinstance(decoded, tuple) else (decoded,)
    if any(each.v != METADATA_LOG_VERSION for each in records):
        return _decode_one_by_one(line)
    return LooseLine((), metadata=records)


def complete(change: LooseChange, *, after: Position, watcher: str, now: int) -> LooseChange:
    """Return the change with its missing fields filled in, as the next one `after` a position.

    `now` is the largest time in the log so far. A record without a time gets `now`, or the znode's
    mtime if that is newer.
    """
    if change.is_complete:
        return change
    generation, seq = change.generation, change.seq
    if generation == ABSENT:
        generation = after.generation or 1
    if seq == ABSENT:
        seq = after.seq + 1 if generation == after.generation else 1
    at = change.observed_at
    if at == ABSENT:
        at = max(now, change.mtime or 0)
    return msgspec.structs.replace(
        change,
        generation=generation,
        seq=seq,
        watcher=change.watcher or watcher,
        observed_at=at,
    )


def _complaint(change: LooseChange) -> str:
    """Return what is wrong with a record that can be decoded; empty if nothing is."""
    if change.v != VERSION:
        return f"a record of version {change.v}; this release reads {VERSION}"
    if not change.path and change.kind in {ChangeKind.SET, ChangeKind.DELETED}:
        return f"a {change.kind} without a path"
    return ""


def _decode_one_by_one(line: bytes) -> LooseLine:
    is_array = line.lstrip().startswith(b"[")
    try:
        records = _raw_decoder.decode(line) if is_array else (line,)
    except DECODING_ERRORS as damage:
        return LooseLine((), 1, f"not an array of changes: {damage}", ends_unreadable=True)
    changes = []
    requests = []
    metadata = []
    reason = wrong = ""
    for record in records:
        if (read := decode_metadata(record)) is not None:
            metadata.append(read)
            wrong = ""
            continue
        try:
            change = _decode_record(record)
        except DECODING_ERRORS as damage:
            if (request := decode_request(record)) is not None:
                requests.append(request)
                continue
            wrong = f"not a change: {damage}"
        else:
            wrong = _complaint(change)
            if not wrong:
                changes.append(change)
        reason = reason or wrong
    unreadable = len(records) - len(changes) - len(requests) - len(metadata)
    return LooseLine(
        tuple(changes), unreadable, reason, bool(wrong), tuple(requests), tuple(metadata)
    )


def _decode_record(record: bytes | msgspec.Raw) -> LooseChange:
    """Return one record; a field that is null counts as absent."""
    fields = _fields_decoder.decode(record)
    given = {name: value for name, value in fields.items() if value != _NULL}
    return _change_decoder.decode(_encoder.encode(given))
