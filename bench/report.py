"""`python -m bench report [RESULT.json ...]`: write the pages' tables and plots from results.

The results are merged into docs/performance/results.json first, which is committed with the pages.
So a scenario may be measured alone, and a new measurement replaces the old one. Pages are written
by hand except for what is between `<!-- bench: BLOCK -->` and `<!-- bench end -->`. A figure that
misses its bound is shown like the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import beside
from bench.merge import merged
from bench.sizing import figures_table, measured_on, paper_table, sizing_table
from bench.tables import TABLES
from pipeline.runtime import UsageError

FOLDER = Path("docs/performance")
"""The folder of the results and the plots."""
RESULTS = FOLDER / "results.json"
PAGES = (
    Path("README.md"),
    *(Path("docs") / f"{name}.md" for name in ("performance", "comparison", "operating")),
)
_BLOCK = re.compile(
    r"(<!-- bench: (?P<name>[\w-]+)(?P<words>[^>]*) -->\n).*?(<!-- bench end -->)", re.DOTALL
)

Result = Mapping[str, Any]


def write(parts: Sequence[Path], root: Path) -> Iterator[Path]:
    """Merge results into the committed ones; write pages and plots; yield what was written."""
    from bench.plots import draw  # noqa: PLC0415  # matplotlib takes a second to import

    stored = root / RESULTS
    result = merged([_read(path) for path in ([stored] if stored.exists() else []) + [*parts]])
    stored.parent.mkdir(parents=True, exist_ok=True)
    stored.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    yield stored
    drawn = draw(result, root / FOLDER)
    yield from (root / FOLDER / file for file in drawn)
    for page in PAGES:
        path = root / page
        path.write_text(with_blocks(path.read_text(encoding="utf-8"), result), encoding="utf-8")
        yield path


def with_blocks(text: str, result: Result) -> str:
    r"""Return a page with its blocks made from a result, where the result has their figures.

    >>> with_blocks("<!-- bench: gone -->\nold\n<!-- bench end -->", {"scenarios": {}})
    '<!-- bench: gone -->\nold\n<!-- bench end -->'
    """

    def made(found: re.Match[str]) -> str:
        block = _block(found["name"], found["words"].split(), result)
        return found.group() if block is None else f"{found[1]}{block}\n{found[4]}"

    return _BLOCK.sub(made, text)


def _block(name: str, words: Sequence[str], result: Result) -> str | None:
    """Return the content of a block; None where nothing of it was measured."""
    scenarios = result["scenarios"]
    if name == "figures":
        return figures_table(result, words)
    if name in OF_ALL:
        return OF_ALL[name](result)
    of, *title = words or [name]
    scenario = of if of in scenarios else of.partition("-")[0]
    if scenario not in scenarios:
        return None
    return (
        f"![{' '.join(title)}](performance/{of})"
        if name == "plot"
        else TABLES[of](scenarios[scenario])
    )


OF_ALL = {"machine": measured_on, "sizing": sizing_table, "paper": paper_table}
"""Blocks that need the whole result."""


def _read(path: Path) -> Result:
    result: Any = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(result, Mapping) or "scenario" not in result:
        raise UsageError(f"{path} is no result of `python -m bench`")
    if result["scenario"] == beside.NAME:
        raise UsageError(
            f"{path}: two monitors shared the machine; these figures are not published"
        )
    return result
