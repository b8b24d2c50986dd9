"""Names in the house: a name means one thing, whichever package it is in."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_no_public_class_name_is_defined_twice() -> None:
    """A reader who has met a class knows it wherever its name stands."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    places: dict[str, list[str]] = {}
    for package in settings["tool"]["importlinter"]["root_packages"]:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert places
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
