"""Every record carries its place in the log, and the time by the machine's clock."""

from __future__ import annotations

from typing import Any

from source_log.generation_fencing import Generations
from source_log.recorder import LogRecorder


def test_headers_are_numbered_within_a_generation_and_dated_by_the_machines_clock() -> None:
    """Decisions run on the steady clock; records carry the machine's, which may be set."""
    generations = Generations("me")
    recorder = LogRecorder("prod", generations)
    headers: list[dict[str, Any]] = []
    for ahead_ms in (0, 0, 60_000):
        if ahead_ms or not headers:
            generations.begin_next(0)
        recorder.clock_ahead_ms = ahead_ms
        headers.append(recorder.next_header(1_000))
    assert [
        (each["watcher"], each["generation"], each["seq"], each["observed_at"]) for each in headers
    ] == [("me", 1, 1, 1_000), ("me", 1, 2, 1_000), ("me", 2, 1, 61_000)]
    assert {each["cluster"] for each in headers} == {"prod"}
