"""Signals about ZooKeeper: the server that the watcher is connected to, and its state.

The rule: a figure that the server does not report (mntr is not allowed by default) is empty, never 0. The
signals use the watcher's own metrics, so its port must be scraped, too.
"""

from dashboards.signals.signal import DrillStep, Signal, age, highest, selected

_SCRAPED = "Needs the watcher's own /metrics to be scraped."

SERVER = Signal(
    expr=f"max by (cluster, zookeeper) ({selected('kcm_cluster_watcher_info')}) and on (cluster) "
    f"({highest('kcm_cluster_watcher_connected')} == 1)",
    description="The ZooKeeper server that the watcher's session is on; it changes when that "
    "server goes, and is empty while there is no session.",
    legend="{{zookeeper}}",
    moved_by=DrillStep.BLIND,
)
SESSION_AGE = Signal(
    expr=age("kcm_cluster_watcher_session_since_timestamp_seconds"),
    unit="dtdurations",
    description="Time since the watcher's ZooKeeper session last changed its state; if it is short "
    "again and again, the ensemble or the network is unstable.",
    legend="in this state",
    moved_by=DrillStep.BLIND,
)
ROLE = Signal(
    expr=f"max by (cluster, role, version) ({selected('kcm_watcher_zookeeper_info')})",
    description=f"Role of the watcher's ZooKeeper server in the ensemble, and its release; empty where it answers "
    f"neither mntr nor srvr. {_SCRAPED}",
    legend="{{role}} {{version}}",
    moved_by=DrillStep.BLIND,
)
ANSWER = Signal(
    expr=highest("kcm_watcher_zookeeper_answer_seconds"),
    unit="s",
    description=f"How long the watcher's ZooKeeper server took to answer the watcher; normally milliseconds. {_SCRAPED}",
    legend="answered the watcher within",
    moved_by=DrillStep.ZOMBIE,
)
LATENCY = Signal(
    expr=highest("kcm_watcher_zookeeper_latency_average_seconds"),
    unit="s",
    description="Average request latency that the server reports, since its start; normally "
    "milliseconds.",
    legend="average, as reported",
    moved_by=DrillStep.ZOMBIE,
)
LATENCY_MOST = Signal(
    expr=highest("kcm_watcher_zookeeper_latency_highest_seconds"),
    unit="s",
    description="Highest request latency that the server reports, since its start; near the "
    "session timeout, sessions expire.",
    legend="highest, as reported",
    moved_by=DrillStep.BLIND,
)
SESSIONS = Signal(
    expr=highest("kcm_watcher_zookeeper_sessions"),
    description=f"Sessions of the whole ensemble: of brokers, of the monitor and of tools. {_SCRAPED}",
    legend="sessions",
    moved_by=DrillStep.ZOMBIE,
)
CONNECTIONS = Signal(
    expr=highest("kcm_watcher_zookeeper_connections"),
    description=f"Client connections of the watcher's ZooKeeper server. {_SCRAPED}",
    legend="connections",
    moved_by=DrillStep.ZOMBIE,
)
OUTSTANDING = Signal(
    expr=highest("kcm_watcher_zookeeper_outstanding_requests"),
    description="Requests that wait in the watcher's ZooKeeper server; normally near 0, and growing when its disk "
    f"or its quorum is slow. {_SCRAPED}",
    legend="waiting",
    moved_by=None,
    unmoved="Nothing in the demo or the drill moves it: their one ZooKeeper keeps up.",
)
