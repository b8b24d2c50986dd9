"""Split the pages for users into pieces that a test can compare with the program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.site import ROOT, pages
from tools.site import links as links_of

PAGES = (*pages(), *sorted((ROOT / ".github").rglob("*.md")))
_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_CONTROL = {"&&", "||", "|", ";", ">", ">>", "<", "&"}


class Found(NamedTuple):
    """A piece of a page, and its place."""

    page: Path
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}: {self.text}"


def links() -> list[Found]:
    """Return all addresses that pages link to, including reference definitions and images."""
    return [Found(page, address) for page in PAGES for address in links_of(page)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub names them."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    return {_slug(heading) for heading in _HEADING.findall(text)}


def code() -> list[Found]:
    """Return all that pages show as code: the lines of blocks, and code within text."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in _FENCED.findall(text):
            found += [Found(page, line) for line in block.replace("\\\n", " ").splitlines()]
        plain = _FENCED.sub("", text)
        found += [Found(page, each.replace("\\|", "|")) for each in _CODE.findall(plain)]
    return found


def commands(program: str) -> Iterator[tuple[Found, list[str]]]:
    """Yield the arguments of every run of a program that a page shows."""
    for found in code():
        for words in split(found.text):
            if words and words[0] == program:
                yield found, words[1:]


def split(line: str) -> Iterator[list[str]]:
    """Yield the words of each command in a line of shell; nothing for text that is not shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return  # an apostrophe in a sentence
    command: list[str] = []
    for word in words:
        if word in _CONTROL:
            yield command
            command = []
        else:
            command.append(word)
    yield command


def _slug(heading: str) -> str:
    text = re.sub(r"[`*]|\[|\]\([^)]*\)", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
