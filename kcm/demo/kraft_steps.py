"""The story of a KRaft cluster, and what the cluster must be after each step."""

from kcm.demo.cluster import BROKER_IDS
from kcm.demo.figures import TrueFigures
from kcm.demo.kraft_cluster import CONTROLLER_IDS, KraftStoryCluster
from kcm.demo.story import Step, Story, is_healthy

TOPICS = {"orders": (12, 3), "payments": (6, 2), "clicks": (6, 3), "audit": (3, 3)}
"""Partitions and replication factor; the last one is deleted."""
CONFIG = {"orders": {"min.insync.replicas": "2"}}
KILLED, STOPPED = 1, 2
"""The brokers that end in turn: the first one's replicas are not in sync any more when the second one ends."""
BEHIND = "drafts"
"""A topic whose replicas are on these two only: it gets a leader that lacks records."""
BEHIND_REPLICAS = ((KILLED, STOPPED), (STOPPED, KILLED))
PARTITIONS = sum(partitions for partitions, _ in TOPICS.values()) + len(BEHIND_REPLICAS)


def _create_topics(cluster: KraftStoryCluster, _before: TrueFigures) -> str:
    for name, (partitions, replication_factor) in TOPICS.items():
        cluster.create_topic(
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            config=CONFIG.get(name),
        )
    cluster.create_with(BEHIND, BEHIND_REPLICAS, {})
    return f"{len(TOPICS) + 1} topics created under load"


def _kill_controller(cluster: KraftStoryCluster, before: TrueFigures) -> str:
    cluster.servers.controllers[before.controller].kill()
    return f"the active controller {before.controller} killed (kill -9)"


def _lose_quorum(cluster: KraftStoryCluster, before: TrueFigures) -> str:
    """Kill the follower: the leader resigns, because no majority fetches (LeaderState.timeUntilCheckQuorumExpires)."""
    controllers = cluster.servers.controllers.items()
    follower = next(v for v, node in controllers if node.running and v != before.controller)
    cluster.servers.controllers[follower].kill()
    return f"controller {follower} killed as well: one of three is left"


def _start_controllers(cluster: KraftStoryCluster, _before: TrueFigures) -> str:
    down = [voter for voter, node in cluster.servers.controllers.items() if not node.running]
    for voter in down:
        cluster.servers.controllers[voter].start(wait=False)
    for voter in down:
        cluster.servers.controllers[voter].wait_ready()
    return f"controllers {' and '.join(map(str, down))} back"


def _pause_broker(cluster: KraftStoryCluster, _before: TrueFigures) -> str:
    cluster.paused = cluster.servers.brokers[STOPPED]
    cluster.paused.pause()
    return f"broker {STOPPED} hangs (SIGSTOP) for longer than its session"


def _resume_broker(cluster: KraftStoryCluster, _before: TrueFigures) -> str:
    if cluster.paused is None:
        raise RuntimeError("no broker was paused")
    cluster.paused.resume()
    cluster.paused = None
    return f"broker {STOPPED} goes on (SIGCONT)"


def _end_two_brokers(cluster: KraftStoryCluster, _before: TrueFigures) -> str:
    """Kill one; stop the other once the first is fenced, which leaves the other alone in ISRs."""
    brokers = cluster.servers.brokers
    brokers[KILLED].kill()
    cluster.await_truth(lambda now: KILLED in (now.fenced or ()))
    brokers[STOPPED].stop()
    return f"broker {KILLED} killed, then broker {STOPPED} shut down (SIGTERM)"


def _delete_topic(cluster: KraftStoryCluster, _before: TrueFigures) -> str:
    cluster.delete_topic("audit")
    return "topic audit deleted: two of its three brokers are down"


def _elect_uncleanly(cluster: KraftStoryCluster, _before: TrueFigures) -> str:
    """Start the broker that lacks records, and make it the leader of what the other one wrote last."""
    cluster.servers.brokers[KILLED].start()
    cluster.await_truth(lambda now: KILLED in now.brokers)
    cluster.elect_uncleanly(BEHIND, len(BEHIND_REPLICAS))
    return f"broker {KILLED} back, and elected for {BEHIND} although it lacks records"


def _start_last(cluster: KraftStoryCluster, _before: TrueFigures) -> str:
    cluster.servers.brokers[STOPPED].start()
    return f"broker {STOPPED} back: it leads again what it was eligible for"


