"""The live page's files: complete, without markup made from text, and limited to this exporter."""

from __future__ import annotations

import re

import pytest

from exporter.live.page import POLICY, read_files
from exporter.live.page_answers import PATH
from tests.support.api_server import Served

FILES = read_files(partition_metrics=False)
SCRIPTS = sorted(name for name in FILES if name.endswith(".js"))


def text(name: str) -> str:
    """Return a file as text."""
    return FILES[name].decode()


def test_referenced_files_and_served_files_are_the_same() -> None:
    """No file is missing, and none is shipped unused."""
    named = set(re.findall(r'(?:href|src)="page/([^"]+)"', text("index.html")))
    for script in SCRIPTS:
        named |= set(re.findall(r'from "\./([^"]+)"', text(script)))
    assert named == set(FILES) - {"index.html"}
    served = Served()
    for name in named:
        answer = served.get(f"/page/{name}")
        assert (answer.status_code, answer.content) == (200, FILES[name])


def test_every_element_id_that_a_script_uses_is_in_the_page_once() -> None:
    """A renamed id is found here, not by a page that stays empty."""
    ids = re.findall(r'\bid="([^"]+)"', text("index.html"))
    assert len(ids) == len(set(ids))
    taken = {each for script in SCRIPTS for each in re.findall(r'\$\("([^"]+)"\)', text(script))}
    assert taken <= set(ids)
    labelled = set(re.findall(r'aria-labelledby="([^"]+)"', text("index.html")))
    assert labelled <= set(ids)


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/page/page.css", "/page/icon.svg"])
def test_every_file_has_a_content_security_policy(path: str) -> None:
    """Every file is served with the policy, which forbids inline scripts, styles and markup from text."""
    headers = Served().get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in POLICY
    assert "default-src 'none'" in POLICY
    assert "require-trusted-types-for 'script'" in POLICY


def test_no_file_uses_what_the_content_security_policy_forbids() -> None:
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


def test_an_unchanged_page_file_gets_304() -> None:
    """The files have ETags and are revalidated each time, so that an upgrade shows at once."""
    served = Served()
    answer = served.get("/")
    again = served.get("/", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_the_page_links_to_every_other_endpoint() -> None:
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


def test_a_mistyped_parameter_of_a_poll_is_refused() -> None:
    """Ignored, it would show another cluster than the one meant."""
    answer = Served().get(PATH, {"clusters": "prod"})
    assert answer.status_code == 400
    assert "clusters" in answer.json()["detail"]
