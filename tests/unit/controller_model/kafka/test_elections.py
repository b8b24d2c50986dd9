"""Leader elections, compared with Kafka's own test cases and with the rules written a second time."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pytest

from controller_model.kafka.elections import (
    RECOVERED,
    RECOVERING,
    STATE_CHANGE_FAILED,
    Election,
    LeaderAndIsr,
    Strategy,
    is_election_needed,
    leader_for_controlled_shutdown,
    leader_for_offline,
    leader_for_preferred_replica,
    leader_for_reassign,
)
from controller_model.kafka.errors import ModelError

FAILED = None


def held(
    strategy: str = "offline",
    *,
    replicas: Sequence[int] = (2, 4),
    isr: tuple[int, ...] = (2, 4),
    leader: int = 2,
    live: Collection[int] = (2, 4),
    shutting_down: Collection[int] = (),
    offline_dirs: Collection[int] = (),
    target: Sequence[int] | None = None,
    recovery_state: int = RECOVERED,
    **more: Any,
) -> Election | None:
    """Elect in a partition of brokers 2 and 4 that broker 2 leads, with the changes of a case."""
    current = LeaderAndIsr(leader, isr, 6, recovery_state)
    able = set(live) - set(offline_dirs)
    serving = able - set(shutting_down)
    match Strategy(strategy):
        case Strategy.OFFLINE:
            return leader_for_offline(current, replicas, serving, **more)
        case Strategy.REASSIGN:
            goal = replicas if target is None else target
            return leader_for_reassign(current, goal, serving, **more)
        case Strategy.PREFERRED:
            return leader_for_preferred_replica(current, replicas, serving, **more)
        case Strategy.CONTROLLED_SHUTDOWN:
            return leader_for_controlled_shutdown(current, replicas, able, shutting_down, **more)


def won(leader: int, *isr: int, recovery: int = RECOVERED, unclean: bool = False) -> Election:
    """Return an election that was won, starting from the state of `held`."""
    return Election(LeaderAndIsr(leader, isr, 7, recovery), unclean=unclean)


# Kafka's PartitionLeaderElectionAlgorithmsTest, case by case and in its order.
KAFKAS_OWN_CASES = {
    "OfflinePartitionLeaderElection": (held(live={4}), won(4, 4)),
    "LastIsrOfflineUncleanLeaderElectionDisabled": (held(isr=(2,), live={4}), FAILED),
    "LastIsrOfflineUncleanLeaderElectionEnabled": (
        held(isr=(2,), live={4}, unclean=True),
        won(4, 4, recovery=RECOVERING, unclean=True),
    ),
    "ReassignPartitionLeaderElection": (held("reassign", live={4}), won(4, 2, 4)),
    "ReassignPartitionLeaderElectionWithNoLiveIsr": (held("reassign", isr=(2,), live=()), FAILED),
    "ReassignPartitionLeaderElectionWithEmptyIsr": (held("reassign", isr=(), live={2}), FAILED),
    "PreferredReplicaPartitionLeaderElection": (held("preferred"), won(2, 2, 4)),
    "PreferredReplicaInIsrNotLive": (held("preferred", isr=(2,), live=()), FAILED),
    "PreferredReplicaNotInIsrLive": (held("preferred", isr=(4,)), FAILED),
    "PreferredReplicaNotInIsrNotLive": (held("preferred", isr=(), live=()), FAILED),
    "ControlledShutdownPartitionLeaderElection": (
        held("controlled_shutdown", shutting_down={2}),
        won(4, 4),
    ),
    "ControlledShutdownLastIsrShuttingDown": (
        held("controlled_shutdown", isr=(2,), shutting_down={2}),
        FAILED,
    ),
    "ControlledShutdownAllIsrSimultaneouslyShutdown": (
        held("controlled_shutdown", shutting_down={2, 4}),
        FAILED,
    ),
}


@pytest.mark.parametrize("case", KAFKAS_OWN_CASES)
def test_kafkas_own_election_cases_end_as_in_kafka(case: str) -> None:
    """Every case of Kafka's own unit test gives here what it gives there."""
    got, expected = KAFKAS_OWN_CASES[case]
    assert got == expected


