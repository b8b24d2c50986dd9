"""Find TCP ports on this machine's loopback address for kcm's servers.

Ports are taken from below the range that the system uses for outgoing connections. A client that
keeps connecting to a dead broker on a port of that range can at last connect to itself, and the
broker then finds its port in use. A port stays reserved while this process lives, by a lock that
other processes of kcm also see.
"""

import fcntl
import functools
import os
import random
import socket
import tempfile
from pathlib import Path

from pipeline.runtime import ConflictError, EnvironmentProblemError

HOST = "127.0.0.1"
FIRST_PORT = 17_000  # above what well-known servers use by default
LAST_PORT = 30_000  # below 32768, where Linux's range for outgoing connections begins
TRIES = 500  # far more than there are servers on one machine

_reserved: set[int] = set()


def free_port() -> int:
    """Return a port on which nobody listens and which no other call has returned."""
    random_source = random.SystemRandom()
    for _ in range(TRIES):
        port = random_source.randint(FIRST_PORT, LAST_PORT)
        if port not in _reserved and _reserve(port):
            return port
    raise EnvironmentProblemError(
        f"no free port found between {FIRST_PORT} and {LAST_PORT} on {HOST}"
    )


def is_free(port: int, host: str = HOST) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def require_free(name: str, port: int, host: str = HOST) -> None:
    """Raise ConflictError when the named server could not listen on the port."""
    if not is_free(port, host):
        raise ConflictError(
            f"{name} cannot listen on {host}:{port}: the port is in use; "
            "stop what listens there or choose another port"
        )


def _reserve(port: int) -> bool:
    """Lock the port's byte of one shared file; the lock ends with this process, however it ends."""
    try:
        fcntl.lockf(_lock_file(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _reserved.add(port)  # a port that turns out to be in use is not tried again
    return is_free(port)


@functools.cache
def _lock_file() -> int:
    """Open the lock file once and never close it: any close would release all locks."""
    path = Path(tempfile.gettempdir()) / f"kcm-ports-{os.getuid()}.lock"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
