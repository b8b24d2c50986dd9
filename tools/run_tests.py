"""`python -m tools.run_tests test|test-all [PYTEST'S ARGUMENTS]`: run the tests, and leave nothing running.

Pytest runs in a session of its own, so Ctrl-C reaches only this process, which passes it on. Whatever
tests started descends from this process, also after its parents have ended: on Linux it adopts orphans
(a "child subreaper"). When pytest has ended, however that came, everything that is left is ended. The
same happens on SIGTERM, and when `make` is killed. A second Ctrl-C kills everything at once.

The last line says how long it took, and how much of that was set-up: packages, jars and class
archives, which later runs find in place.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

from kcm.servers.class_archive import KAFKA_CLASSES, SPARK_CLASSES, ensure_class_archive
from kcm.servers.guard import (
    ON_LINUX,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    family,
    signal_all,
)
from kcm.servers.jars import ensure_jars
from pipeline.java import find_java
from pipeline.runtime import EnvironmentProblemError
from tests.support.newest_java import newer_java_home
from tools.programs import ensure_helm

PYTEST = [
    *(sys.executable, "-m", "pytest"),
    # Three processes for two cores: tests on servers wait for much of their time. Tests that share
    # servers keep to one process, by groups and in the order that tests/conftest.py gives.
    *("-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder"),
]
SHORT = ["-m", "not full"]
FRESH_SEEDS = [sys.executable, "-m", "tests.simulation", "--fresh", "60"]
"""Seeds of the simulation that nobody has chosen, for a minute: the pinned ones decide, and these find what is next."""
ON_NEWEST_JAVA = [
    "tests/component/servers/test_stack.py",
    "tests/component/watcher/test_watcher_tls.py",
    "tests/component/fold/test_stream.py",
    "tests/component/fold/test_fixed_costs_of_the_jvm.py",
    "tests/component/comparison/test_kafka_codecs.py",
    "tests/system/test_story.py",
]
"""What starts a JVM in each of its uses: servers, TLS, the fold, Kafka's own classes, the whole line with the story."""

INTERRUPT_DEADLINE_S = 30
"""How long pytest may take to end after Ctrl-C: xdist gives its workers 10 s, fixtures stop servers."""
ENDINGS: tuple[tuple[int | None, float], ...] = ((None, 4.0), (signal.SIGTERM, 3.0))
"""What is left when pytest has ended gets time to end by itself, then a SIGTERM, then SIGKILL."""
POLL_S = 0.05


class Run:
    """Commands that run one after the other, until a signal stops them; use it once, in the main thread."""

    def __init__(self) -> None:
        self.stopped_by: int | None = None
        """The first signal that came; None while nobody has stopped it."""
        self._program: int | None = None
        parent = os.getppid()
        if ON_LINUX:
            prctl = ctypes.CDLL(None, use_errno=True).prctl
            prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGALRM, self._kill)
        if os.getppid() != parent:  # it died before the signal was asked for
            self.stopped_by = signal.SIGTERM

    def command(self, command: Sequence[str], **env: str) -> int:
        """Return its exit code, once nothing that it started is left; 128 + signal where a signal ended it."""
        if self.stopped_by is not None:
            return 128 + self.stopped_by
        child = subprocess.Popen(  # noqa: S603  # pytest, with the caller's own arguments
            command, env={**os.environ, **env}, start_new_session=True
        )
        self._program = child.pid
        if self.stopped_by is not None:  # between the question above and the start
            self._stop(self.stopped_by, None)
        while (ended := os.waitpid(-1, 0))[0] != child.pid:
            pass  # an orphan that this process has adopted
        self._program = None
        signal.alarm(0)
        code = child.returncode = os.waitstatus_to_exitcode(ended[1])
        self._end_what_is_left(child.pid)
        return code if code >= 0 else 128 - code

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        again = self.stopped_by is not None and number == signal.SIGINT
        self.stopped_by = self.stopped_by or number
        if again:
            self._kill()
        elif self._program is not None:
            os.killpg(
                self._program, signal.SIGINT
            )  # as a terminal does: pytest, its workers, their children
            signal.alarm(INTERRUPT_DEADLINE_S)

    def _kill(self, *_: object) -> None:
        signal_all(family(-1 if self._program is None else self._program), signal.SIGKILL)

    def _end_what_is_left(self, program: int) -> None:
        """Wait for guards to end what they guard, then end the rest; a new child is found in the next round."""
        for number, grace_s in ENDINGS:
            if number is not None:
                signal_all(family(program), number)
            deadline = time.monotonic() + grace_s
            while family(program):
                if time.monotonic() >= deadline:
                    break
                time.sleep(POLL_S)
        while pids := family(program):
            _say(f"killing what the tests left running: {pids}")
            signal_all(pids, signal.SIGKILL)
            time.sleep(POLL_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests; return pytest's exit code, or 128 + signal after an interruption."""
    parser = argparse.ArgumentParser(prog="python -m tools.run_tests")
    parser.add_argument("what", choices=["test", "test-all"])
    parser.add_argument("--since", type=float, help="when make began, in seconds since 1970")
    options, given = parser.parse_known_args(arguments)
    began = time.time() if options.since is None else options.since
    try:
        if not given:
            _prepare()
    except KeyboardInterrupt:
        code, how, set_up_s = 128 + signal.SIGINT, "interrupted", time.time() - began
    else:
        set_up_s = time.time() - began
        code, how = _test(given, whole=options.what == "test-all")
    took = f"{time.time() - began:.0f} s ({set_up_s:.0f} s of it set-up)"
    _say(f"make {options.what}: {how} {'after' if code else 'in'} {took}")
    return code


def _test(given: list[str], *, whole: bool) -> tuple[int, str]:
    """Run pytest, fresh seeds, and pytest once more on a newer Java after all tests have passed; return the exit code, and how it ended."""
    run = Run()
    code = run.command([*PYTEST, *([] if whole else SHORT), *given])
    if whole and not given:
        run.command(FRESH_SEEDS)
    if whole and not given and code == 0 and (home := newer_java_home()) is not None:
        code = run.command([*PYTEST, *SHORT, *ON_NEWEST_JAVA], JAVA_HOME=str(home))
    if run.stopped_by is not None:
        return 128 + run.stopped_by, "interrupted"
    return code, "passed" if code == 0 else f"FAILED (pytest's exit code {code})"


def _prepare() -> None:
    """Download the jars and helm, and make the class archives, unless they are there."""
    try:
        jars, java = ensure_jars(), find_java(os.environ)
        ensure_class_archive(SPARK_CLASSES, jars.connector, java)
        ensure_class_archive(KAFKA_CLASSES, jars.broker, java)
    except EnvironmentProblemError as error:
        _say(f"{error}: tests on real servers will fail")
    try:
        ensure_helm()
    except EnvironmentProblemError as error:
        _say(f"{error}: tests of the chart will be skipped")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
