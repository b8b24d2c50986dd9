"""What the check of `python -m tests.mutation` accepts: a missed change with its reason, and nothing else."""

from __future__ import annotations

from tests.mutation.mutants import NOT_RUN, REJECTED, Mutant
from tests.mutation.page import mutants_page
from tests.mutation.reasons import Reason, read_reasons, without_change, without_reason

FILE = "a/b.py"
KILLED = Mutant("a.b.x_f__mutmut_1", FILE, "killed", "")
TYPED = Mutant("a.b.x_f__mutmut_2", FILE, REJECTED, "")
MISSED = Mutant("a.b.x_f__mutmut_3", FILE, "survived", "f: x = 1 => x = 2")
UNTESTED = Mutant("a.b.x_g__mutmut_1", FILE, "no tests", "g: return (y) => return (z)")
WAITING = Mutant("a.b.x_g__mutmut_2", FILE, NOT_RUN, "")
MUTANTS = [KILLED, TYPED, MISSED, UNTESTED, WAITING]


def reason(*changes: str, file: str = FILE) -> Reason:
    """Return a reason for these changes."""
    return Reason(file, "The same.", changes)


def test_only_missed_mutants_need_a_reason() -> None:
    """Code that no test reaches counts as missed; a change that was not run may still be noticed."""
    assert without_reason(MUTANTS, []) == [MISSED, UNTESTED]
    assert without_reason(MUTANTS, [reason(MISSED.change), reason(UNTESTED.change)]) == []


def test_a_reason_matches_one_file_and_the_whole_change() -> None:
    """Letter by letter, except where … matches anything."""
    for wrong in ("f: x = 1", "x = 1 => x = 2", "f: x = . => x = 2", "f: x = 1 => x = 3"):
        assert MISSED in without_reason(MUTANTS, [reason(wrong)])
    assert MISSED in without_reason(MUTANTS, [reason(MISSED.change, file="a/c.py")])
    for right in ("f: x = 1 => x = 2", "f: …", "…: x = … => …"):
        assert MISSED not in without_reason(MUTANTS, [reason(right)])
    assert UNTESTED not in without_reason(MUTANTS, [reason("g: …(y) => …(z)")])


def test_a_reason_without_a_matching_mutant_is_reported() -> None:
    """Each change is checked separately: one that the tests notice needs no reason."""
    assert without_change(MUTANTS, [reason(MISSED.change, "f: y => z")]) == [(FILE, "f: y => z")]
    assert without_change(MUTANTS, [reason("…", file="a/c.py")]) == [("a/c.py", "…")]


def test_the_page_counts_each_file_and_gives_each_reason_its_places() -> None:
    """A change that mypy rejects counts as noticed, and is counted separately."""
    page = mutants_page([KILLED, TYPED, MISSED, UNTESTED], [reason("f: …"), reason("g: …")])
    assert "in 4 small ways" in page
    assert "50.0 %" in page
    assert "| `a/b.py` | 4 | 1 | 1 | 2 |" in page
    assert "Not run" not in page
    assert page.endswith("| 1 | `f` | The same. |\n| 1 | `g` | The same. |\n")


def test_the_page_lists_mutants_that_were_not_run() -> None:
    """It counts as neither noticed nor missed."""
    page = mutants_page([KILLED, WAITING], [])
    assert "in 1 small ways" in page
    assert "Not run when this page was made: 1 of `a/b.py`." in page


def test_the_reasons_are_readable_and_say_something() -> None:
    """Their files exist in this repository."""
    reasons = read_reasons()
    assert reasons
    for each in reasons:
        assert each.why.endswith(".")
        assert each.changes
