"""Without choices of its own, a cluster is the same at every run; each release has its settings."""

from __future__ import annotations

import pytest

from controller_simulator.cluster.operations import DeleteController
from controller_simulator.cluster.settings import SimulatorSettings
from tests.support.releases import settings_of
from tests.support.simulated_cluster import TOPIC, cluster_of


@pytest.mark.parametrize(
    ("kafka", "protocol", "settings"),
    [
        ((3, 9), None, SimulatorSettings()),
        ((3, 4), None, SimulatorSettings()),
        ((3, 3), None, SimulatorSettings(kraft_controller_epoch=False)),
        ((3, 2), None, SimulatorSettings(kraft_controller_epoch=False, features_version=1)),
        (
            (2, 8),
            None,
            SimulatorSettings(
                kraft_controller_epoch=False, features_version=1, leader_recovery_supported=False
            ),
        ),
        (
            (3, 9),
            (2, 7),
            SimulatorSettings(features_version=1, leader_recovery_supported=False, topic_ids=False),
        ),
        (
            (3, 9),
            (2, 6),
            SimulatorSettings(
                features_version=1,
                leader_recovery_supported=False,
                topic_ids=False,
                alter_partition=False,
            ),
        ),
    ],
)
def test_settings_follow_from_the_release_and_its_protocol_version(
    kafka: tuple[int, int], protocol: tuple[int, int] | None, settings: SimulatorSettings
) -> None:
    """/controller follows the release; everything else follows inter.broker.protocol.version."""
    assert settings_of(kafka, protocol) == settings


def test_before_3_4_the_controller_znode_has_no_kraft_epoch() -> None:
    """At every election, also of a broker that existed before."""
    cluster = cluster_of(TOPIC, DeleteController(), kraft_controller_epoch=False)
    assert cluster.tree.data("/controller") == (
        f'{{"version":1,"brokerid":0,"timestamp":"{cluster.tree.time_ms}"}}'
    )
