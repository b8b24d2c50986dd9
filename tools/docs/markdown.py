"""Pieces of Markdown that the made pages share.

The rule: text goes in unescaped and comes out such that Markdown shows it unchanged; the form of a
page is decided only here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MADE_BY = "<!-- Made by `python -m tools.docs`; edit what it is made from instead. -->"


def plain(text: str) -> str:
    r"""Return text for a cell or a paragraph: outside code, Markdown reads <these> as HTML.

    >>> plain("<prefix>.views | events")
    '&lt;prefix>.views \\| events'
    """
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def code(text: str) -> str:
    r"""Return text as code for a cell; empty text stays empty.

    >>> code("a|b"), code("")
    ('`a\\|b`', '')
    """
    return f"`{text}`".replace("|", "\\|") if text else ""


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the cells are Markdown already."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(
        f"| {' | '.join(cells)} |" if i != 1 else _rule(cells) for i, cells in enumerate(lines)
    )


def shell(*commands: str) -> str:
    """Return commands as a block of code."""
    return "\n".join(["```", *commands, "```"])


def page(title: str, *blocks: str) -> str:
    """Return a made page: its comment, its title, its blocks."""
    return "\n\n".join([MADE_BY, f"# {title}", *blocks]) + "\n"


def _rule(cells: Sequence[str]) -> str:
    return f"|{'|'.join(cells)}|"
