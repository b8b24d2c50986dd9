"""The shell lines that run elections: each word is quoted, and an IPv6 address is in brackets."""

from __future__ import annotations

import shlex

import pytest

from controller_model.insight.commands import (
    kafka_election,
    recommended_elections,
)
from controller_model.kafka.ids import broker_address

TOOL = (
    "kafka-leader-election.sh --bootstrap-server k:9092 --election-type PREFERRED "
    "--path-to-json-file election.json"
)


@pytest.mark.parametrize(
    ("chunks", "chunk", "options", "run"),
    [
        (0, None, [], f"kcm recommend --json > election.json && {TOOL}"),
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
def test_the_line_repeats_the_options(
    chunks: int, chunk: int | None, options: list[str], run: str
) -> None:
    """It repeats the options that were given, quoted; several chunks are run by kcm elect."""
    assert recommended_elections("k:9092", chunk_count=chunks, chunk=chunk, options=options) == run


@pytest.mark.parametrize("host", ["2001:db8::7", "fe80::1%eth0", "$(reboot)", "a; rm -r b", "'"])
def test_a_host_is_one_word_of_the_shell(host: str) -> None:
    """An IPv6 address has its brackets in each line, also behind the shell's quotes."""
    server = broker_address(host, 9092)
    assert server == (f"[{host}]:9092" if ":" in host else f"{host}:9092")
    assert shlex.split(kafka_election(server))[2] == server
    assert shlex.split(recommended_elections(server, chunk_count=1))[8] == server
    assert shlex.split(recommended_elections(server, chunk_count=2))[3] == server


def test_without_an_address_the_line_has_a_place_for_one() -> None:
    """No broker has registered an address, or none is live."""
    assert "--bootstrap-server HOST:PORT " in kafka_election(None)
    assert recommended_elections(None, chunk_count=2) == "kcm elect --bootstrap-servers HOST:PORT"
