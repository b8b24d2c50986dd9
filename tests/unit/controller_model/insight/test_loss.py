"""What a loss of brokers breaks, and whether a broker is safe to stop."""

from __future__ import annotations

import pytest

from controller_model.insight import loss
from controller_model.insight.loss import Loss, StopRisk, lose, lose_each, safety, settled
from controller_model.kafka.cluster_facts import PartitionFacts
from controller_model.kafka.ids import TopicPartition
from tests.support.partition_facts import ALL, T0, T1, T2, part, up


def test_a_lost_leader_goes_to_the_first_in_sync_replica() -> None:
    """In the order of the assignment; dead members leave the ISR, the others keep its order."""
    assert settled(part(isr=(3, 1, 2)), ALL, {2, 3}) == (2, (3, 2), False)
    assert settled(part(isr=(1, 3)), ALL, {2, 3}) == (3, (3,), False)
    assert settled(part(isr=(1, 3)), ALL, {1, 2}) == (1, (1,), False)
    assert settled(part(isr=(1,)), ALL, {2, 3}) == (-1, (1,), False)
    assert settled(part(isr=(1,), unclean=True), ALL, {2, 3}) == (2, (2,), True)
    assert settled(part(leader=None, isr=()), ALL, {2, 3}) == (-1, (), False)


def test_a_loss_is_reported_partition_by_partition() -> None:
    """One partition for each kind of effect."""
    partitions = [
        part(0),
        part(1, isr=(1,)),
        part(2, isr=(1, 2), min_isr=2),
        part(3, leader=-1, isr=(1,)),
        part(4, isr=(1,), unclean=True),
        part(5, leader=2, isr=(2, 3)),
        part(6, deleting=True, isr=(1,)),
        part(7, leader=None, isr=()),
        part(8, leader=4, isr=(4, 1)),
        part(9, isr=(1, 2), min_isr=3),
        part(10, leader=-1, isr=(1, 5), unclean=False, replicas=(5, 1)),
        part(11, leader=-1, isr=(1, 5), replicas=(5,)),
    ]
    loss = lose(partitions, ALL, {1, 9})
    assert loss == Loss(
        brokers=(1,),
        offline=(T1,),
        stranded=tuple(TopicPartition("t", number) for number in (3, 8, 10)),
        under_min_isr=(T2,),
        unclean=(TopicPartition("t", 4),),
        moved={2: 4},
        leaders_after={2: 5},
    )
    assert lose_each(partitions, ALL)[1] == loss


def test_an_election_that_the_controller_aborts_is_named() -> None:
    """The partition's controller epoch is above that of the controller, so its leader's loss leaves it offline."""
    cluster = up(1, 2, 3, controller=2, controller_epoch=4)
    loss = lose([part(0, controller_epoch=9), part(1, isr=(1,), controller_epoch=4)], cluster, {1})
    assert (loss.offline, loss.aborted) == ((T0, T1), (T0,))


def test_each_kind_of_partition_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and epochs do not distinguish kinds, everything else does; above a limit the cache is cleared."""
    seen: list[PartitionFacts] = []

    def compute(partition: PartitionFacts) -> PartitionFacts:
        seen.append(partition)
        return partition

    alike = [part(0), part(1, leader_epoch=7, controller_epoch=9), part(2, topic="u")]
    others = [
        part(replicas=(2, 1, 3)),
        part(isr=(1, 2)),
        part(leader=2),
        part(adding=(3,)),
        part(removing=(3,)),
        part(min_isr=1),
        part(unclean=False),
        part(deleting=True),
    ]
    kinds = loss.by_kind(ALL, compute)
    assert [kinds(each) for each in (*alike, *others)] == [*[alike[0]] * 3, *others]
    assert seen == [alike[0], *others]
    monkeypatch.setattr(loss, "KINDS_KEPT", 2)
    seen.clear()
    few = loss.by_kind(ALL, compute)
    for each in (alike[0], others[0], others[0], others[1], alike[1]):
        few(each)
    assert seen == [alike[0], others[0], others[1], alike[1]]


def test_a_rack_and_a_pair_are_lost_together() -> None:
    """What two brokers cover for each other breaks if both are lost."""
    racks = up(1, 2, 3, racks={1: "a", 2: "a", 3: "b"})
    partitions = [part(0, isr=(1, 2)), part(1, isr=(1, 3))]
    assert lose(partitions, racks, {1}).offline == ()
    both = lose(partitions, racks, racks.in_rack("a"))
    assert (both.brokers, both.offline, both.moved) == ((1, 2), (T0,), {3: 1})
    assert both.leaders_after == {3: 1}
    assert lose(partitions, racks, {1, 2}) == both


def test_the_loss_of_a_broker_affects_only_its_own_partitions() -> None:
    """A member that died before leaves the ISR anyway: that is not an effect of another loss."""
    dying = part(replicas=(1, 9, 2), isr=(1, 9), min_isr=2)
    assert lose([dying], ALL, {3}) == Loss(brokers=(3,), leaders_after={1: 1})
    assert lose([dying], ALL, {2}) == Loss(brokers=(2,), leaders_after={1: 1})
    assert lose_each([dying], ALL)[2] == Loss(brokers=(2,), leaders_after={1: 1})


def test_a_replica_out_of_sync_matters_to_an_unclean_election_only() -> None:
    """It is the last one that could lead; what is offline now loses no data and moves no leader."""
    offline = part(replicas=(9, 1), leader=-1, isr=(9,), unclean=True)
    assert lose([offline], ALL, {1}).stranded == (T0,)
    assert lose_each([offline], ALL)[1].stranded == (T0,)
    other_left = part(replicas=(9, 1, 2), leader=-1, isr=(9,), unclean=True)
    assert lose([other_left], ALL, {1}) == Loss(brokers=(1,))
    clean = part(replicas=(9, 1), leader=-1, isr=(9,))
    assert lose([clean], ALL, {1}) == Loss(brokers=(1,))


def test_the_new_leaders_own_min_isr_decides() -> None:
    """A partition may fall below min.insync.replicas because the new leader's value is higher."""
    cluster = up(1, 2, 3, broker_min_isr={"2": 3})
    assert lose([part()], cluster, {1}).under_min_isr == (T0,)
    assert lose([part()], cluster, {3}).under_min_isr == ()


