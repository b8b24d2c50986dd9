"""`python -m tools.coverage`: fail unless tests cover every line and branch of what pyproject.toml names.

Unit and property tests only: what the simulation passes by chance counts for nothing here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COVERAGE = (sys.executable, "-m", "coverage")
TESTS = ("tests/unit", "tests/property", "--ignore", "tests/property/test_simulation.py")


def main() -> int:
    """Run the tests, then print the lines and branches that they miss."""
    for command in (["run", "-m", "pytest", "-q", *TESTS], ["report"]):
        code = subprocess.run([*COVERAGE, *command], cwd=ROOT, check=False).returncode  # noqa: S603  # of this .venv
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
