"""The live page's files: complete, without markup made from text, and limited to this exporter."""

from __future__ import annotations

import re

import pytest

from exporter.live.page import POLICY, read_files
from tests.support.api_server import Served

FILES = read_files(partition_metrics=False)
SCRIPTS = sorted(name for name in FILES if name.endswith(".js"))


def text(name: str) -> str:
    """Return a file as text."""
    return FILES[name].decode()


def test_every_file_that_is_named_is_served_and_every_served_one_is_named() -> None:
    """No file is missing, and none is shipped unused."""
    named = set(re.findall(r'(?:href|src)="page/([^"]+)"', text("index.html")))
    for script in SCRIPTS:
        named |= set(re.findall(r'from "\./([^"]+)"', text(script)))
    assert named == set(FILES) - {"index.html"}
    served = Served()
    for name in named:
        answer = served.get(f"/page/{name}")
        assert (answer.status_code, answer.content) == (200, FILES[name])


def test_every_element_that_a_script_takes_by_its_id_stands_in_the_page_once() -> None:
    """A renamed id is found here, not by a page that stays empty."""
    ids = re.findall(r'\bid="([^"]+)"', text("index.html"))
    assert len(ids) == len(set(ids))
    taken = {each for script in SCRIPTS for each in re.findall(r'\$\("([^"]+)"\)', text(script))}
    assert taken <= set(ids)
    labelled = set(re.findall(r'aria-labelledby="([^"]+)"', text("index.html")))
    assert labelled <= set(ids)


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/page/page.css", "/page/icon.svg"])
def test_the_page_may_load_and_ask_nothing_but_the_exporter(path: str) -> None:
    """Every file is served with the policy, which forbids inline scripts, styles and markup from text."""
    headers = Served().get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in POLICY
    assert "default-src 'none'" in POLICY
    assert "require-trusted-types-for 'script'" in POLICY


def test_nothing_in_the_files_needs_what_the_policy_forbids() -> None:
    """No inline script, style or handler, no address outside, no markup made from text."""
    page = text("index.html")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=|javascript:", page)
    for name in FILES:
        outside = set(re.findall(r"https?://[^\s\"'`)]+", text(name)))
        assert outside <= {"http://www.w3.org/2000/svg"}, name
    for script in SCRIPTS:
        assert not re.search(
            r"innerHTML\s*=[^=]|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text(script)
        ), script


def test_what_a_browser_has_is_not_sent_again() -> None:
    """The files have ETags and are revalidated each time, so that an upgrade shows at once."""
    served = Served()
    answer = served.get("/")
    again = served.get("/", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_what_else_is_served_is_linked() -> None:
    """The page links to everything else, and to the partitions' metrics where they are served."""
    for path in (
        "metrics",
        "api/v1/clusters",
        "api/v1/openapi.json",
        "healthz",
        "readyz",
        "runbooks",
    ):
        assert f'href="{path}"' in text("index.html")
    assert "metrics/partitions" not in re.sub(r"<!--.*?-->", "", text("index.html"))
    assert b'href="metrics/partitions"' in read_files(partition_metrics=True)["index.html"]


def test_a_mistyped_parameter_of_the_stream_is_refused() -> None:
    """Ignored, it would show another cluster than the one meant."""
    answer = Served().get("/live", {"clusters": "prod"})
    assert answer.status_code == 400
    assert "clusters" in answer.json()["detail"]


def test_an_incidents_sentence_stands_as_it_was_written() -> None:
    """The sentence itself says that its counts are at least so many: the script must not add that again."""
    assert "incident.summary" in text("incidents.js")
    assert "complete" not in text("incidents.js")
