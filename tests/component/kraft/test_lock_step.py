"""The model against Kafka's own QuorumController, command by command: what its records state, and what it does next."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from controller_model.insight.loss import settled
from controller_model.insight.rebalance import AutoRebalance, next_rebalance, recommend
from controller_model.kafka.elections import RECOVERING
from controller_model.kafka.ids import NO_LEADER
from tests.component.kraft.lock_step import (
    KafkaFaultError,
    Model,
    Oracle,
    Story,
    Truth,
    elections,
    oracle_of,
)
from tests.support.releases import KAFKA_3_9, KAFKA_4_4

COMMANDS = 60
SEEDS = [
    *range(10),
    2013,  # eligible replicas that lead after the feature was switched off
    *(pytest.param(seed, marks=pytest.mark.full) for seed in range(10, 50)),
]
ELECTIONS = {
    "fence": {"offline", "unclean"},
    "fails": {"offline", "unclean"},
    "stop": {"controlled_shutdown", "unclean"},
    "unfence": {"offline", "unclean"},
    "register": {"offline", "unclean"},
    "unregister": {"offline", "unclean"},
    "balance": {"preferred", "offline"},
    "preferred": {"preferred", "offline"},
    "unclean": {"unclean", "offline"},
    "isr": {"reassignment"},
    "place": {"unknown"},
    "reassign": {"reassignment", "unclean"},
}
"""The kinds of elections that a command may cause; that a replica was moved to a failed directory is not stated. A
reassignment that is cancelled may elect uncleanly (ReplicationControlManager.cancelPartitionReassignment)."""
FAILS_DIR = 3
"""A heartbeat with more words than these names a failed log directory."""


class Play:
    """One story on both sides."""

    def __init__(self, oracle: Oracle, *, elr: bool) -> None:
        self._oracle = oracle
        self.model = Model()
        self.told: list[str] = []
        self.truth = self.do(f"begin {'elr' if elr else 'plain'}")

    def do(self, command: str) -> Truth:
        """Do a command on both sides, and compare what they hold."""
        self.told.append(command)
        answer = self._oracle.do(command)
        events = self.model.feed(answer.batches)
        self.model.assert_shows(answer.truth)
        words = command.split(" ")
        which = next((word for word in words[:3] if word in ELECTIONS), "")
        which = "fails" if words[0] == "beat" and len(words) > FAILS_DIR else which
        assert elections(events) <= ELECTIONS.get(which, set()), (command, events)
        self.truth = answer.truth
        return answer.truth

    def step(self, command: str) -> None:
        """Do a command whose outcome the model foretells, or another one."""
        words = command.split(" ")
        if words[0] == "balance":
            self._balance()
        elif words[0] == "unregister" or (words[0] == "beat" and words[2] in {"fence", "stop"}):
            self.lose(command)
        else:
            self.do(command)
        self.do("unclean")
        self._assert_settled()

    def lose(self, *commands: str) -> None:
        """Take brokers away, and compare the partitions with what the model foretells."""
        lost = {int(command.split(" ")[1]) for command in commands}
        facts, parts = self.model.facts()
        before = self.truth
        foretold = {name: settled(part, facts, facts.live - lost) for name, part in parts.items()}
        for command in commands:
            self.do(command)
        after = self.do("unclean")
        for name, (leader, isr, unclean) in foretold.items():
            part = after.parts[name]
            where = (name, parts[name], sorted(facts.live - lost), part)
            assert part.leader == leader, where
            # Without a leader before and after, members leave the ISR only as they are fenced: who is already is not foretold.
            is_idle = leader < 0 and parts[name].leader < 0 and not lost.isdisjoint(parts[name].isr)
            if len(lost) == 1 and not is_idle:
                assert set(part.isr) == set(isr), where
            was_recovering = before.parts[name].recovery == RECOVERING
            if part.leader != NO_LEADER and not was_recovering:
                assert (part.recovery == RECOVERING) == unclean, where

    def _balance(self) -> None:
        facts, parts = self.model.facts()
        foretold = next_rebalance(parts.values(), facts, AutoRebalance()).elect
        recommended = recommend(parts.values(), facts).chunks
        assert {p for chunk in recommended for p in chunk.partitions} == set(foretold)
        before = self.truth
        after = self.do("balance")
        elected = {
            name
            for name, part in after.parts.items()
            if part.leader == part.replicas[0] != before.parts[name].leader
        }
        assert elected == {f"{topic}-{number}" for topic, number in foretold}

    def _assert_settled(self) -> None:
        """Kafka has done all it can: the model expects nothing more."""
        facts, parts = self.model.facts()
        for name, part in parts.items():
            leader, isr, _ = settled(part, facts, facts.live)
            held = self.truth.parts[name]
            assert (leader, set(isr)) == (held.leader, set(held.isr)), (name, part, facts.live)


@pytest.fixture(
    scope="module",
    params=[pytest.param(KAFKA_3_9, marks=pytest.mark.full), KAFKA_4_4],
    ids=lambda release: release.name,
)
def oracle(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Oracle]:
    """Kafka's controller."""
    with oracle_of(request.param, tmp_path_factory.mktemp("oracle")) as running:
        yield running


