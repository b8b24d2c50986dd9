"""Provide the jars of Spark's Kafka connector and of the servers: from the cache, else by Apache Ivy.

pyspark ships Ivy, so only Java is needed. The jars are pinned in `ivy.xml`; the cache's folder is
named by the hash of that file, so a release of kcm never takes the jars of another one. A folder is
complete or absent: Ivy fills a temporary one, which gets a manifest of names, sizes and hashes and
then its final name, in one step, under a lock on which a second process waits.
"""

import fcntl
import hashlib
import importlib.util
import json
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
FILES_BY_CONF = {"connector": 4, "broker": 56}  # what ivy.xml resolves to; a test counts them
MANIFEST_NAME = "manifest.json"
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
    counts: Mapping[str, int]
    """How many jars each conf of the file has."""
    are_called: str

    def folder(self) -> Path:
        """Return the folder of these jars in the cache."""
        name = hashlib.sha256(self.ivy_file.read_bytes()).hexdigest()[:16]
        return default_cache() / "jars" / name


OURS = JarSet(IVY_FILE, FILES_BY_CONF, "the jars of Kafka and ZooKeeper (56 MB, once)")


def default_cache() -> Path:
    """Return the folder that keeps jars between runs: `$XDG_CACHE_HOME/kcm`, or `~/.cache/kcm`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "kcm"


def find_jars() -> Jars | None:
    """Return this release's jars if all are in the cache; None if not. Downloads nothing."""
    found = _read(OURS.folder(), OURS.counts)
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
    folder = jar_set.folder()
    if (jars := _read(folder, jar_set.counts)) is not None:
        return jars
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(folder.with_suffix(".lock")):
            # another process may have downloaded them while this one waited for the lock
            return _read(folder, jar_set.counts) or _download(root, folder, jar_set)
    except OSError as error:
        raise EnvironmentProblemError(
            f"cannot keep jars in {root}: {error.strerror or error}; free space or set XDG_CACHE_HOME"
        ) from error


def _read(folder: Path, counts: Mapping[str, int]) -> dict[str, list[Path]] | None:
    try:
        manifest = json.loads((folder / MANIFEST_NAME).read_bytes())
        sizes = {entry["name"]: entry["size"] for entry in manifest["files"]}
        complete = all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError):
        return None
    by_conf = {
        conf: sorted(folder / name for name in sizes if name.startswith(f"{conf}/"))
        for conf in counts
    }
    found = {conf: len(paths) for conf, paths in by_conf.items()}
    return by_conf if complete and found == dict(counts) else None


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
    counts = jar_set.counts
    java = find_java(os.environ)
    temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        command = ivy_command(java, root, temporary, jar_set.ivy_file)
        _run_ivy(command, temporary, root, jar_set)
        write_manifest(temporary)
        brought = _read(temporary, counts)
        if brought is None:
            found = {conf: len(list((temporary / conf).glob("*.jar"))) for conf in counts}
            raise EnvironmentProblemError(
                f"Ivy copied {found} jars, and {dict(counts)} were expected; cache is {root}"
            )
        # an existing folder is incomplete, or this would not run; this process has the lock
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return {conf: [folder / conf / jar.name for jar in jars] for conf, jars in brought.items()}


def _run_ivy(command: list[str], folder: Path, root: Path, jar_set: JarSet) -> None:
    """Run Ivy under guard, as every child process, and show its progress on standard error.

    Ivy first finds modules ("found ...", most of the time) and then downloads files ("[SUCCESSFUL
    ]"); each of the two counts half. A terminal gets a bar, a log the first and the last line.
    """
    console = Console(stderr=True)
    console.print(f"downloading {jar_set.are_called} to {root}", highlight=False, soft_wrap=True)
    columns = (TextColumn("jars"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=console) as shown,
        Supervisor(folder, kill_on_exit=True) as supervisor,
    ):
        task = shown.add_task("", total=2 * sum(jar_set.counts.values()))
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
