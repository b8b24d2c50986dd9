"""A cache of jars that holds files of the right names."""

from __future__ import annotations

from pathlib import Path

from kcm.servers.jars import FILES_BY_CONF, write_manifest


def fill(folder: Path) -> list[Path]:
    """Fill a folder with as many files as there should be jars, and return them."""
    paths = [
        folder / conf / f"{conf}-{number}.jar"
        for conf, count in FILES_BY_CONF.items()
        for number in range(count)
    ]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(path.name.encode())
    write_manifest(folder)
    return paths
