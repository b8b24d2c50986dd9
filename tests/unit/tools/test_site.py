"""The site of the pages: what is wrong in a page is an error that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.runtime import KcmError
from tools.site import build_site

CONFIG = """
site_name: t
plugins: [search]
use_directory_urls: false
validation: {anchors: warn, unrecognized_links: warn, omitted_files: warn}
nav: [README.md, SECURITY.md]
"""


def _tree(root: Path, readme: str) -> Path:
    (root / "mkdocs.yml").write_text(CONFIG)
    (root / "README.md").write_text(readme)
    (root / "SECURITY.md").write_text("# Security\n\n## Reporting\n\nText.\n")
    return root


def test_pages_keep_their_links_and_lists(tmp_path: Path) -> None:
    """A link to a page leads to that page; what stands in an item of a list stays in it."""
    page = "# R\n\n[s](SECURITY.md#reporting)\n\n- one\n  - below\n- two\n"
    output = tmp_path / "site"
    build_site(_tree(tmp_path, page), output)
    html = (output / "index.html").read_text()
    assert 'href="SECURITY.html#reporting"' in html
    assert "<li>one<ul>\n<li>below</li>\n</ul>\n</li>" in html
    assert "SECURITY.html" in (output / "search" / "search_index.json").read_text()


@pytest.mark.parametrize(
    ("page", "named"),
    [("[x](GONE.md)", "GONE.md"), ("[x](SECURITY.md#gone)", "#gone"), ("[x](docs)", "docs")],
)
def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path, page: str, named: str) -> None:
    """A page, a heading or a folder that the site does not have."""
    (tmp_path / "docs").mkdir()
    with pytest.raises(KcmError, match=named):
        build_site(_tree(tmp_path, f"# R\n\n{page}\n"), tmp_path / "site")


def test_a_page_that_the_navigation_does_not_have_is_an_error(tmp_path: Path) -> None:
    """Every page can be found without a search."""
    root = _tree(tmp_path, "# R\n")
    (root / "CONTRIBUTING.md").write_text("# C\n")
    with pytest.raises(KcmError, match=r"CONTRIBUTING\.md"):
        build_site(root, tmp_path / "site")
