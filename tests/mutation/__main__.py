"""`python -m tests.mutation [FILE...] [--write]`: list changes of the code that the unit tests miss without a reason.

The rule: mutmut has changed the code and run the tests (`make mutate`). A change that the tests
missed needs a reason in `reasons.toml`, and each reason needs such a change. One without the other
is printed, and the exit code is 1. --write makes docs/mutants.md from both, for what was run.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from tests.mutation.mutants import NOT_RUN, read_mutants
from tests.mutation.page import mutants_page
from tests.mutation.reasons import read_reasons, without_change, without_reason

PAGE = Path("docs/mutants.md")


def main(arguments: list[str]) -> int:
    """Compare the missed changes with the reasons, for all files or for these."""
    files = [argument for argument in arguments if argument != "--write"]
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
    writes = "--write" in arguments
    if not writes:
        problems += [f"not run: {number} of {file}" for file, number in not_run.items()]
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    if writes and not problems:
        PAGE.write_text(mutants_page(mutants, reasons), encoding="utf-8")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
