"""Runs tests for `delete_statements`, in processes of their own: to learn what each covers, and against deletions.

    python -P delete_statements_tests.py map    RESULT.json PACKAGE,... TESTS...
    python -P delete_statements_tests.py serve  REQUESTS_FD ANSWERS_FD TESTS...

`map` runs the tests once under coverage, with each test as a context, and writes what they cover, how long each
takes and which fail. `serve` imports and collects the tests once; then it forks for each request. The child puts the
code of the changed function in the place of the one that was imported, wherever that is referred to, runs the
tests that were asked for up to the first failure, and ends. So a deletion costs its tests and no start.

This file imports nothing of the project, so that all of the project is imported from the copy it works in.
"""

import functools
import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TextIO

import pytest

SURVIVED, KILLED, TIMEOUT, UNFIT = "survived", "killed", "timeout", "unfit"
"""Answers of `serve`. UNFIT: the function cannot be replaced in a running process."""

_OPTIONS = ("-q", "-x", "-p", "no:cacheprovider", "--capture=sys", "-m", "not full")
_MAPPING_OPTIONS = ("-q", "-p", "no:cacheprovider", "--capture=sys", "-m", "not full")

_Kept = type(functools.cache(len))


class Mapper:
    """A plugin that notes what each test covers."""

    def __init__(self, coverage: Any, packages: Sequence[str]) -> None:
        self._coverage = coverage
        self._roots = {package.partition("/")[0] for package in packages}
        self.seconds: dict[str, float] = {}
        """Of the processor, which a busy machine does not change."""
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Make the test the context of what runs."""
        self._clear_caches()
        self._coverage.switch_context(item.nodeid)
        began = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - began

    def _clear_caches(self) -> None:
        """Let each test compute what functions keep: otherwise only the first one would cover it."""
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in self._roots:
                for each in vars(module).values():
                    if isinstance(each, _Kept):
                        each.cache_clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure: such a test shows nothing about a deletion."""
        if report.failed or report.skipped:
            self.failed.add(report.nodeid)


def run_map(result: Path, packages: Sequence[str], tests: Sequence[str]) -> None:
    """Run the tests; write coverage to `result` + ".coverage" and the times and failures to `result`."""
    from coverage import Coverage  # noqa: PLC0415  # before anything that it measures

    coverage = Coverage(
        data_file=f"{result}.coverage",
        include=[f"{package}/*" for package in packages],
        config_file=False,
        branch=False,
    )
    coverage.set_option("run:relative_files", True)
    coverage.start()
    mapper = Mapper(coverage, packages)
    pytest.main([*_MAPPING_OPTIONS, *tests], plugins=[mapper])
    coverage.stop()
    coverage.save()
    result.write_text(json.dumps({"seconds": mapper.seconds, "failed": sorted(mapper.failed)}))


class Server:
    """A plugin that answers requests instead of running what was collected."""

    def __init__(self, requests: TextIO, answers: TextIO) -> None:
        self._requests = requests
        self._answers = answers

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Answer until there are no more requests."""
        items = {item.nodeid: item for item in session.items}
        self._answer("ready", str(len(items)))
        gc.collect()
        for line in self._requests:
            request = json.loads(line)
            chosen = [items[test] for test in request["tests"] if test in items]
            self._answer(*_in_child(session, chosen, request))
        return True

    def _answer(self, outcome: str, about: str) -> None:
        self._answers.write(json.dumps([outcome, about]) + "\n")
        self._answers.flush()


def _in_child(
    session: pytest.Session, chosen: list[pytest.Item], request: dict[str, Any]
) -> tuple[str, str]:
    """Run tests against a change in a child; return the outcome and the test that showed it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(reading)
        outcome = UNFIT
        try:
            outcome = _run_child(session, chosen, request, writing)
        finally:
            os.write(writing, f"{outcome}\n".encode())
            os._exit(0)
    os.close(writing)
    lines, is_late = _lines_of(reading, request["limits_s"])
    os.close(reading)
    for kill in (os.killpg, os.kill):  # it may not be in a group of its own yet
        with suppress(ProcessLookupError, PermissionError):
            kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    last = lines[-1] if lines else ""
    test = next((line for line in reversed(lines) if "::" in line), "")
    if last in (SURVIVED, KILLED, UNFIT):
        return last, test
    # It ended without a word, as by os._exit or a crash; or it still runs.
    return (TIMEOUT if is_late else KILLED), test


def _run_child(
    session: pytest.Session, chosen: list[pytest.Item], request: dict[str, Any], writing: int
) -> str:
    if request["path"] and not _replace(request["path"], request["source"], *request["function"]):
        return UNFIT
    session.items = chosen
    for item, following in zip(chosen, [*chosen[1:], None], strict=True):
        os.write(writing, f"{item.nodeid}\n".encode())
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return KILLED
    return SURVIVED


def _lines_of(reading: int, limits_s: dict[str, float]) -> tuple[list[str], bool]:
    """Return what a child writes until its end, and whether a test took longer than its limit."""
    read = b""
    lines: list[str] = []
    deadline = time.monotonic() + max(limits_s.values())
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([reading], [], [], left)[0]:
            continue
        piece = os.read(reading, 65536)
        read += piece
        lines = read.decode().splitlines()
        if not piece or lines[-1] in (SURVIVED, KILLED, UNFIT):
            return lines, False
        deadline = time.monotonic() + limits_s.get(lines[-1], 0)
    return lines, True


def _replace(path: str, source: str, name: str, line: int) -> bool:
    """Give a function of the file the code that it has in a changed source; return whether that worked."""
    file = str(Path(path).resolve())
    new = next(_codes(compile(source, file, "exec", dont_inherit=True), name, line), None)
    if new is None:
        return False
    functions = [
        each
        for each in gc.get_objects()
        if isinstance(each, FunctionType)
        and each.__code__.co_filename == file
        and each.__code__.co_qualname == name
        and each.__code__.co_firstlineno == line
    ]
    try:
        for function in functions:
            function.__code__ = new
    except ValueError:
        return False  # another number of free variables, as without the only super()
    return bool(functions)


def _codes(code: CodeType, name: str, line: int) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == name and constant.co_firstlineno == line:
                yield constant
            yield from _codes(constant, name, line)


def serve(requests: int, answers: int, tests: Iterable[str]) -> None:
    """Collect the tests, and answer requests."""
    with os.fdopen(requests) as asked, os.fdopen(answers, "w") as told:
        pytest.main([*_OPTIONS, *tests], plugins=[Server(asked, told)])


if __name__ == "__main__":
    mode, *arguments = sys.argv[1:]
    if mode == "map":
        run_map(Path(arguments[0]), arguments[1].split(","), arguments[2:])
    else:
        serve(int(arguments[0]), int(arguments[1]), arguments[2:])
