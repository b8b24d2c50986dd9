"""The client of the exporter: addresses, cluster names, and fields missing from an answer."""

from __future__ import annotations

import pytest

from kcm.queries.api_client import ApiAnswer, ExporterApi
from pipeline.runtime import UnreachableError, UsageError


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://h:99999", "http://h:x", "h:1", "", "http://", "ftp://h"]
)
def test_a_bad_address_is_reported_as_the_exporter_option(url: str) -> None:
    """This holds for a bad port, a missing host and an unknown scheme."""
    with pytest.raises(UsageError, match="option --exporter: "):
        ExporterApi(url)


@pytest.mark.parametrize("name", ["", "a/b", "..", "x y"])
def test_an_invalid_cluster_name_is_refused_before_a_request(name: str) -> None:
    """It would be a different path of the exporter."""
    with pytest.raises(UsageError, match="option --cluster: "):
        ExporterApi("http://127.0.0.1:1").choose(name)


def test_a_field_missing_in_an_answer_is_an_error_of_the_exporter() -> None:
    """The error has the exporter's address, what is missing, and the likely cause."""
    with pytest.raises(UnreachableError, match="http://h answers without 'counts'"):
        ApiAnswer({"name": "prod"}, "http://h")["counts"]
