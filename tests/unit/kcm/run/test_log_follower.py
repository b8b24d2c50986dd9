"""Which lines of the parts' logs reach the console of `kcm up`."""

from __future__ import annotations

import json
from pathlib import Path

from kcm.run.log_follower import REPEAT_AFTER_S, LogFollower


class Clock:
    """A clock that only the test moves."""

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


def test_warnings_reach_the_console_and_the_rest_stays_in_the_log(tmp_path: Path) -> None:
    """Only new warnings and errors are shown, with their details."""
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
    """An incomplete line is not judged: the rest may follow."""
    path = tmp_path / "watcher.log"
    follower = LogFollower("watcher", path)
    line = json.dumps({"event": "it rains", "level": "warning"})
    write(path, line[:10])
    assert list(follower.news()) == []
    write(path, line[10:] + "\n")
    assert list(follower.news()) == ["watcher: it rains"]


def test_the_same_trouble_is_shown_once_in_a_while(tmp_path: Path) -> None:
    """A repeated warning does not scroll everything away, and is still repeated at times."""
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
    """A log that became shorter is read from its start, and no line is missed."""
    path = tmp_path / "watcher.log"
    write(path, {"event": "x" * 1000, "level": "info"})
    follower = LogFollower("watcher", path)
    path.write_text("")
    write(path, {"event": "it rains", "level": "warning"})
    assert list(follower.news()) == ["watcher: it rains"]
