"""`python -m tools.site FOLDER`: build the site of all pages, with search; a link that leads nowhere is an error.

The rule: a page is written once, for readers of the repository. The site gets the pages and every file that they link to, under the paths that
these have here, so relative links need no change.
"""

from __future__ import annotations

import logging
import re
import shutil
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort, MkDocsException

from pipeline.runtime import KcmError

ROOT = Path(__file__).resolve().parents[1]

_PAGES = (
    *("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("examples/README.md", "helm/kafka-controller-monitor/README.md"),
    *("docs/*.md", "docs/design/*.md", "docs/runbooks/*.md"),
)
_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)
_IMAGE = re.compile(r"<img[^>]* src=\"([^\"]+)\"")


def pages(root: Path = ROOT) -> list[Path]:
    """Return the pages for users and developers, in the order of their patterns."""
    return [path for pattern in _PAGES for path in sorted(root.glob(pattern))]


def links(page: Path) -> list[str]:
    """Return all addresses that a page links to, including reference definitions and images."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    return [one or other for one, other in _LINK.findall(text)] + _IMAGE.findall(text)


def indented(text: str) -> str:
    r"""Return a page with what stands in an item of a list indented by four spaces: python-markdown wants them, git servers take two.

    >>> indented("- a\n  - b\n  ```\n   x\n  ```\n- c\n```\n  y\n```\n")
    '- a\n    - b\n    ```\n     x\n    ```\n\n- c\n```\n  y\n```\n'
    """
    made: list[str] = []
    fence: int | None = None
    has_blank = False  # since the last item began
    for line in text.splitlines():
        bare = line.lstrip(" ")
        indent = len(line) - len(bare)
        if fence is None:
            has_blank |= not bare
            if bare.startswith("- ") and indent == 0:
                if has_blank and made and made[-1]:
                    made.append("")  # without it the item would be text of the one before
                has_blank = False
            made.append(" " * (indent // 2 * 4) + bare)
        else:
            made.append(" " * (fence // 2 * 4 - fence) + line if bare else "")
        if bare.startswith("```"):
            has_blank |= bool(fence)
            fence = indent if fence is None else None
    return "\n".join(made) + "\n"


def build_site(root: Path, output: Path) -> None:
    """Build the site into a folder; raises KcmError with what mkdocs complains of."""
    complaints = _Complaints()
    logging.getLogger("mkdocs").addHandler(complaints)
    try:
        with tempfile.TemporaryDirectory() as staged:
            _gather(root, Path(staged))
            config = load_config(
                str(root / "mkdocs.yml"), docs_dir=staged, site_dir=str(output), strict=True
            )
            config.nav = _listed(config.nav, Path(staged))
            config.plugins.on_startup(command="build", dirty=False)
            build(config)
    except (Abort, MkDocsException) as error:
        raise KcmError(f"the site: {'; '.join(complaints.lines) or error}") from None
    finally:
        logging.getLogger("mkdocs").removeHandler(complaints)


class _Complaints(logging.Handler):
    """Keeps what mkdocs logs as a warning or worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _gather(root: Path, staged: Path) -> None:
    """Copy the pages, and the files that they link to."""
    found = pages(root)
    for page in found:
        text = indented(page.read_text(encoding="utf-8"))
        _copy(page, root, staged).write_text(text, encoding="utf-8")
        for target in _targets(page, root):
            if target.is_file() and target not in found:
                _copy(target, root, staged)


def _targets(page: Path, root: Path) -> Iterator[Path]:
    """Yield what of the tree a page links to."""
    for link in links(page):
        address = urllib.parse.unquote(link.partition("#")[0])
        target = (page.parent / address).resolve()
        if address and "://" not in address and target.is_relative_to(root):
            yield target


def _copy(path: Path, root: Path, staged: Path) -> Path:
    target = staged / path.relative_to(root)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
    return target


def _listed(entry: Any, staged: Path) -> Any:
    """Return an entry of the navigation with each pattern's files in its place, README first."""
    if isinstance(entry, dict):
        return {title: _listed(below, staged) for title, below in entry.items()}
    if isinstance(entry, list):
        listed = [_listed(each, staged) for each in entry]
        return [one for each in listed for one in (each if isinstance(each, list) else [each])]
    if "*" not in entry:
        return entry
    found = [path.relative_to(staged).as_posix() for path in staged.glob(entry)]
    return sorted(found, key=lambda name: (not name.endswith("README.md"), name))


def main(arguments: list[str]) -> int:
    """Build the site; return 1 where a page or a link is wrong."""
    if len(arguments) != 1:
        sys.stderr.write(f"{(__doc__ or '').splitlines()[0]}\n")
        return 2
    try:
        build_site(ROOT, Path(arguments[0]).resolve())
    except KcmError as error:
        sys.stderr.write(f"tools.site: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
