"""`kcm rehearse` by the exporter: steps in the order of the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller_model.records.views import Counts
from kcm.__main__ import main
from kcm.queries.api_client import ExporterApi
from tests.support.api_server import Served
from tests.support.commands import complaint
from tests.support.in_process_api import api_of
from tests.support.replaying import write
from tests.support.samples import as_of, broker_view, cluster_view, topic_view


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Served:
    """An exporter in this process, which the command asks."""
    served = Served()
    served.write(
        broker_view(0),
        broker_view(1),
        topic_view("t", leader=(0, 0)),
        topic_view("u", isr=((0,), (1, 0))),
        cluster_view(at=as_of(30), counts=Counts(topics=2, partitions=4)),
    )

    def made(*_: Any, **__: Any) -> ExporterApi:
        return api_of(served)

    monkeypatch.setattr("kcm.rehearse.rehearse.ExporterApi", made)
    return served


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Return what the command prints as JSON."""
    assert main(["rehearse", *arguments, "--json"]) == 0
    body: dict[str, Any] = json.loads(capsys.readouterr().out)
    return body


@pytest.mark.usefixtures("exporter")
def test_steps_keep_their_order(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Kinds do not matter, nor how often each is given."""
    plan = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 0]}]}
    moves = str(write(tmp_path / "plan.json", json.dumps(plan, indent=2).encode()))
    found = answer(
        capsys, "--kill-broker", "1", "--preferred-election", "--start-broker", "1",
        "--reassign", moves, "--preferred-election", moves, "--delete-controller",
        "--kill-broker", "0", "--rolling-restart", "--order", "1", "--delete-topic", "u",
    )  # fmt: skip
    assert [step["operation"] for step in found["steps"]] == [
        "kill-broker:1", "preferred-election", "start-broker:1", "reassign of 1 partition(s)",
        "preferred-election of 1 partition(s)", "delete-controller", "kill-broker:0",
        "stop-broker:1", "start-broker:1", "delete-topic:u",
    ]  # fmt: skip


@pytest.mark.usefixtures("exporter")
def test_the_table_has_steps_outages_requests_and_races(capsys: pytest.CaptureFixture[str]) -> None:
    """It has steps, partitions, outages, requests, races, and what is not known."""
    assert main(["rehearse", "--kill-broker", "0", "--stop-broker", "7"]) == 0
    out = capsys.readouterr().out
    for text in (
        "0 -> 1",
        "kill-broker:0",
        "refused, or a part of it: broker 7 does not run",
        "u-0",
        "offline",
        "the end",
        "LeaderAndIsr",
        "race in step 1: until the session of broker 0 expires",
        "not known: auto.leader.rebalance.enable",
        "how long is not known",
    ):
        assert text in out, out
    assert main(["rehearse", "--rolling-restart", "--limit", "1"]) == 0
    assert "more" in capsys.readouterr().out


@pytest.mark.usefixtures("exporter")
@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((), ["give at least one step to rehearse", "--stop-broker", "--preferred-election"]),
        (("--order", "1,2"), ["--order", "--rolling-restart"]),
        (("--rolling-restart", "--order", "x"), ["--rolling-restart", "'x'"]),
        (("--at", "1:2", "--stop-broker", "1"), ["--at", "--from-topic"]),
        (("--reassign", "/no/such/file"), ["--reassign /no/such/file", "No such file"]),
    ],
)
def test_bad_use_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], names: list[str]
) -> None:
    """The line names the option, and what to do."""
    line = complaint(capsys, "rehearse", *arguments)
    assert all(name in line for name in names), line


@pytest.mark.usefixtures("exporter")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not the JSON of kafka-reassign-partitions"),
        (b"[]", "not the JSON of kafka-reassign-partitions"),
        (b"\xff", "it is not text"),
        (
            json.dumps(
                {
                    "partitions": [
                        {"topic": "t" * 200, "partition": p, "replicas": [0]} for p in range(200)
                    ]
                }
            ).encode(),
            "rehearse on the log, with --from-topic",
        ),
    ],
)
def test_a_bad_file_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, why: str
) -> None:
    """This includes a file that is too long for a request."""
    line = complaint(capsys, "rehearse", "--reassign", str(write(tmp_path / "plan.json", content)))
    assert why in line