def _restart_controllers(cluster: KraftStoryCluster, before: TrueFigures) -> str:
    """Restart each as Kafka's documentation has it: the active one last, the next when the last has caught up."""
    others = [voter for voter in CONTROLLER_IDS if voter != before.controller]
    for voter in (*others, before.controller):
        node = cluster.servers.controllers[voter]
        node.stop()
        node.start()
        cluster.await_caught_up(voter)
    return f"controllers restarted: {', '.join(map(str, others))}, then the active one"


def _elect_preferred(cluster: KraftStoryCluster, _before: TrueFigures) -> str:
    cluster.elect_preferred()
    return "preferred election run"


def _elections(now: TrueFigures) -> int:
    return now.elections or 0


STEPS: tuple[Step[KraftStoryCluster], ...] = (
    Step(
        title="topics are created under load",
        act=_create_topics,
        expected=lambda _before, now: (
            now.topics == len(TOPICS) + 1
            and now.partitions == PARTITIONS
            and sum(led for _, led in now.leaders) == PARTITIONS
            and is_healthy(now)
        ),
    ),
    Step(
        title="the active controller is killed",
        act=_kill_controller,
        expected=lambda before, now: (
            now.controller not in {-1, before.controller}
            and _elections(now) > _elections(before)
            and now.leaders == before.leaders
        ),
    ),
    Step(
        title="another controller is killed: the quorum is lost",
        act=_lose_quorum,
        expected=lambda before, now: (
            now.controller == -1
            and _elections(now) == _elections(before)
            and now.leaders == before.leaders
        ),
        status="blind",  # nothing is committed that could prove that these figures are still true
    ),
    Step(
        title="the controllers come back",
        act=_start_controllers,
        expected=lambda before, now: (
            now.controller >= 0
            and _elections(now) > _elections(before)
            and now.leaders == before.leaders
        ),
    ),
    Step(
        title="a broker hangs and is fenced",
        act=_pause_broker,
        expected=lambda before, now: (
            now.fenced == (STOPPED,)
            and len(now.brokers) == len(before.brokers) - 1
            and now.under_replicated > 0
            and now.offline == 0
        ),
    ),
    Step(
        title="it goes on and is unfenced",
        act=_resume_broker,
        expected=lambda _before, now: (
            now.fenced == () and now.brokers == BROKER_IDS and is_healthy(now) and now.imbalance > 0
        ),
    ),
    Step(
        title="two brokers end: eligible leader replicas are left",
        act=_end_two_brokers,
        expected=lambda _before, now: (
            now.fenced == (KILLED, STOPPED)
            and (now.empty_isr or 0) >= len(BEHIND_REPLICAS)
            and now.offline == now.empty_isr
            and (now.elr or 0) > (now.empty_isr or 0)
            and (now.under_min_isr or 0) > 0
        ),
    ),
    Step(
        title="a topic is deleted whose replicas are down",
        act=_delete_topic,
        expected=lambda before, now: (
            now.topics == before.topics - 1 and now.partitions == PARTITIONS - TOPICS["audit"][0]
        ),
    ),
    Step(
        title="a leader is elected uncleanly",
        act=_elect_uncleanly,
        expected=lambda before, now: (
            (now.unclean or 0) - (before.unclean or 0) == len(BEHIND_REPLICAS)
            and now.offline == before.offline - len(BEHIND_REPLICAS)
            and now.fenced == (STOPPED,)
        ),
    ),
    Step(
        title="eligible leader replicas come back",
        act=_start_last,
        expected=lambda before, now: (
            now.brokers == BROKER_IDS
            and now.unclean == before.unclean
            and now.elr == 0
            and is_healthy(now)
        ),
    ),
    Step(
        title="the controllers are restarted one after the other",
        act=_restart_controllers,
        expected=lambda before, now: (
            now.controller not in {-1, before.controller}
            and _elections(now) > _elections(before)
            and now.leaders == before.leaders
            and is_healthy(now)
        ),
    ),
    Step(
        title="the preferred election restores the balance",
        act=_elect_preferred,
        expected=lambda _before, now: now.imbalance == 0 and not now.not_led and is_healthy(now),
    ),
)

KRAFT = Story(
    cluster=lambda supervisor, _jars, folder: KraftStoryCluster(supervisor, folder),
    steps=STEPS,
    sources="controllers' files, Kafka",
)