OTHER_CASES = {
    "a broker in controlled shutdown leads no more": (held(shutting_down={2}), won(4, 4)),
    "the ISR keeps its own order": (held(isr=(4, 2)), won(2, 4, 2)),
    "a failed log directory is as good as a dead broker": (held(offline_dirs={2}), won(4, 4)),
    "unclean is not needed while a member of the ISR lives": (
        held(live={4}, unclean=True),
        won(4, 4),
    ),
    "below 3.2 an unclean leader is not marked": (
        held(isr=(2,), live={4}, unclean=True, recovery_supported=False),
        won(4, 4, unclean=True),
    ),
    "below 3.2 a recovery state stays as it was": (
        held(
            isr=(2,),
            live={4},
            unclean=True,
            recovery_supported=False,
            recovery_state=RECOVERING,
        ),
        won(4, 4, recovery=RECOVERING, unclean=True),
    ),
    "a clean election leaves the recovery state": (
        held(live={4}, recovery_state=RECOVERING),
        won(4, 4, recovery=RECOVERING),
    ),
    "unclean, and nobody lives": (held(isr=(2,), live=(), unclean=True), FAILED),
    "unclean, the first live replica leads": (
        held(replicas=(2, 4, 5), isr=(2,), live={5, 4}, unclean=True),
        won(4, 4, recovery=RECOVERING, unclean=True),
    ),
    "no unclean one while an unassigned broker of the ISR lives": (
        held(isr=(9,), live={2, 4, 9}, unclean=True),
        FAILED,
    ),
    "nobody is assigned": (held(replicas=()), FAILED),
    "preferred, nobody is assigned": (held("preferred", replicas=()), FAILED),
    "preferred never tries the second": (held("preferred", live={4}), FAILED),
    "preferred, in shutdown": (held("preferred", shutting_down={2}), FAILED),
    "preferred, failed log directory": (held("preferred", offline_dirs={2}), FAILED),
    "preferred may lead already": (held("preferred", leader=2), won(2, 2, 4)),
    "preferred keeps a dead member in the ISR": (held("preferred", live={2}), won(2, 2, 4)),
    "reassign leaves removed replicas out": (
        held("reassign", replicas=(2, 4, 5), target=(4, 5)),
        won(4, 2, 4),
    ),
    "reassign takes an added replica that is in sync": (
        held("reassign", replicas=(5, 2, 4), isr=(2, 4, 5), live={2, 4, 5}),
        won(5, 2, 4, 5),
    ),
    "reassign passes over an added replica that is not": (
        held("reassign", replicas=(5, 2, 4), live={2, 4, 5}),
        won(2, 2, 4),
    ),
    "reassign follows the target's order": (held("reassign", target=(4, 2)), won(4, 2, 4)),
    "reassign to an empty target": (held("reassign", target=()), FAILED),
    "reassign, the target is in shutdown": (
        held("reassign", target=(4,), shutting_down={4}),
        FAILED,
    ),
    "reassign, failed log directory": (held("reassign", offline_dirs={2}), won(4, 2, 4)),
    "controlled shutdown leaves a dead member in the ISR": (
        held(
            "controlled_shutdown",
            replicas=(2, 4, 5),
            isr=(2, 4, 5),
            live={2, 5},
            shutting_down={2},
        ),
        won(5, 4, 5),
    ),
    "controlled shutdown takes all that shut down out": (
        held(
            "controlled_shutdown",
            replicas=(2, 4, 5),
            isr=(4, 5, 2),
            live={2, 4, 5},
            shutting_down={2, 4},
        ),
        won(5, 5),
    ),
    "controlled shutdown, failed log directory": (
        held("controlled_shutdown", shutting_down={2}, offline_dirs={4}),
        FAILED,
    ),
    "controlled shutdown, a dead successor": (
        held("controlled_shutdown", live={2}, shutting_down={2}),
        FAILED,
    ),
    "the leader that was -1 makes no difference": (held(leader=-1), won(2, 2, 4)),
}


@pytest.mark.parametrize("case", OTHER_CASES)
def test_election_rules_that_kafkas_cases_leave_out(case: str) -> None:
    """The remaining rules, each by the smallest case that distinguishes it from similar ones."""
    got, expected = OTHER_CASES[case]
    assert got == expected


def test_the_numbers_and_names_are_kafkas() -> None:
    """Numbers and names in znodes and answers: those of LeaderRecoveryState and Errors."""
    assert (RECOVERED, RECOVERING) == (0, 1)
    assert LeaderAndIsr(1, (1,)) == LeaderAndIsr(1, (1,), 0, 0)
    assert STATE_CHANGE_FAILED == "StateChangeFailedException"


def test_outcomes_cannot_be_changed() -> None:
    """Elections and states are values: they can be keys, and cannot be altered."""
    assert len({won(2, 2, 4), won(2, 2, 4), won(4, 4)}) == 2
    with pytest.raises(AttributeError):
        won(2, 2, 4).unclean = True  # type: ignore[misc] # that is the test


def test_new_epoch_raises_only_the_leader_epoch() -> None:
    """LeaderAndIsr.newEpoch: the leader epoch grows by one, everything else stays."""
    assert LeaderAndIsr(1, (2, 1), 4, RECOVERING).new_epoch() == LeaderAndIsr(
        1, (2, 1), 5, RECOVERING
    )


