"""Signals over all clusters: how many there are, and which is worst.

One number orders the clusters, and its weights are powers of two: a worse problem always
outweighs all lesser ones together, and the number shows which ones there are. The order is that of the live page
and of `kcm status`. A cluster that is no longer served stays in every figure for as long as its alert fires, as the
worst of all.
"""

import functools

from dashboards.signals.controller import CONTROLLER_ID
from dashboards.signals.partitions import OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED
from dashboards.signals.pipeline import FOLLOWED, KNOWN, SEEN_WINDOW
from dashboards.signals.signal import Signal

_WEIGHTS = (
    (32, f"{KNOWN} unless on (cluster) {FOLLOWED.expr}"),
    (16, f"({FOLLOWED.expr}) == bool 0"),
    (8, f"({CONTROLLER_ID.expr}) == bool -1"),
    (4, f"({OFFLINE.expr}) > bool 0"),
    (2, f"({UNDER_MIN_ISR.expr}) > bool 0"),
    (1, f"({UNDER_REPLICATED.expr}) > bool 0"),
)
"""Worst first: not served, not followed, no controller, offline, under min ISR, under-replicated.

Each counts 0 where there is no such problem, or where that is not known.
"""

of_fleet = functools.partial(Signal, legend="{{cluster}}", of_all=True)
"""Makes a signal over the chosen clusters."""

TROUBLE = of_fleet(
    expr=" + ".join(f"({weight} * ({problem}) or 0 * {KNOWN})" for weight, problem in _WEIGHTS),
    meaning="Severity of a cluster's problems, as a sum. 32: not served now, served within "
    f"{SEEN_WINDOW}. 16: the figures do not follow the cluster. 8: no controller. 4: partitions offline. 2: partitions under "
    "min ISR. 1: partitions under-replicated.",
    normal="0.",
    action="Open the cluster with the highest sum: click on its name.",
)
CLUSTERS = of_fleet(
    expr=f"count({FOLLOWED.expr}) or 0 * count({KNOWN})",
    meaning="Clusters that the scraped exporters serve.",
    normal="the number of watched clusters.",
    action="If one is missing, check the exporter and its target in Prometheus.",
    runbook="KcmNotServed",
)
CLUSTERS_IN_TROUBLE = of_fleet(
    expr=f"count(({TROUBLE.expr}) > 0) or vector(0)",
    meaning="Clusters with trouble above 0 in the table below.",
    normal="0.",
    action="Open the first cluster of the table.",
)
CLUSTERS_NOT_FOLLOWED = of_fleet(
    expr=f"count({KNOWN} unless on (cluster) ({FOLLOWED.expr} == 1)) or vector(0)",
    meaning="Clusters whose figures do not follow them now, or that are not served now and were within "
    f"{SEEN_WINDOW}.",
    normal="0.",
    action="Open the board Pipeline of such a cluster.",
    runbook="KcmBlind",
)
CLUSTERS_WITHOUT_CONTROLLER = of_fleet(
    expr=f"count(({CONTROLLER_ID.expr}) == -1) or 0 * count({FOLLOWED.expr})",
    meaning="Served clusters that have no active controller. Empty if no cluster is served.",
    normal="0.",
    action="Find the cluster in the table: its column Controller says nobody.",
    runbook="KafkaControllerMissing",
)
