"""What the live page shows of a KRaft cluster: what it does not have has no line."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.component.page.live_desk import Desk, fleet, row_of, texts
from tests.support.kraft_shown import kraft_served


def test_the_page_of_a_kraft_cluster_has_no_line_of_zookeeper(desk: Desk) -> None:
    """No session, no znodes, no work that is pending; the controller is a node, and a broker that is fenced says so."""
    served, cluster = kraft_served()
    page = desk.page(desk.serve(served).url).open()
    expect(page.locator("#controller-who")).to_contain_text("Node 3000")
    facts = " ".join(texts(page.locator("#controller-facts")))
    quorum = " ".join(texts(page.locator("#quorum-facts")))
    assert "Voters 3000" in quorum
    assert "metadata.version 25" in quorum
    assert "May be lost not known: the active controller does not answer DescribeQuorum" in quorum
    expect(page.locator("#quorum-table")).not_to_be_visible()
    expect(page.locator("#waits")).not_to_be_visible()
    expect(page.locator("#pending")).not_to_be_visible()
    pipeline = " ".join((page.locator("#pipeline-facts").text_content() or "").split())
    assert f"held up to offset {cluster.end} of epoch 1" in pipeline
    for words in ("Work", "Failover", "not known"):
        assert words not in facts, words
    for words in ("ZooKeeper", "znode"):
        assert words not in pipeline, words
    expect(page.locator("#brokers-lead")).to_contain_text("2 brokers active, 1 fenced or gone")
    assert "fenced" in row_of(page, "broker-table", "3")[1]
    conditions = texts(page.locator("#partition-filter option"))
    assert any("Under-replicated" in each for each in conditions)
    assert not [each for each in conditions if "state" in each or "deleted" in each]
    expect(page.get_by_role("button", name="Rehearse a stop of broker 1")).to_have_count(0)


def test_the_quorum_is_judged_by_what_its_leader_says(desk: Desk) -> None:
    """Commits that stand still and who may be lost are said in words, and each controller has a row with its lag."""
    for still_ms, commits in (
        (0, "Commits up to offset"),
        (10_000, "Commits stopped up to offset"),
    ):
        served, _ = kraft_served(still_ms)
        page = desk.page(desk.serve(served).url).open()
        expect(page.locator("#quorum-facts")).to_contain_text("none: it takes 3 voters to lose one")
        assert commits in " ".join(texts(page.locator("#quorum-facts")))
        assert row_of(page, "quorum-table", "node 3000")[1:] == ["active controller", "0", "0 ms"]
        problems = " ".join(texts(page.locator("#problems")))
        assert ("nothing is committed" in problems) == bool(still_ms)


def test_a_cluster_in_zookeeper_has_no_section_of_a_quorum(desk: Desk) -> None:
    """It is not shown as one that is empty."""
    page = desk.page(desk.serve(fleet(1)).url).open()
    expect(page.locator("#controller-who")).to_contain_text("roker")
    expect(page.locator("#quorum")).not_to_be_visible()