@contextmanager
def of_kafkas_own(play: Play) -> Iterator[None]:
    """End a story at a defect of Kafka's own; say what was told last where the model fails."""
    try:
        yield
    except KafkaFaultError as fault:
        # Of Kafka 4.4: a deleted topic stays in the table of ELRs, which the next registration reads.
        if "existed in isrMembers, but not in the topics map" not in str(fault):
            raise
    except AssertionError as error:
        error.add_note("\n".join(play.told[-12:]))
        raise


@pytest.mark.parametrize("seed", SEEDS)
def test_the_model_holds_and_foretells_what_kafkas_controller_does(
    oracle: Oracle, seed: int
) -> None:
    """Every view, figure, kind of election and forecast is that of Kafka's own classes, after every command."""
    elr = oracle.has_elr and bool(seed % 2)
    play = Play(oracle, elr=elr)
    story = Story(seed, elr=elr, log_dirs=False)
    chance = random.Random(seed)  # noqa: S311  # the same pairs each time
    with of_kafkas_own(play):
        for command in story.begin():
            play.do(command)
        for _ in range(COMMANDS):
            active = [b for b, held in play.truth.brokers.items() if held.is_active]
            if len(active) > 1 and chance.random() < 0.1:
                play.lose(*(f"beat {broker} fence" for broker in chance.sample(active, 2)))
            else:
                play.step(story.next(play.truth))


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(s, marks=pytest.mark.full) for s in range(4, 20))]
)
def test_the_model_holds_and_foretells_what_kafkas_controller_does_as_log_directories_fail(
    oracle: Oracle, seed: int
) -> None:
    """The same where replicas are placed in directories that fail, whether they are in sync then or not."""
    elr = oracle.has_elr and bool(seed % 2)
    play = Play(oracle, elr=elr)
    story = Story(seed, elr=elr, log_dirs=True)
    with of_kafkas_own(play):
        for command in story.begin():
            play.do(command)
        for _ in range(COMMANDS):
            play.step(story.next(play.truth))


@pytest.mark.parametrize("failed", [1, 2])
def test_an_eligible_replica_leads_only_from_a_log_directory_that_is_online(
    oracle: Oracle, failed: int
) -> None:
    """Of broker 2 the directory of the partition fails, or the other one; then broker 1, which leads, is lost."""
    if not oracle.has_elr:
        pytest.skip("the release has no eligible leader replicas")
    play = Play(oracle, elr=True)
    for command in (
        *(f"register {broker} clean" for broker in (1, 2)),
        *(f"beat {broker} unfence" for broker in (1, 2)),
        "config broker - min.insync.replicas 2",
        "create a 1,2",
        "place 1 1 a-0",
        "place 2 1 a-0",
        *(["isr a-0 1 0"] if failed != 1 else []),
        f"beat 2 unfence {failed}",
    ):
        play.do(command)
    assert (play.truth.parts["a-0"].isr, play.truth.parts["a-0"].elr) == ((1,), (2,))
    play.lose("beat 1 fence")
    assert play.truth.parts["a-0"].leader == (NO_LEADER if failed == 1 else 2)
