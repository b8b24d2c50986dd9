"""Signals about ZooKeeper: the server that the watcher is connected to, and its state.

The rule: a figure that the server does not report (mntr is not allowed by default) is empty, never 0. The
signals use the watcher's own metrics, so its port must be scraped, too.
"""

from dashboards.signals.signal import CONTEXT, Signal, age, highest, selected

_IF_EMPTY = "If it is empty, scrape the watcher's /metrics."

SERVER = Signal(
    expr=f"max by (cluster, zookeeper) ({selected('kcm_cluster_watcher_info')}) and on (cluster) "
    f"({highest('kcm_cluster_watcher_connected')} == 1)",
    meaning="The ZooKeeper server to which the watcher's session is connected. Empty while there is no "
    "session.",
    normal="a server of the ensemble.",
    action="If it is empty, check the ensemble and the watcher's log.",
    runbook="KcmBlind",
    legend="{{zookeeper}}",
    only_in_zookeeper=True,
)
SESSION_AGE = Signal(
    expr=age("kcm_cluster_watcher_session_since_timestamp_seconds"),
    unit="dtdurations",
    meaning="Time since the watcher's ZooKeeper session last changed its state.",
    normal="days.",
    action="If it is short again and again, check the ensemble and the network to it.",
    legend="in this state",
    only_in_zookeeper=True,
)
ROLE = Signal(
    expr=f"max by (cluster, role, version) ({selected('kcm_watcher_zookeeper_info')})",
    meaning="Role of that ZooKeeper server in the ensemble, and its release. Empty if it answers neither "
    "mntr nor srvr.",
    normal="leader, follower or standalone.",
    action=f"To see it, allow mntr (4lw.commands.whitelist). {_IF_EMPTY}",
    legend="{{role}} {{version}}",
    only_in_zookeeper=True,
)
ANSWER = Signal(
    expr=highest("kcm_watcher_zookeeper_answer_seconds"),
    unit="s",
    meaning="Time that the ZooKeeper server took to answer the watcher.",
    normal="milliseconds.",
    action=f"Check the server's disk, CPU and GC pauses. {_IF_EMPTY}",
    legend="answered the watcher within",
    only_in_zookeeper=True,
)
LATENCY = Signal(
    expr=highest("kcm_watcher_zookeeper_latency_average_seconds"),
    unit="s",
    meaning="Average request latency that the ZooKeeper server reports, since its start.",
    normal="milliseconds.",
    action="Check the server's disk, CPU and GC pauses.",
    legend="average, as reported",
    only_in_zookeeper=True,
)
LATENCY_MOST = Signal(
    expr=highest("kcm_watcher_zookeeper_latency_highest_seconds"),
    unit="s",
    meaning="Highest request latency that the ZooKeeper server reports, since its start. Sessions expire when it "
    "comes near their timeout.",
    normal="far below the session timeout of the brokers.",
    action="Check the server's disk, CPU and GC pauses.",
    legend="highest, as reported",
    only_in_zookeeper=True,
)
SESSIONS = Signal(
    expr=highest("kcm_watcher_zookeeper_sessions"),
    meaning="Sessions of the whole ensemble: of brokers, of the monitor and of tools.",
    normal="constant.",
    action=f"If it falls, brokers may have lost their sessions. {_IF_EMPTY}",
    legend="sessions",
    only_in_zookeeper=True,
)
CONNECTIONS = Signal(
    expr=highest("kcm_watcher_zookeeper_connections"),
    meaning="Client connections of the ZooKeeper server to which the watcher is connected.",
    normal="constant.",
    action=CONTEXT,
    legend="connections",
    only_in_zookeeper=True,
)
OUTSTANDING = Signal(
    expr=highest("kcm_watcher_zookeeper_outstanding_requests"),
    meaning="Requests that wait in the ZooKeeper server.",
    normal="near 0.",
    action=f"If it grows, its disk or its quorum is slow: check both. {_IF_EMPTY}",
    legend="waiting",
    only_in_zookeeper=True,
)
