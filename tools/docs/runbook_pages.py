"""Make the runbooks that the exporter serves: each page of docs/runbooks as HTML, and their list.

The rule: what an alert links to can be opened wherever the exporter is reached, so the pages are
made here and packed with the exporter, which renders nothing. Links between runbooks stay links;
links to pages that the exporter does not serve become plain text.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

RUNBOOKS = Path(__file__).resolve().parents[2] / "docs" / "runbooks"
INDEX = "index"
"""The name of the list of all runbooks among the pages."""

_PAGE = """<!doctype html>
<!-- Made by `python -m tools.docs`; edit docs/runbooks instead. -->
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{folder}style.css">
<link rel="icon" href="{root}page/icon.svg" type="image/svg+xml">
</head>
<body>
<nav><a href="{root}">Live page</a> <a href="{root}runbooks">All runbooks</a></nav>
<main>
{body}</main>
</body>
</html>
"""


def runbook_pages() -> dict[str, str]:
    """Return the pages as HTML by the names of their alerts, and the list as `index`."""
    pages = {}
    for path in sorted(RUNBOOKS.glob("*.md")):
        is_list = path.stem == "README"
        name = INDEX if is_list else path.stem
        # Relative, since a proxy may serve the exporter under a path; the list is one level higher.
        root, folder = ("./", "runbooks/") if is_list else ("../", "")
        pages[name] = _page(path.read_text(encoding="utf-8"), root=root, folder=folder)
    return pages


def _page(text: str, *, root: str, folder: str) -> str:
    """Return a page of Markdown as HTML."""
    body = MarkdownIt("commonmark").enable("table").render(text)
    title = re.match(r"# (.*)", text)
    return _PAGE.format(
        title=escape(title[1] if title else "Runbooks"),
        root=root,
        folder=folder,
        body=_linked(body, folder),
    )


def _linked(html: str, folder: str) -> str:
    """Return HTML that keeps only links to runbooks; others become text.

    >>> _linked('<a href="KcmBlind.md">x</a> <a href="../operating.md#a">y</a>', "runbooks/")
    '<a href="runbooks/KcmBlind">x</a> y'
    """
    inside = re.sub(r'<a href="(\w+)\.md">', rf'<a href="{folder}\1">', html)
    return re.sub(r'<a href="\.\./[^"]*">(.*?)</a>', r"\1", inside)
