"""Delete statements of the product, one at a time, and list those that no test misses.

    python -m tools.delete_statements [--package PACKAGE ...] [--sample 300] [--seed N] [--jobs 2]

Of each package's statements (`delete_statements_code` says which can be deleted) a sample is drawn by a seed, which
is printed. Each is deleted in a copy of the tree, and the unit tests, property tests and pinned seeds of the
simulation that execute it are run, the fastest first, up to the first failure:

- killed: a test failed, or the tests no longer end (timeout);
- survived: all of them passed, or there are none (not covered).

What survives in a file that survivors.toml lists under `on_servers` (code that only a JVM of Spark runs, say) is deleted
once more before the tests on real servers that are named there.

Which test executes which line is learned once by running all tests under coverage, and kept in mutants/statements
(git ignores it) until a file of the product or the tests changes. A statement that runs while its module is imported
is tried in fresh processes, and so is each survivor again; the others are tried in forks of a process that has
imported everything (`delete_statements_tests`).

Survivors are explained in survivors.toml: path, statement, reason. An explanation of a statement that is gone, or
whose deletion fails a test, is stale. Exits with 1 if more than 3 % survive, one survives without an explanation, or an
explanation is stale. A package takes from some minutes to an hour.
"""

import argparse
import hashlib
import json
import os
import queue
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, Self

from coverage import CoverageData

from tools import delete_statements_tests
from tools.delete_statements_code import Statement, statements, without
from tools.delete_statements_tests import KILLED, SURVIVED, TIMEOUT, UNFIT

ROOT = Path(__file__).parents[1]
EXPLANATIONS = Path(__file__).with_name("survivors.toml")
PACKAGES = (
    "controller_model",
    "source_log",
    "zk_source",
    "streaming",
    "exporter",
    "web",
    "rehearsal",
    "kcm/elect",
)
TESTS = ("tests/unit", "tests/property")
NOT_RUN = (
    "tests/property/test_simulation.py",  # its seeds are run one by one
    "tests/unit/bench",
    "tests/unit/tools",
)
SEEDS = 30
"""Seeds of the simulation, each a test of its own: the first ones."""
MAX_SURVIVING_SHARE = 0.03
BUDGET_S = 60.0
"""The tests of one deletion, by their processor time under coverage: beyond it, the slowest are not run."""

_SEEDS_FILE = "tests/property/test_pinned_seeds.py"
_SEEDS_SOURCE = f'''"""Each seed of the simulation keeps its invariants."""

import pytest

from tests.simulation.play import play


@pytest.mark.parametrize("seed", range({SEEDS}))
def test_a_seed_breaks_no_invariant(seed: int) -> None:
    """Nothing that must always hold is broken."""
    assert play(seed).broken is None
'''
_RUNNER = str(Path(delete_statements_tests.__file__).resolve())
_NOT_COVERED = "not covered"
_PROGRESS_EVERY = 25
_LEAST_LIMIT_S = 15
_START_S = 60
"""Limits of time are these, and ten times what the tests took of a processor under coverage."""
_SERVERS_S = 600
"""The limit of the tests on real servers, whose own deadlines end before it."""


class Outcome(NamedTuple):
    """What became of a deletion."""

    statement: Statement
    result: str
    by: str = ""
    """The test that failed, or how many passed."""

    @property
    def survived(self) -> bool:
        """Whether no test noticed it."""
        return self.result in (SURVIVED, _NOT_COVERED)


class OnServers(NamedTuple):
    """Tests on real servers for files whose code needs these."""

    paths: list[str]
    tests: list[str]
    """Files or ids of tests."""


class Explanation(NamedTuple):
    """Why a statement may be deleted without a failing test."""

    path: str
    statement: str
    """In the form of `Statement.name`."""
    reason: str


# --- the copy of the tree -------------------------------------------------------------------


def _files(root: Path) -> list[str]:
    """Return what git tracks or would add; outside of a repository, all Python files."""
    if not (root / ".git").exists():
        return [str(path.relative_to(root)) for path in root.rglob("*.py")]
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],  # noqa: S607  # whichever git is on the path
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return [path for path in listed.stdout.splitlines() if (root / path).is_file()]


