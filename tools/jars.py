"""`python -m tools.jars IVY_FILE ...`: download what Ivy files pin, and write the SHA-256 of each jar beside them.

The lists are what every later download and every start is compared with, so look at their diff: a jar
whose version stays keeps its hash.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from kcm.servers.jars import JarSet, default_cache, run_ivy, sha256_of


def main(files: list[str]) -> int:
    """Write the list of each file."""
    for file in files:
        jar_set = JarSet(Path(file), f"what {file} pins")
        with tempfile.TemporaryDirectory() as folder:
            run_ivy(Path(folder), default_cache(), jar_set)
            jar_set.hash_file.write_text(listed(Path(folder)), encoding="utf-8")
    return 0


def listed(folder: Path) -> str:
    """Return the lines of `sha256sum` for the jars of each conf in a folder."""
    jars = sorted(folder.glob("*/*.jar"))
    return "".join(f"{sha256_of(jar)}  {jar.relative_to(folder).as_posix()}\n" for jar in jars)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
