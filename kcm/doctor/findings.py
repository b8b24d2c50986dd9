"""Findings of `kcm doctor`, and checks that run side by side, each within its time.

The rule: a check that cannot be made is not well and not ill: it is reported as not measured, with the
reason. One that does not end in time is ill, holds up none of the others, and hides nothing that it
has found until then.
"""

import enum
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kcm.cli.exits import describe


class Level(enum.StrEnum):
    """How a finding is."""

    OK = "ok"
    WARN = "warn"
    """It works, and somebody should check it."""
    FAIL = "fail"
    """Figures are wrong, late or missing because of it."""
    UNKNOWN = "-"
    """It was not measured."""


class Finding(NamedTuple):
    """One line."""

    level: Level
    about: str
    text: str
    todo: str = ""
    """What to do about it; empty where nothing is to be done."""


class ClusterFindings(NamedTuple):
    """What was found at a cluster, and which one it is."""

    findings: list[Finding]
    cluster_id: str | None
    """None: it did not answer, has none, or it may not be read."""


Check = Callable[[], Iterable[Finding]]


def ok(about: str, text: str) -> Finding:
    """Return that something is well."""
    return Finding(Level.OK, about, text)


def warn(about: str, text: str, todo: str) -> Finding:
    """Return that somebody should check something."""
    return Finding(Level.WARN, about, text, todo)


def fail(about: str, text: str, todo: str) -> Finding:
    """Return that something is not well."""
    return Finding(Level.FAIL, about, text, todo)


def unknown(about: str, why: str) -> Finding:
    """Return that something was not measured."""
    return Finding(Level.UNKNOWN, about, f"not measured: {why}")


def run_checks(checks: Mapping[str, Check], deadline_s: float) -> list[Finding]:
    """Run all checks at once, and return what each found in time, in their order."""
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
        is_late = name not in ended  # before its findings are taken: what follows is left out
        results += list(found[name])
        if is_late:
            results.append(fail(name, f"did not end within {deadline_s:g} s", todo))
    return results