def _copy(root: Path, copy: Path) -> None:
    for path in _files(root):
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, copy / path)
    if (copy / "tests/simulation/play.py").exists():
        (copy / _SEEDS_FILE).write_text(_SEEDS_SOURCE, encoding="utf-8")


def _environment(copy: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(copy), "PYTHONHASHSEED": "0"}


# --- which test covers what -----------------------------------------------------------------


@dataclass
class CoverageMap:
    """Which tests execute which lines, and how long each takes."""

    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    _lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what `make_map` wrote."""
        made = cls(folder)
        for part in sorted(folder.glob("*.json")):
            told = json.loads(part.read_text())
            made.seconds |= told["seconds"]
            made.failed |= set(told["failed"])
        return made

    def lines(self, path: str) -> dict[int, set[str]]:
        """Return the tests by line of a file; an empty one stands for the import of modules."""
        with self._lock:
            if path not in self._lines:
                found: dict[int, set[str]] = {}
                for part in sorted(self.folder.glob("*.coverage")):
                    data = CoverageData(str(part))
                    data.read()
                    for line, tests in data.contexts_by_lineno(path).items():
                        found.setdefault(line, set()).update(tests)
                self._lines[path] = found
            return self._lines[path]

    def tests_of(self, statement: Statement, importers: Iterable[str]) -> tuple[list[str], bool]:
        """Return the tests of a statement, the fastest first, and whether it runs during an import.

        For one that runs only then: those of its file's functions, or else of the files that import it.
        """
        lines = self.lines(statement.path)
        first, last = statement.header
        tests = {test for line in range(first, last + 1) for test in lines.get(line, ())}
        is_imported = "" in tests
        if is_imported and tests == {""}:
            tests = {test for each in lines.values() for test in each}
            for path in importers if tests == {""} else ():
                tests |= {test for each in self.lines(path).values() for test in each}
        usable = (tests - self.failed) & self.seconds.keys()
        in_order = sorted(usable, key=lambda test: (self.seconds[test], test))
        left = BUDGET_S
        within: list[str] = []
        for test in in_order:
            left -= self.seconds[test]
            if within and left < 0:
                break
            within.append(test)
        return within, is_imported


def make_map(
    root: Path, packages: Sequence[str], tests: Sequence[str], jobs: int, say: Callable[[str], None]
) -> CoverageMap:
    """Run the tests under coverage, or read what an earlier run on the same files has learned."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(path for path in _files(root) if path.endswith((".py", ".toml"))):
        if not path.startswith(("tools/", *NOT_RUN)):
            digest.update(path.encode() + (root / path).read_bytes())
    digest.update(json.dumps([packages, tests, _SEEDS_SOURCE]).encode())
    folder = root / "mutants" / "statements" / digest.hexdigest()
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        began = time.monotonic()
        say("running the tests once under coverage")
        with ExitStack() as stack:
            runs = []
            for number in range(jobs):
                copy = stack.enter_context(_copied(root))
                # In the order of folders: otherwise pytest may not find the fixtures of a folder that it has left.
                part = sorted(_test_files(copy, tests)[number::jobs])
                if part:
                    runs.append(_start_map(copy, folder / f"{number}.json", packages, part))
            for run in runs:
                run.wait()
        known = CoverageMap.read(folder)
        if not known.seconds:
            raise SystemExit(f"no test ran: see {folder}/*.log")
        (folder / "done").touch()
        say(f"{len(known.seconds)} tests in {time.monotonic() - began:.0f} s")
    known = CoverageMap.read(folder)
    say(
        f"{len(known.seconds)} tests, of which {len(known.failed)} failed or were skipped: not used"
    )
    return known


def _test_files(copy: Path, tests: Sequence[str]) -> list[str]:
    """Return the files of tests, the largest first, so that they can be dealt out."""
    found = {
        path.relative_to(copy).as_posix(): path.stat().st_size
        for test in tests
        for path in ([copy / test] if test.endswith(".py") else (copy / test).rglob("test_*.py"))
    }
    left_out = tests_left_out(tests)
    run = [path for path in found if not path.startswith(left_out)]
    return sorted(run, key=lambda path: (-found[path], path))


