"""Views: their keys, what may be missing, whether a broker may stop, and records that are not views."""

from __future__ import annotations

import msgspec
import pytest

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import Position
from controller_model.records.views import (
    Capability,
    LogView,
    decode_view,
    encode_view,
    topic_key,
    view_key,
)
from tests.support.samples import (
    beat,
    broker_view,
    cluster_view,
    incidents_view,
    recommendation_view,
    topic_view,
)

COLUMNS = [
    *("replicas", "leader", "isr", "leader_epoch"),
    *("controller_epoch", "partition_epoch", "leader_recovery_state"),
]


def test_each_view_has_its_own_key() -> None:
    """`cluster/kind/id`, a topic's by chunk."""
    views = (
        cluster_view(),
        broker_view(3),
        topic_view("t"),
        incidents_view(),
        recommendation_view(),
        beat(1),
    )
    assert [view_key(view) for view in views] == [
        "prod/cluster",
        "prod/broker/3",
        "prod/topic/t/0",
        "prod/incidents",
        "prod/recommendation",
        "prod/watcher",
    ]
    assert topic_key("prod", "t", 7) == "prod/topic/t/7"


@pytest.mark.parametrize(
    ("fields", "incomplete"),
    [
        ({"verified_at": 1}, False),
        ({}, True),
        ({"verified_at": 1, "incomplete_since": 1}, True),
        ({"verified_at": 1, "hidden": (Capability.CONTROLLER,)}, True),
        ({"verified_at": 1, "hidden": (Capability.BROKER_CONFIGS,)}, False),
    ],
)
def test_figures_are_incomplete_until_verified_and_while_a_path_is_denied(
    fields: dict[str, object], incomplete: bool
) -> None:
    """Options replace what Kafka's own ACLs deny to everybody."""
    assert LogView(**fields).incomplete is incomplete  # type: ignore[arg-type]  # a table of fields


def test_a_cluster_view_tells_what_can_be_seen() -> None:
    """What is hidden, wholly or in part, cannot be seen; a topic is hidden by any path above its own."""
    view = cluster_view(log=LogView(hidden=(Capability.TOPICS,), denied=("/brokers/topics/t",)))
    assert not view.can_see(Capability.TOPICS)
    assert view.can_see(Capability.CONTROLLER)
    assert view.log.hides_topic("t")
    assert not view.log.hides_topic("t2")
    assert LogView(denied=("/",)).hides_topic("t2")


def test_a_broker_may_stop_when_nothing_is_known_to_break_and_nothing_is_open() -> None:
    """What breaks is known at once; that nothing breaks only once no write is due from the controller."""
    assert broker_view(0).safe_to_stop is True
    assert broker_view(0, offline_if_lost=1, more_if_lost=True).safe_to_stop is False
    assert broker_view(0, under_min_isr_if_lost=1).safe_to_stop is False
    assert broker_view(0, more_if_lost=True).safe_to_stop is None
    assert broker_view(0, live=False, offline_if_lost=1).safe_to_stop is None


def test_a_heartbeat_holds_the_position_of_the_log() -> None:
    """It is read as it was written, and holds the position of the log."""
    sent = beat(7, seq=12, generation=3)
    assert decode_view(encode_view(sent)) == sent
    assert sent.position == Position(3, 12)


def test_a_view_of_another_version_or_kind_raises() -> None:
    """A newer version, an unknown kind, and bytes that are not JSON."""
    view = cluster_view()
    assert decode_view(encode_view(view)) == view
    newer = msgspec.structs.replace(view, v=2)
    for data in (encode_view(newer), b'{"view":"x"}', b"{", b"\xff", b"null"):
        with pytest.raises(UnreadableRecordError):
            decode_view(data)


@pytest.mark.parametrize("column", [*COLUMNS, "partitions"])
@pytest.mark.parametrize("entries", [0, 1, 3])
def test_a_topic_view_with_columns_of_different_length_is_damage(column: str, entries: int) -> None:
    """It is not known which entry belongs to which partition."""
    well = topic_view("t")
    assert decode_view(encode_view(well)) == well
    other = (getattr(well, column) * 2)[:entries]
    damaged = msgspec.structs.replace(well, **{column: other})
    with pytest.raises(UnreadableRecordError, match="columns"):
        decode_view(encode_view(damaged))
