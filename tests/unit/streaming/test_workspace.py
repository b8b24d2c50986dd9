"""Who holds the checkpoint folder, and which error is raised when it cannot be used."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from pipeline.runtime import ConflictError, EnvironmentProblemError
from streaming.workspace import Workspace, disk_problems


def workspace(root: Path) -> Workspace:
    """Return a workspace that does not wait for its lock."""
    return Workspace(root, stop=threading.Event(), lock_deadline_s=0)


def test_two_folds_cannot_share_a_folder(tmp_path: Path) -> None:
    """The second one's error names the folder, with the exit code of a conflict."""
    with workspace(tmp_path / "c"), pytest.raises(ConflictError) as caught:
        workspace(tmp_path / "c").__enter__()
    message = str(caught.value)
    assert str(tmp_path / "c") in message
    assert len(message.splitlines()) == 1
    assert caught.value.exit_code == 4


def test_leaving_a_workspace_releases_the_lock_and_the_scratch_files(tmp_path: Path) -> None:
    """A fold that ended leaves no lock and no scratch files."""
    with workspace(tmp_path) as held:
        (held.scratch / "rubbish").write_text("x")
    assert held.lock_fd == -1, "nothing that starts now inherits another file under its number"
    with workspace(tmp_path) as held:
        assert list(held.scratch.iterdir()) == []


def test_the_jvm_is_told_where_to_log(tmp_path: Path) -> None:
    """Its lines would go to the console otherwise, in a form that is not the fold's."""
    with workspace(tmp_path) as held:
        assert f"= {held.spark_log}\n" in held.log4j_config.read_text()


def test_the_scratch_folder_has_mode_0700(tmp_path: Path) -> None:
    """Whatever the machine's umask is: Spark's Unix sockets in it ask for no password."""
    before = os.umask(0)
    try:
        with workspace(tmp_path) as held:
            assert stat.S_IMODE(held.scratch.stat().st_mode) == 0o700
    finally:
        os.umask(before)


@pytest.mark.skipif(sys.platform != "linux", reason="the most bytes of a path are Linux's")
@pytest.mark.parametrize(("length", "takes"), [(50, True), (55, True), (56, False)])
def test_unix_sockets_need_a_short_path(length: int, *, takes: bool) -> None:
    """Spark's own names have 42 bytes; Linux allows 107 for a path."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        root = Path(folder, "x" * (length - len(folder) - 1))
        with workspace(root) as held:
            assert held.takes_unix_sockets() is takes
            assert list(held.scratch.iterdir()) == []


def test_a_folder_without_unix_sockets_is_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems, such as those of shared folders, support none."""

    class Refused(socket.socket):
        def bind(self, _: object) -> None:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    with workspace(tmp_path) as held:
        monkeypatch.setattr("streaming.workspace.socket.socket", Refused)
        assert not held.takes_unix_sockets()


def test_a_child_that_inherits_the_lock_keeps_it(tmp_path: Path) -> None:
    """While Spark's JVM runs the folder is locked, even after its parent process has ended."""
    held = workspace(tmp_path)
    held.__enter__()
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        pass_fds=(held.lock_fd,),
    )
    held.__exit__(None, None, None)
    with pytest.raises(ConflictError):
        workspace(tmp_path).__enter__()
    child.communicate()
    with workspace(tmp_path):
        pass


def test_a_stop_ends_the_wait_for_the_lock(tmp_path: Path) -> None:
    """A fold that is stopped while it waits ends at once."""
    stop = threading.Event()
    stop.set()
    with workspace(tmp_path), pytest.raises(ConflictError):
        Workspace(tmp_path, stop=stop, lock_deadline_s=60).__enter__()


def test_a_path_that_is_not_a_folder_is_named(tmp_path: Path) -> None:
    """The error names in one line the folder, the cause and the remedy."""
    path = tmp_path / "file"
    path.write_text("x")
    with pytest.raises(EnvironmentProblemError) as caught:
        workspace(path).__enter__()
    assert str(caught.value) == (
        f"checkpoint folder {path}: {os.strerror(errno.EEXIST)}; "
        "correct it or choose another checkpoint_dir"
    )


def test_a_folder_that_cannot_be_used_is_not_left_locked(tmp_path: Path) -> None:
    """Once the cause is corrected, the next attempt of the same process holds it."""
    (tmp_path / "log4j2.properties").mkdir()
    with pytest.raises(EnvironmentProblemError):
        workspace(tmp_path).__enter__()
    (tmp_path / "log4j2.properties").rmdir()
    with workspace(tmp_path) as held:
        assert held.lock_fd >= 0


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_a_folder_without_room_for_a_batch_is_named(tmp_path: Path) -> None:
    """What is written to find that out is removed, whether there is room or not."""
    with workspace(tmp_path) as held:
        probe = tmp_path / "probe"
        before = set(tmp_path.iterdir())
        held.check_room()
        assert set(tmp_path.iterdir()) == before
        probe.symlink_to("/dev/full")
        with pytest.raises(EnvironmentProblemError, match="No space left on device; free some"):
            held.check_room()
        assert set(tmp_path.iterdir()) == before


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """The one-line error of a full disk says to free space."""
    with pytest.raises(EnvironmentProblemError) as caught, disk_problems(tmp_path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert str(caught.value) == (
        f"checkpoint folder {tmp_path}: No space left on device; "
        "free some space or choose another checkpoint_dir"
    )
    assert caught.value.exit_code == 5
