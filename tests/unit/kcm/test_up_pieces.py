"""The pieces of `kcm up` that need no process: the lock, the logs' warnings, the first figures."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kcm.local.data_folder import default_folder, locked
from kcm.local.exporter_client import ClusterSeen, parse_cluster
from kcm.local.log_follower import REPEAT_AFTER_S, LogFollower
from pipeline.runtime import ConflictError, EnvironmentProblemError


class Clock:
    """A clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def write(path: Path, *entries: object) -> None:
    """Append log lines."""
    with path.open("a") as log:
        for entry in entries:
            log.write(entry if isinstance(entry, str) else json.dumps(entry) + "\n")


def test_data_of_a_cluster_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default folder follows XDG_STATE_HOME and ends with the cluster's name."""
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_folder("prod") == Path("/state/kcm/prod")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_folder("prod") == Path("/home/me/.local/state/kcm/prod")


def test_one_folder_serves_one_process_at_a_time(tmp_path: Path) -> None:
    """A second lock of the same folder is refused with the holder's pid, until the first ends."""
    folder = tmp_path / "data"
    with (
        locked(folder),
        pytest.raises(ConflictError, match=f"process {os.getpid()}.*{folder}"),
        locked(folder),
    ):
        pass
    with locked(folder) as again:
        assert again == folder


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A path that leads through a file is one line that proposes --data."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(EnvironmentProblemError, match=r"file/data.*--data"),
        locked(tmp_path / "file" / "data"),
    ):
        pass


def test_warnings_reach_the_console_and_the_rest_stays_in_the_log(tmp_path: Path) -> None:
    """Only warnings and worse are shown, with their details, and only new ones."""
    path = tmp_path / "watcher.log"
    write(path, {"event": "old", "level": "error"})
    follower = LogFollower("watcher", path)
    write(
        path,
        {"event": "watching", "level": "info"},
        {"event": "it rains", "level": "warning", "part": "watcher", "where": "here", "mm": 3},
        "WARN of a library\n",
        "{broken\n",
    )
    assert list(follower.news()) == ["watcher: it rains (where=here, mm=3)"]
    assert list(follower.news()) == []


def test_a_line_is_shown_once_it_is_whole(tmp_path: Path) -> None:
    """Half a line is not judged: its other half may follow."""
    path = tmp_path / "watcher.log"
    follower = LogFollower("watcher", path)
    line = json.dumps({"event": "it rains", "level": "warning"})
    write(path, line[:10])
    assert list(follower.news()) == []
    write(path, line[10:] + "\n")
    assert list(follower.news()) == ["watcher: it rains"]


def test_the_same_trouble_is_shown_once_in_a_while(tmp_path: Path) -> None:
    """A warning that is repeated does not scroll everything away, and is not forgotten."""
    clock = Clock()
    path = tmp_path / "watcher.log"
    follower = LogFollower("watcher", path, clock=clock)
    rain = {"event": "it rains", "level": "warning"}
    write(path, rain, rain, {"event": "it snows", "level": "error"})
    assert list(follower.news()) == ["watcher: it rains", "watcher: it snows"]
    clock.now += REPEAT_AFTER_S
    write(path, rain)
    assert list(follower.news()) == ["watcher: it rains"]


def test_a_log_that_was_moved_aside_is_read_from_its_start(tmp_path: Path) -> None:
    """A log that became shorter begins anew, and nothing of it is missed."""
    path = tmp_path / "watcher.log"
    write(path, {"event": "x" * 1000, "level": "info"})
    follower = LogFollower("watcher", path)
    path.write_text("")
    write(path, {"event": "it rains", "level": "warning"})
    assert list(follower.news()) == ["watcher: it rains"]


SCRAPE = """\
# TYPE kcm_cluster_status gauge
kcm_cluster_status{cluster="other",status="live"} 1
kcm_cluster_status{cluster="prod",status="live"} 0
kcm_cluster_status{cluster="prod",status="blind"} 1
# TYPE kafka_controller_id gauge
kafka_controller_id{cluster="other"} 1
kafka_controller_id{cluster="prod"} 2
# TYPE kafka_cluster_info gauge
kafka_cluster_info{cluster="prod",id="abc"} 1
"""


def test_a_scrape_tells_what_is_served_of_a_cluster() -> None:
    """The figures are those of the cluster asked for; a sample that is absent is None."""
    seen = parse_cluster(SCRAPE, "prod")
    assert seen == ClusterSeen("blind", 2, None, None, "abc")
    assert not seen.live


def test_a_scrape_without_the_cluster_says_so() -> None:
    """Before the first view there is nothing to tell, and that is what is told."""
    assert parse_cluster(SCRAPE, "dev") == "the exporter shows nothing of cluster dev yet"
