"""Thresholds: where on a figure trouble begins.

The rule: a limit that a board draws and an alert compares with is one constant.
"""

from __future__ import annotations

from controller_model.records.completeness import CLOCKS_DISAGREE_MS, LATE_MS

FLAPPING_ELECTIONS = 3
"""So many elections within the short window are flapping: the restart of one broker makes one at
most."""

FLAPPING_LONG_ELECTIONS = 6
"""So many within the long window: a rolling restart of a small cluster makes fewer, if it ends with
the controller, as it should."""

ABOVE_THRESHOLD = 1.0001
"""Of the threshold: what equals it is not above it."""

SKEW_RATIO = 0.5
"""Half as many leaders again as an even share, or half as many: worth a reassignment."""

LATE_SECONDS = LATE_MS // 1000
"""A stage without a sign of life for so long is called late by the cluster's status."""

CLOCKS_DISAGREE_SECONDS = CLOCKS_DISAGREE_MS // 1000
"""Clocks that are further apart are a status of their own."""

SLOW_FAILOVER_SECONDS = 60
"""With 10,000 partitions a new controller needs up to 15 s until its first write."""

RESTLESS_MINUTES = 5
"""In so many minutes of the window: a restart makes two at most, and two restarts four."""

BOUNCES = 3
"""Registrations within the window: a restart makes one."""
