"""The commands that ask the exporter, against its real server."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller_model.records.changes import SessionState
from controller_model.records.views import ControllerView, Counts
from exporter.serve.server import HttpServer
from kcm.__main__ import main
from kcm.servers.ports import free_port
from tests.support.api_server import Served
from tests.support.samples import (
    T0,
    as_of,
    broker_view,
    cluster_view,
    elected,
    log_view,
    topic_view,
)
from tests.support.waiting import wait_until

ASKING = ("status", "events", "recommend", "what-if")
COUNTS = Counts(
    topics=2, partitions=4, under_replicated=1, preferred_imbalance=1, preferred_electable=1
)


class Shown:
    """A server of one cluster, and the commands on it."""

    def __init__(self, url: str, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self.served = served
        self._capsys = capsys

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command that must end so, and return what it printed."""
        assert main([*arguments, "--exporter", self.url]) == code
        captured = self._capsys.readouterr()
        assert captured.err == ""
        return captured.out

    def complaint(self, *arguments: str, code: int) -> str:
        """Run a command that must fail so, and return its one line."""
        assert main([*arguments, "--exporter", self.url]) == code
        captured = self._capsys.readouterr()
        assert captured.out == ""
        (line,) = captured.err.splitlines()
        assert line.startswith("kcm: ")
        return line


@contextmanager
def showing(capsys: pytest.CaptureFixture[str]) -> Iterator[Shown]:
    """Serve a cluster in which one partition has one replica in sync and another one a wrong leader."""
    served = Served()
    served.write(
        broker_view(0, rack="a", leaders=3, offline_if_lost=1),
        broker_view(1, rack="b", leaders=1),
        topic_view("t", leader=(0, 0)),
        topic_view("u", isr=((0,), (1, 0))),
        cluster_view(at=as_of(30), counts=COUNTS),
    )
    served.publish(*(elected(seq) for seq in range(1, 31)))
    with HttpServer(served.app, "127.0.0.1", 0) as server:
        yield Shown(server.url, served, capsys)


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Iterator[Shown]:
    """A cluster in which one partition has one replica in sync and another one a wrong leader."""
    with showing(capsys) as it:
        yield it


def test_status_shows_the_cluster_on_one_screen(shown: Shown) -> None:
    """Verdict, controller, counts, brokers, the abnormal partition and the last events."""
    out = shown.run("status")
    assert "prod: figures are live" in out
    assert "broker 0 for" in out
    assert "1 under replicated" in out
    assert "u-0: under-replicated, at-min-isr; leader 0, ISR [0] of [0, 1]" in out
    assert "NO: 1 offline" in out
    assert out.count("ControllerElected") == 8
    assert len(out.splitlines()) <= 24
    assert "\x1b" not in out


def test_an_unknown_figure_is_never_printed_as_none(shown: Shown) -> None:
    """A vacancy with an unseen begin, an unread epoch, and a missing proof are words."""
    nobody = ControllerView(id=-1, epoch=None)
    shown.served.write(
        cluster_view(
            at=as_of(31), counts=COUNTS, controller=nobody, log=log_view(verified_at=None)
        ),
        broker_view(0, cluster="b"),
        cluster_view("b", controller=nobody),
    )
    out = shown.run("status", "--cluster", "prod")
    assert "controller  NOBODY, epoch not known" in out
    assert "never proven" in out
    assert "None" not in out + shown.run("status")


def test_status_of_several_clusters_is_a_line_each_worst_first(shown: Shown) -> None:
    """A fleet is listed, the cluster in trouble on top; one of them is shown when it is named."""
    shown.served.write(broker_view(0, cluster="b"), cluster_view("b", counts=Counts(offline=7)))
    lines = shown.run("status").splitlines()
    assert [line.split()[0] for line in lines] == ["cluster", "b", "prod"]
    assert "b: figures are live" in shown.run("status", "--cluster", "b")
    line = shown.complaint("events", code=2)
    assert line.endswith("name one with --cluster: b, prod")


