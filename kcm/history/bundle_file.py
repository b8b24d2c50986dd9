"""The file of one incident: its log, its events, the snapshots at both ends, and a list of what is missing.

A bundle is a zip that any tool opens, and its manifest lists what it holds and what is
missing. Its snapshots are made from its own log, so `kcm replay` of the bundle gives the same ones.
"""

import struct
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from controller_model.kafka.ids import Position
from controller_model.records.changes import VERSION as CHANGES_VERSION
from controller_model.records.decoding import DECODING_ERRORS
from controller_model.records.event_records import VERSION as EVENTS_VERSION
from pipeline.runtime import UsageError

VERSION = 1
"""The version of the bundle's layout; a reader of another version reports that."""

MANIFEST_NAME = "manifest.json"
LOG_NAME = "changes.jsonl"
EVENTS_NAME = "events.jsonl"
BEFORE_NAME = "snapshot-from.json"
AFTER_NAME = "snapshot-to.json"

_MAGIC = b"PK\x03\x04"


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """The release that wrote the bundle, and the versions of its records."""

    kcm: str
    changes: int = CHANGES_VERSION
    events: int = EVENTS_VERSION


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle holds; times are milliseconds since 1970."""

    v: int
    cluster: str
    from_ms: int
    to_ms: int
    log_first: Position
    """The log begins here: before `from_ms`, so that the snapshot at `from_ms` is exact."""
    log_last: Position
    at_from: Position | None
    """The last change up to `from_ms`; None: the log begins later."""
    changes: int
    events: int
    topics: tuple[str, ...]
    """The topics from which it was read."""
    versions: Versions
    made_at: int
    assumed_min_insync_replicas: int | None = None
    """The value that the snapshots use where ZooKeeper sets none; None: not known."""
    missing: tuple[str, ...] = ()
    """What the topics no longer held, as text; empty when nothing is missing."""


MAX_RATIO = 100
"""How many times its packed size a log may have, beyond FREE_BYTES. Logs have 9 to 23 times; deflate allows 1032."""
FREE_BYTES = 16 * 1024 * 1024
"""Bytes that a file may unpack to, however small it is."""

_MAX_MANIFEST_BYTES = 1024 * 1024
_PACKED_AS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""Methods whose unpacking Python's zipfile can do in pieces of a given size."""
_IS_ENCRYPTED = 0x1
_decoder = msgspec.json.Decoder(Manifest)
UNPACKING_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    OverflowError,
    MemoryError,
    *DECODING_ERRORS,
)
"""What zipfile and gzip raise for a damaged file, for one with a password (RuntimeError), of a later format
(NotImplementedError, a RuntimeError), with sizes that no machine has, and for a damaged manifest."""


def is_bundle(path: Path) -> bool:
    """Return whether a file is a bundle, whatever its name is."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def read_manifest(path: Path) -> Manifest:
    """Return a bundle's manifest; raises UsageError when the file is not a bundle that this release reads.

    What the zip says of its members is judged before anything is unpacked, and no more is unpacked than it says.
    """
    try:
        with zipfile.ZipFile(path) as bundle:
            for name in (MANIFEST_NAME, LOG_NAME):
                _check_member(path, bundle.getinfo(name))
                bundle.open(name).close()
            with bundle.open(MANIFEST_NAME) as member:
                manifest = _decoder.decode(member.read(_MAX_MANIFEST_BYTES))
    except KeyError:
        raise UsageError(f"{path} is a zip without {MANIFEST_NAME} or {LOG_NAME}") from None
    except UNPACKING_ERRORS as error:
        raise UsageError(f"{path} is not a kcm bundle: {one_line(error)}") from None
    if manifest.v != VERSION:
        raise UsageError(f"{path} is a bundle of layout {manifest.v}; this release reads {VERSION}")
    return manifest


def _check_member(path: Path, member: zipfile.ZipInfo) -> None:
    """Raise UsageError for a member that cannot be unpacked, or that unpacks to more than any of ours."""
    name, most = member.filename, _MAX_MANIFEST_BYTES
    if name == LOG_NAME:
        most = FREE_BYTES + MAX_RATIO * member.compress_size
    why = ""
    if member.flag_bits & _IS_ENCRYPTED:
        why = "is encrypted: unpack it with its password, and give the log in it"
    elif member.compress_type not in _PACKED_AS:
        why = f"is packed by method {member.compress_type}: pack it again, with deflate"
    elif member.file_size > most:
        why = f"would unpack to {member.file_size} bytes, of which at most {most} are read"
    if why:
        raise UsageError(f"{path} is not a kcm bundle: {name} {why}")


def one_line(error: BaseException) -> str:
    """Return what an error says in one line; its kind, if it says nothing."""
    text = getattr(error, "strerror", None) or str(error)
    return " ".join(text.split()) or type(error).__name__


def write_bundle(
    path: Path,
    manifest: Manifest,
    *,
    log: Iterable[bytes],
    events: Iterable[bytes],
    before: bytes | None,
    after: bytes,
) -> None:
    """Write a bundle; it gets its name only when it is complete."""
    unfinished = path.with_name(f"{path.name}.part")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as bundle:
            bundle.writestr(MANIFEST_NAME, msgspec.json.format(msgspec.json.encode(manifest)))
            if before is not None:
                bundle.writestr(BEFORE_NAME, before + b"\n")
            bundle.writestr(AFTER_NAME, after + b"\n")
            _write_lines(bundle, EVENTS_NAME, events)
            _write_lines(bundle, LOG_NAME, log)
        unfinished.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def _write_lines(bundle: zipfile.ZipFile, name: str, lines: Iterable[bytes]) -> None:
    with bundle.open(name, "w", force_zip64=True) as member:
        for line in lines:
            member.write(line.rstrip(b"\n") + b"\n")
