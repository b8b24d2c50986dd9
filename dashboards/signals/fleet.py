"""Signals over all clusters: how many there are, and which is worst.

The rule: one number orders the clusters, and its weights are powers of two: a worse problem always
outweighs all lesser ones together, and the number shows which ones there are. A cluster that is no longer
served stays in every figure for as long as its alert fires, as the worst of all.
"""

import functools

from dashboards.signals.controller import CONTROLLER_ID
from dashboards.signals.partitions import OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED
from dashboards.signals.pipeline import FOLLOWED, KNOWN, SEEN_WINDOW
from dashboards.signals.signal import DemoStep, DrillStep, Signal

_NOT_SERVED = f"{KNOWN} unless on (cluster) {FOLLOWED.expr}"

_WEIGHTS = (
    (32, _NOT_SERVED),
    (16, f"({FOLLOWED.expr}) == bool 0"),
    (8, f"({CONTROLLER_ID.expr}) == bool -1"),
    (4, f"({OFFLINE.expr}) > bool 0"),
    (2, f"({UNDER_MIN_ISR.expr}) > bool 0"),
    (1, f"({UNDER_REPLICATED.expr}) > bool 0"),
)
"""Worst first: not served, not followed, no controller, offline, under min ISR, under-replicated."""


of_fleet = functools.partial(Signal, legend="{{cluster}}", of_all=True)
"""Makes a signal over the chosen clusters."""


def _weighed(weight: int, trouble: str) -> str:
    """Return the weight where there is the problem, 0 where there is none or where that is not known."""
    return f"({weight} * ({trouble}) or 0 * {KNOWN})"


TROUBLE = of_fleet(
    expr=" + ".join(_weighed(weight, trouble) for weight, trouble in _WEIGHTS),
    description=f"Severity, as the sum of 32 (served within {SEEN_WINDOW} and not now: its state "
    "is not known), 16 (figures do not follow ZooKeeper), 8 (no controller), 4 (partitions offline), 2 "
    "(under min ISR), 1 (under-replicated); 0 in a healthy cluster.",
    moved_by=DemoStep.KILL_FOLLOWER,
)
CLUSTERS = of_fleet(
    expr=f"count({FOLLOWED.expr}) or 0 * count({KNOWN})",
    description="Clusters that the scraped exporters serve.",
    moved_by=DrillStep.UNSERVED,
)
CLUSTERS_IN_TROUBLE = of_fleet(
    expr=f"count(({TROUBLE.expr}) > 0) or vector(0)",
    description="Clusters with any trouble above 0 in the table below; 0 in a healthy fleet.",
    moved_by=DemoStep.KILL_FOLLOWER,
)
CLUSTERS_NOT_FOLLOWED = of_fleet(
    expr=f"count({KNOWN} unless on (cluster) ({FOLLOWED.expr} == 1)) or vector(0)",
    description="Clusters whose figures do not follow ZooKeeper now, or that were served within "
    f"{SEEN_WINDOW} and are not now; normally 0.",
    moved_by=DrillStep.BLIND,
)
CLUSTERS_WITHOUT_CONTROLLER = of_fleet(
    expr=f"count(({CONTROLLER_ID.expr}) == -1) or 0 * count({FOLLOWED.expr})",
    description="Clusters, of those that are served, in which nobody holds /controller; 0 in a "
    "healthy fleet, empty while none is served.",
    moved_by=DrillStep.VACATE,
)
