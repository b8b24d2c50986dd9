"""The handlers: long work runs outside the server's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.support.api_server import Served
from tests.support.samples import broker_view, cluster_view, topic_view
from tests.support.wide_events import wide_events

PROD = "/api/v1/clusters/prod"


def large(*, topics: int = 20, partitions: int = 1_000) -> Served:
    """Return a cluster whose partitions take a good part of a second to render."""
    served = Served(partition_metrics=True)
    chunk = range(partitions)
    many: dict[str, Any] = {
        "partitions": tuple(chunk),
        "replicas": ((0, 1),) * partitions,
        "isr": ((0, 1),) * partitions,
        "leader": (0,) * partitions,
        "leader_epoch": (0,) * partitions,
        "controller_epoch": (7,) * partitions,
        "partition_epoch": (0,) * partitions,
        "leader_recovery_state": (None,) * partitions,
    }
    served.write(
        broker_view(0),
        *(topic_view(f"t{number}", **many) for number in range(topics)),
        cluster_view(),
    )
    return served


@pytest.mark.parametrize(
    ("make", "path"),
    [(large, "/metrics/partitions"), (wide_events, PROD)],
    ids=["every partition", "wide events"],
)
def test_health_is_answered_while_a_large_response_is_built(
    make: Callable[[], Served], path: str
) -> None:
    """A large request does not delay a small one."""
    app = make().app

    async def story() -> int:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://kcm") as client:
            long = asyncio.create_task(client.get(path))
            answered = 0
            while not long.done():
                assert (await client.get("/healthz")).status_code == 200
                answered += not long.done()
                await asyncio.sleep(0.001)
            assert (await long).status_code == 200
            return answered

    # In the server's own thread it is always two at most; outside it some ten, fewer while the machine is busy.
    assert any(asyncio.run(story()) >= 3 for _ in range(20))


def test_partition_metrics_are_complete_in_both_formats() -> None:
    """The pieces together are the complete answer, with its end mark."""
    served = large(topics=3, partitions=2)
    text = served.get("/metrics/partitions")
    assert text.text.count("\n") == 5 * (2 + 3 * 2) + (2 + 1) + (2 + 3)
    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    accept = {"accept": "application/openmetrics-text;version=1.0.0"}
    openmetrics = served.get("/metrics/partitions", headers=accept)
    assert openmetrics.text.endswith("\n# EOF\n")
    assert list(text_string_to_metric_families(openmetrics.text))  # type: ignore[no-untyped-call]  # the package leaves it untyped


def test_a_stuck_reading_thread_is_not_ready_and_figures_are_still_served() -> None:
    """/readyz gives the reason, the metric shows it, and the figures are still served."""
    served = Served()
    served.write(broker_view(0), cluster_view())
    assert served.get("/readyz").status_code == 200
    served.state.still_ms = 61_000
    answer = served.get("/readyz")
    assert answer.status_code == 503
    assert "its reading thread stands still" in answer.text
    assert served.get("/healthz").status_code == 200
    assert "kcm_exporter_ready 0.0" in served.get("/metrics").text
    assert served.get(PROD).status_code == 200
