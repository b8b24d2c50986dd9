"""The picture of the packages: it has every folder, and every module has its test."""

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


WITHOUT_A_TEST = {
    # Records without behaviour: where they are packed, the round trip is tested; those written by
    # hand are covered by the tests of their users.
    "controller_model/kafka/errors.py",
    "controller_model/records/recommendations.py",
    "controller_model/state/broker_record.py",
    "controller_model/state/controller_state.py",
    "controller_model/state/recommendation_state.py",
    "controller_model/state/topic_state.py",
    "controller_simulator/controller/requests.py",
    # Three lines that run a part as a program.
    "exporter/__main__.py",
    "streaming/__main__.py",
    "zk_source/__main__.py",
    # Tables of what is shown and alerted on, which are tested together.
    *(f"dashboards/alerts/{each}.py" for each in ("brokers", "controller", "monitor", "partitions")),
    *(
        f"dashboards/boards/{each}.py"
        for each in ("balance", "controller", "fleet", "partitions", "pipeline", "rows")
    ),
    *(
        f"dashboards/signals/{each}.py"
        for each in (
            "brokers", "controller", "delay", "first_screen", "fleet", "incidents", "partitions",
            "pipeline", "zookeeper",
        )
    ),
}  # fmt: skip
"""Modules that no unit test is named after, and why."""


def modules_of_all() -> list[Path]:
    """Return every module of the product."""
    return [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]


def test_every_folder_is_in_the_picture() -> None:
    """A reader finds each package's folders by their names, each with its purpose."""
    lines = house().splitlines()
    for package in PACKAGES:
        for folder in ROOT.joinpath(package).iterdir():
            if (folder / "__init__.py").exists():
                drawn = [line for line in lines if line[2:].split(" ")[0] == f"{folder.name}/"]
                assert drawn, folder
                assert all(len(line.split(maxsplit=2)) > 1 for line in drawn), folder


def test_a_modules_test_is_found_by_its_path() -> None:
    """a/b/c.py has tests/unit/a/b/test_c.py unless it is named above; each name above is needed."""
    without = {
        str(path.relative_to(ROOT))
        for path in modules_of_all()
        if path.name != "__init__.py" and not _test_of(path).exists()
    }
    assert without == WITHOUT_A_TEST


def _test_of(module: Path) -> Path:
    folder = ROOT / "tests" / "unit" / module.relative_to(ROOT).parent
    return folder / f"test_{module.stem.strip('_')}.py"


def test_no_folder_holds_more_than_twenty_modules() -> None:
    """A small folder can be surveyed."""
    folders = {path.parent for path in modules_of_all()}
    modules = {
        folder: len([p for p in folder.glob("*.py") if p.name != "__init__.py"])
        for folder in folders
    }
    assert {folder: count for folder, count in modules.items() if count > 20} == {}


def test_no_public_class_name_is_defined_twice() -> None:
    """A name means one thing, whichever package it is in."""
    places: dict[str, list[str]] = {}
    for path in modules_of_all():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert len(places) > 500
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_a_page_keeps_the_text_around_the_picture() -> None:
    """Only what is between the two markers is replaced, and drawing twice changes nothing."""
    drawn = with_house(f"before\n{BEGIN}\nSTALE\n{END}\nafter\n")
    assert drawn.startswith(f"before\n{BEGIN}\n\nFrom top to bottom")
    assert drawn.endswith(f"{END}\nafter\n")
    assert "STALE" not in drawn
    assert with_house(drawn) == drawn


def test_a_page_without_markers_is_refused() -> None:
    """A page without a place for the picture is an error, and the message names the markers."""
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
