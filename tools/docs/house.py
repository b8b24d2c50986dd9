"""Draw the picture of the packages in ARCHITECTURE.md from the import contracts.

The rule: the layers are those that lint-imports checks (pyproject.toml), and the text for each
folder is the first line of its own docstring, so the picture cannot promise what is not there.
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BEGIN = "<!-- Made by `python -m tools.docs` from pyproject.toml's contracts and the folders' docstrings: begin -->"
END = "<!-- end -->"
_WIDTH = 21


def with_house(text: str, root: Path = ROOT) -> str:
    """Return ARCHITECTURE.md's text with the picture between its two markers replaced.

    Raises ValueError unless each marker is there once, in order.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"ARCHITECTURE.md lacks the markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{house(root)}\n\n{END}{after}"


def house(root: Path = ROOT) -> str:
    """Return one block for the packages, and one for the folders of each package that has any."""
    contracts = _layers(root)
    packages = contracts.pop("")
    blocks = ["From top to bottom: a line may use the lines below it, and none above."]
    blocks.append(_block(_drawn(root, "", packages)))
    for container, layers in contracts.items():
        blocks.append(f"**`{container}`**: {_docstring(root / container)}")
        blocks.append(_block(_drawn(root, container, layers)))
    return "\n\n".join(blocks)


def _layers(root: Path) -> dict[str, list[str]]:
    """Return the layers of each container, "" being the packages themselves."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return {
        contract.get("containers", [""])[0]: contract["layers"]
        for contract in contracts
        if contract["type"] == "layers"
    }


def _drawn(root: Path, container: str, layers: list[str]) -> list[str]:
    """Return a line for each folder or module; siblings that do not import each other share a bar."""
    lines = []
    for layer in layers:
        names = [name.strip() for name in layer.split("|")]
        bar = "|" if len(names) > 1 else " "
        for name in names:
            path = root / container / name
            shown = f"{name}/" if path.is_dir() else f"{name}.py"
            lines.append(f"{bar} {shown:<{_WIDTH}} {_docstring(path)}".rstrip())
    return lines


def _docstring(path: Path) -> str:
    """Return the first line of a folder's or a module's docstring."""
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(source.read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def _block(lines: list[str]) -> str:
    return "\n".join(["```", *lines, "```"])
