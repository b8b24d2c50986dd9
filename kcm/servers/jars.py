"""Provide the jars of Spark's Kafka connector and of the servers: from the cache, else by Apache Ivy.

pyspark ships Ivy, so only Java is needed. The jars are pinned in `ivy.xml`; the cache's folder is
named by the hash of that file, so a release of kcm never takes the jars of another one. What they must
be is in `ivy.sha256`, our own list, for Ivy's checksums come from the server that sends the jars. Each
time jars are asked for, all of them are read and compared with it. A folder is complete or absent: Ivy
fills a temporary one, which is compared and then gets its final name, in one step, under a lock on
which a second process waits.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kcm.servers.process import Process
from kcm.servers.supervisor import Supervisor
from pipeline.java import Java, find_java
from pipeline.runtime import EnvironmentProblemError

IVY_FILE = Path(__file__).with_name("ivy.xml")
LOG_POLL_S = 0.1  # how often to read Ivy's output
SETTINGS_VARIABLE = "KCM_IVY_SETTINGS"


@dataclass(frozen=True, slots=True)
class Jars:
    """Paths of the jars: `connector` for Spark's classpath, `broker` for the servers'."""

    connector: list[Path]
    broker: list[Path]


class JarSet(NamedTuple):
    """Jars that are downloaded together."""

    ivy_file: Path
    are_called: str

    @property
    def hash_file(self) -> Path:
        """The list of the jars, in the form of `sha256sum`; `python -m tools.jars` writes it."""
        return self.ivy_file.with_suffix(".sha256")

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 that each jar must have, by `conf/name.jar`."""
        lines = self.hash_file.read_text(encoding="utf-8").splitlines()
        return {name: digest for digest, name in map(str.split, lines)}

    def folder(self) -> Path:
        """Return the folder of these jars in the cache."""
        name = hashlib.sha256(self.ivy_file.read_bytes()).hexdigest()[:16]
        return default_cache() / "jars" / name


OURS = JarSet(IVY_FILE, "the jars of Kafka and ZooKeeper (56 MB, once)")
KAFKA_4 = JarSet(IVY_FILE.with_name("kafka-4.xml"), "the jars of Kafka 4 (43 MB, once)")
"""The newest Kafka: a cluster to watch, never the pipeline's own."""


def default_cache() -> Path:
    """Return the folder that keeps jars between runs: `$XDG_CACHE_HOME/kcm`, or `~/.cache/kcm`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "kcm"


def find_jars() -> Jars | None:
    """Return this release's jars if all are in the cache; None if not. Downloads nothing."""
    found = _read(OURS.folder(), OURS.hashes())
    return None if found is None else Jars(**found)


def ensure_jars() -> Jars:
    """Return all jars, downloading missing ones.

    Progress is shown on standard error. Raises EnvironmentProblemError, in one line, when jars are
    missing and cannot be downloaded.
    """
    return Jars(**ensure_set(OURS))


def ensure_set(jar_set: JarSet) -> dict[str, list[Path]]:
    """Return the jars of a set by conf, as `ensure_jars` does."""
    root = default_cache()
    folder, hashes = jar_set.folder(), jar_set.hashes()
    if (jars := _read(folder, hashes)) is not None:
        return jars
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(folder.with_suffix(".lock")):
            # another process may have downloaded them while this one waited for the lock
            return _read(folder, hashes) or _download(root, folder, jar_set)
    except OSError as error:
        raise EnvironmentProblemError(
            f"cannot keep jars in {root}: {error.strerror or error}; free space or set XDG_CACHE_HOME"
        ) from error