def test_control_characters_in_broker_fields_never_reach_the_terminal(shown: Shown) -> None:
    """Escape sequences in a rack or host are shown as question marks."""
    shown.served.write(
        broker_view(0, as_of(31), rack="\x1b[2J", host="\x1b]0;x\x07"), cluster_view(at=as_of(31))
    )
    for command in ("status", "recommend", "what-if"):
        assert "\x1b" not in shown.run(command)


def test_events_prints_the_newest_events_in_order(shown: Shown) -> None:
    """Twenty without an option, more with --since; one line of JSON each with --json."""
    lines = shown.run("events").splitlines()
    assert len(lines) == 20
    assert lines[-1].endswith("ControllerElected broker 0 -> 1, epoch 30")
    assert len(shown.run("events", "--since", str(T0)).splitlines()) == 30
    assert len(shown.run("events", "--since", str(T0 + 29)).splitlines()) == 2
    answer = [
        json.loads(line) for line in shown.run("events", "--limit", "2", "--json").splitlines()
    ]
    assert [event["id"] for event in answer] == ["L1/1/29/0", "L1/1/30/0"]
    assert shown.run("events", "--kind", "BrokerStopped") == ""


def test_follow_prints_later_events(shown: Shown) -> None:
    """Later events are printed as they are reported, until the command is interrupted."""
    command = [sys.executable, "-m", "kcm", "events", "--follow", "--limit", "1"]
    with subprocess.Popen(
        [*command, "--exporter", shown.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        lines: list[bytes] = []
        assert process.stdout is not None
        reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, b"")))  # type: ignore[union-attr]  # it is there, see above
        reader.start()
        try:
            wait_until(lambda: list(lines), lambda seen: len(seen) == 1)
            for seq in (31, 32):
                shown.served.publish(elected(seq))
                shown.served.write(cluster_view(at=as_of(seq), counts=COUNTS))
            seen = wait_until(lambda: list(lines), lambda seen: len(seen) == 3)
            assert [line.split()[-1] for line in seen] == [b"30", b"31", b"32"]
        finally:
            process.terminate()
            reader.join(10)


