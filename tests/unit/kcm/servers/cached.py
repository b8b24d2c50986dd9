"""A cache of jars that holds files of the right names, and a list with their hashes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from kcm.servers.jars import OURS, JarSet


def fill(monkeypatch: pytest.MonkeyPatch, jar_set: JarSet = OURS) -> list[Path]:
    """Fill the cache with a file in the place of each jar, let their hashes be those that are listed, return them."""
    hashes_of, folder, fakes = JarSet.hashes, jar_set.folder(), dict[str, str]()
    for name in jar_set.hashes():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
        fakes[name] = hashlib.sha256(name.encode()).hexdigest()
    monkeypatch.setattr(
        JarSet, "hashes", lambda asked: fakes if asked == jar_set else hashes_of(asked)
    )
    return [folder / name for name in fakes]