def test_without_min_insync_replicas_safe_to_stop_is_unknown() -> None:
    """A topic's own value, a single replica, what becomes offline: those are known all the same."""
    cluster = up(1, 2, 3, min_isr_assumed=None)
    answer = safety(lose([part()], cluster, {3}), cluster)
    assert (answer.safe, [reason.risk for reason in answer.reasons]) == (
        None,
        [StopRisk.MIN_ISR_UNKNOWN],
    )
    assert lose([part()], cluster, {1}).min_isr_unknown == (T0,)
    known = [part(min_isr=1), part(1, min_isr=2), part(2, replicas=(1,), isr=(1,))]
    assert lose(known, cluster, {3}).min_isr_unknown == ()
    assert safety(lose(known, cluster, {3}), cluster).safe is True
    both = safety(lose([part(), part(1, isr=(3,), leader=3)], cluster, {3}), cluster)
    assert (both.safe, [reason.risk for reason in both.reasons]) == (
        False,
        [StopRisk.OFFLINE, StopRisk.MIN_ISR_UNKNOWN],
    )
    out_of_sync = part(isr=(1, 2), unclean=True)
    assert lose([out_of_sync], cluster, {3}).min_isr_unknown == ()


def test_safe_to_stop_is_true_with_notes_of_its_effects() -> None:
    """Without a reason against it: yes. That it is the controller, and who leads then, are notes."""
    cluster = up(1, 2, 3, controller=1)
    answer = safety(lose([part(), part(1)], cluster, {1}), cluster)
    assert (answer.safe, answer.reasons) == (True, ())
    assert answer.notes == (
        "the controller is among them: another broker is elected",
        "2 leaders would move: 2 to broker 2",
    )
    assert safety(lose([part()], cluster, {3}), cluster).notes == ()


def test_that_brokers_refuse_the_controller_is_a_note() -> None:
    """While its epoch is below the one that they have seen; that of the next controller may not be."""
    cluster = up(1, 2, 3, controller=1, controller_epoch=4, refused_below=5)
    assert safety(lose([], cluster, {3}), cluster).notes == (
        "brokers refuse what the controller sends, because its epoch went back: no election takes effect",
    )
    assert safety(lose([], cluster, {1}), cluster).notes == (
        "the controller is among them: another broker is elected",
    )


def test_safe_to_stop_is_false_with_reasons() -> None:
    """Every reason with its number and examples, the worst first."""
    partitions = [
        *(part(n, isr=(1,)) for n in range(5)),
        part(5, isr=(1, 2), min_isr=2),
        part(6, leader=-1, isr=(1,)),
        part(7, isr=(1,), unclean=True),
    ]
    answer = safety(lose(partitions, ALL, {1}), ALL)
    assert answer.safe is False
    assert [(reason.risk, reason.text) for reason in answer.reasons] == [
        (
            StopRisk.OFFLINE,
            "5 partitions (t-0, t-1, t-2, ...) would go offline: no other replica can be elected",
        ),
        (
            StopRisk.STRANDED,
            "1 partition (t-6) offline now would lose the last replica that could lead again",
        ),
        (
            StopRisk.UNCLEAN,
            "1 partition (t-7) would get a leader that is not in sync: data is lost",
        ),
        (
            StopRisk.UNDER_MIN_ISR,
            (
                "1 partition (t-5) would fall below min.insync.replicas: producers with acks=all "
                "are refused"
            ),
        ),
    ]
    assert [len(reason.partitions) for reason in answer.reasons] == [5, 1, 1, 1]


def test_a_broker_that_is_not_there_cannot_be_stopped() -> None:
    """The answer for a dead broker is None."""
    answer = safety(lose([part()], ALL, {9}), ALL)
    assert answer.safe is None
    assert [reason.risk for reason in answer.reasons] == [StopRisk.NOT_LIVE]
