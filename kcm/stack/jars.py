"""Have the jars of Spark's Kafka connector and of the servers: from the cache, else by Apache Ivy.

pyspark ships Ivy, so nothing but Java is needed. What is to be had is pinned in `ivy.xml`; the
cache's folder bears that file's hash, so another release of ours never takes old jars. A folder is
complete or not there: Ivy fills a temporary one, which gets a manifest of names, sizes and hashes
and then its name, in one step, under a lock that a second process waits for.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kcm.stack.errors import MissingJarsError
from kcm.stack.jars_progress import JarsProgress
from kcm.stack.java import find_java
from kcm.stack.process import Process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcm.stack.java import Java

IVY_FILE = Path(__file__).with_name("ivy.xml")
FILES_BY_CONF = {"connector": 4, "broker": 56}  # what ivy.xml resolves to; a test counts them
MANIFEST_NAME = "manifest.json"
LOG_POLL_S = 0.1  # how often to read what Ivy printed
SETTINGS_VARIABLE = "KCM_IVY_SETTINGS"


@dataclass(frozen=True, slots=True)
class Jars:
    """Where the jars lie: `connector` for Spark's classpath, `broker` for the servers'."""

    connector: list[Path]
    broker: list[Path]


def default_cache() -> Path:
    """Return the folder that keeps jars between runs: `$XDG_CACHE_HOME/kcm`, or `~/.cache/kcm`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "kcm"


def ensure_jars(*, progress: bool = True, cache: Path | None = None) -> Jars:
    """Return all jars, downloading what is missing; None for `cache` is `default_cache()`.

    `progress` shows a bar on a terminal and plain lines elsewhere, on standard error. Raises
    MissingJarsError, in one line, when there is something to download and it cannot be had.
    """
    root = default_cache() if cache is None else cache
    ivy_hash = hashlib.sha256(IVY_FILE.read_bytes()).hexdigest()[:16]
    folder = root / "jars" / ivy_hash
    if (jars := read_jars(folder)) is not None:
        return jars
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock(folder.with_suffix(".lock")):
            # another process may have brought them while we waited for the lock
            jars = read_jars(folder) or _download(root, folder, progress=progress)
    except OSError as error:
        message = f"cannot keep jars in {root}: {error.strerror or error}; make room or set XDG_CACHE_HOME"
        raise MissingJarsError(message) from error
    return jars


def read_jars(folder: Path) -> Jars | None:
    """Return the jars of a complete folder; None when a file is missing or of another size."""
    try:
        manifest = json.loads((folder / MANIFEST_NAME).read_bytes())
        sizes = {entry["name"]: entry["size"] for entry in manifest["files"]}
        complete = all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError):
        return None
    by_conf = {
        conf: sorted(folder / name for name in sizes if name.startswith(f"{conf}/"))
        for conf in FILES_BY_CONF
    }
    counts = {conf: len(paths) for conf, paths in by_conf.items()}
    return Jars(**by_conf) if complete and counts == FILES_BY_CONF else None


def write_manifest(folder: Path) -> None:
    """Write down what the folder holds: each jar's name, size and SHA-256."""
    files = [
        {
            "name": path.relative_to(folder).as_posix(),
            "size": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(folder.glob("*/*.jar"))
    ]
    (folder / MANIFEST_NAME).write_text(json.dumps({"files": files}, indent=1))


def find_ivy() -> Path:
    """Return Ivy's jar inside the installed pyspark, without importing pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        message = (
            "pyspark is not installed, and with it Ivy, which downloads jars: install kcm[stream]"
        )
        raise MissingJarsError(message)
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        message = f"no ivy-*.jar in {Path(spec.origin).parent / 'jars'}: install pyspark again"
        raise MissingJarsError(message)
    return found[-1]


def ivy_command(java: Java, root: Path, target: Path) -> list[str]:
    """Return the command line that resolves `ivy.xml` and copies the jars to `target/<conf>`."""
    settings = os.environ.get(SETTINGS_VARIABLE)
    if settings and not Path(settings).is_file():
        message = f"{SETTINGS_VARIABLE} names {settings}, which is not a file; correct or unset it"
        raise MissingJarsError(message)
    return [
        os.fspath(java.path),
        f"-Divy.default.ivy.user.dir={root / 'ivy'}",  # a user's own Ivy cache stays untouched
        "-jar",
        os.fspath(find_ivy()),
        *(("-settings", settings) if settings else ()),
        "-ivy",
        os.fspath(IVY_FILE),
        "-retrieve",
        f"{target}/[conf]/[artifact]-[revision].[ext]",
    ]


def failure_line(output: list[str], root: Path) -> str:
    """Say in one line why Ivy failed, and what to do, from what it printed."""
    text = "\n".join(output)
    advice = f"run again when online, or name a mirror's Ivy settings in {SETTINGS_VARIABLE}; cache is {root}"
    missing = re.search(r"::\s+(\S+#\S+;[^\s:]+): not found", text)
    what = missing.group(1) if missing else "the jars"
    access = re.search(r"Server access error at url (\S+) \(([^)\n]*)", text)
    if access:
        host = re.sub(r"^\w+://([^/]+).*$", r"\1", access.group(1))
        return f"cannot download {what}: no network reaches {host} ({access.group(2)}); {advice}"
    if missing:
        return f"cannot download {what}: the repository does not have it; {advice}"
    last = next((line.strip() for line in reversed(output) if line.strip()), "it printed nothing")
    return f"cannot download {what}: Ivy failed, its last words: {last}; {advice}"


def _download(root: Path, folder: Path, *, progress: bool) -> Jars:
    java = find_java()
    temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        _run_ivy(ivy_command(java, root, temporary), temporary / "ivy.log", root, show=progress)
        write_manifest(temporary)
        if read_jars(temporary) is None:
            counts = {conf: len(list((temporary / conf).glob("*.jar"))) for conf in FILES_BY_CONF}
            message = (
                f"Ivy brought {counts} jars where {FILES_BY_CONF} were expected; cache is {root}"
            )
            raise MissingJarsError(message)
        if folder.exists():
            shutil.rmtree(folder)  # incomplete, or we would not be here; the lock is ours
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    jars = read_jars(folder)
    if jars is None:
        message = f"the jars in {folder} changed while they were being downloaded; run again"
        raise MissingJarsError(message)
    return jars


def _run_ivy(command: list[str], log_path: Path, root: Path, *, show: bool) -> None:
    """Run Ivy under guard, as everything that we start, and show what it does."""
    output: list[str] = []
    ivy = Process("ivy", command, log_path=log_path)
    with JarsProgress(sum(FILES_BY_CONF.values()), root, show=show) as shown:
        ivy.start()
        try:
            with log_path.open(errors="replace") as log:
                rest = ""
                ended = False
                while not ended:
                    ended = not ivy.running  # asked before the last read, so that no line is lost
                    *lines, rest = (rest + log.read()).split("\n")
                    output += lines
                    for line in lines:
                        shown.read(line)
                    if not ended:
                        time.sleep(LOG_POLL_S)
        finally:
            ivy.kill()
        if ivy.exit_code != 0:
            raise MissingJarsError(failure_line(output, root))


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock file; a second process waits here until the first has its jars."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
