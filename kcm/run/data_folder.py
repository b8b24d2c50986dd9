"""The folder in which `kcm up` keeps a cluster's pipeline between runs.

One `kcm up` at a time. The lock ends with the process that holds it, however that process
ends, so there is never a stale lock to remove.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.runtime import ConflictError, EnvironmentProblemError


def default_folder(cluster: str) -> Path:
    """Return `$XDG_STATE_HOME/kcm/<cluster>`, or `~/.local/state/kcm/<cluster>`."""
    root = os.environ.get("XDG_STATE_HOME")
    return (Path(root) if root else Path.home() / ".local" / "state") / "kcm" / cluster


@contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """Create the folder, hold its lock, and yield the folder's absolute path.

    Raises ConflictError when another process holds the lock, EnvironmentProblemError when the
    folder cannot be created.
    """
    folder = folder.expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("a+")
    except OSError as error:
        raise EnvironmentProblemError(
            f"cannot keep data in {folder}: {error.strerror}; choose another folder with --data"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise ConflictError(
                f"another kcm up (process {holder}) uses the data in {folder}; "
                "stop it or choose another folder with --data"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield folder
