"""`kcm recommend`: the command that runs what is recommended."""

from __future__ import annotations

import pytest

from kcm.queries.recommend import command

TOOL = "kafka-leader-election.sh --bootstrap-server k:9092 --path-to-json-file election.json"


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
