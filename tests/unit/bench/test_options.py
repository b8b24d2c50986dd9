"""The options of the benchmarks' command line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as bench
from bench.storm import Storm, setting_of, storm_of
from bench.znodes import Size
from pipeline.runtime import EnvironmentProblemError


def test_a_storm_is_named_by_its_cluster_and_its_leaders() -> None:
    """The form is TOPICSxPARTITIONS:LEADERS."""
    assert storm_of("2000x100:67000") == Storm(Size(2_000, 100), 67_000)


@pytest.mark.parametrize("text", ["10", "10x10", "10x10:101", "10x10:0", "ax1:1"])
def test_an_invalid_storm_is_refused(text: str) -> None:
    """Examples are more leaders than partitions, no leaders, and another form."""
    with pytest.raises(argparse.ArgumentTypeError):
        storm_of(text)


def test_a_setting_has_a_name_and_a_value() -> None:
    """The form is NAME=VALUE; the value may contain another equals sign."""
    assert setting_of("a=b=c") == ("a", "b=c")
    with pytest.raises(argparse.ArgumentTypeError):
        setting_of("a")


def _scenarios(monkeypatch: pytest.MonkeyPatch, **results: Mapping[str, Any] | Exception) -> None:
    def scenario(result: Mapping[str, Any] | Exception) -> bench.Scenario:
        def measure() -> dict[str, Any]:
            if isinstance(result, Exception):
                raise result
            return dict(result)

        return bench.Scenario("a scenario", measure)

    monkeypatch.setattr(
        bench, "SCENARIOS", {name: scenario(each) for name, each in results.items()}
    )


def test_a_result_is_printed_written_and_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both get the same text; the comparison follows."""
    _scenarios(monkeypatch, fast={"p50_ms": 1.0})
    older, newer = tmp_path / "old.json", tmp_path / "new.json"
    older.write_text('{"p50_ms": 2.0}')
    words = ["bench", "fast", "--json", str(newer), "--compare", str(older)]
    monkeypatch.setattr("sys.argv", words)
    assert bench.main() == 0
    printed = capsys.readouterr().out
    assert newer.read_text() in printed
    assert "| p50_ms | 2.0 | 1.0 | -50 % |" in printed


def test_an_unwritable_result_file_is_reported_before_the_measurement(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some scenarios take half an hour."""
    _scenarios(monkeypatch, never=AssertionError("measured"))
    path = tmp_path / "no such folder" / "result.json"
    monkeypatch.setattr("sys.argv", ["bench", "never", "--json", str(path)])
    assert bench.main() == 1
    assert str(path) in capsys.readouterr().err


@pytest.mark.parametrize("older", [None, "{}"])
def test_a_scenario_that_fails_leaves_its_result_file_unchanged(
    older: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An earlier result stays; without one, no file is left."""
    _scenarios(monkeypatch, bad=EnvironmentProblemError("no Java"))
    path = tmp_path / "result.json"
    if older is not None:
        path.write_text(older)
    monkeypatch.setattr("sys.argv", ["bench", "bad", "--json", str(path)])
    assert bench.main() == EnvironmentProblemError.exit_code
    assert (path.read_text() if path.exists() else None) == older


def test_a_scenario_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The result has all scenarios that ran, with their figures; the exit code reports the failed one."""
    bad, good = EnvironmentProblemError("no Java"), {"p50_ms": 1.0, "figures": {"a": {}}}
    _scenarios(monkeypatch, bad=bad, good=good)
    monkeypatch.setattr("sys.argv", ["bench", "all"])
    assert bench.main() == 1
    result = json.loads(capsys.readouterr().out)
    assert result["failed"] == {"bad": "no Java"}
    assert result["scenarios"] == {"good": {"scenario": "good"} | good}
    assert result["figures"] == {"a": {}}


def test_every_scenario_runs_with_its_defaults() -> None:
    """`all` runs each published scenario with the values that its own command line has by default."""
    defaults = bench._defaults()
    assert defaults.keys() == bench.SCENARIOS.keys() - {"beside", "patches", "wire"}
    assert defaults["storm"]["rounds"] == 5


@pytest.mark.parametrize(
    "words",
    [
        ["storm", "--storms", "--of", "100", "--led", "101"],
        ["peers", "--of", "100", "--led", "101"],
    ],
)
def test_more_leaders_than_partitions_are_refused(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused before anything is started."""
    monkeypatch.setattr("sys.argv", ["bench", *words])
    assert bench.main() == 2
    assert "leads no more" in capsys.readouterr().err


def test_a_folder_that_is_no_checkout_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused before anything is started."""
    monkeypatch.setattr("sys.argv", ["bench", "beside", str(tmp_path)])
    assert bench.main() == 2
    assert f"{tmp_path}: no checkout" in capsys.readouterr().err


def test_two_checkouts_are_compared_in_one_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other checkout's figures are the old ones."""
    _scenarios(monkeypatch, beside={"this": {"p50_ms": 1.0}, "other": {"p50_ms": 2.0}})
    monkeypatch.setattr("sys.argv", ["bench", "beside"])
    assert bench.main() == 0
    assert "| p50_ms | 2.0 | 1.0 | -50 % |" in capsys.readouterr().out
