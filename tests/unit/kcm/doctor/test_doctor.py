"""The lines of `kcm doctor`."""

from __future__ import annotations

from kcm.doctor.doctor import lines
from kcm.doctor.findings import fail, ok, unknown, warn


def test_lines_stand_in_columns_and_are_counted() -> None:
    """One line each: the level first, what to do last; colours only for a terminal."""
    findings = [ok("kcm", "0.1"), warn("java", "old", "install 17"), unknown("x", "away")]
    findings.append(fail("zookeeper", "down", "start it"))
    assert list(lines(findings, coloured=False)) == [
        "ok    kcm        0.1",
        "warn  java       old -> install 17",
        "-     x          not measured: away",
        "fail  zookeeper  down -> start it",
        "1 ok, 1 warn, 1 fail, 1 not measured",
    ]
    assert "\x1b" in next(iter(lines(findings, coloured=True)))
