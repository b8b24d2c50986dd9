"""`python -m docs [--check]`: writes the reference pages, or checks that they are in step.

The rule: a reference is made from what the program itself uses (the metric catalogue, the settings
classes), so it cannot promise what is not there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from controller_model.metrics import CATALOGUE
from kcm.config import reference

FOLDER = Path(__file__).parent
MADE_BY = "<!-- Made by `python -m docs`; edit what it is made from instead. -->"


def metrics_page() -> str:
    """Return the reference of all metrics about watched clusters."""
    lines = [
        MADE_BY,
        "",
        "# Metrics",
        "",
        "What the exporter serves at `/metrics` about each watched cluster. A figure that is not known",
        "has no sample: it is never 0 instead. The parts' own metrics (`kcm_watcher_*`, `kcm_fold_*`,",
        "`kcm_exporter_*`) stand on each part's own `/metrics`.",
        "",
        "| Metric | Type | Labels | What to expect |",
        "|---|---|---|---|",
    ]
    for metric in CATALOGUE:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        text = metric.help.replace("|", "\\|").replace("<", "&lt;")
        lines.append(f"| `{metric.name}` | {metric.type} | {labels} | {text} |")
    return "\n".join(lines) + "\n"


def configuration_page() -> str:
    """Return the reference of all settings."""
    return f"""{MADE_BY}

# Configuration

Options win over environment variables, these over the file that `--config` or `KCM_CONFIG`
names (TOML, `log_level = "info"`), that over the defaults. `kcm config` prints what is in
effect and where it came from, without secrets.

{reference()}
"""


def main(arguments: list[str]) -> int:
    """Write the pages; with --check write nothing and return 1 when one is out of step."""
    check = arguments == ["--check"]
    behind = 0
    for name, text in {
        "metrics.md": metrics_page(),
        "configuration.md": configuration_page(),
    }.items():
        path = FOLDER / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            sys.stderr.write(f"docs/{name} is out of step; run `make generate`\n")
            behind = 1
        else:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"docs/{name}: written\n")
    return behind


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
