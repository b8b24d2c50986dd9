"""Measure how long `kcm backtest` takes on an hour of a cluster, as a user waits for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from bench import machine
from bench.figures import judged
from bench.load import LogLoad, messages
from controller_model.records.changes import ZnodeChange
from dashboards.__main__ import FOLDER

SUMMARY = "kcm backtest of the shipped rules: seconds for an hour of 10,000 partitions"

TOPICS = 1_000
PARTITIONS = 10
BROKERS = 12
HOUR_S = 3_600
CHANGES_PER_S = 10
HEARTBEAT_S = 10
GONE_S = range(600, 2_400)
"""While a broker is down: its partitions have problems, and the worst topics are searched for."""
BEGAN_MS = 1_795_251_600_000


def measure() -> dict[str, Any]:
    """Write an hour of a log, and run the command on it as a shell does."""
    rules = FOLDER / "rules" / "kafka-controller-monitor.yaml"
    with tempfile.TemporaryDirectory(prefix="kcm-bench-") as folder:
        log = Path(folder) / "changes.jsonl"
        with log.open("wb") as file:
            file.writelines(message + b"\n" for message in messages(_hour()))
        command = [sys.executable, "-P", "-m", "kcm", "backtest", str(rules), str(log), "--json"]
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: S603  # our own program
            assert process.stdout is not None  # noqa: S101  # it is a pipe
            printed = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
            took_s = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    found = json.loads(printed)
    return {
        "scenario": "backtest",
        "figures": judged(backtest_hour=round(took_s, 1)),
        "partitions": TOPICS * PARTITIONS,
        "brokers": BROKERS,
        "scrapes": found["scrapes"],
        "samples": found["samples"],
        "seconds": round(took_s, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "fired": sorted({each["alert"] for each in found["alerts"]}),
        "incidents": len(found["incidents"]),
        "machine": machine.describe(),
    }


def _hour() -> Iterator[ZnodeChange]:
    load = LogLoad(
        "bench", topics=TOPICS, partitions=PARTITIONS, brokers=BROKERS, began_ms=BEGAN_MS
    )
    yield from load.resync()
    first_s = (
        TOPICS * (PARTITIONS + 1) // 1000 + 1
    )  # the resync's own changes are a millisecond apart
    for second in range(first_s, HOUR_S):
        at = BEGAN_MS + second * 1000
        if second in {GONE_S.start, GONE_S.stop}:
            yield _at(at, load.broker(0, live=second == GONE_S.stop))
        for change in load.changes(CHANGES_PER_S):
            yield _at(at, change)
        if second % HEARTBEAT_S == 0:
            yield load.heartbeat(at)


def _at(at: int, change: ZnodeChange) -> ZnodeChange:
    return msgspec.structs.replace(change, observed_at=at)
