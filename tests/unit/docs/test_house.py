"""The picture of the house: every folder of the packages stands in it, in the contracts' order."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from docs.house import BEGIN, END, ROOT, house, with_house

PACKAGES: tuple[str, ...] = tuple(
    tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "root_packages"
    ]
)


def modules_of_all() -> list[Path]:
    """Return every module of the product."""
    return [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]


def test_every_folder_stands_in_the_picture() -> None:
    """A reader finds each package's folders by their names, each with what lives there."""
    lines = house().splitlines()
    for package in PACKAGES:
        for folder in ROOT.joinpath(package).iterdir():
            if (folder / "__init__.py").exists():
                drawn = [line for line in lines if line[2:].split(" ")[0] == f"{folder.name}/"]
                assert drawn, folder
                assert all(len(line.split(maxsplit=2)) > 1 for line in drawn), folder


def test_no_folder_holds_more_than_twenty_modules() -> None:
    """A folder fits in one's head."""
    folders = {path.parent for path in modules_of_all()}
    modules = {
        folder: len([p for p in folder.glob("*.py") if p.name != "__init__.py"])
        for folder in folders
    }
    assert {folder: count for folder, count in modules.items() if count > 20} == {}


def test_no_public_class_name_is_defined_twice() -> None:
    """A name means one thing, whichever package it stands in."""
    places: dict[str, list[str]] = {}
    for path in modules_of_all():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert len(places) > 500
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_a_page_keeps_what_stands_around_the_picture() -> None:
    """Only what is between the two markers is drawn again, and drawing twice changes nothing."""
    drawn = with_house(f"before\n{BEGIN}\nSTALE\n{END}\nafter\n")
    assert drawn.startswith(f"before\n{BEGIN}\n\nFrom top to bottom")
    assert drawn.endswith(f"{END}\nafter\n")
    assert "STALE" not in drawn
    assert with_house(drawn) == drawn


def test_a_page_without_markers_is_refused() -> None:
    """A picture that has no place is our mistake, and said to be one."""
    with pytest.raises(ValueError, match="lacks the markers"):
        with_house("# Architecture\n")


def test_a_contract_orders_the_picture(tmp_path: Path) -> None:
    """Layers are drawn from top to bottom, and siblings of one layer share a bar."""
    (tmp_path / "pyproject.toml").write_text(
        '[[tool.importlinter.contracts]]\ntype = "layers"\nlayers = ["top", "left | right"]\n',
        encoding="utf-8",
    )
    for name in ("top", "left", "right"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(
            f'"""The {name}.\n\nMore."""\n', encoding="utf-8"
        )
    drawn = [line.split() for line in house(tmp_path).splitlines() if line.endswith(".")][1:]
    assert drawn == [
        ["top/", "The", "top."],
        ["|", "left/", "The", "left."],
        ["|", "right/", "The", "right."],
    ]
