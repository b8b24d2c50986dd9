"""`python -m tests.support.repeated TIMES [PYTEST'S ARGUMENTS]`: run tests many times in a row beside two busy processes.

A test that depends on luck fails here. Each round is a run of pytest as `make test` starts it. What
pytest prints in a round with a failure is kept in repeated-N.txt.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kcm.servers.process import Process
from kcm.servers.supervisor import Supervisor
from tests.support.commands import say
from tests.support.processes import python, started
from tools.run_tests import PYTEST

BUSY = 2
"""Processes that do nothing but compute meanwhile: as many as the tests have processors."""
POLL_S = 0.2
TESTS_RAN = (0, 1)
"""Exit codes of pytest after all tests have run; any other means a wrong option or an interruption."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rounds, print each one's result, then the tests that failed; return 1 if any did, 2 if none ran."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.repeated")
    parser.add_argument("times", type=int, help="how many rounds")
    parser.add_argument("given", nargs=argparse.REMAINDER, help="pytest's options, and tests")
    options = parser.parse_args(arguments)
    failed: Counter[str] = Counter()
    broken = 0
    with (
        tempfile.TemporaryDirectory(prefix="kcm-repeated-") as folder,
        Supervisor(Path(folder), kill_on_exit=True) as supervisor,
    ):
        for number in range(BUSY):
            started(supervisor, f"busy-{number}", python("while True: pass"))
        for number in range(1, options.times + 1):
            began = time.monotonic()
            pytest = _run(Process(supervisor, f"round-{number}", [*PYTEST, "-q", *options.given]))
            printed = pytest.log_path.read_text(encoding="utf-8")
            if pytest.exit_code not in TESTS_RAN:
                say(f"{printed}pytest ended with exit code {pytest.exit_code}: no test counts")
                return 2
            failed.update(failures(printed))
            result = (printed.splitlines() or ["pytest printed nothing"])[-1].strip("= ")
            say(f"round {number} of {options.times}: {result} ({time.monotonic() - began:.0f} s)")
            if pytest.exit_code:
                broken += 1
                shutil.copy(pytest.log_path, f"repeated-{number}.txt")
    for test, times in failed.most_common():
        say(f"failed {times} of {options.times} times: {test}")
    say(f"{options.times - broken} of {options.times} rounds without a failure")
    return 1 if broken else 0


def failures(printed: str) -> set[str]:
    """Return the tests that pytest's summary names as failed or in error."""
    return set(re.findall(r"^(?:FAILED|ERROR) (\S+)", printed, flags=re.MULTILINE))


def _run(process: Process) -> Process:
    process.start()
    while process.running:
        time.sleep(POLL_S)
    return process


if __name__ == "__main__":
    sys.exit(main())
