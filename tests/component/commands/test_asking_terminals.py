"""The commands that ask the exporter on a terminal, watched, and completed by the Tab key."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

import pytest

from controller_model.records.views import Counts
from exporter.serve.server import HttpServer
from kcm.servers.ports import free_port
from tests.component.commands.test_asking import COUNTS, Shown, showing
from tests.support.samples import as_of, broker_view, cluster_view
from tests.support.waiting import DEADLINE_S, wait_until


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Iterator[Shown]:
    """A cluster in which one partition has one replica in sync and another one a wrong leader."""
    with showing(capsys) as it:
        yield it


def on_terminal(columns: int, *arguments: str) -> str:
    """Return what a command prints on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "kcm", *arguments],
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "dumb"},
    ) as process:
        os.close(theirs)
        chunks = []
        with suppress(OSError):  # the terminal's end, where the other side is closed
            while chunk := os.read(ours, 65536):
                chunks.append(chunk)
        assert process.wait(DEADLINE_S) == 0
    os.close(ours)
    return b"".join(chunks).decode().replace("\r\n", "\n")


class OutputReader:
    """What a process writes, as it comes: lines, or (with a size) pieces of a terminal's screen."""

    def __init__(self, stream: IO[bytes], size: int | None = None) -> None:
        self.chunks: list[bytes] = []
        self._stream = stream
        self._read = stream.readline if size is None else lambda: stream.read(size)
        self._thread = threading.Thread(target=self._collect)
        self._thread.start()

    def _collect(self) -> None:
        with suppress(OSError):  # a terminal whose other side is closed
            for chunk in iter(self._read, b""):
                self.chunks.append(chunk)  # as it comes, for a test that waits for it

    def wait_for(self, text: bytes) -> None:
        """Wait until it was written."""
        wait_until(lambda: b"".join(self.chunks), lambda answer: text in answer)

    def end(self) -> None:
        """Wait for the process's last word."""
        self._thread.join(10)
        self._stream.close()


def test_a_name_outside_of_the_terminals_encoding_is_no_error(shown: Shown) -> None:
    """Its letters are question marks where the locale has none for them."""
    shown.served.write(broker_view(0, as_of(31), rack="zürich"), cluster_view(at=as_of(31)))
    ended = subprocess.run(
        [sys.executable, "-m", "kcm", "status", "--exporter", shown.url],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "z?rich" in ended.stdout


def test_a_narrow_terminal_hides_no_figure(shown: Shown) -> None:
    """Beside a long host name each figure of each broker is shown, in lines that fit."""
    host = "kafka-0.brokers.production.eu-west-1.example."
    shown.served.write(
        broker_view(
            0, as_of(31), host=host, rack="eu-west-1a", leaders=4821, replicas=14463,
            preferred_not_led=977, offline_if_lost=12, under_min_isr_if_lost=345,
        ),
        cluster_view(at=as_of(31), counts=COUNTS),
    )  # fmt: skip
    out = on_terminal(80, "status", "--exporter", shown.url)
    table = out.partition("\n\n")[2].partition("\n\n")[0]
    figures = {"4821", "14463", "977", "12", "offline,", "345", "under", "ISR", "eu-west-1a"}
    assert figures | {"leaders", "replicas", "imbalance"} <= {*table.split()}, out
    assert max(map(len, table.splitlines())) <= 80
    wide = on_terminal(80, "what-if", "--exporter", shown.url)
    assert {"broker", "offline", "stranded", "unclean"} <= {*wide.split()}


def test_a_screen_is_watched_over_a_restart_of_the_exporter(shown: Shown) -> None:
    """On a terminal the screen says that the exporter is away, and shows the cluster when it is back."""
    ours, theirs = pty.openpty()
    with HttpServer(shown.served.app, "127.0.0.1", 0) as first:
        url = first.url
        process = subprocess.Popen(
            [sys.executable, "-m", "kcm", "status", "--watch", "--exporter", url],
            stdout=theirs,
            env={**os.environ, "COLUMNS": "80", "LINES": "40", "TERM": "xterm"},
        )
        os.close(theirs)
        terminal = OutputReader(os.fdopen(ours, "rb", buffering=0), size=4096)
        try:
            terminal.wait_for(b"figures are ")
            first.__exit__(None, None, None)
            terminal.wait_for(b"waiting for it")
            terminal.chunks.clear()
            with HttpServer(shown.served.app, "127.0.0.1", int(url.rpartition(":")[2])):
                terminal.wait_for(b"figures are ")
        finally:
            process.terminate()
            process.wait(DEADLINE_S)
            terminal.end()


@pytest.mark.parametrize(("typed", "offered"), [("", ["b", "prod"]), ("p", ["prod"])])
def test_the_tab_key_offers_the_clusters_that_are_shown(
    shown: Shown, typed: str, offered: list[str]
) -> None:
    """Of the exporter that is named on the line; one that is not there is passed over in silence."""
    shown.served.write(broker_view(0, cluster="b"), cluster_view("b"))
    away = f"http://127.0.0.1:{free_port()}"
    for url, names in ((shown.url, offered), (away, [])):
        line = f"kcm status --exporter {url} --cluster {typed}"
        answer = subprocess.run(
            [sys.executable, "-m", "kcm"],
            env={
                **os.environ,
                "_KCM_COMPLETE": "complete_bash",
                "COMP_WORDS": line,
                "COMP_CWORD": str(len(line.split(" ")) - 1),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        assert (answer.stdout.split(), answer.stderr) == (names, "")


def test_a_command_to_copy_is_one_line_on_any_terminal(shown: Shown) -> None:
    """With the options that were given: a line that was broken would run half of it."""
    out = on_terminal(60, "recommend", "--broker", "1", "--exporter", shown.url)
    (line,) = (line for line in out.splitlines() if line.startswith("run "))
    assert line.split(maxsplit=1)[1] == (
        f"kcm recommend --exporter {shown.url} --broker 1 --json > election.json && "
        "kafka-leader-election.sh --bootstrap-server kafka0:9092 --election-type PREFERRED "
        "--path-to-json-file election.json"
    )


def test_status_is_watched_over_a_restart_of_the_exporter(shown: Shown) -> None:
    """Its absence is reported once, and what it shows afterwards is printed."""
    served = shown.served
    with HttpServer(served.app, "127.0.0.1", 0) as first:
        url = first.url
        command = [sys.executable, "-m", "kcm", "status", "--watch", "--json", "--exporter", url]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        outputs = {name: OutputReader(getattr(process, name)) for name in ("stdout", "stderr")}
        try:
            wait_until(lambda: len(outputs["stdout"].chunks), lambda n: n == 1)
            first.__exit__(None, None, None)
            wait_until(lambda: len(outputs["stderr"].chunks), lambda n: n == 1)
            served.write(cluster_view(at=as_of(40), counts=Counts(offline=7)))
            with HttpServer(served.app, "127.0.0.1", int(url.rpartition(":")[2])):
                wait_until(lambda: len(outputs["stdout"].chunks), lambda n: n == 2)
        finally:
            process.terminate()
            process.wait(DEADLINE_S)
            for each in outputs.values():
                each.end()
    assert json.loads(outputs["stdout"].chunks[1])["counts"]["offline"] == 7
    (line,) = outputs["stderr"].chunks
    assert line.endswith(b"; waiting for it\n")