def tests_left_out(tests: Sequence[str]) -> tuple[str, ...]:
    """Return what of `NOT_RUN` nobody asked for by name."""
    return tuple(path for path in NOT_RUN if not any(test.startswith(path) for test in tests))


def _start_map(
    copy: Path, result: Path, packages: Sequence[str], tests: Sequence[str]
) -> "subprocess.Popen[bytes]":
    with result.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603  # our own program
            [sys.executable, "-P", _RUNNER, "map", str(result), ",".join(packages), *tests],
            cwd=copy,
            env=_environment(copy),
            stdout=log,
            stderr=subprocess.STDOUT,
        )


@contextmanager
def _copied(root: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="deleted-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder).resolve() / "tree"
        _copy(root, copy)
        yield copy


# --- trying deletions -----------------------------------------------------------------------


class Worker:
    """Tries deletions one after another, in a copy of the tree of its own."""

    def __init__(self, copy: Path, seconds: Mapping[str, float], tests: Sequence[str]) -> None:
        self._copy = copy
        self._seconds = seconds
        self._environment = _environment(copy)
        self._sound: set[str] = set()
        """Tests that have passed in a fork without a deletion."""
        self._unsound: set[str] = set()
        asked, asking = os.pipe()
        telling, told = os.pipe()
        self._log = (copy.parent / "worker.log").open("wb")
        temporary = f"--basetemp={copy.parent / 'forks'}"
        self._server = subprocess.Popen(  # noqa: S603  # our own program
            [sys.executable, "-P", _RUNNER, "serve", str(asked), str(told), temporary, *tests],
            cwd=copy,
            env=self._environment,
            pass_fds=(asked, told),
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        os.close(asked)
        os.close(told)
        self._requests, self._answers = os.fdopen(asking, "w"), os.fdopen(telling)
        self._read()

    def close(self) -> None:
        """End the server."""
        self._requests.close()
        self._server.wait(60)
        self._answers.close()
        self._log.close()

    def _read(self) -> tuple[str, str]:
        line = self._answers.readline()
        if not line:
            raise RuntimeError(f"the tests' server has ended: {self._tail()}")
        outcome, about = json.loads(line)
        return outcome, about

    def _tail(self) -> str:
        return (self._copy.parent / "worker.log").read_text(errors="replace")[-2000:]

    def _fork(self, statement: Statement | None, source: str, tests: list[str]) -> tuple[str, str]:
        request = {
            "path": statement.path if statement else "",
            "source": source,
            "function": statement.function if statement else None,
            "tests": tests,
            "limits_s": {test: _LEAST_LIMIT_S + 10 * self._seconds[test] for test in tests},
        }
        self._requests.write(json.dumps(request) + "\n")
        self._requests.flush()
        return self._read()

    def attempt(self, statement: Statement, tests: list[str], *, is_imported: bool) -> Outcome:
        """Delete a statement and run tests."""
        if not tests:
            return Outcome(statement, _NOT_COVERED)
        path = self._copy / statement.path
        original = path.read_text(encoding="utf-8")
        source = without(original, statement)
        try:
            compile(source, statement.path, "exec", dont_inherit=True)
        except SyntaxError as error:  # as `await` outside of what is left
            return Outcome(statement, KILLED, f"it does not compile: {error}")
        if statement.function is not None:
            outcome = self._attempt_in_fork(statement, source, tests)
            if outcome is not None and not outcome.survived:
                return outcome
        outcome = self._attempt_afresh(
            statement, source, tests, _START_S + 10 * sum(map(self._seconds.__getitem__, tests))
        )
        if outcome.survived and is_imported:
            return outcome._replace(by=f"{outcome.by}, while it is imported")
        return outcome

    def attempt_on_servers(self, statement: Statement, tests: list[str]) -> Outcome:
        """Delete a statement and run tests on real servers."""
        original = (self._copy / statement.path).read_text(encoding="utf-8")
        return self._attempt_afresh(statement, without(original, statement), tests, _SERVERS_S)

    def _attempt_in_fork(
        self, statement: Statement, source: str, tests: list[str]
    ) -> Outcome | None:
        """Return the outcome; None if the function cannot be replaced while it runs."""
        while True:
            usable = [test for test in tests if test not in self._unsound]
            result, test = self._fork(statement, source, usable)
            if result == UNFIT:
                return None
            if result == SURVIVED or test in self._sound or not test:
                return Outcome(statement, result, test)
            alone, _ = self._fork(None, "", [test])
            (self._sound if alone == SURVIVED else self._unsound).add(test)

    def _attempt_afresh(
        self, statement: Statement, source: str, tests: list[str], limit_s: float
    ) -> Outcome:
        path = self._copy / statement.path
        original = path.read_text(encoding="utf-8")
        chosen = self._copy.parent / "tests.txt"
        chosen.write_text("\n".join(tests), encoding="utf-8")
        options = [
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            f"--basetemp={self._copy.parent / 'fresh'}",
        ]
        _forget_compiled(path)
        path.write_text(source, encoding="utf-8")
        try:
            run = subprocess.Popen(  # noqa: S603  # pytest
                [sys.executable, "-m", "pytest", *options, f"@{chosen}"],
                cwd=self._copy,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            try:
                out, _ = run.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, 9)
                run.communicate()
                return Outcome(statement, TIMEOUT)
        finally:
            path.write_text(original, encoding="utf-8")
            _forget_compiled(path)
        if run.returncode == 0:
            return Outcome(statement, SURVIVED, f"{len(tests)} tests")
        failed = next(
            (line for line in out.splitlines() if line.startswith(("FAILED", "ERROR"))), ""
        )
        return Outcome(statement, KILLED, failed or out[-200:].strip())


def _forget_compiled(path: Path) -> None:
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink(missing_ok=True)


def importers(root: Path, packages: Iterable[str]) -> dict[str, list[str]]:
    """Return by file the files of the packages that import it, by the names of modules in their text."""
    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
    }
    modules = {path: path.removesuffix(".py").replace("/", ".") for path in texts}
    return {
        path: [
            other
            for other, text in texts.items()
            if f"from {module} import" in text or f"import {module}\n" in text
        ]
        for path, module in modules.items()
    }


# --- the whole run --------------------------------------------------------------------------


def draw(root: Path, package: str, *, sample: int, seed: int) -> tuple[list[Statement], int]:
    """Return a sample of a package's statements in the order of files, and how many it has."""
    found = [
        statement
        for path in sorted((root / package).rglob("*.py"))
        for statement in statements(
            path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        )
    ]
    # S311: a draw that can be repeated, not a secret
    drawn = random.Random(f"{seed}/{package}").sample(found, min(sample, len(found)))  # noqa: S311
    return sorted(drawn, key=attrgetter("path", "line", "column")), len(found)


def run(
    root: Path,
    packages: Sequence[str],
    tests: Sequence[str],
    on_servers: Iterable[OnServers],
    *,
    sample: int,
    seed: int,
    jobs: int,
    say: Callable[[str], None],
) -> list[Outcome]:
    """Try a sample of each package; return the outcomes in the order of files."""
    tests_on_servers = {path: each.tests for each in on_servers for path in each.paths}
    measured = sorted({*packages, *(each for each in PACKAGES if (root / each).is_dir())})
    covered = make_map(root, measured, tests, jobs, say)
    imported_by = importers(root, packages)
    waiting: queue.SimpleQueue[Statement] = queue.SimpleQueue()
    for package in packages:
        drawn, number = draw(root, package, sample=sample, seed=seed)
        say(f"{package}: {len(drawn)} of {number} statements")
        for statement in drawn:
            waiting.put(statement)
    outcomes: list[Outcome] = []

    def work() -> None:
        with (
            _copied(root) as copy,
            closing(Worker(copy, covered.seconds, sorted(_test_files(copy, tests)))) as worker,
        ):
            while True:
                try:
                    statement = waiting.get_nowait()
                except queue.Empty:
                    return
                covering, is_imported = covered.tests_of(statement, imported_by[statement.path])
                outcome = worker.attempt(statement, covering, is_imported=is_imported)
                if outcome.survived and statement.path in tests_on_servers:
                    outcome = worker.attempt_on_servers(statement, tests_on_servers[statement.path])
                outcomes.append(outcome)
                if len(outcomes) % _PROGRESS_EVERY == 0:
                    say(f"{len(outcomes)} tried")

    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(work) for _ in range(jobs)]:
            done.result()
    in_order = attrgetter("statement.path", "statement.line", "statement.column")
    return sorted(outcomes, key=in_order)


