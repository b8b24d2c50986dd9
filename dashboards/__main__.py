"""`python -m dashboards`: writes the boards and rules into the chart, or checks that they are in step.

The rule: generated files are committed, and the build proves that they are what the code makes. The
check writes nothing; neither form deletes anything.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dashboards.alerts import rules
from dashboards.boards import boards

FOLDER = Path(__file__).resolve().parents[1] / "helm" / "kafka-controller-monitor" / "files"
"""The chart's files."""

_COMMAND = "python -m dashboards"


def generated() -> dict[str, str]:
    """Return what is made: path below the folder -> text."""
    return {
        **{f"dashboards/{made.name}.json": boards.render(made) for made in boards.BOARDS},
        f"rules/{rules.GROUP}.yaml": rules.rules(),
    }


def write(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write the files that differ and return them."""
    written = []
    for name, text in files.items():
        path = folder / name
        if _held(path) == text.encode():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        written.append(path)
    return written


def out_of_step(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Return one line for each file that is missing, differs, or is made by nothing any more."""
    problems = []
    for name, text in files.items():
        held = _held(folder / name)
        if held is None:
            problems.append(f"{folder / name}: missing; run `{_COMMAND}`")
        elif held != text.encode():
            problems.append(f"{folder / name}: out of step with dashboards/; run `{_COMMAND}`")
    kinds = {(Path(name).parent, Path(name).suffix) for name in files}
    present = {path for parent, suffix in kinds for path in (folder / parent).glob(f"*{suffix}")}
    left = sorted(present - {folder / name for name in files})
    return [*problems, *(f"{path}: nothing in dashboards/ makes it; remove it" for path in left)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog=_COMMAND, description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of step")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="default: the chart's files/")
    chosen = parser.parse_args(arguments)
    files = generated()
    if not chosen.check:
        for path in write(chosen.folder, files):
            sys.stdout.write(f"{path}: written\n")
        return 0
    problems = out_of_step(chosen.folder, files)
    for line in problems:
        sys.stderr.write(f"{_COMMAND} --check: {line}\n")
    return 1 if problems else 0


def _held(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


if __name__ == "__main__":
    raise SystemExit(main())
