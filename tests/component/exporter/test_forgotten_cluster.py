"""A cluster that is taken out of the monitor: `kcm forget`, seen from an exporter."""

from __future__ import annotations

import pytest

from kcm.__main__ import main
from kcm.history import forget
from kcm.servers.kafka import KraftBroker
from tests.component.exporter.test_exporter import make_settings, running
from tests.support.samples import broker_view, cluster_view
from tests.support.waiting import wait_until


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_a_forgotten_cluster_is_no_longer_served(
    pipeline_broker: KraftBroker, monkeypatch: pytest.MonkeyPatch
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
        monkeypatch.setattr(forget, "LISTEN_S", 0.5)
        options = ["--bootstrap-servers", settings.bootstrap_servers]
        assert (
            main(["forget", "old", "--yes", *options, "--topic-prefix", settings.topic_prefix]) == 0
        )
        wait_until(lambda: exporter.sample("kcm_cluster_up", cluster="old") is None)
        assert exporter.sample("kcm_cluster_up", cluster="prod") is not None
    with running(settings) as exporter:
        wait_until(exporter.is_ready)
        wait_until(lambda: exporter.sample("kcm_cluster_up", cluster="prod") is not None)
        assert exporter.sample("kcm_cluster_up", cluster="old") is None
        assert exporter.sample("kafka_broker_live", cluster="old") is None
