"""The wheel: what it says about itself, and that type checkers read its annotations."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_package_of_the_wheel_is_typed() -> None:
    """PEP 561: without the file a type checker ignores a package's annotations."""
    for package in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert (ROOT / package / "py.typed").exists(), package


def test_every_address_of_the_project_leads_somewhere() -> None:
    """A path leads to a file of the repository."""
    for name, address in PROJECT["project"]["urls"].items():
        assert address.startswith("https://") or (ROOT / address).exists(), name
