"""From which step to which partitions are offline, or under their min.insync.replicas."""

from __future__ import annotations

from rehearsal.report import OutageKind
from tests.support.partition_facts import T0, T1, T2, part
from tests.support.rehearsing import names, rehearsed


def test_outages_are_counted_in_steps() -> None:
    """From the step that began them to the one that ended them, or to the end."""
    result = rehearsed(
        "kill-broker:3",
        "kill-broker:2",
        "start-broker:3",
        partitions=[
            part(0, replicas=(3,), leader=3, isr=(3,)),
            part(1, replicas=(2,), leader=2, isr=(2,)),
            part(2, min_isr=3),
        ],
    )
    outages = {
        (each.kind, each.partition): (each.from_step, each.until_step)
        for each in result.outages.outages
    }
    assert outages == {
        (OutageKind.OFFLINE, 0): (1, 3),
        (OutageKind.OFFLINE, 1): (2, None),
        (OutageKind.UNDER_MIN_ISR, 2): (1, None),
    }
    assert [names(step.went_offline) for step in result.steps] == [(T0,), (T1,), ()]
    assert names(result.steps[2].came_online) == (T0,)
    assert names(result.steps[0].went_under_min_isr) == (T2,)


def test_an_outage_from_before_begins_at_step_0() -> None:
    """It begins at step 0, before the first; one that ends holds its last step."""
    result = rehearsed(
        "start-broker:4",
        partitions=[part(0, replicas=(4,), leader=-1, isr=(4,)), part(1, isr=(1,), min_isr=2)],
    )
    assert [(o.partition, o.from_step, o.until_step) for o in result.outages.outages] == [
        (0, 0, 1),
        (1, 0, None),
    ]


def test_a_deleted_partition_ends_its_outage_and_is_not_back_online() -> None:
    """A partition that goes offline also ends its time under min.insync.replicas: it is not reported as well."""
    result = rehearsed(
        "kill-broker:3",
        "delete-topic:t",
        partitions=[
            part(0, replicas=(3,), leader=3, isr=(3,)),
            part(1, replicas=(3, 2), leader=3, isr=(3,), min_isr=2),
        ],
    )
    assert [(o.kind, o.partition, o.from_step, o.until_step) for o in result.outages.outages] == [
        (OutageKind.UNDER_MIN_ISR, 1, 0, 1),
        (OutageKind.OFFLINE, 0, 1, 2),
        (OutageKind.OFFLINE, 1, 1, 2),
    ]
    assert names(result.steps[0].left_under_min_isr) == ()
    assert names(result.steps[1].came_online) == ()
