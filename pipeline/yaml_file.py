"""Reads a YAML configuration file, in one of Prometheus' formats, into a struct."""

from pathlib import Path
from typing import TypeVar

import msgspec

from controller_model.records.decoding import DECODING_ERRORS
from pipeline.runtime import UsageError

ConfigT = TypeVar("ConfigT")


def read_yaml(path: Path, kind: type[ConfigT], where: str) -> ConfigT:
    """Return a file's content; an empty file gives the defaults. Raise UsageError, which begins with `where`."""
    import yaml  # noqa: PLC0415  # most commands have no such file

    try:
        return msgspec.convert(yaml.safe_load(path.read_bytes()) or {}, kind)
    except OSError as error:
        raise UsageError(f"{where}: {error.strerror}") from None
    except yaml.YAMLError:
        # The error's own text would repeat the line, which may hold a password or its hash.
        raise UsageError(f"{where} is not YAML") from None
    except DECODING_ERRORS as error:
        raise UsageError(f"{where}: {error}") from None
