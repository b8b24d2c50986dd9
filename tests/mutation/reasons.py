"""The reasons why changes of the code may be missed (`reasons.toml`), compared with the missed ones."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.mutation.mutants import NOT_RUN, NOTICED, Mutant

REASONS = Path(__file__).with_name("reasons.toml")


class Reason(NamedTuple):
    """Why the tests may miss some changes of one file."""

    file: str
    why: str
    changes: tuple[str, ...]
    """In the form of `Mutant.change`; … stands for anything."""

    def covers(self, mutant: Mutant) -> bool:
        """Return whether it is a reason for this mutant."""
        return mutant.file == self.file and any(matches(each, mutant) for each in self.changes)


def read_reasons() -> list[Reason]:
    """Return the reasons in the order of their file."""
    written = tomllib.loads(REASONS.read_text(encoding="utf-8"))["reasons"]
    return [Reason(each["file"], each["why"], tuple(each["changes"])) for each in written]


def matches(change: str, mutant: Mutant) -> bool:
    """Return whether a reason's change is this mutant's.

    >>> matches("f: x = … => …", Mutant("n", "a.py", "survived", "f: x = 1 => x = 2"))
    True
    """
    pattern = ".*".join(re.escape(part) for part in change.split("…"))
    return re.fullmatch(pattern, mutant.change) is not None


def without_reason(mutants: Iterable[Mutant], reasons: Iterable[Reason]) -> list[Mutant]:
    """Return the mutants that were missed without a reason."""
    missed = (each for each in mutants if each.status not in {*NOTICED, NOT_RUN})
    reasons = list(reasons)
    return [each for each in missed if not any(reason.covers(each) for reason in reasons)]


def without_change(mutants: Iterable[Mutant], reasons: Iterable[Reason]) -> list[tuple[str, str]]:
    """Return the file and the change of each reason that no longer has a surviving mutant."""
    mutants = list(mutants)
    return [
        (reason.file, change)
        for reason in reasons
        for change in reason.changes
        if not any(
            each.change and each.file == reason.file and matches(change, each) for each in mutants
        )
    ]
