"""Read mutmut's changes of the code and the tests' verdicts from its folder `mutants`."""

from __future__ import annotations

from typing import NamedTuple

from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files
from mutmut.utils.format_utils import orig_function_and_class_names_from_key

REJECTED = "caught by type check"
NOTICED = frozenset({"killed", "timeout", "segfault", REJECTED})
NOT_RUN = "not checked"


class Mutant(NamedTuple):
    """A change of the code, and the tests' verdict."""

    name: str
    """The name that `mutmut run NAME` takes."""
    file: str
    status: str
    """mutmut's word: killed, survived, timeout, no tests, …"""
    change: str
    """The function, and the line before and after; empty for a change that was noticed."""


def read_mutants() -> list[Mutant]:
    """Return all mutants of the last runs, in the order of files and functions."""
    found: list[Mutant] = []
    for path in walk_mutatable_files():
        data = SourceFileMutationData(path=path)
        data.load()
        for name, exit_code in data.exit_code_by_key.items():
            status = status_by_exit_code[exit_code]
            lives = status not in NOTICED and status != NOT_RUN
            change = change_of(name, get_diff_for_mutant(name, path=path)) if lives else ""
            found.append(Mutant(name, str(path), status, change))
    return found


def change_of(name: str, diff: str) -> str:
    r"""Return a change in the form of the reasons, which does not depend on the file's other lines.

    >>> change_of("a.b.xǁCǁf__mutmut_1", "--- a\n+++ a\n@@ -1 +1 @@\n-    x = 1\n+    x = 2\n     y")
    'C.f: x = 1 => x = 2'
    """
    function, owner = orig_function_and_class_names_from_key(name)
    lines = diff.splitlines()[2:]
    before, after = (
        " ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+"
    )
    where = f"{owner}.{function}" if owner else function
    return f"{where}: {before} => {after}"
