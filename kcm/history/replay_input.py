"""Where `kcm replay` reads: files, gzip by name, standard input, and bundles.

The rule: everything is streamed, and each line says where it stands: its file, and its number there.
Where a file is damaged, or ends early, every line before that place is read, and the place is reported
as a line of its own. What cannot be opened is reported before anything is read.
"""

from __future__ import annotations

import gzip
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol, cast

import msgspec

from kcm.history.bundle_file import LOG_NAME, Manifest, is_bundle, read_manifest
from pipeline.runtime import UsageError

STDIN = "-"
_BOM = b"\xef\xbb\xbf"
_UNPACKING_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error, zipfile.BadZipFile)

_READ_BYTES = 1 << 20
_UNPACK_BYTES = 4096
"""What is unpacked at once: it is lost where the packed bytes of it turn out to be damaged."""


class Line(NamedTuple):
    """A line of a log, and where it stands."""

    place: str
    data: bytes
    damage: str = ""
    """Why nothing can be read from here on; empty in a line that could be read."""


def check_files(files: Sequence[str]) -> None:
    """Raise UsageError for the first file that cannot be read."""
    if files.count(STDIN) > 1:
        raise UsageError("standard input (-) can be read only once")
    for name in files:
        if name == STDIN:
            continue
        try:
            with Path(name).open("rb"):
                pass
        except OSError as error:
            raise UsageError(f"cannot read {name}: {error.strerror or error}") from None


def manifests_of(files: Sequence[str]) -> dict[str, Manifest]:
    """Return the manifests of the bundles among the files; raises UsageError for a bad one."""
    bundles = [name for name in files if name != STDIN and is_bundle(Path(name))]
    return {name: read_manifest(Path(name)) for name in bundles}


class _Source(Protocol):
    def read1(self, size: int, /) -> bytes: ...


def lines_of(files: Sequence[str]) -> Iterator[Line]:
    """Yield the lines of the files, one file after the other."""
    for name in files:
        try:
            with _opened(name) as (source, at_once):
                yield from _lines(name, source, at_once)
        except _UNPACKING_ERRORS as error:
            yield Line(f"{name}:1", b"", f"cannot be unpacked: {error}")


@contextmanager
def _opened(name: str) -> Iterator[tuple[_Source, int]]:
    """Open a file; give it with the number of bytes to read at once."""
    if name == STDIN:
        yield cast("_Source", sys.stdin.buffer), _READ_BYTES
        return
    path = Path(name)
    if is_bundle(path):
        with zipfile.ZipFile(path) as bundle, bundle.open(LOG_NAME) as member:
            yield cast("_Source", member), _UNPACK_BYTES
    elif path.suffix.lower() == ".gz":
        with gzip.open(path, "rb") as packed:
            yield packed, _UNPACK_BYTES
    else:
        with path.open("rb") as plain:
            yield plain, _READ_BYTES


def _lines(name: str, source: _Source, at_once: int) -> Iterator[Line]:
    number = 0
    begun: list[bytes] = []
    """What has been read of the line that is not whole yet."""
    data, damage = _read_on(source, at_once)
    while data:
        first, *more = data.split(b"\n")
        begun.append(first)
        if more:
            for line in (b"".join(begun), *more[:-1]):
                number += 1
                if parsed := _line(name, number, line):
                    yield parsed
            begun = more[-1:]
        data, damage = _read_on(source, at_once)
    last = b"".join(begun)
    if not damage or _is_whole(last):
        number += 1
        if parsed := _line(name, number, last):
            yield parsed
    if damage:
        yield Line(f"{name}:{number + 1}", b"", damage)


def _read_on(source: _Source, at_once: int) -> tuple[bytes, str]:
    """Return what comes next; nothing at the end, and why where it is not the file's."""
    try:
        return source.read1(at_once), ""
    except _UNPACKING_ERRORS as error:
        return b"", f"cannot be unpacked from here on: {error}"
    except OSError as error:
        return b"", f"cannot be read from here on: {error.strerror or error}"


def _line(name: str, number: int, line: bytes) -> Line | None:
    """Return a line; None if it is blank."""
    data = line.removeprefix(_BOM) if number == 1 else line
    return Line(f"{name}:{number}", data) if data and not data.isspace() else None


def _is_whole(line: bytes) -> bool:
    """Return whether a line that has no end is all there: damage after it takes nothing from it."""
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
