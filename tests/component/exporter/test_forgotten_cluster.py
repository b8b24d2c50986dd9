"""A cluster that is taken out of the monitor: what the operating guide says to do, done."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

from kcm.stack.kafka import KraftBroker
from tests.component.exporter.test_exporter import make_settings, running
from tests.support.samples import broker_view, cluster_view
from tests.support.waiting import wait_until

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "operating.md"
DEADLINE_S = 60


def _forget(bootstrap_servers: str, topic: str) -> None:
    """Run what the guide shows, with its addresses and names replaced by ours."""
    (shown,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    script = textwrap.dedent(shown)
    assert '"kafka:9092"' in script
    assert '"kcm.views"' in script
    script = script.replace('"kafka:9092"', repr(bootstrap_servers))
    script = script.replace('"kcm.views"', repr(topic))
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr


def test_a_cluster_that_was_forgotten_is_served_no_more(
    pipeline_broker: KraftBroker,
) -> None:
    """Its series end at once and do not come back with the exporter; other clusters go on."""
    settings = make_settings(pipeline_broker.bootstrap_servers)
    with running(settings) as exporter:
        wait_until(exporter.is_ready)
        exporter.write(
            *(broker_view(1, cluster=name) for name in ("old", "prod")),
            *(cluster_view(name, brokers_known=(1,)) for name in ("old", "prod")),
        )
        wait_until(lambda: exporter.sample("kcm_cluster_up", cluster="old") is not None)
        _forget(settings.bootstrap_servers, f"{settings.topic_prefix}.views")
        wait_until(lambda: exporter.sample("kcm_cluster_up", cluster="old") is None)
        assert exporter.sample("kcm_cluster_up", cluster="prod") is not None
    with running(settings) as exporter:
        wait_until(exporter.is_ready)
        wait_until(lambda: exporter.sample("kcm_cluster_up", cluster="prod") is not None)
        assert exporter.sample("kcm_cluster_up", cluster="old") is None
        assert exporter.sample("kafka_broker_live", cluster="old") is None
