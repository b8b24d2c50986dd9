"""What `kcm up` passes to the parts, and what it requires before it starts."""

from __future__ import annotations

import importlib.util
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kcm.cli.parts import load_all
from kcm.run import up
from kcm.run.up import check_packages, default_folder, locked, options_of, own_servers
from pipeline.runtime import ConflictError, EnvironmentProblemError, finish_log

NEEDED = {"cluster": "prod", "zookeeper": "zk1:2181"}


def test_the_parts_get_what_the_user_gave_and_the_ports() -> None:
    """Prometheus must find the ports again, so defaults are passed as well; 0 stays: any free port."""
    given = {**NEEDED, "watcher_metrics_port": "0", "partitions": "3"}
    options = options_of(load_all(None, given))
    assert options == {
        **NEEDED,
        "partitions": "3",
        "port": "9640",
        "watcher_metrics_port": "0",
        "stream_metrics_port": "9642",
        "log_format": "json",
    }


def test_a_kafka_is_the_users_only_if_it_was_named() -> None:
    """The default address is not the user's choice: with it a broker is started."""
    assert own_servers(load_all(None, NEEDED)) is None
    named = load_all(None, {**NEEDED, "bootstrap_servers": "k1:9092"})
    assert own_servers(named) == "k1:9092"


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named before anything is started, in one line that says what to install."""
    check_packages()
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "kazoo" else found(name)
    )
    with pytest.raises(EnvironmentProblemError, match=r"kazoo is not installed: pip install .*all"):
        check_packages()


def test_data_of_a_cluster_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default folder follows XDG_STATE_HOME and ends with the cluster's name."""
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_folder("prod") == Path("/state/kcm/prod")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_folder("prod") == Path("/home/me/.local/state/kcm/prod")


def test_one_folder_serves_one_process_at_a_time(tmp_path: Path) -> None:
    """A second lock of the same folder is refused, with the holder's pid, until the first is released."""
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


def test_processes_are_looked_after_while_nobody_reads_the_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pipe that is full delays neither the next look nor the end."""
    steps, stop, closed = [0], threading.Event(), list[str]()

    def step() -> list[str]:
        steps[0] += 1
        if steps[0] == 10:
            stop.set()
        return ["a line of a kilobyte".ljust(1_024)] * 100

    restarter = SimpleNamespace(step=step, close=lambda: closed.append("restarter"))
    monkeypatch.setattr(up, "ProcessRestarter", lambda _pipeline, **_options: restarter)
    monkeypatch.setattr(up, "POLL_INTERVAL_S", 0.0)
    nothing: Any = SimpleNamespace(
        **{name: lambda: None for name in ("check_ports", "start")},
        stop=lambda: closed.append("pipeline"),
        seen=lambda: "the exporter shows nothing",
        broker=None,
        cluster="prod",
        data_dir="data",
    )
    unread, full = os.pipe()
    with (
        os.fdopen(unread) as reader,
        os.fdopen(full, "w", buffering=1) as output,
        monkeypatch.context() as patch,
    ):
        patch.setattr("sys.stdout", output)
        run = up.LocalRun(nothing, load_all(None, NEEDED))
        run.until(stop)
        assert (steps[0], closed) == (10, ["restarter", "pipeline"])
        assert not finish_log(), "the process ends without what waits"
        lines = iter(reader.readline, "stopping\n")
        assert sum(line.startswith("a line") for line in lines) == 1_000
