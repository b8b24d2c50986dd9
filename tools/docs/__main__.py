"""`python -m tools.docs [--check]`: write the reference pages, or check that they are in step.

The rule: a reference is made from what the program itself uses (the metric catalogue, the settings
classes, the command line, the API's table), so it cannot promise what the program does not have.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.docs.alerts_page import alerts_page
from tools.docs.commands_page import commands_page
from tools.docs.configuration_page import configuration_page
from tools.docs.events_page import events_page
from tools.docs.house import with_house
from tools.docs.http_page import http_page
from tools.docs.limits_page import limits_page
from tools.docs.metrics_page import metrics_page
from tools.docs.runbook_pages import runbook_pages
from tools.docs.versions_page import versions_page

FOLDER = Path(__file__).resolve().parents[2] / "docs"
PAGES: dict[str, Callable[[], str]] = {
    "alerts.md": alerts_page,
    "commands.md": commands_page,
    "configuration.md": configuration_page,
    "events.md": events_page,
    "http-api.md": http_page,
    "limits.md": limits_page,
    "metrics.md": metrics_page,
    "versions.md": versions_page,
}


def main(arguments: list[str], folder: Path = FOLDER) -> int:
    """Write the pages; with --check write nothing and return 1 when one is out of step."""
    check = arguments == ["--check"]
    behind = 0
    for name, path, text in _made(folder):
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            sys.stderr.write(f"{name} is out of step; run `make generate`\n")
            behind = 1
        else:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{name}: written\n")
    return behind


def _made(folder: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield each page's name, path and text: the pages, the runbooks', and ARCHITECTURE.md with its picture."""
    for name, make in PAGES.items():
        yield f"docs/{name}", folder / name, make()
    packed = folder.parent / "exporter" / "live" / "runbooks"
    if packed.exists():
        for name, text in runbook_pages().items():
            path = packed / f"{name}.html"
            yield f"exporter/live/runbooks/{path.name}", path, text
    architecture = folder.parent / "ARCHITECTURE.md"
    if architecture.exists():
        yield "ARCHITECTURE.md", architecture, with_house(architecture.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
