"""`python -m bench NAME [--json FILE]`: run one scenario; `python -m bench list` names them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import commands, delay, fleet, replay, resync, scrape, sweep
from pipeline.runtime import KcmError

SCENARIOS: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "commands": (commands.SUMMARY, commands.measure),
    "delay": (delay.SUMMARY, delay.measure),
    "fleet": (fleet.SUMMARY, fleet.measure),
    "replay": (replay.SUMMARY, replay.measure),
    "resync": (resync.SUMMARY, resync.measure),
    "scrape": (scrape.SUMMARY, scrape.measure),
    "sweep": (sweep.SUMMARY, sweep.measure),
}


def main() -> int:
    """Run what the command line names; the result goes to standard output and to --json."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", choices=["list", *SCENARIOS], help="a scenario, or list")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here, too")
    arguments = parser.parse_args()
    if arguments.name == "list":
        for name, (summary, _) in SCENARIOS.items():
            print(f"{name:8} {summary}")
        return 0
    try:
        result = SCENARIOS[arguments.name][1]()
        text = json.dumps(result, indent=2)
        if arguments.json:
            arguments.json.write_text(text + "\n")
    except (KcmError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 1)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
