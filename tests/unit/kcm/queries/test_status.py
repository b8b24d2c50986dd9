"""`kcm status`: what is read for one screen."""

from __future__ import annotations

import pytest

from controller_model.records.views import Counts
from kcm.queries.status import read_status
from pipeline.runtime import UsageError
from tests.support.api_server import Served
from tests.support.in_process_api import api_of
from tests.support.samples import broker_view, cluster_view


def test_one_cluster_comes_with_its_brokers_and_what_is_abnormal(served: Served) -> None:
    """Brokers with their safety, and each abnormal partition once."""
    answer = read_status(api_of(served), None)
    assert answer["name"] == "prod"
    assert [broker["safe_to_stop"]["safe"] for broker in answer["brokers"]] == [False, True]
    assert [(each["topic"], each["partition"]) for each in answer["abnormal"]] == [("u", 0)]


def test_several_clusters_are_listed_unless_one_is_named(served: Served) -> None:
    """The list is short, without brokers."""
    served.write(broker_view(0, cluster="b"), cluster_view("b", counts=Counts(offline=7)))
    api = api_of(served)
    assert [each["name"] for each in read_status(api, None)["clusters"]] == ["b", "prod"]
    assert read_status(api, "prod")["name"] == "prod"


def test_a_cluster_that_is_not_shown_is_refused(served: Served) -> None:
    """The error has the exporter's own words."""
    with pytest.raises(UsageError, match="prdo"):
        read_status(api_of(served), "prdo")
