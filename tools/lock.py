"""`python -m tools.lock [UV'S OPTIONS]`: write requirements.lock from pyproject.toml; `--upgrade` takes newer releases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(options: list[str]) -> int:
    """Let uv resolve for all platforms, with hashes, and with no address of an index in the file."""
    command = [
        *(str(Path(sys.executable).with_name("uv")), "pip", "compile", "-q", "pyproject.toml"),
        *("--all-extras", "--group", "dev", "--universal", "--generate-hashes"),
        *("--no-emit-index-url", "--no-emit-find-links"),
        *("--custom-compile-command", "python -m tools.lock", "-o", "requirements.lock"),
        *options,
    ]
    return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603  # uv of this .venv


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
