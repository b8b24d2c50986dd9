"""`python -m dashboards`: writes the dashboards, the rules and a mixin of them into the chart, or checks that they are up to date.

Generated files are committed, and the build proves that they are what the code makes. The
check writes nothing; neither form deletes anything.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dashboards.alerts import rules
from dashboards.boards import boards
from dashboards.mixin import jsonnetfile, mixin

FOLDER = Path(__file__).resolve().parents[1] / "helm" / "kafka-controller-monitor" / "files"
"""The chart's files."""

_COMMAND = "python -m dashboards"


def generated() -> dict[str, str]:
    """Return the text of each generated file by its path below the folder."""
    rule_file = f"rules/{rules.GROUP}.yaml"
    return {
        **{f"dashboards/{made.name}.json": boards.render(made) for made in boards.BOARDS},
        rule_file: rules.rules(),
        "mixin.libsonnet": mixin((made.name for made in boards.BOARDS), rule_file),
        "jsonnetfile.json": jsonnetfile(),
    }


def out_of_step(folder: Path, files: Mapping[str, str]) -> dict[Path, str]:
    """Return what is wrong with each file that is missing, differs, or is no longer generated."""
    problems = {}
    for name, text in files.items():
        path = folder / name
        if not path.is_file():
            problems[path] = f"missing; run `{_COMMAND}`"
        elif path.read_bytes() != text.encode():
            problems[path] = f"out of step with dashboards/; run `{_COMMAND}`"
    kinds = {(Path(name).parent, Path(name).suffix) for name in files}
    present = {path for parent, suffix in kinds for path in (folder / parent).glob(f"*{suffix}")}
    for path in sorted(present - {folder / name for name in files}):
        problems[path] = "nothing in dashboards/ makes it; remove it"
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog=_COMMAND, description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of step")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="default: the chart's files/")
    chosen = parser.parse_args(arguments)
    files = generated()
    problems = out_of_step(chosen.folder, files)
    if chosen.check:
        for path, problem in problems.items():
            sys.stderr.write(f"{_COMMAND} --check: {path}: {problem}\n")
        return 1 if problems else 0
    for name, text in files.items():
        path = chosen.folder / name
        if path in problems:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
            sys.stdout.write(f"{path}: written\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