# --- every small cluster ---------------------------------------------------------------------


def subsets(brokers: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Return all subsets, in the order given."""
    for size in range(len(brokers) + 1):
        yield from itertools.combinations(brokers, size)


def brute(
    strategy: str,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    brokers: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    *,
    unclean: bool,
) -> tuple[int, tuple[int, ...], bool] | None:
    """Return leader, ISR and unclean by the rules in words, over lists of candidates."""
    live, shutting, offline = brokers
    serving = [b for b in live if b not in shutting and b not in offline]
    if strategy == "controlled_shutdown":
        able = [b for b in live if b not in offline and b not in shutting]
        new_isr = tuple(member for member in isr if member not in shutting)
    else:
        able = serving
        new_isr = isr
    if strategy == "offline":
        new_isr = tuple(member for member in isr if member in serving)
    asked = replicas[:1] if strategy == "preferred" else replicas
    candidates = [b for b in asked if b in able and b in isr]
    is_unclean = False
    if strategy == "offline" and unclean and not new_isr:
        candidates = [b for b in replicas if b in serving]
        new_isr = tuple(candidates[:1])
        is_unclean = True
    return (candidates[0], new_isr, is_unclean) if candidates else None


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_small_cluster_elects_by_the_rules(strategy: Strategy) -> None:
    """Three brokers with all assignments, ISRs, live, stopping and failing sets: as the rules in words."""
    brokers = (0, 1, 2)
    assignments = [p for size in range(4) for p in itertools.permutations(brokers, size)]
    isrs = [(), (0,), (1,), (2, 0), (1, 2), (2, 1, 0)]
    seen = 0
    for replicas, isr, live, shutting, offline, unclean in itertools.product(
        assignments,
        isrs,
        subsets(brokers),
        [(), (0,), (1, 2)],
        [(), (1,)],
        (False, True),
    ):
        more: dict[str, Any] = {"unclean": unclean} if strategy is Strategy.OFFLINE else {}
        got = held(
            strategy,
            replicas=replicas,
            isr=isr,
            leader=0,
            live=live,
            shutting_down=shutting,
            offline_dirs=offline,
            **more,
        )
        expected = brute(strategy, replicas, isr, (live, shutting, offline), unclean=unclean)
        if expected is None:
            assert got == FAILED
            continue
        leader, new_isr, is_unclean = expected
        recovery = RECOVERING if is_unclean else RECOVERED
        assert got == Election(LeaderAndIsr(leader, new_isr, 7, recovery), unclean=is_unclean)
        assert is_unclean or leader in isr
        seen += 1
    assert seen > 100


# --- requested elections ---------------------------------------------------------------------


def test_a_preferred_election_is_needed_while_another_leads() -> None:
    """Only the leader of the first replica counts, dead or alive, in the ISR or not."""
    for leader, needed in ((2, False), (4, True), (-1, True)):
        assert (
            is_election_needed(Strategy.PREFERRED, replicas=(2, 4), leader=leader, live={2, 4})
            is needed
        )


def test_an_unclean_election_is_needed_without_a_live_leader() -> None:
    """With a leader of -1, one that is dead, or one that is shutting down, it is needed."""

    def needed(leader: int, *shutting: int) -> bool:
        return is_election_needed(
            Strategy.OFFLINE, replicas=(2, 4), leader=leader, live={2}, shutting_down=shutting
        )

    assert [needed(2), needed(4), needed(-1), needed(2, 2)] == [False, True, True, True]


@pytest.mark.parametrize("strategy", [Strategy.REASSIGN, Strategy.CONTROLLED_SHUTDOWN])
def test_only_preferred_and_unclean_elections_can_be_requested(strategy: Strategy) -> None:
    """The admin API has preferred and unclean elections only."""
    with pytest.raises(ModelError, match=f"of kind '{strategy}'"):
        is_election_needed(strategy, replicas=(2,), leader=2, live={2})


def test_an_unclean_leader_is_elected_only_if_allowed() -> None:
    """Unless it is allowed, a partition whose ISR is dead stays without a leader."""
    current = LeaderAndIsr(1, (1,), 3)
    assert leader_for_offline(current, [1, 2], {2}) is None
    allowed = leader_for_offline(current, [1, 2], {2}, unclean=True)
    assert allowed == Election(LeaderAndIsr(2, (2,), 4, RECOVERING), unclean=True)


def test_a_reassignment_elects_in_its_targets_order() -> None:
    """The first target in the ISR leads; members that are being removed stay in the ISR."""
    current = LeaderAndIsr(1, (1, 2, 3, 4), 3)
    elected = leader_for_reassign(current, [4, 3], {1, 2, 3, 4})
    assert elected == Election(LeaderAndIsr(4, (1, 2, 3, 4), 4))
