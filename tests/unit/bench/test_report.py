"""The pages are made from results: tables, plots, and what was not measured."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as bench
from bench import rehearse, report, sizing
from bench.figures import judged
from bench.merge import merged
from bench.plots import PLOTS
from bench.tables import TABLES

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
SIZES = [
    {
        "partitions": partitions,
        "live_s": 12.0,
        "again_s": 8.0,
        "rounds": [{"memory_mib": {"watcher": 61.0, "exporter": exporter}}],
    }
    for partitions, exporter in ((1_000, 8.0), (2_000, 10.0))
]
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
PATH = {"p50_ms": 7, "p99_ms": 9, "series": 5_000, "bytes": 44_000}
BATCH = {"ms": 1.5, "state_bytes": 1_000, "view_bytes": 2_000}
RESULT: dict[str, Any] = {
    "scenario": "all",
    "machine": MACHINE,
    "figures": judged(delay_p50=200.0, delay_p99=500.0, cold_10000=10.0),
    "failed": {"fleet": "no Java"},
    "scenarios": {
        "delay": {
            "p50_ms": 200.0,
            "p99_ms": 500.0,
            "stages": {"watch": STAGE, "fold": STAGE},
            "batch": {"batches": 9, "ms": 200.0, "stages_ms": {"walCommit": 12.5}},
        },
        "storm": {
            "storms": [{"leaders": 10_000, "partitions": 10_000, **LAG}],
            "kills": [{"led": 3_334, "partitions": 10_000, **LAG}],
        },
        "cold": {"sizes": SIZES},
        "rest": {
            "at_rest": {"exporter": COST, "all": COST},
            "changing": {"exporter": COST, "all": COST},
            "settings": {"rate_per_s": 10.0},
        },
        "peers": {"turns": [TURN], "settings": {"led": 3_334}},
        "brokers": {"brokers": {"30": {"heartbeat": BATCH, "one change": BATCH}}},
        "rehearse": {"cases": [REHEARSED]},
        "fleet": {
            "clusters": 51,
            "large_partitions": 200_000,
            "delay_before": {"p50_ms": 200.0, "max_ms": 400.0},
            "resync_s": 9.5,
            "delay_in_resync": {"p50_ms": 300.0, "max_ms": 900.0},
            "backlog_s": 6.5,
            "delay_in_backlog": {"p50_ms": 1_300.0, "max_ms": 2_900.0},
            "peak_memory_mib": {"watcher": 61},
        },
        "scaleout": {
            "clusters": 12,
            "partitions": 12_000,
            "workers": 3,
            "folded_s": 40.0,
            "share_percent": {"worker-0": 34},
            "before": {"p50_ms": 400, "most_ms": 900},
            "killed": {"most_ms": 9_000},
            "after": {"p50_ms": 500, "most_ms": 950},
            "views_compared": 1_236,
            "views_differing": 0,
        },
        "scrape": {
            "clusters": [
                {"partitions": 10_000, "brokers": 3, "/metrics": PATH, "/metrics/partitions": PATH}
            ]
        },
        "commands": {
            "clusters": [{"partitions": 20_000, "seconds": {"status": {"p50": 0.3, "first": 0.4}}}]
        },
        "resync": {"ways": {"one-shot": {"median_s": 2.1, "znodes_per_s": 9_000}}},
        "replay": {
            "changes_per_s": 70_000,
            "changes_per_s_with_views": 50_000,
            "resync_changes_per_s": 80_000,
            "large_partitions": 1_000_000,
            "large_changes_per_s": 58_000,
            "large_peak_memory_mib": 452,
            "large_packed_bytes_per_partition": 26.0,
        },
    },
}


PAGE = "".join(
    f"<!-- bench: {block} -->\n(before)\n<!-- bench end -->\n"
    for block in ("machine", "figures", "plot delay-stages.png Delay", *TABLES)
)


def test_the_figures_table_shows_missed_bounds_too() -> None:
    """Each row shows whether its aim, its must or neither is met; a page may show some rows."""
    lines = (sizing.figures_table(RESULT) or "").splitlines()[2:]
    assert [line.split(" | ")[1] for line in lines] == ["200.0 ms", "500.0 ms", "10.0 s"]
    assert [line.split(" | ")[-1] for line in lines] == ["must |", "**no** |", "aim |"]
    some = report.with_blocks("<!-- bench: figures cold_10000 -->\n<!-- bench end -->", RESULT)
    assert "10.0 s" in some
    assert "200.0 ms" not in some


def test_the_page_shows_every_scenario() -> None:
    """Each has its table; a storm that was never shown is described in words."""
    page = report.with_blocks(PAGE, RESULT)
    assert "(before)" not in page
    for shown in (
        "Measured on 2 processors (EPYC)",
        "| watch | 10 ms | 20 ms |",
        "| walCommit | 12.5 ms |",
        "![Delay](performance/delay-stages.png)",
        "| 3,334 of 10,000, of a real broker that is killed | 0.5 s | never |",
        "| all of them | 3 of 4 |",
        "| 10,000, 30 | kill-broker:0 | 1 | 1.5 s | 1.4 s | 40 MiB |",
        "| /controller is deleted: elections shown | 4 of 5 |",
        "| a small one's change meanwhile: p50, at most | 300 ms, 900 ms |",
        "| views that differ from a replay of the logs | 0 of 1,236 |",
        "| 10,000, 3 | `/metrics/partitions` | 7 ms | 9 ms | 5,000 | 44,000 |",
        "| `kcm status` | 0.3 s; 0.4 s |",
        "| one-shot | 2.1 s | 9,000/s |",
        "| a resync | 80,000/s |",
    ):
        assert shown in page


def test_figures_of_a_large_fleet_are_computed_from_measurements() -> None:
    """Memory by the line through the measured sizes; no table while a result is missing."""
    block = "<!-- bench: paper -->\n(before)\n<!-- bench end -->"
    page = report.with_blocks(block, RESULT)
    assert (
        "| a broker dies that led 23,333 partitions | at 50,000/s (`replay`) | 0.467 s of" in page
    )
    assert "| memory of an exporter | by partitions (`cold`) | 14,006 MiB |" in page
    without = {name: each for name, each in RESULT["scenarios"].items() if name != "cold"}
    assert report.with_blocks(block, RESULT | {"scenarios": without}) == block


def test_only_blocks_with_measured_results_are_replaced() -> None:
    """The rest of a page, and blocks without a measurement, do not change."""
    nothing = {"scenario": "all", "scenarios": {}, "figures": {}, "machine": {}}
    whole = PAGE + "<!-- bench: sizing -->\n(before)\n<!-- bench end -->\n"
    assert report.with_blocks(whole, nothing) == whole
    made = report.with_blocks(f"before\n{PAGE}between\n<!-- other -->", RESULT)
    assert made.startswith("before\n<!-- bench: machine -->\nMeasured")
    assert made.endswith("<!-- bench end -->\nbetween\n<!-- other -->")


def test_scenarios_measured_on_another_machine_are_named() -> None:
    """A page shows figures of several days, and does not pass them off as one machine's."""
    other = MACHINE | {"cpu_model": "Xeon"}
    machines = {"cold": MACHINE, "fleet": other, "storm": MACHINE}
    scenarios = {name: {"machine": machine} for name, machine in machines.items()}
    text = sizing.measured_on({"machine": other, "scenarios": scenarios})
    assert text is not None
    assert text.startswith(
        "Measured on 2 processors (EPYC), 23 GiB, Python 3.11, "
        "`fleet` on 2 processors (Xeon), 23 GiB, Python 3.11, with the shipped settings."
    )


