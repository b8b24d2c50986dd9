"""`python -m bench NAME [--json FILE]`: run one scenario; `python -m bench list` names them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaException
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from bench import (
    backtest,
    beside,
    brokers,
    cold,
    commands,
    delay,
    fleet,
    kraft,
    look,
    machine,
    patches,
    peers,
    rehearse,
    replay,
    report,
    rest,
    resync,
    scaleout,
    scrape,
    spark_shape,
    storm,
    sweep,
    viewers,
    wire,
)
from bench.compare import comparison
from bench.merge import merged
from pipeline.runtime import KcmError


class Scenario(NamedTuple):
    """One measurement."""

    summary: str
    measure: Callable[..., dict[str, Any]]
    """Takes its options by name."""
    add_options: Callable[[argparse.ArgumentParser], None] = lambda _parser: None
    is_published: bool = True
    """Whether `all` runs it, for the published figures."""


SCENARIOS = {
    "backtest": Scenario(backtest.SUMMARY, backtest.measure),
    beside.NAME: Scenario(beside.SUMMARY, beside.measure, beside.add_options, is_published=False),
    "brokers": Scenario(brokers.SUMMARY, brokers.measure),
    "cold": Scenario(cold.SUMMARY, cold.measure, cold.add_options),
    "commands": Scenario(commands.SUMMARY, commands.measure),
    "delay": Scenario(delay.SUMMARY, delay.measure, delay.add_options),
    "fleet": Scenario(fleet.SUMMARY, fleet.measure),
    "kraft": Scenario(kraft.SUMMARY, kraft.measure, kraft.add_options),
    "look": Scenario(look.SUMMARY, look.measure, look.add_options, is_published=False),
    "patches": Scenario(patches.SUMMARY, patches.measure, patches.add_options, is_published=False),
    "peers": Scenario(peers.SUMMARY, peers.measure, peers.add_options),
    "rehearse": Scenario(rehearse.SUMMARY, rehearse.measure),
    "replay": Scenario(replay.SUMMARY, replay.measure),
    "resync": Scenario(resync.SUMMARY, resync.measure),
    "rest": Scenario(rest.SUMMARY, rest.measure, rest.add_options),
    "scaleout": Scenario(scaleout.SUMMARY, scaleout.measure),
    "scrape": Scenario(scrape.SUMMARY, scrape.measure),
    "spark-shape": Scenario(spark_shape.SUMMARY, spark_shape.measure, spark_shape.add_options),
    "storm": Scenario(storm.SUMMARY, storm.measure, storm.add_options),
    "sweep": Scenario(sweep.SUMMARY, sweep.measure),
    "viewers": Scenario(viewers.SUMMARY, viewers.measure),
    "wire": Scenario(wire.SUMMARY, wire.measure, is_published=False),
}
FAILURES = (KcmError, OSError, KafkaException, KazooException, KazooTimeoutError)
"""Errors of a server that did not do its part; a bug in the benchmark ends a run of all."""
ALL = "every scenario whose figures are published, one after the other (about three hours)"


def main() -> int:
    """Run what the command line names; the result goes to standard output and to --json."""
    options = vars(_parser().parse_args())
    name = options.pop("name")
    if name == "list":
        for each, scenario in SCENARIOS.items():
            print(f"{each:8} {scenario.summary}")
        return 0
    if name == "report":
        return _report(options["results"])
    path, older = options.pop("json"), options.pop("compare")
    is_new = path is not None and not path.exists()
    try:
        before = json.loads(older.read_text()) if older else None
        if path:
            path.touch()  # to fail now rather than after half an hour
        result = _all() if name == "all" else SCENARIOS[name].measure(**options)
        text = json.dumps(result, indent=2)
        print(text)
        if path:
            path.write_text(text + "\n")
    except (*FAILURES, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        if path and is_new:
            path.unlink(missing_ok=True)
        return getattr(error, "exit_code", 1)
    if name == beside.NAME:
        print(comparison(result["other"], result["this"]))
    if before is not None:
        print(comparison(before, result))
    return 1 if result.get("failed") else 0


def _all() -> dict[str, Any]:
    """Run every scenario with its defaults; a failed scenario does not stop the others."""
    results, failed = [], {}
    for name, options in _defaults().items():
        print(f"bench: {name}: {SCENARIOS[name].summary}", file=sys.stderr)
        try:
            results.append({"scenario": name} | SCENARIOS[name].measure(**options))
        except FAILURES as error:
            print(f"bench: {name}: {error!r}", file=sys.stderr)
            failed[name] = str(error)
    return merged(results) | {"failed": failed, "machine": machine.describe()}


def _report(results: Sequence[Path]) -> int:
    """Write the pages from the committed results and from these."""
    try:
        for written in report.write(results, Path.cwd()):
            print(written)
    except (KcmError, OSError, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 1)
    return 0


def _defaults() -> dict[str, dict[str, Any]]:
    """Return each scenario's options with their default values."""
    defaults = {}
    for name, scenario in SCENARIOS.items():
        if not scenario.is_published:
            continue
        parser = argparse.ArgumentParser()
        scenario.add_options(parser)
        defaults[name] = vars(parser.parse_args([]))
    return defaults


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    names.add_parser("list", help="name the scenarios")
    reported = names.add_parser("report", help="write the pages from results")
    reported.add_argument("results", type=Path, nargs="*", metavar="RESULT.json")
    for name, scenario in {"all": Scenario(ALL, _all), **SCENARIOS}.items():
        chosen = names.add_parser(name, help=scenario.summary, description=scenario.summary)
        chosen.add_argument("--json", type=Path, metavar="FILE", help="write the result here, too")
        chosen.add_argument(
            "--compare", type=Path, metavar="FILE", help="an older result: print both side by side"
        )
        scenario.add_options(chosen)
    return parser


if __name__ == "__main__":
    sys.exit(main())
