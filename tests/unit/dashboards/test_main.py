"""`python -m dashboards` writes what the code makes, and `--check` names files that are out of date."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.__main__ import FOLDER, generated, main, out_of_step


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A folder that has just been written."""
    assert main(["--folder", str(tmp_path)]) == 0
    return tmp_path


def test_the_committed_files_are_in_step() -> None:
    """The files in the chart are what the code makes."""
    assert out_of_step(FOLDER, generated()) == {}


def test_all_files_are_written(written: Path) -> None:
    """The dashboards and the rules are where the chart looks for them, and the mixin beside them."""
    found = {str(path.relative_to(written)) for path in written.rglob("*") if path.is_file()}
    boards = ("fleet", "controller", "quorum", "partitions", "balance", "pipeline")
    assert found == {
        "rules/kafka-controller-monitor.yaml",
        "mixin.libsonnet",
        "jsonnetfile.json",
        *(f"dashboards/{board}.json" for board in boards),
    }


def test_check_passes_after_a_run(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A check after a run passes and says nothing."""
    capsys.readouterr()
    assert main(["--check", "--folder", str(written)]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_second_run_writes_nothing(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that are up to date are not written."""
    capsys.readouterr()
    assert main(["--folder", str(written)]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", generated())
def test_check_reports_a_changed_file_and_does_not_fix_it(
    written: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The check exits 1, names the one file that differs, and does not fix it."""
    path = written / name
    path.write_bytes(path.read_bytes() + b"\n")
    changed = path.read_bytes()
    assert main(["--check", "--folder", str(written)]) == 1
    printed = capsys.readouterr().err
    assert f"{path}: out of step" in printed
    assert len(printed.splitlines()) == 1
    assert path.read_bytes() == changed


def test_a_missing_file_is_named(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The check exits 1 and says what is missing."""
    path = written / "dashboards/controller.json"
    path.unlink()
    assert main(["--check", "--folder", str(written)]) == 1
    assert f"{path}: missing" in capsys.readouterr().err


def test_check_reports_a_file_that_the_code_does_not_make(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The old file of a renamed dashboard is reported."""
    path = written / "dashboards/old.json"
    path.write_text("{}")
    assert main(["--check", "--folder", str(written)]) == 1
    assert f"{path}: nothing in dashboards/ makes it" in capsys.readouterr().err
