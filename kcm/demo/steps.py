"""The steps of the story, and what the cluster must be after each.

The rule: a step fails, too, when the cluster did not do what the step is about: a story in which
nothing happened proves nothing. The steps are the same at any pace.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kcm.demo.cluster import BROKER_IDS, ELECTION_DEADLINE_S, WatchedCluster
from kcm.demo.truth import TrueFigures

TOPICS = {"orders": (12, 3), "payments": (6, 2), "clicks": (6, 3), "audit": (3, 3)}
"""Partitions and replication factor; two replicas are not enough for two dead brokers."""
DEPOSITIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryStep:
    """One step: `act` returns a description of what it did; `expected` judges the truth after it."""

    title: str
    act: Callable[[WatchedCluster, TrueFigures], str]
    expected: Callable[[TrueFigures, TrueFigures], bool]
    """Takes the truth before the step and the current truth."""
    stalls: bool = False
    """Whether a broker hangs after it: its clients wait, so the next step follows without a pause."""


def create_topics(cluster: WatchedCluster, _before: TrueFigures) -> str:
    """Create the topics one after the other while those that exist are written to."""
    for name, (partitions, replication_factor) in TOPICS.items():
        cluster.create_topic(name, partitions=partitions, replication_factor=replication_factor)
    return f"{len(TOPICS)} topics created under load"


def kill_follower(cluster: WatchedCluster, before: TrueFigures) -> str:
    """Kill a broker that is not the controller."""
    victim = max(broker for broker in before.brokers if broker != before.controller)
    cluster.brokers[victim].kill()
    return f"broker {victim} killed (kill -9)"


def kill_controller(cluster: WatchedCluster, before: TrueFigures) -> str:
    """Kill the controller's broker."""
    cluster.brokers[before.controller].kill()
    return f"the controller's broker {before.controller} killed"


def depose_repeatedly(cluster: WatchedCluster, _before: TrueFigures) -> str:
    """Delete /controller several times, each as soon as a broker has taken it again."""
    for _ in range(DEPOSITIONS):
        cluster.controller.depose(ELECTION_DEADLINE_S)
    return f"/controller deleted {DEPOSITIONS} times in a row"


def bring_back(cluster: WatchedCluster, _before: TrueFigures) -> str:
    """Start the dead brokers again; leadership stays with the brokers that have it now."""
    brokers = cluster.bring_back()
    return f"brokers {' and '.join(map(str, brokers))} back"


def stall(cluster: WatchedCluster, before: TrueFigures) -> str:
    """Pause the broker that leads least, so that it leaves ISRs while its session lives."""
    broker = _leads_least(before)
    cluster.stalled = cluster.brokers[broker]
    cluster.stalled.pause()
    return f"broker {broker} stalls (SIGSTOP)"


def wake(cluster: WatchedCluster, _before: TrueFigures) -> str:
    """Resume the paused broker and let it catch up."""
    if cluster.stalled is None:
        raise RuntimeError("no broker was stalled")
    cluster.stalled.resume()
    return f"broker {cluster.stalled.broker_id} goes on (SIGCONT)"


def elect_preferred(cluster: WatchedCluster, _before: TrueFigures) -> str:
    """Run the preferred-replica election."""
    cluster.elect_preferred()
    return "preferred election run"


def _healthy(now: TrueFigures) -> bool:
    return now.offline == 0 and now.under_replicated == 0


def _leads_least(now: TrueFigures) -> int:
    """Return the live broker other than the controller that leads the fewest partitions."""
    led = dict(now.leaders)
    others = [broker for broker in now.brokers if broker != now.controller]
    return min(others, key=lambda other: (led.get(other, 0), other))


def _fewest_led(now: TrueFigures) -> int:
    return dict(now.leaders).get(_leads_least(now), 0)


def _on_every_broker() -> int:
    """Return the number of partitions that have a replica on each broker of the story."""
    return sum(partitions for partitions, factor in TOPICS.values() if factor == len(BROKER_IDS))


def _elected(before: TrueFigures, now: TrueFigures, times: int) -> bool:
    return now.controller >= 0 and (now.elections or 0) >= (before.elections or 0) + times


STORY = (
    StoryStep(
        title="topics are created under load",
        act=create_topics,
        expected=lambda _before, now: (
            now.topics == len(TOPICS)
            and now.partitions == sum(partitions for partitions, _ in TOPICS.values())
            and sum(led for _, led in now.leaders) == now.partitions
            and _healthy(now)
        ),
    ),
    StoryStep(
        title="a broker is killed that is not the controller",
        act=kill_follower,
        expected=lambda before, now: (
            len(now.brokers) == len(before.brokers) - 1
            and now.controller == before.controller
            and now.under_replicated > 0
            and now.imbalance > before.imbalance
        ),
    ),
    StoryStep(
        title="the controller's broker is killed",
        act=kill_controller,
        expected=lambda before, now: (
            len(now.brokers) == len(before.brokers) - 1
            and _elected(before, now, 1)
            and now.controller != before.controller
            and now.offline > 0
        ),
    ),
    StoryStep(
        title="/controller is deleted three times in a row",
        act=depose_repeatedly,
        expected=lambda before, now: _elected(before, now, DEPOSITIONS),
    ),
    StoryStep(
        title="the brokers come back, imbalance stays",
        act=bring_back,
        expected=lambda before, now: (
            len(now.brokers) > len(before.brokers) and _healthy(now) and now.imbalance > 0
        ),
    ),
    StoryStep(
        title="a live broker stalls and leaves the ISRs",
        act=stall,
        expected=lambda before, now: (
            now.brokers == before.brokers
            and now.under_replicated >= _on_every_broker() - _fewest_led(before)
        ),
        stalls=True,
    ),
    StoryStep(
        title="it goes on and rejoins them",
        act=wake,
        expected=lambda before, now: now.brokers == before.brokers and _healthy(now),
    ),
    StoryStep(
        title="the preferred election restores the balance",
        act=elect_preferred,
        expected=lambda _before, now: now.imbalance == 0 and not now.not_led and _healthy(now),
    ),
)
