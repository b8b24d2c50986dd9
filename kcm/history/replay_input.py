"""What `kcm replay` reads: files, gzip by name, standard input, and bundles.

Everything is streamed, and each line has its place: its file, and its number there. Where
a file is damaged or ends early, every line before that place is read, and the place is reported as
a line of its own. A file that cannot be opened is reported before anything is read.
"""

import gzip
import io
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from controller_model.records.decoding import DECODING_ERRORS
from kcm.history.bundle_file import LOG_NAME, Manifest, is_bundle, read_manifest
from pipeline.runtime import UsageError

STDIN = "-"
_BOM = b"\xef\xbb\xbf"
_UNPACKING_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error, zipfile.BadZipFile)

_READ_BYTES = 1 << 20
_UNPACK_BYTES = 4096
"""Bytes unpacked at once: they are lost where the packed bytes turn out to be damaged."""


class Line(NamedTuple):
    """A line of a log, and its place."""

    place: str
    data: bytes
    damage: str = ""
    """Why nothing can be read from here on; empty for a line that could be read."""


def check_files(files: Sequence[str]) -> None:
    """Raise UsageError for the first file that cannot be read."""
    if files.count(STDIN) > 1:
        raise UsageError("standard input (-) can be read only once")
    for name in files:
        try:
            if name != STDIN:
                Path(name).open("rb").close()
        except OSError as error:
            raise UsageError(f"cannot read {name}: {error.strerror or error}") from None


def manifests_of(files: Sequence[str]) -> dict[str, Manifest]:
    """Return the manifests of the bundles among the files; raises UsageError for a bad one."""
    bundles = [name for name in files if name != STDIN and is_bundle(Path(name))]
    return {name: read_manifest(Path(name)) for name in bundles}


def lines_of(files: Sequence[str]) -> Iterator[Line]:
    """Yield the lines of the files, one file after the other."""
    for name in files:
        try:
            with _opened(name) as (source, at_once):
                yield from _lines(name, source, at_once)
        except _UNPACKING_ERRORS as error:
            yield Line(f"{name}:1", b"", f"cannot be unpacked: {error}")


@contextmanager
def _opened(name: str) -> Iterator[tuple[io.BufferedIOBase, int]]:
    """Open a file; yield it with the number of bytes to read at once."""
    if name == STDIN:
        yield cast("io.BufferedIOBase", sys.stdin.buffer), _READ_BYTES
        return
    path = Path(name)
    if is_bundle(path):
        with zipfile.ZipFile(path) as bundle, bundle.open(LOG_NAME) as member:
            yield cast("io.BufferedIOBase", member), _UNPACK_BYTES
    elif path.suffix.lower() == ".gz":
        with gzip.open(path, "rb") as packed:
            yield packed, _UNPACK_BYTES
    else:
        with path.open("rb") as plain:
            yield plain, _READ_BYTES


def _lines(name: str, source: io.BufferedIOBase, at_once: int) -> Iterator[Line]:
    number = 0
    begun: list[bytes] = []
    """The bytes read so far of the line that is not complete yet."""
    damage = ""
    try:
        while data := source.read1(at_once):
            *ends, rest = data.split(b"\n")
            for end in ends:
                number += 1
                yield from _line(name, number, b"".join([*begun, end]))
                begun = []
            begun.append(rest)
    except _UNPACKING_ERRORS as error:
        damage = f"cannot be unpacked from here on: {error}"
    except OSError as error:
        damage = f"cannot be read from here on: {error.strerror or error}"
    last = b"".join(begun)
    if not damage or _is_whole(last):
        number += 1
        yield from _line(name, number, last)
    if damage:
        yield Line(f"{name}:{number + 1}", b"", damage)


def _line(name: str, number: int, line: bytes) -> Iterator[Line]:
    """Yield a line unless it is blank."""
    data = line.removeprefix(_BOM) if number == 1 else line
    if data and not data.isspace():
        yield Line(f"{name}:{number}", data)


def _is_whole(line: bytes) -> bool:
    """Return whether a line without a line end is complete: damage after it takes nothing from it."""
    try:
        msgspec.json.decode(line)
    except DECODING_ERRORS:
        return False
    return True
