"""What the commands that ask share: doubt about figures, waiting, addresses, what is missing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from kcm.cli.event_text import event_text
from kcm.queries.api_client import ApiAnswer, ExporterApi
from kcm.queries.options import console, not_live_warning, poll
from kcm.queries.recommend import command
from kcm.queries.what_if import proves_safe
from pipeline.runtime import UnreachableError, UsageError

HOUR_MS = 3_600_000
TOOL = "kafka-leader-election.sh --bootstrap-server k:9092 --path-to-json-file election.json"


def told(*safe: bool | None, status: str = "live") -> dict[str, Any]:
    """Return an answer to a what-if."""
    verdict = {"status": status, "since": None if status == "live" else 0, "stage": "watcher"}
    return {
        "name": "prod",
        "completeness": verdict,
        "losses": [{"safe": each} for each in safe],
    }


@pytest.mark.parametrize(
    ("answer", "safe"),
    [
        (told(True), True),
        (told(True, True), True),
        (told(True, False), False),
        (told(None), False),
        (told(), False),
        (told(True, status="blind"), False),
        (told(True, status="incomplete"), False),
    ],
)
def test_safe_is_what_live_figures_prove(answer: dict[str, Any], safe: bool) -> None:
    """No broker, a verdict that is not known, and figures that are not live prove nothing."""
    assert proves_safe(answer) is safe


def test_figures_that_are_not_live_are_told_as_such() -> None:
    """With how long, and because of whom; live ones are not spoken of."""
    assert not_live_warning(told(True), 15 * HOUR_MS) is None
    line = not_live_warning(told(True, status="blind"), 15 * HOUR_MS)
    assert line is not None
    assert line.startswith("the figures of prod are blind for 15 h, by the watcher: ")


def test_an_exporter_that_goes_away_is_waited_for_and_told_once() -> None:
    """Each absence is told once, however often it is asked meanwhile."""
    answers: Iterator[int | Exception] = iter(
        [1, UnreachableError("away"), UsageError("no such cluster"), 2, UnreachableError("x"), 3]
    )
    heard: list[str] = []

    def ask() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    seen = poll(ask, every_s=0, on_unreachable=lambda error: heard.append(str(error)))
    assert list(itertools.islice(seen, 3)) == [1, 2, 3]
    assert heard == ["away", "x"]


def test_an_exporter_that_was_never_there_is_not_waited_for() -> None:
    """A mistyped address or cluster must be told at once."""

    def ask() -> int:
        raise UsageError("no cluster is called 'prdo'")

    with pytest.raises(UsageError):
        next(poll(ask, every_s=0))


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://h:99999", "http://h:x", "h:1", "", "http://", "ftp://h"]
)
def test_what_is_no_address_is_told_as_an_option(url: str) -> None:
    """Whatever is wrong with it."""
    with pytest.raises(UsageError, match="option --exporter: "):
        ExporterApi(url)


@pytest.mark.parametrize("name", ["", "a/b", "..", "x y"])
def test_what_cannot_be_a_cluster_is_refused_before_it_is_asked_for(name: str) -> None:
    """It would be another path of the exporter."""
    with pytest.raises(UsageError, match="option --cluster: "):
        ExporterApi("http://127.0.0.1:1").choose(name)


def test_what_an_answer_lacks_is_told_as_the_exporters() -> None:
    """Its address, what is missing, and the likely cause."""
    with pytest.raises(UnreachableError, match="http://h answers without 'counts'"):
        ApiAnswer({"name": "prod"}, "http://h")["counts"]


@pytest.mark.parametrize(
    ("chunks", "chunk", "given", "run"),
    [
        (1, None, [], f"kcm recommend --json > election.json && {TOOL}"),
        (
            1,
            None,
            ["--cluster", "prod", "--broker", "3"],
            f"kcm recommend --cluster prod --broker 3 --json > election.json && {TOOL}",
        ),
        (
            9,
            2,
            ["--exporter", "http://h/?a&b"],
            f"kcm recommend --exporter 'http://h/?a&b' --chunk 2 --json > election.json && {TOOL}",
        ),
        (9, None, ["--broker", "3"], "kcm elect --bootstrap-servers k:9092 --broker 3"),
    ],
)
def test_the_command_does_what_was_asked_about(
    chunks: int, chunk: int | None, given: list[str], run: str
) -> None:
    """With the options that were given, quoted; several chunks are for kcm elect."""
    assert command({"chunk_count": chunks, "command": TOOL}, chunk, given) == run


def test_a_reason_is_told_whole() -> None:
    """A path or a reason that is cut says something else."""
    reason = "the payload of /brokers/topics/orders/partitions/17/state is no JSON: " + "x" * 200
    assert reason in event_text({"kind": "Anomaly", "reason": reason})


def test_no_text_is_taken_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """Names from a cluster and reasons that somebody typed are shown as they are."""
    console().print("[/b] [ops] kernel :smile:")
    assert capsys.readouterr().out == "[/b] [ops] kernel :smile:\n"
