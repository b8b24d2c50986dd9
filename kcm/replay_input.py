"""Where `kcm replay` reads: files, gzip by name, standard input, and bundles.

The rule: everything is streamed, line by line, and each line says where it stands, so that damage
can be named. What cannot be opened is told before anything is read.
"""

from __future__ import annotations

import gzip
import io
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from kcm.bundle_file import LOG_NAME, Manifest, is_bundle, read_manifest
from pipeline.runtime import UsageError

STDIN = "-"
_BOM = b"\xef\xbb\xbf"
_UNPACKING_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error, zipfile.BadZipFile)


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


def lines_of(files: Sequence[str]) -> Iterator[Line]:
    """Yield the lines of the files, one file after the other."""
    for name in files:
        with _opened(name) as source:
            yield from _lines(name, source)


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == STDIN:
        yield sys.stdin.buffer
        return
    path = Path(name)
    if is_bundle(path):
        with zipfile.ZipFile(path) as bundle, bundle.open(LOG_NAME) as source:
            yield cast("BinaryIO", source)
    elif path.suffix.lower() == ".gz":
        with gzip.open(path, "rb") as source:
            yield cast("BinaryIO", io.BufferedReader(source, 1 << 20))
    else:
        with path.open("rb", buffering=1 << 20) as source:
            yield source


def _lines(name: str, source: BinaryIO) -> Iterator[Line]:
    number = 0
    try:
        for number, line in enumerate(source, 1):  # the damage is after this line
            data = line.removeprefix(_BOM) if number == 1 else line
            if not data.isspace():
                yield Line(f"{name}:{number}", data)
    except _UNPACKING_ERRORS as error:
        yield Line(f"{name}:{number + 1}", b"", f"cannot be unpacked from here on: {error}")
    except OSError as error:
        yield Line(f"{name}:{number + 1}", b"", f"cannot be read: {error.strerror or error}")
