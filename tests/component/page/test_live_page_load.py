"""What the live page bears: many clusters, many partitions, a storm of changes."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from controller_model.records.views import Counts
from exporter.api.problems import ClusterProblem, problems_of
from exporter.core.records import ClusterSnapshot
from tests.component.page.live_desk import Desk, fleet, row_of, texts
from tests.support.api_server import Served
from tests.support.samples import (
    as_of,
    broker_view,
    cluster_view,
    topic_view,
)


def test_fifty_clusters_are_reported_worst_first_and_found_by_name(desk: Desk) -> None:
    """The worst are on top, a cluster that becomes worse moves up, and each has its own page."""
    served = fleet()
    page = desk.page(desk.serve(served).url).open()
    expect(page.locator("#fleet-summary")).to_have_text(
        "50 clusters. 2 critical, 0 with warnings, 48 well."
    )
    names = page.locator("#fleet-table tbody th")
    assert texts(names)[:3] == ["✖ c40", "✖ c31", "✔ c00"]
    served.write(cluster_view("c17", at=as_of(2), counts=Counts(under_replicated=3)))
    expect(names.nth(2)).to_contain_text("c17")
    page.locator("#fleet-find").fill("c3")
    expect(names).to_have_count(10)
    names.first.locator("a").click()
    expect(page.locator("#cluster-name")).to_have_text("c31")
    expect(page.locator("#other-clusters")).to_contain_text("All 50 clusters, 2 of the others")


def test_a_cluster_that_cannot_be_judged_is_listed_without_figures(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are shown as usual, and its own page says that no figures arrive."""

    def fail(snapshot: ClusterSnapshot, *about: Any) -> list[ClusterProblem]:
        if snapshot.name == "c01":
            raise ZeroDivisionError
        return problems_of(snapshot, *about)

    monkeypatch.setattr("exporter.live.page_answers.problems_of", fail)
    served = fleet(3)
    one = desk.page(desk.serve(served).url)
    page = one.open()
    why = "The exporter failed to judge it: see its log"
    unknown = ["not known"] * 8
    assert row_of(page, "fleet-table", "c01") == ["▲ c01", why, *unknown]
    assert row_of(page, "fleet-table", "c02")[1:3] == ["nothing", "live"]
    page.locator("#fleet-table").get_by_text("c01").click()
    expect(page.locator("#not-live-text")).to_have_text(
        "No answer yet: the exporter failed to judge c01: see its log."
    )
    one.complaints.clear()  # of the 500


def test_an_unknown_cluster_is_reported(desk: Desk) -> None:
    """With the names of those that are; and it is shown as soon as it is there."""
    served = fleet(2)
    one = desk.page(desk.serve(served).url)
    one.page.goto(f"{one.url}/?cluster=nope")
    expect(one.page.locator("#waiting")).to_have_text("No cluster is called nope. Known: c00, c01.")
    served.write(cluster_view("nope"))
    expect(one.page.locator("#cluster-name")).to_have_text("nope")


def large() -> Served:
    """Return 200,000 partitions, of which the very last ones are offline."""
    served = Served()
    numbers = tuple(range(1000))
    well = (0, 1)
    for topic in range(200):
        is_last = topic == 199
        leader = tuple(-1 if is_last and n >= 997 else 0 for n in numbers)
        served.write(
            topic_view(
                f"topic-{topic:03}",
                partitions=numbers,
                replicas=(well,) * 1000,
                isr=(well,) * 1000,
                leader=leader,
                leader_epoch=(0,) * 1000,
                controller_epoch=(7,) * 1000,
                partition_epoch=(0,) * 1000,
                leader_recovery_state=(None,) * 1000,
            )
        )
    counts = Counts(topics=200, partitions=200_000, offline=3, preferred_imbalance=3)
    served.write(broker_view(0), broker_view(1), cluster_view(counts=counts))
    return served


@pytest.mark.full
def test_of_200_000_partitions_the_three_that_are_offline_are_found(desk: Desk) -> None:
    """The exporter searches all, and the page has at most fifty rows."""
    served = large()
    one = desk.page(desk.serve(served).url)
    page = one.open()
    expect(page.locator("#partition-note")).to_have_text("3 of 3 shown: offline.")
    assert texts(page.locator("#partition-table tbody th")) == [
        "topic-199-997", "topic-199-998", "topic-199-999",
    ]  # fmt: skip
    page.locator("#partition-filter").select_option("")
    expect(page.locator("#partition-table tbody tr")).to_have_count(50)
    page.locator("#partition-next").click()
    expect(page.locator("#partition-note")).to_contain_text("After topic-000/49")
    expect(page.locator("#partition-note")).to_contain_text("50 of 200,000 shown")
    page.locator("#partition-topic").fill("topic-199-99")
    expect(page.locator("#partition-note")).to_have_text(
        "11 of 11 shown: name contains “topic-199-99”."
    )