def _read(folder: Path, hashes: Mapping[str, str]) -> dict[str, list[Path]] | None:
    """Return the listed jars by conf; None if one is missing or is not what the list says."""
    jars: dict[str, list[Path]] = {}
    try:
        for name, digest in sorted(hashes.items()):
            if sha256_of(folder / name) != digest:
                return None
            jars.setdefault(name.partition("/")[0], []).append(folder / name)
    except OSError:
        return None
    return jars


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_ivy() -> Path:
    """Return Ivy's jar inside the installed pyspark, without importing pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EnvironmentProblemError(
            "pyspark is not installed, and with it Ivy, which downloads jars: install kcm[stream]"
        )
    folder = Path(spec.origin).parent / "jars"
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise EnvironmentProblemError(f"no ivy-*.jar in {folder}: install pyspark again")
    return found[-1]


def ivy_command(java: Java, root: Path, target: Path, ivy_file: Path = IVY_FILE) -> list[str]:
    """Return the command line that resolves `ivy_file` and copies the jars to `target/<conf>`."""
    settings = os.environ.get(SETTINGS_VARIABLE)
    if settings and not Path(settings).is_file():
        raise EnvironmentProblemError(
            f"{SETTINGS_VARIABLE} names {settings}, which is not a file; correct or unset it"
        )
    return [
        os.fspath(java.path),
        f"-Divy.default.ivy.user.dir={root / 'ivy'}",  # a user's own Ivy cache stays untouched
        "-jar",
        os.fspath(find_ivy()),
        *(("-settings", settings) if settings else ()),
        "-ivy",
        os.fspath(ivy_file),
        "-retrieve",
        f"{target}/[conf]/[artifact]-[revision].[ext]",
    ]


def failure_line(output: str, root: Path) -> str:
    """Return one line, made from Ivy's output, that says why Ivy failed and what to do."""
    advice = f"run again when online, or name a mirror's Ivy settings in {SETTINGS_VARIABLE}; cache is {root}"
    missing = re.search(r"::\s+(\S+#\S+;[^\s:]+): not found", output)
    what = missing.group(1) if missing else "the jars"
    access = re.search(r"Server access error at url (\S+) \(([^)\n]*)", output)
    if access:
        host = re.sub(r"^\w+://([^/]+).*$", r"\1", access.group(1))
        return f"cannot download {what}: no network reaches {host} ({access.group(2)}); {advice}"
    if missing:
        return f"cannot download {what}: the repository does not have it; {advice}"
    last = output.strip().split("\n")[-1].strip() or "it printed nothing"
    return f"cannot download {what}: Ivy failed: {last}; {advice}"


def _download(root: Path, folder: Path, jar_set: JarSet) -> dict[str, list[Path]]:
    hashes = jar_set.hashes()
    temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        run_ivy(temporary, root, jar_set, count=len(hashes))
        if _read(temporary, hashes) is None:
            raise EnvironmentProblemError(_what_differs(temporary, hashes, root))
        # an existing folder is incomplete, or this would not run; this process has the lock
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    jars = _read(folder, hashes)
    if jars is None:
        raise EnvironmentProblemError(f"the jars in {folder} changed while they were checked")
    return jars


def _what_differs(folder: Path, hashes: Mapping[str, str], root: Path) -> str:
    """Return one line about downloaded jars that are not those of the list."""
    brought = {f"{path.parent.name}/{path.name}" for path in folder.glob("*/*.jar")}
    if missing := sorted(hashes.keys() - brought):
        return (
            f"Ivy did not bring {missing[0]}, of {len(missing)} that are missing; cache is {root}"
        )
    wrong = [name for name, digest in hashes.items() if sha256_of(folder / name) != digest]
    return (
        f"the repository sent another {wrong[0]} than this release of kcm was tested with (SHA-256), of "
        f"{len(wrong)} that differ: nothing of it is kept; ask who runs it, or name another in {SETTINGS_VARIABLE}"
    )


def run_ivy(folder: Path, root: Path, jar_set: JarSet, *, count: int | None = None) -> None:
    """Let Ivy fill a folder, under guard as every child process, and show its progress on standard error.

    Ivy first finds modules ("found ...", most of the time) and then downloads files ("[SUCCESSFUL
    ]"); each of the two counts half. A terminal gets a bar, a log the first and the last line.
    """
    command = ivy_command(find_java(os.environ), root, folder, jar_set.ivy_file)
    console = Console(stderr=True)
    console.print(f"downloading {jar_set.are_called} to {root}", highlight=False, soft_wrap=True)
    columns = (TextColumn("jars"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=console) as shown,
        Supervisor(folder, kill_on_exit=True) as supervisor,
    ):
        task = shown.add_task("", total=None if count is None else 2 * count)
        ivy = Process(supervisor, "ivy", command)
        ivy.start()
        while ivy.running:
            shown.update(task, completed=_steps_done(ivy.log_path))
            time.sleep(LOG_POLL_S)
        shown.update(task, completed=_steps_done(ivy.log_path))
        if ivy.exit_code != 0:
            output = ivy.log_path.read_text(errors="replace")
            raise EnvironmentProblemError(failure_line(output, root))


def _steps_done(log: Path) -> int:
    text = log.read_text(errors="replace")
    return text.count("\tfound ") + text.count("\t[SUCCESSFUL ]")


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold a lock file; a second process waits here until the first is done."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
