"""The story of a cluster with ZooKeeper, and what the cluster must be after each step."""

from kcm.demo.cluster import BROKER_IDS, ELECTION_DEADLINE_S, ZooKeeperCluster
from kcm.demo.figures import TrueFigures
from kcm.demo.story import Step, Story, is_healthy

TOPICS = {"orders": (12, 3), "payments": (6, 2), "clicks": (6, 3), "audit": (3, 3)}
"""Partitions and replication factor; two replicas are not enough for two dead brokers."""
DEPOSITIONS = 3
LONG_SESSION_TIMEOUT_MS = 30_000  # a pause as long as the step takes must not end the session


def _create_topics(cluster: ZooKeeperCluster, _before: TrueFigures) -> str:
    for name, (partitions, replication_factor) in TOPICS.items():
        cluster.create_topic(name, partitions=partitions, replication_factor=replication_factor)
    return f"{len(TOPICS)} topics created under load"


def _kill_follower(cluster: ZooKeeperCluster, before: TrueFigures) -> str:
    killed = max(broker for broker in before.brokers if broker != before.controller)
    cluster.brokers[killed].kill()
    return f"broker {killed} killed (kill -9)"


def _kill_controller(cluster: ZooKeeperCluster, before: TrueFigures) -> str:
    cluster.brokers[before.controller].kill()
    return f"the controller's broker {before.controller} killed"


def _delete_controller(cluster: ZooKeeperCluster, _before: TrueFigures) -> str:
    """Delete /controller several times, each as soon as a broker has taken it again."""
    for _ in range(DEPOSITIONS):
        cluster.controller.depose(ELECTION_DEADLINE_S)
    return f"/controller deleted {DEPOSITIONS} times in a row"


def _start_brokers(cluster: ZooKeeperCluster, _before: TrueFigures) -> str:
    """Start all brokers that are down at once; a pause does not end their sessions from now on."""
    down = [broker for broker in cluster.brokers.values() if not broker.running]
    for broker in down:
        broker.session_timeout_ms = LONG_SESSION_TIMEOUT_MS
        broker.start(wait=False)
    for broker in down:
        broker.wait_ready()
    return f"brokers {' and '.join(str(broker.broker_id) for broker in down)} back"


def _pause_broker(cluster: ZooKeeperCluster, before: TrueFigures) -> str:
    """Pause a broker for less than its session lasts, so that it leaves ISRs and stays registered."""
    broker, _ = _leads_least(before)
    cluster.stalled = cluster.brokers[broker]
    cluster.stalled.pause()
    return f"broker {broker} stalls (SIGSTOP)"


def _resume_broker(cluster: ZooKeeperCluster, _before: TrueFigures) -> str:
    if cluster.stalled is None:
        raise RuntimeError("no broker was stalled")
    cluster.stalled.resume()
    return f"broker {cluster.stalled.broker_id} goes on (SIGCONT)"


def _elect_preferred(cluster: ZooKeeperCluster, _before: TrueFigures) -> str:
    cluster.elect_preferred()
    return "preferred election run"


def _leads_least(now: TrueFigures) -> tuple[int, int]:
    """Return the live broker other than the controller that leads the fewest partitions, and how many."""
    led = dict(now.leaders)
    others = [(led.get(broker, 0), broker) for broker in now.brokers if broker != now.controller]
    count, broker = min(others)
    return broker, count


def _elected(before: TrueFigures, now: TrueFigures, times: int) -> bool:
    return now.controller >= 0 and (now.elections or 0) >= (before.elections or 0) + times


_ON_EVERY_BROKER = sum(count for count, factor in TOPICS.values() if factor == len(BROKER_IDS))
"""Partitions that have a replica on each broker."""

STEPS: tuple[Step[ZooKeeperCluster], ...] = (
    Step(
        title="topics are created under load",
        act=_create_topics,
        expected=lambda _before, now: (
            now.topics == len(TOPICS)
            and now.partitions == sum(partitions for partitions, _ in TOPICS.values())
            and sum(led for _, led in now.leaders) == now.partitions
            and is_healthy(now)
        ),
    ),
    Step(
        title="a broker is killed that is not the controller",
        act=_kill_follower,
        expected=lambda before, now: (
            len(now.brokers) == len(before.brokers) - 1
            and now.controller == before.controller
            and now.under_replicated > 0
            and now.imbalance > before.imbalance
        ),
    ),
    Step(
        title="the controller's broker is killed",
        act=_kill_controller,
        expected=lambda before, now: (
            len(now.brokers) == len(before.brokers) - 1
            and _elected(before, now, 1)
            and now.controller != before.controller
            and now.offline > 0
        ),
    ),
    Step(
        title="/controller is deleted three times in a row",
        act=_delete_controller,
        expected=lambda before, now: _elected(before, now, DEPOSITIONS),
    ),
    Step(
        title="the brokers come back, imbalance stays",
        act=_start_brokers,
        expected=lambda before, now: (
            len(now.brokers) > len(before.brokers) and is_healthy(now) and now.imbalance > 0
        ),
    ),
    Step(
        title="a live broker stalls and leaves the ISRs",
        act=_pause_broker,
        expected=lambda before, now: (
            now.brokers == before.brokers
            and now.under_replicated >= _ON_EVERY_BROKER - _leads_least(before)[1]
        ),
        stalls=True,
    ),
    Step(
        title="it goes on and rejoins them",
        act=_resume_broker,
        expected=lambda before, now: now.brokers == before.brokers and is_healthy(now),
    ),
    Step(
        title="the preferred election restores the balance",
        act=_elect_preferred,
        expected=lambda _before, now: now.imbalance == 0 and not now.not_led and is_healthy(now),
    ),
)

ZOOKEEPER = Story(cluster=ZooKeeperCluster, steps=STEPS, sources="ZooKeeper and Kafka")
