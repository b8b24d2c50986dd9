"""Findings of `kcm doctor`, and checks that run in parallel, each with a time limit.

A check that cannot be made has neither passed nor failed: it is reported as not measured,
with the reason. A check that does not end in time fails, delays no other check, and keeps what it
has found so far.
"""

import enum
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kcm.cli.exits import describe


class Level(enum.StrEnum):
    """The level of a finding."""

    OK = "ok"
    WARN = "warn"
    """It works, but somebody should check it."""
    FAIL = "fail"
    """Figures are wrong, late or missing because of it."""
    UNKNOWN = "-"
    """It was not measured."""


class Finding(NamedTuple):
    """One line of the output."""

    level: Level
    about: str
    text: str
    todo: str = ""
    """What to do about it; empty where nothing need be done."""


class ClusterFindings(NamedTuple):
    """The findings about a cluster, and the cluster's id."""

    findings: list[Finding]
    cluster_id: str | None
    """None: the cluster did not answer, has no id, or the id may not be read."""


Check = Callable[[], Iterable[Finding]]


def ok(about: str, text: str) -> Finding:
    """Return a finding that something is well."""
    return Finding(Level.OK, about, text)


def warn(about: str, text: str, todo: str) -> Finding:
    """Return a finding that somebody should check something."""
    return Finding(Level.WARN, about, text, todo)


def fail(about: str, text: str, todo: str) -> Finding:
    """Return a finding that something is wrong."""
    return Finding(Level.FAIL, about, text, todo)


def unknown(about: str, why: str) -> Finding:
    """Return a finding that something was not measured."""
    return Finding(Level.UNKNOWN, about, f"not measured: {why}")


def run_checks(checks: Mapping[str, Check], deadline_s: float) -> list[Finding]:
    """Run all checks at once; return what each found in time, in the order of the checks."""
    found: dict[str, list[Finding]] = {name: [] for name in checks}
    ended: set[str] = set()

    def run(name: str, check: Check) -> None:
        try:
            for finding in check():
                found[name].append(finding)
        except Exception as error:  # noqa: BLE001  # a check of ours that breaks must not hide the others
            found[name].append(fail(name, describe(error)[0], "the other lines may say why"))
        ended.add(name)

    threads = [
        threading.Thread(target=run, args=each, name=each[0], daemon=True)
        for each in checks.items()
    ]
    ends_at_s = time.monotonic() + deadline_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, ends_at_s - time.monotonic()))
    todo = "something there does not answer; --timeout waits longer"
    results = []
    for name in checks:
        is_late = name not in ended  # read before its findings: later ones are left out
        results += list(found[name])
        if is_late:
            results.append(fail(name, f"did not end within {deadline_s:g} s", todo))
    return results
