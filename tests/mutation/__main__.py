"""`python -m tests.mutation [FILE...] [--compare] [--write]`: list changes of the code that unit tests miss without a reason.

mutmut changes the code and runs the tests: of all files afresh, or of the given ones only. A change
that the tests missed needs a reason in `reasons.toml`, and each reason needs such a change. One
without the other is printed, and the exit code is 1. --compare takes the results that earlier runs
left in `mutants`. --write makes docs/mutants.md from both, for what was run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.mutants import NOT_RUN, read_mutants
from tests.mutation.page import mutants_page
from tests.mutation.reasons import read_reasons, without_change, without_reason

PAGE = Path("docs/mutants.md")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run mutmut, then compare the missed changes with the reasons, for all files or for these."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("files", nargs="*", metavar="FILE", help="as pyproject.toml names them")
    parser.add_argument("--compare", action="store_true", help="compare only; run nothing")
    parser.add_argument("--write", action="store_true", help="write docs/mutants.md")
    options = parser.parse_args(arguments)
    files: list[str] = options.files
    if not options.compare and (code := _mutate(files)):
        return code
    mutants = [each for each in read_mutants() if not files or each.file in files]
    reasons = [each for each in read_reasons() if not files or each.file in files]
    problems = [
        *(
            f"missed without a reason ({each.status}): {each.name}\n    {each.change}"
            for each in without_reason(mutants, reasons)
        ),
        *(
            f"a reason without a change: {file}: {change}"
            for file, change in without_change(mutants, reasons)
        ),
    ]
    not_run = Counter(each.file for each in mutants if each.status == NOT_RUN)
    if not options.write:
        problems += [f"not run: {number} of {file}" for file, number in not_run.items()]
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    if options.write and not problems:
        PAGE.write_text(mutants_page(mutants, reasons), encoding="utf-8")
    return 1 if problems else 0


def _mutate(files: Sequence[str]) -> int:
    """Let mutmut change these files, or, afresh, all; return its exit code, 0 whatever the tests missed."""
    if not files:
        shutil.rmtree("mutants", ignore_errors=True)
    programs = Path(sys.executable).parent
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"  # mutmut calls mypy by its name
    names = [f"{file.removesuffix('.py').replace('/', '.')}.*" for file in files]
    command = [str(programs / "mutmut"), "run", *names]
    return subprocess.run(command, env={**os.environ, "PATH": path}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
