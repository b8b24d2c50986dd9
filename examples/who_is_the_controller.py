"""Ask the exporter who the controller is: `python examples/who_is_the_controller.py [http://127.0.0.1:9640]`.

Prints a line for each cluster. The exit code is 0 if every answer is live and every cluster has a
controller, else 1. It needs only Python: the API is JSON over HTTP (docs/http-api.md).
"""

from __future__ import annotations

import json
import sys
import urllib.request
from datetime import UTC, datetime
from typing import Any

NOBODY = -1


def main(exporter: str) -> int:
    """Print who the controller of each cluster is, since when, and whether that is known now."""
    sound = True
    for cluster in get(exporter, "clusters?limit=1000")["clusters"]:
        found = get(exporter, cluster["href"])
        controller, status = found["controller"], found["completeness"]["status"]
        print(f"{found['name']}: {text(controller)}; figures are {status}")
        sound = sound and status == "live" and controller is not None and controller["id"] != NOBODY
    return 0 if sound else 1


def text(controller: Any) -> str:
    """Return who the controller is; None: what the watcher may not read hides it."""
    if controller is None:
        return "not known"
    who = "nobody" if controller["id"] == NOBODY else f"broker {controller['id']}"
    if controller["elected_at"] is not None:
        since = datetime.fromtimestamp(controller["elected_at"] / 1000, UTC)
        who += f" since {since:%Y-%m-%d %H:%M:%S} UTC"
    return f"{who}; {controller['elections']} elections"


def get(exporter: str, path: str) -> Any:
    """Return an answer of the API."""
    with urllib.request.urlopen(f"{exporter.rstrip('/')}/api/v1/{path}", timeout=10) as answer:
        return json.load(answer)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:] or ["http://127.0.0.1:9640"]))
