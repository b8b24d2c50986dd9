"""Statements are deleted one at a time, and those that no test misses are reported."""

from pathlib import Path

import pytest

from tools.delete_statements import main
from tools.delete_statements_code import statements, without

CODE = """class Counter:
    def __init__(self) -> None:
        self.total = 0
        self.last = 0

    def add(self, step):
        self.total += step or STEP
        return self.total

    def reset(self):
        self.total = 0


STEP = 2
UNUSED = 3

import functools


@functools.cache
def names():
    found = ["a"]
    found.append("b")
    return found
"""
TESTS = """from tiny.counter import Counter, names


def test_there_are_names():
    assert names()


def test_each_name_is_there():
    assert names() == ["a", "b"]


def test_a_counter_counts_in_steps():
    counter = Counter()
    assert [counter.add(0), counter.add(1)] == [2, 3]
"""
SURVIVORS = {
    "tiny/counter.py:4 Counter.__init__: self.last = 0",
    "tiny/counter.py:11 Counter.reset: self.total = 0",
    "tiny/counter.py:15 UNUSED = 3",
}
TESTS_ON_SERVERS = """from tiny.counter import Counter


def test_a_counter_is_reset():
    counter = Counter()
    counter.add(3)
    counter.reset()
    assert counter.total == 0
"""
KINDS = '''"""A module."""

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    X = 1
log = logging.getLogger("tiny")
Pair = tuple[int, int]
__all__ = ["f"]


def f(a: int) -> Pair:
    """Return a pair."""
    log.info("called")
    get_logger("tiny").info("called", a=a)
    b: int
    if (
        a
        > 1
    ):
        b = sum(
            (a, a)
        )
    elif a:
        for b in range(a):
            if b:
                continue
    else:
        b = 1

    def inner() -> Pair:
        if a:
            return a, b
        return None

    return inner()
'''


@pytest.mark.full  # a dozen Python processes, one after another
def test_what_no_test_misses_is_reported_until_it_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lost reset, a line that no test reaches and an unused constant survive; a stale explanation is told.

    What a function keeps hides from no test but the first what made it.
    Tests on real servers miss the reset, where they are named.
    """
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "counter.py").write_text(CODE)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_counter.py").write_text(TESTS)
    (tmp_path / "survivors.toml").write_text(
        '[[survivors]]\npath = "tiny/counter.py"\nstatement = "UNUSED = 3"\nreason = "It is said."\n'
        '[[survivors]]\npath = "tiny/counter.py"\nstatement = "STEP = 2"\nreason = "No."\n'
    )
    arguments = ["--package", "tiny", "--seed", "1", "--jobs", "1", "--tests", "tests"]
    assert main(arguments, tmp_path) == 1
    told = capsys.readouterr().out.splitlines()
    found = {line.partition(" (")[0] for line in told if line.startswith("tiny/counter.py:")}
    assert found >= SURVIVORS
    assert sum("WITHOUT AN EXPLANATION" in line for line in told) == len(SURVIVORS) - 1
    assert "tiny/counter.py: explained, but a test fails without it: STEP = 2" in told
    assert "10 statements deleted: 7 killed, 1 not covered, 2 survived; 30.0%" in told[-1]
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "test_counter.py").write_text(TESTS_ON_SERVERS)
    with (tmp_path / "survivors.toml").open("a") as file:
        file.write(
            '[[on_servers]]\npaths = ["tiny/counter.py"]\ntests = ["servers/test_counter.py"]\n'
        )
    assert main(arguments, tmp_path) == 1
    told = capsys.readouterr().out.splitlines()
    assert "10 statements deleted: 8 killed, 2 survived; 20.0%" in told[-1]


def test_what_no_test_can_notice_is_not_deleted() -> None:
    """Docstrings, imports, log calls, bare annotations, types' names, definitions; a compound statement is one, too."""
    assert [(each.line, each.header[1], each.name) for each in statements("kinds.py", KINDS)] == [
        (8, 8, "log = logging.getLogger('tiny')"),
        (18, 21, "f: if a > 1:"),
        (22, 24, "f: b = sum((a, a))"),
        (25, 25, "f: if a:"),
        (26, 26, "f: for b in range(a):"),
        (27, 27, "f: if b:"),
        (30, 30, "f: b = 1"),
        (33, 33, "f.inner: if a:"),
        (34, 34, "f.inner: return (a, b)"),
        (37, 37, "f: return inner()"),
    ]


@pytest.mark.parametrize("place", range(10))
def test_each_deletion_compiles_and_keeps_the_other_lines(place: int) -> None:
    """The statement's lines alone are changed."""
    statement = statements("kinds.py", KINDS)[place]
    changed = without(KINDS, statement)
    compile(changed, "kinds.py", "exec")
    pairs = zip(KINDS.split("\n"), changed.split("\n"), strict=True)
    differ = [line for line, (old, new) in enumerate(pairs, start=1) if old != new]
    assert differ == list(range(statement.line, statement.last_line + 1))