def read_survivors(file: Path) -> tuple[list[Explanation], list[OnServers]]:
    """Return the explanations of survivors and the tests on real servers; none where there is no file."""
    told = tomllib.loads(file.read_text()) if file.exists() else {}
    return (
        [Explanation(**each) for each in told.get("survivors", [])],
        [OnServers(**each) for each in told.get("on_servers", [])],
    )


def stale(
    explanations: Iterable[Explanation],
    outcomes: Sequence[Outcome],
    known: Mapping[str, Sequence[Statement]],
) -> list[str]:
    """Return what is wrong with explanations about files in `known`, whose statements it holds by path."""
    problems = []
    for each in explanations:
        if each.path not in known:
            continue
        meant = [found for found in known[each.path] if found.name == each.statement]
        tried = [o for o in outcomes if o.statement in meant]
        if not meant:
            problems.append(
                f"{each.path}: explained, but there is no such statement: {each.statement}"
            )
        elif len(tried) == len(meant) and not any(o.survived for o in tried):
            problems.append(
                f"{each.path}: explained, but a test fails without it: {each.statement}"
            )
    return problems


def report(
    outcomes: Sequence[Outcome], explanations: Sequence[Explanation], problems: Sequence[str]
) -> tuple[list[str], bool]:
    """Return the lines of the report, and whether all is well."""
    reasons = {(each.path, each.statement): each.reason for each in explanations}
    survivors = [each for each in outcomes if each.survived]
    lines = []
    unexplained = 0
    for each in survivors:
        statement = each.statement
        reason = reasons.get((statement.path, statement.name))
        unexplained += reason is None
        why = f"explained: {reason}" if reason else "WITHOUT AN EXPLANATION"
        what = each.result + (f" {each.by}" if each.by else "")
        lines.append(f"{statement.path}:{statement.line} {statement.name} ({what}; {why})")
    lines += problems
    counts = Counter(each.result for each in outcomes)
    share = len(survivors) / len(outcomes) if outcomes else 0.0
    told = ", ".join(f"{counts[result]} {result}" for result in sorted(counts))
    lines.append(
        f"{len(outcomes)} statements deleted: {told}; {share:.1%} survived, {unexplained} of them "
        f"without an explanation (at most {MAX_SURVIVING_SHARE:.0%} may, all explained)"
    )
    return lines, share <= MAX_SURVIVING_SHARE and not unexplained and not problems


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Try a sample of statements, and print what survived; return 1 if too much did."""
    parser = argparse.ArgumentParser(prog="python -m tools.delete_statements")
    parser.add_argument("--package", action="append", help="a package's folder; all by default")
    parser.add_argument("--sample", type=int, default=300, help="statements of each package")
    parser.add_argument("--seed", type=int, help="draws the sample; printed, a new one by default")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument(
        "--tests", nargs="+", default=list(TESTS), help="files and folders of tests to choose from"
    )
    parser.add_argument("--all", action="store_true", help="also tell which test killed what")
    options = parser.parse_args(arguments)
    packages = options.package or [each for each in PACKAGES if (root / each).is_dir()]
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    began = time.monotonic()

    def say(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:6.0f} s  {text}\n")
        sys.stdout.flush()

    say(f"seed {seed}, {options.sample} statements of each package")
    explanations, on_servers = read_survivors(
        EXPLANATIONS if root == ROOT else root / EXPLANATIONS.name
    )
    outcomes = run(
        root,
        packages,
        options.tests,
        on_servers,
        sample=options.sample,
        seed=seed,
        jobs=options.jobs,
        say=say,
    )
    for each in outcomes if options.all else ():
        place = f"{each.statement.path}:{each.statement.line}"
        sys.stdout.write(f"{place} {each.statement.name} ({each.result} {each.by})\n")
    known = {
        path.relative_to(root).as_posix(): statements(
            path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        )
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
    }
    lines, is_well = report(outcomes, explanations, stale(explanations, outcomes, known))
    for line in lines:
        sys.stdout.write(f"{line}\n")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
