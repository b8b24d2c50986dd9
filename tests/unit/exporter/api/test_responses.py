"""Answers that a client may keep: their ETag changes when they do."""

from __future__ import annotations

import pytest

from tests.support.api_server import Served

PROD = "/api/v1/clusters/prod"


def test_the_etag_changes_with_the_completeness(served: Served) -> None:
    """Figures that have become stale are a different answer, although none of them has changed."""
    before = served.get(f"{PROD}/topics").headers["etag"]
    assert served.get(f"{PROD}/topics").headers["etag"] == before
    served.now += 60_000
    assert served.get(f"{PROD}/topics").headers["etag"] != before


@pytest.mark.parametrize(
    ("known", "status"),
    [("{etag}", 304), ("W/{etag}", 304), ('"other", {etag}', 304), ("*", 304), ('"other"', 200)],
)
def test_if_none_match_gets_304_without_a_body(served: Served, known: str, status: int) -> None:
    """If-None-Match may have several ETags, weak ones among them, or `*`."""
    first = served.get(f"{PROD}/topics")
    headers = {"if-none-match": known.format(etag=first.headers["etag"])}
    again = served.get(f"{PROD}/topics", headers=headers)
    assert again.status_code == status
    assert again.content == (b"" if status == 304 else first.content)
    assert again.headers["cache-control"] == "no-cache", "it is asked about each time"