def test_pages_are_generated_from_results_added_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are merged with the existing results; equal results give equal files."""
    for page in report.PAGES:
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).write_text(PAGE)
    monkeypatch.chdir(tmp_path)
    parts = []
    for name, scenario in RESULT["scenarios"].items():
        parts.append(tmp_path / f"{name}.json")
        part = {"scenario": name, "machine": MACHINE, "figures": {}} | scenario
        parts[-1].write_text(json.dumps(part))
    for arguments in ([parts[0]], parts[1:], []):
        monkeypatch.setattr("sys.argv", ["bench", "report", *map(str, arguments)])
        assert bench.main() == 0
    assert (tmp_path / report.PAGES[0]).read_text().count("(before)") == 1  # the figures
    made = {path: path.read_bytes() for path in (tmp_path / report.FOLDER).glob("*.png")}
    assert {path.name for path in made} == set(PLOTS)
    assert all(content.startswith(b"\x89PNG") for content in made.values())
    assert bench.main() == 0
    assert {path: path.read_bytes() for path in made} == made


def test_a_result_that_is_measured_again_keeps_every_entry() -> None:
    """No two entries of a published list share a name: merged with itself, nothing is lost."""
    root = Path(bench.__file__).parent.parent
    published = json.loads((root / report.RESULTS).read_text(encoding="utf-8"))

    assert len(published["scenarios"]["rehearse"]["cases"]) == len(rehearse.CASES)
    assert merged([published, published])["scenarios"] == published["scenarios"]


def test_every_block_of_the_pages_is_known_and_up_to_date() -> None:
    """A page shows what is committed beside it; a plot that it names is drawn."""
    root = Path(bench.__file__).parent.parent
    stored = root / report.RESULTS
    everything = json.loads(stored.read_text()) if stored.exists() else None
    for page in report.PAGES:
        text = (root / page).read_text()
        report.with_blocks(text, RESULT)  # an unknown block is a KeyError
        if everything is not None:
            assert report.with_blocks(text, everything) == text
    named = re.findall(r"bench: plot (\S+)", (root / "docs" / "performance.md").read_text())
    assert sorted(named) == sorted(PLOTS)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("[1]", "no result of `python -m bench`"),
        ('{"scenario": "beside"}', "two monitors shared the machine"),
    ],
)
def test_a_file_whose_figures_cannot_be_published_is_refused(
    content: str,
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The error is one line, and no page is written."""
    result = tmp_path / "delay.json"
    result.write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["bench", "report", str(result)])
    assert bench.main() == 2
    assert error in capsys.readouterr().err
    assert not (tmp_path / "docs").exists()
