"""`kcm recommend`: the files of Kafka's tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcm.queries.recommend import write_elections
from pipeline.runtime import UsageError


def chunk(number: int, *partitions: int) -> dict[str, Any]:
    """Return a chunk as the API gives it."""
    named = [{"topic": "t", "partition": each} for each in partitions]
    return {"number": number, "election": {"partitions": named}}


def test_each_chunk_becomes_a_file_of_kafkas_tool(tmp_path: Path) -> None:
    """The files are in a new folder, named by the chunk's number."""
    folder = tmp_path / "a" / "elections"
    written = write_elections([chunk(1, 0, 1), chunk(2, 7)], folder)
    assert [path.name for path in written] == ["election-1.json", "election-2.json"]
    assert json.loads(written[1].read_text()) == {"partitions": [{"topic": "t", "partition": 7}]}


def test_files_of_an_earlier_run_are_not_mixed_in(tmp_path: Path) -> None:
    """Running all files of the folder would elect by old figures."""
    write_elections([chunk(1, 0)], tmp_path)
    with pytest.raises(UsageError, match="already holds election files: choose another"):
        write_elections([chunk(1, 0)], tmp_path)


def test_nothing_to_elect_leaves_no_file(tmp_path: Path) -> None:
    """It leaves no folder, either."""
    assert write_elections([chunk(1)], tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """The error is one line."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write to .*/file/elections: "):
        write_elections([chunk(1, 0)], tmp_path / "file" / "elections")
