"""The runbooks are served where alerts link to, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.live.page import POLICY
from tests.support.api_server import Served
from tools.docs.runbook_pages import runbook_pages

ROOT = Path(__file__).resolve().parents[4]
NAMES = sorted(path.stem for path in (ROOT / "docs" / "runbooks").glob("K*.md"))


def test_every_runbook_is_packed_and_no_other() -> None:
    """The page of a removed alert is no longer served."""
    packed = {path.stem for path in (ROOT / "exporter" / "live" / "runbooks").glob("*.html")}
    assert packed == set(runbook_pages()) == {*NAMES, "index"}


def test_a_runbook_is_served_as_html_with_the_live_page_policy() -> None:
    """It is rendered, its links to other runbooks work, and `.md` may follow the name."""
    served = Served()
    answer = served.get("/runbooks/KafkaBrokerGoneAtMinIsr")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["content-security-policy"] == POLICY
    assert "<h2>Diagnose</h2>" in answer.text
    assert '<a href="KafkaBrokerGone">' in answer.text
    assert served.get("/runbooks/KafkaBrokerGoneAtMinIsr.md").content == answer.content


def test_the_index_links_to_every_runbook() -> None:
    """The links are relative, so they work behind any proxy."""
    text = Served().get("/runbooks").text
    assert set(re.findall(r'<a href="runbooks/(\w+)">', text)) == set(NAMES)


def test_every_link_of_a_runbook_is_served() -> None:
    """Its style, the live page, the list and other runbooks, as a browser resolves them."""
    served = Served()
    for name, text in runbook_pages().items():
        here = "/runbooks" if name == "index" else f"/runbooks/{name}"
        for link in set(re.findall(r'href="([^"]+)"', text)):
            path = str(served.get(here).request.url.join(link).path)
            assert served.get(path).status_code == 200, (name, link)


@pytest.mark.parametrize("name", ["KcmNothing", "..%2F..%2Fpage.py", "index.html", "style"])
def test_an_unknown_runbook_name_gets_404(name: str) -> None:
    """A name is looked up among the packed ones, never in a folder."""
    assert Served().get(f"/runbooks/{name}").status_code == 404
