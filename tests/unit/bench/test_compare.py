"""Two results in one table."""

from __future__ import annotations

from typing import Any

from bench.compare import comparison, leaves
from bench.figures import FIGURES, judged


def test_figures_are_compared_first_with_their_bounds() -> None:
    """Each figure is compared by its value; its must and aim are next to it."""
    old = {"scenario": "delay", "figures": judged(delay_p50=200.0)}
    new = {"scenario": "delay", "figures": judged(delay_p50=150.0)}
    line = comparison(old, new).splitlines()[2]
    assert line == "| 10 changes/s: znode to scrape, p50, ms | 200.0 | 150.0 | -25 % | 230 | 180 |"


def test_a_scenario_is_compared_with_its_part_of_a_run_of_all() -> None:
    """An older run of all has it among the others."""
    old = {"scenario": "all", "scenarios": {"scrape": {"p50_ms": 2.0}, "delay": {"p50_ms": 9.0}}}
    table = comparison(old, {"scenario": "scrape", "p50_ms": 1.0})
    assert "| p50_ms | 2.0 | 1.0 | -50 % |  |  |" in table
    assert "9.0" not in table


def test_other_machines_are_named() -> None:
    """Figures of two machines are not comparable, and the table warns of that."""
    assert "different machines" in comparison({"machine": {"cpus": 2}}, {"machine": {"cpus": 4}})
    assert "different machines" not in comparison(
        {"machine": {"cpus": 2}}, {"machine": {"cpus": 2}}
    )


def test_entries_of_lists_are_matched_by_what_they_measure() -> None:
    """A list in another order, or with more entries, is compared entry by entry."""
    result: dict[str, Any] = {
        "turns": [{"peer": "this", "every_s": 1.0, "quiet": {"polls": 9, "memory_mib": 5}}],
        "storms": [{"leaders": 10, "tail_s": 1.5, "rounds": [{"tail_s": 9.0}]}, 7],
    }
    assert dict(leaves(result)) == {
        "turns[peer=this,every_s=1.0].quiet.memory_mib": 5,
        "storms[leaders=10].tail_s": 1.5,
        "storms[1]": 7,
    }


def test_the_aim_of_every_figure_meets_its_must() -> None:
    """A figure that meets its aim meets its must."""
    assert all(figure.met(figure.aim, figure.must) for figure in FIGURES.values())
    assert not judged(replay_leaders=60_000)["replay_leaders"]["must_met"]
    assert judged(replay_leaders=70_000)["replay_leaders"]["must_met"]