def test_recommend_prints_the_file_of_kafkas_tool(
    shown: Shown, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--json is that file and nothing else; without it the effect is reported, and what to run."""
    answer = json.loads(shown.run("recommend", "--json"))
    assert answer == {"partitions": [{"topic": "t", "partition": 1}]}
    (tmp_path / "election.json").write_text(json.dumps(answer))
    out = shown.run("recommend")
    assert "from 1 to 0" in out
    assert "kafka-leader-election.sh --bootstrap-server kafka0:9092 " in out
    assert json.loads(shown.run("recommend", "--broker", "1", "--json")) == answer
    assert "nothing to elect" in shown.run("recommend", "--broker", "0")
    assert "there is 1 chunk" in shown.complaint("recommend", "--chunk", "2", code=2)
    assert main(["recommend", "--broker", "0", "--json", "--exporter", shown.url]) == 10
    assert capsys.readouterr() == ('{"partitions": []}\n', "kcm: nothing to elect\n")
    folder = tmp_path / "elections"
    assert shown.run("recommend", "--output", str(folder)) == f"{folder}/election-1.json\n"
    assert json.loads((folder / "election-1.json").read_text()) == answer
    both = shown.complaint("recommend", "--json", "--output", str(folder), code=2)
    assert "give --json or --output, not both" in both


@pytest.mark.parametrize(
    ("session", "later_ms", "status"),
    [(SessionState.LOST, 0, "blind"), (SessionState.CONNECTED, 15 * 3_600_000, "behind for ")],
)
def test_no_stop_is_called_safe_by_figures_that_are_not_live(
    shown: Shown,
    capsys: pytest.CaptureFixture[str],
    session: SessionState,
    later_ms: int,
    status: str,
) -> None:
    """Each answer begins with how far it is true, and --check says no."""
    shown.served.write(cluster_view(at=as_of(31), counts=COUNTS, log=log_view(session=session)))
    shown.served.now += later_ms
    first = f"the figures of prod are {status}"
    for arguments in (["--lose-broker", "1"], []):
        out = shown.run("what-if", *arguments, "--check", code=6)
        assert out.startswith(first)
        assert "safe to stop, nothing would break" not in out
    assert "yes" not in shown.run("what-if")
    out = shown.run("recommend")
    assert out.startswith(first)
    assert "\nrun " not in out
    for arguments in (["what-if", "--lose-broker", "1", "--check"], ["recommend"]):
        assert main([*arguments, "--json", "--exporter", shown.url]) == 6
        captured = capsys.readouterr()
        assert json.loads(captured.out)
        assert captured.err.startswith(f"kcm: {first}")


def test_markup_in_a_clusters_words_is_text(shown: Shown) -> None:
    """A rack that looks like a style or an emoji is shown as it was written."""
    for seq, rack in enumerate(("[/b]", "[ops] kernel", ":smile:"), 31):
        shown.served.write(
            broker_view(0, as_of(seq), rack=rack), cluster_view(at=as_of(seq), counts=COUNTS)
        )
        assert rack in shown.run("status")
        assert rack in shown.run("what-if", "--lose-rack", rack)


def test_an_exporter_on_this_machine_is_not_asked_through_a_proxy(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy of the environment is for others; of another host it is named as the way taken."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    assert "prod: figures are live" in shown.run("status")
    shown.url = "http://exporter.invalid:9640"
    assert "asked through the proxy of http_proxy" in shown.complaint("status", code=3)


def test_what_if_answers_for_brokers_and_racks(shown: Shown) -> None:
    """Each broker alone, or what is named together; --check makes it an exit code."""
    table = shown.run("what-if").splitlines()
    assert [line.split()[:2] for line in table[1:]] == [["0", "NO"], ["1", "yes"]]
    assert "broker 1: safe to stop" in shown.run("what-if", "--lose-broker", "1", "--check")
    unsafe = shown.run("what-if", "--lose-rack", "a", "--check", code=6)
    assert "1 partition (u-0) would go offline" in unsafe
    assert "4 partitions" in shown.run("what-if", "--lose-broker", "0", "--lose-broker", "1")
    answer = json.loads(shown.run("what-if", "--lose-broker", "0", "--json"))
    assert answer["losses"][0]["offline"] == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("status", "--cluster", "nope"), "'nope'; known: prod"),
        (("events", "--kind", "x"), "ControllerElected"),
        (("events", "--since", "then"), "--since"),
        (("events", "--cluster", "a/b"), "option --cluster"),
        (("status", "--cluster", ""), "option --cluster"),
        (("recommend", "--broker", "9"), "known: 0, 1"),
        (("what-if", "--lose-rack", "z"), "known: a, b"),
    ],
)
def test_a_mistake_is_one_line(shown: Shown, arguments: tuple[str, ...], named: str) -> None:
    """It says what is wrong, and what there is; the exit code is that of bad use."""
    assert named in shown.complaint(*arguments, code=2)


@pytest.mark.parametrize("verb", ASKING)
def test_an_exporter_that_is_not_there_is_one_line(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the address and what to do; the exit code is that of an unreachable server."""
    shown = Shown(f"http://127.0.0.1:{free_port()}", Served(), capsys)
    line = shown.complaint(verb, code=3)
    assert shown.url in line
    assert "--exporter" in line
    shown.url = "zk1:2181"
    assert "--exporter" in shown.complaint(verb, code=2)


def test_an_exporter_without_clusters_says_so(shown: Shown) -> None:
    """Nothing to show yet is no empty screen."""
    shown.served.collector.update([], {})
    assert "shows no cluster yet" in shown.complaint("status", code=3)
