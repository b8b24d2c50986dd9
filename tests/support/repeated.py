"""`python -m tests.support.repeated TIMES [TEST...]`: run tests many times in a row beside two busy processes.

The rule: a test that depends on luck fails here. Each round is a run of its own, as `make test-all`
starts it. What pytest prints in a round with a failure is kept in repeated-N.txt.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

BUSY = 2
"""Processes that do nothing but compute meanwhile: as many as the tests have processors."""

PYTEST = ("-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder", "-p", "no:cacheprovider")
"""How `make test-all` runs pytest, without a file that two rounds share."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rounds, print each one's result, then the tests that failed; return 1 if any did."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.repeated")
    parser.add_argument("times", type=int, help="how many rounds")
    parser.add_argument("tests", nargs="*", help="files, folders or options of pytest; all tests")
    options, of_pytest = parser.parse_known_args(arguments)
    failed: Counter[str] = Counter()
    broken = 0
    with busy_processes():
        for number in range(1, options.times + 1):
            began = time.monotonic()
            run = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", *PYTEST, *options.tests, *of_pytest],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
            failed.update(failures(run.stdout))
            result = (run.stdout.splitlines() or ["pytest printed nothing"])[-1].strip("= ")
            _say(f"round {number} of {options.times}: {result} ({time.monotonic() - began:.0f} s)")
            if run.returncode:
                broken += 1
                Path(f"repeated-{number}.txt").write_text(run.stdout, encoding="utf-8")
    for test, times in failed.most_common():
        _say(f"failed {times} of {options.times} times: {test}")
    _say(f"{options.times - broken} of {options.times} rounds without a failure")
    return 1 if broken else 0


@contextlib.contextmanager
def busy_processes() -> Iterator[None]:
    """Keep the processors busy for as long as the block runs."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


def failures(printed: str) -> set[str]:
    """Return the tests that pytest's summary names as failed or in error."""
    return set(re.findall(r"^(?:FAILED|ERROR) (\S+)", printed, flags=re.MULTILINE))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
