"""The pages with measured figures show what the stored results say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as bench
from bench import report
from bench.merge import merged
from bench.plots import PLOTS

ROOT = Path(bench.__file__).parent.parent


@pytest.fixture
def stored() -> dict[str, Any]:
    """The results that are committed beside the pages."""
    results: dict[str, Any] = json.loads((ROOT / report.RESULTS).read_text(encoding="utf-8"))
    return results


def test_every_block_of_the_pages_shows_the_stored_results(stored: dict[str, Any]) -> None:
    """Nobody has changed a figure by hand; a plot that a page names is drawn."""
    for page in report.PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert report.with_blocks(text, stored) == text
        assert not re.findall(r"<!-- bench: .* -->\n<!-- bench end -->", text), "not measured"
    named = re.findall(r"bench: plot (\S+)", (ROOT / "docs" / "performance.md").read_text())
    assert sorted(named) == sorted(PLOTS)


def test_a_result_that_is_measured_again_keeps_every_entry(stored: dict[str, Any]) -> None:
    """No two entries of a published list share a name: merged with itself, nothing is lost."""
    assert merged([stored, stored])["scenarios"] == stored["scenarios"]


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
