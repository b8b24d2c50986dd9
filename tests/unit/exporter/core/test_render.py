"""The two exposition formats: which one a scraper gets."""

from __future__ import annotations

import pytest

from exporter.core.render import Format, choose_format


@pytest.mark.parametrize(
    ("accept", "format_"),
    [
        (None, Format.TEXT),
        ("*/*", Format.TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", Format.TEXT),
        (
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
                "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,"
                "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
            ),
            Format.OPENMETRICS,
        ),
        ("text/plain;version=0.0.4", Format.TEXT),
        ("application/openmetrics-text;version=0.0.1,text/plain;version=0.0.4", Format.TEXT),
    ],
)
def test_the_format_follows_the_accept_header(accept: str | None, format_: Format) -> None:
    """A scraper that prefers OpenMetrics gets it; all others get the text format."""
    assert choose_format(accept) is format_
