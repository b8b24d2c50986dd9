"""What `kcm replay` reads: files, gzip by name, standard input, and bundles.

Everything is streamed, and each line has its place: its file, and its number there. Where
a file is damaged or ends early, every line before that place is read, and the place is reported as
a line of its own. A file that cannot be opened is reported before anything is read.
"""

import gzip
import io
import math
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from controller_model.records.decoding import DECODING_ERRORS
from kcm.history.bundle_file import (
    FREE_BYTES,
    LOG_NAME,
    MAX_RATIO,
    UNPACKING_ERRORS,
    Manifest,
    is_bundle,
    one_line,
    read_manifest,
)
from pipeline.runtime import UsageError

STDIN = "-"
_PART_OF_FOLDER = re.compile(r"[0-9]{20}(?:-[0-9]{10}\.checkpoint|\.log)")
_BOM = b"\xef\xbb\xbf"
_READ_BYTES = 1 << 20
_UNPACK_BYTES = 4096
"""Bytes unpacked at once: they are lost where the packed bytes turn out to be damaged."""
_LONGEST_LINE = 16 * 1024 * 1024
"""Bytes of a line: twice the largest record that the topics take (pipeline.topics.MAX_MESSAGE_BYTES)."""


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
        if _PART_OF_FOLDER.fullmatch(Path(name).name):
            raise UsageError(f"{name} is one file of a KRaft node's metadata log: name its folder")
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
            with _opened(name) as (source, at_once, most):
                yield from _lines(name, source, at_once, most)
        except UNPACKING_ERRORS as error:
            yield Line(f"{name}:1", b"", f"cannot be unpacked: {one_line(error)}")


@contextmanager
def _opened(name: str) -> Iterator[tuple[io.BufferedIOBase, int, float]]:
    """Open a file; yield it with how many bytes to read at once, and how many at most."""
    if name == STDIN:
        yield cast("io.BufferedIOBase", sys.stdin.buffer), _READ_BYTES, math.inf
        return
    path = Path(name)
    most = FREE_BYTES + MAX_RATIO * path.stat().st_size
    if is_bundle(path):
        with zipfile.ZipFile(path) as bundle, bundle.open(LOG_NAME) as member:
            yield cast("io.BufferedIOBase", member), _UNPACK_BYTES, most
    elif path.suffix.lower() == ".gz":
        with gzip.open(path, "rb") as packed:
            yield packed, _UNPACK_BYTES, most
    else:
        with path.open("rb") as plain:
            yield plain, _READ_BYTES, math.inf


def _lines(
    name: str, source: io.BufferedIOBase, at_once: int, most: float = math.inf
) -> Iterator[Line]:
    """Yield the lines of a source, and where it cannot be read to its end, why not."""
    number = 0
    begun: list[bytes] = []
    """The bytes read so far of the line that is not complete yet."""
    begun_bytes = 0
    damage = ""
    try:
        while not damage and (data := source.read1(at_once)):
            *ends, rest = data.split(b"\n")
            for end in ends:
                number += 1
                yield from _line(name, number, b"".join([*begun, end]))
                begun, begun_bytes = [], 0
            begun.append(rest)
            begun_bytes += len(rest)
            most -= len(data)
            if begun_bytes > _LONGEST_LINE:
                damage = f"a line of more than {_LONGEST_LINE} bytes is no record; nothing is read from here on"
            elif most < 0:
                damage = f"it unpacks to more than {MAX_RATIO} times its size; nothing is read from here on"
    except UNPACKING_ERRORS as error:
        is_packing = not isinstance(error, OSError) or isinstance(error, gzip.BadGzipFile)
        damage = f"cannot be {'unpacked' if is_packing else 'read'} from here on: {one_line(error)}"
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
