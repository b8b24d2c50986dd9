"""The pages are made from results: tables, plots, and what was not measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as bench
from bench import report
from bench.figures import judged

MACHINE = {"cpus": 2, "cpu_model": "EPYC", "memory_mib": 24_000, "python": "3.11"}
STAGE = {"p50_ms": 10.0, "p99_ms": 20.4}
LAG = {
    "tail_s": 0.5,
    "half_s": None,
    "partition_p50_s": 0.4,
    "partition_p99_s": 0.6,
    "partition_max_s": 1.0,
}
COST = {"cpu_percent": 12.34, "rss_mib": 100.2, "pss_mib": 90.1}
SIZE = {
    "partitions": 10_000,
    "live_s": 12.0,
    "again_s": 8.0,
    "rounds": [{"memory_mib": {"watcher": 61.0}}],
}
TURN = {
    "peer": "this",
    "every_s": 1.0,
    "quiet": {
        "answer_p50_s": 0.0012,
        "series": 238,
        "bytes": 33_000,
        "cpu_percent": 1.5,
        "memory_mib": 81.0,
    },
    "leader_killed": {
        "shown": 3,
        "of": 4,
        "first_s": 1.0,
        "all_s": None,
        "partition_p50_s": 2.0,
        "partition_max_s": 3.0,
    },
    "controller_killed": {"shown_s": None},
    "flap": {"elections": 5, "shown": 4},
}
REHEARSED = {
    "partitions": 10_000,
    "brokers": 30,
    "step": "kill-broker:0",
    "operations": 1,
    "seconds": 1.5,
    "cpu_seconds": 1.4,
    "mib": 40,
}
BATCH = {"ms": 1.5, "state_bytes": 1_000, "view_bytes": 2_000}
RESULT: dict[str, Any] = {
    "scenario": "all",
    "machine": MACHINE,
    "figures": judged(delay_p50=200.0, delay_p99=500.0, cold_10000=10.0),
    "failed": {"fleet": "no Java"},
    "scenarios": {
        "delay": {"p50_ms": 200.0, "p99_ms": 500.0, "stages": {"watch": STAGE}},
        "storm": {
            "storms": [{"leaders": 10_000, "partitions": 10_000, **LAG}],
            "kills": [{"led": 3_334, "partitions": 10_000, **LAG}],
        },
        "cold": {"sizes": [SIZE]},
        "rest": {
            "at_rest": {"exporter": COST},
            "changing": {"exporter": COST},
            "settings": {"rate_per_s": 10.0},
        },
        "peers": {"turns": [TURN], "settings": {"led": 3_334}},
        "brokers": {"brokers": {"10": {"heartbeat": BATCH}}},
        "rehearse": {"cases": [REHEARSED]},
    },
}


def test_figures_stand_with_their_bounds_also_where_they_lose() -> None:
    """What meets its aim, its must, or neither, says so."""
    lines = report.figures_table(RESULT).splitlines()[2:]
    assert [line.split(" | ")[1] for line in lines] == ["200.0 ms", "500.0 ms", "10.0 s"]
    assert [line.split(" | ")[-1] for line in lines] == ["must |", "**no** |", "aim |"]


def test_the_page_shows_every_scenario_and_what_failed() -> None:
    """Each has its title, its table and its plots; never shown is said in words."""
    page = report.performance_page(RESULT, {"delay-stages.png": "Delay"})
    assert all(f"## {title}" in page for title in report.TITLES.values())
    assert "| watch | 10 ms | 20 ms |" in page
    assert "![Delay](performance/delay-stages.png)" in page
    assert "| 3,334 of 10,000, of a real broker that is killed | 0.5 s | never |" in page
    assert "| all of them | 3 of 4 |" in page
    assert "| 10,000, 30 | kill-broker:0 | 1 | 1.5 s | 1.4 s | 40 MiB |" in page
    assert "| /controller is deleted: elections shown | 4 of 5 |" in page
    assert "| fleet | no Java |" in page


def test_only_marked_tables_of_a_page_are_made_anew() -> None:
    """The rest of a page, and tables of what was not measured, stay as they are."""
    text = (
        "before\n<!-- bench: delay -->\nold\n<!-- bench end -->\nbetween\n"
        "<!-- bench: gone -->\nkept\n<!-- bench end -->\n"
    )
    made = report.with_tables(text, RESULT)
    assert "old" not in made
    assert "| all | 200 ms | 500 ms |" in made
    assert made.startswith("before\n<!-- bench: delay -->\n| Stage |")
    assert made.endswith("between\n<!-- bench: gone -->\nkept\n<!-- bench end -->\n")


def test_the_report_writes_the_pages_and_the_plots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal results make equal files."""
    (tmp_path / "docs").mkdir()
    pages = (tmp_path / "README.md", tmp_path / "docs" / "comparison.md")
    for page in pages:
        page.write_text("<!-- bench: figures -->\n<!-- bench end -->\n")
    result = tmp_path / "bench.json"
    result.write_text(json.dumps(RESULT))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["bench", "report", str(result)])
    assert bench.main() == 0
    plots = {path: path.read_bytes() for path in (tmp_path / "docs" / "performance").iterdir()}
    assert len(plots) == 6
    assert all(content.startswith(b"\x89PNG") for content in plots.values())
    made = (tmp_path / "docs" / "performance.md").read_text()
    assert all(f"(performance/{path.name})" in made for path in plots)
    assert all("200.0 ms" in page.read_text() for page in pages)
    assert bench.main() == 0
    assert {path: path.read_bytes() for path in plots} == plots


def test_what_is_no_result_of_all_makes_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A result of one scenario, or no result, is refused in a line."""
    result = tmp_path / "delay.json"
    result.write_text('{"scenario": "delay"}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["bench", "report", str(result)])
    assert bench.main() == 2
    assert "not a result of `python -m bench all`" in capsys.readouterr().err
    assert not (tmp_path / "docs").exists()
