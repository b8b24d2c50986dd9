"""The rules in the chart lead to the runbooks: to the project's own paths, or where people reach them."""

from __future__ import annotations

import pytest

from dashboards.alerts.rules import ALERTS
from tests.component.chart.chart import CHART, NEEDS_HELM, Manifest, render, template

EVERYTHING = CHART / "ci" / "all-values.yaml"
LEAST = CHART / "ci" / "least-values.yaml"

pytestmark = NEEDS_HELM


def _links(*arguments: str) -> set[str]:
    (rule,) = [each for each in render(EVERYTHING, *arguments) if each["kind"] == "PrometheusRule"]
    rules: list[Manifest] = [each for group in rule["spec"]["groups"] for each in group["rules"]]
    return {each["annotations"]["runbook_url"] for each in rules if "alert" in each}


@pytest.mark.parametrize(
    ("base", "before"),
    [
        ("", "docs/runbooks"),
        ("https://git.example.com/kcm/docs/runbooks", "https://git.example.com/kcm/docs/runbooks"),
        ("http://wiki:8080/x/", "http://wiki:8080/x"),
    ],
)
def test_a_link_leads_to_the_page_where_people_reach_it(base: str, before: str) -> None:
    """Each alert's page is named under the address that was given."""
    links = _links("--set", f"prometheusRule.runbookBaseUrl={base}")
    assert links == {f"{before}/{alert.name}.md" for alert in ALERTS}


@pytest.mark.parametrize("base", ["docs/runbooks", "https://a b", "javascript:x"])
def test_what_is_no_address_is_refused(base: str) -> None:
    """A link that nobody could follow is not installed."""
    done = template("--values", str(LEAST), "--set", f"prometheusRule.runbookBaseUrl={base}")
    assert done.returncode != 0
    assert "runbookBaseUrl" in done.stderr
