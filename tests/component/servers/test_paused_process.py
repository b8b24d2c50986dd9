"""A paused process does nothing: tried again and again, with threads that never rest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcm.servers.supervisor import Supervisor
from tests.support.processes import python, started
from tests.support.waiting import wait_until


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor of this test's own."""
    with Supervisor(tmp_path) as supervisor:
        yield supervisor


def test_all_threads_are_stopped_when_pause_returns(owner: Supervisor, tmp_path: Path) -> None:
    """Not one of its threads does anything between the return of pause and its resumption."""
    code = (
        "import pathlib,sys,threading\n"
        "def count(path):\n"
        "    with path.open('wb', buffering=0) as file:\n"
        "        while True: file.write(b'x')\n"
        "for n in range(4):\n"
        "    threading.Thread(target=count, args=(pathlib.Path(sys.argv[1], str(n)),)).start()\n"
    )
    process = started(owner, "busy", [*python(code), tmp_path])
    files = [tmp_path / str(number) for number in range(4)]

    def written() -> list[int]:
        return [file.stat().st_size if file.exists() else 0 for file in files]

    wait_until(written, all)
    for _ in range(20):
        process.pause()
        frozen = written()
        time.sleep(0.05)
        assert written() == frozen
        process.resume()
        wait_until(written, frozen.__ne__)
