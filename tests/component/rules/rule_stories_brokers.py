"""Stories about the alerts of single brokers."""

from __future__ import annotations

from tests.component.rules.rule_stories import (
    DEAD_7_H,
    EXPORTER,
    GAP,
    OTHER_EXPORTER,
    SWAP_MOMENTS,
    Proves,
    Story,
    about,
    one,
    swapped,
    times,
)

_BROKER_2 = {"broker": "2"}


def _gone(live: str, replicas: str, at_min: str = "") -> dict[str, str]:
    series = {
        f'kafka_broker_live{{{EXPORTER}, broker="2"}}': live,
        f'kafka_broker_replicas{{{EXPORTER}, broker="2"}}': replicas,
    }
    if at_min:
        series[f"kafka_cluster_under_replicated_at_min_isr_partitions{{{EXPORTER}}}"] = at_min
    return series


GONE = about(
    "KafkaBrokerGone",
    Story(
        "fires after 5 min without a broker that has replicas, resolves when it is back",
        Proves.FIRES,
        _gone(times((1, 4), (0, 240), (1, 20)), times((500, 264))),
        {345: None, 360: 500, 3600: 500, 3765: 500, 3780: None},
    ),
    Story(
        "resolves when its last replica was moved to others",
        Proves.FIRES,
        _gone(times((0, 80)), times((500, 28), (7, 12), (0, 40))),
        {285: None, 300: 500, 435: 7, 585: 7, 705: 7, 720: None},
    ),
    Story(
        "is silent about a restart, and about a broker that left without replicas",
        Proves.SILENT,
        _gone(times((1, 4), (0, 20), (1, 20), (0, 80)), times((500, 44), (0, 80))),
        {345: None, 360: None, 1800: None},
    ),
    Story(
        "goes on firing over a gap in the scrapes",
        Proves.GAP,
        _gone(times((0, 24), *GAP, (0, 24)), times((500, 24), *GAP, (500, 24))),
        {285: None, 300: 500, 360: 500, 405: 500, 420: 500, 700: 500},
    ),
    Story(
        "believes the exporter that has come furthest, not one that stands still",
        Proves.MOVE,
        {
            **_gone(times((0, 40)), times((500, 40))),
            f'kafka_broker_live{{{OTHER_EXPORTER}, broker="2"}}': times((1, 40)),
            f"kcm_cluster_folded_timestamp_seconds{{{EXPORTER}}}": "1000000+15x40",
            f"kcm_cluster_folded_timestamp_seconds{{{OTHER_EXPORTER}}}": times((1_000_000, 40)),
        },
        {300: None, 315: 500, 585: 500},
    ),
    labels=_BROKER_2,
)

GONE_AT_MIN_ISR = about(
    "KafkaBrokerGoneAtMinIsr",
    Story(
        "fires after 15 min with partitions at min ISR, resolves when there are none",
        Proves.FIRES,
        _gone(times((0, 120)), times((500, 120)), times((3, 80), (0, 40))),
        {885: None, 900: 500, 1185: 500, 1305: 500, 1320: None},
    ),
    Story(
        "is silent while no partition is at min ISR, and while no broker is gone",
        Proves.SILENT,
        _gone(times((0, 80), (1, 80)), times((500, 160)), times((0, 80), (3, 80))),
        {900: None, 1185: None, 2200: None},
    ),
    labels=_BROKER_2,
)

BOUNCING = about(
    "KafkaBrokerBouncing",
    Story(
        "fires at the third registration within an hour, resolves when the first is past",
        Proves.FIRES,
        one("kafka_broker_registrations_total", (1, 4), (2, 4), (3, 4), (4, 300), broker="2"),
        {60: None, 165: None, 180: 3, 3645: 3, 3765: 3, 3795: None},
    ),
    Story(
        "is silent about two",
        Proves.SILENT,
        one("kafka_broker_registrations_total", (1, 4), (2, 4), (3, 60), broker="2"),
        {120: None, 600: None},
    ),
    Story(
        "counts registrations in a gap of the scrapes",
        Proves.GAP,
        one("kafka_broker_registrations_total", (1, 4), (2, 4), *GAP, (4, 20), broker="2"),
        {120: None, 180: 3, 300: 3},
    ),
    Story(
        "is silent when the counter starts again",
        Proves.RESET,
        one("kafka_broker_registrations_total", (9, 8), (1, 60), broker="2"),
        {105: None, 120: None, 600: None},
    ),
    Story(
        "is silent while two exporters change the lineage one after the other",
        Proves.SWAP,
        swapped("kafka_broker_registrations_total", 9, 1, broker="2"),
        SWAP_MOMENTS,
    ),
    labels=_BROKER_2,
)


def _recent_leaves(*runs: tuple[float | str, int]) -> dict[str, str]:
    return one("kafka_broker_recent_isr_leaves", *runs, broker="2", window="30m")


ISR_FLAPPING = about(
    "KafkaIsrFlapping",
    Story(
        "fires at the first scrape after leaves in 5 minutes, resolves when the first is past",
        Proves.FIRES,
        _recent_leaves((0, 4), (5, 40), (4, 40)),
        {45: None, 60: 5, 645: 5, 765: 5, 780: None},
    ),
    Story(
        "is silent about 4 minutes, and about the counter of a broker that dies with 1,000 replicas",
        Proves.SILENT,
        {
            **_recent_leaves((0, 8), (4, 72)),
            **one("kafka_broker_isr_leaves_total", (0, 8), (1000, 72), broker="2"),
        },
        {105: None, 120: None, 600: None},
    ),
    labels=_BROKER_2,
)

LOG_DIRS = about(
    "KafkaLogDirFailed",
    Story(
        "fires at once, resolves when the hour is past",
        Proves.FIRES,
        one("kafka_broker_log_dir_failures_total", (0, 4), (1, 300), broker="2"),
        {45: None, 60: 1, 3765: 1, 3795: None},
    ),
    Story(
        "is silent about one of long ago",
        Proves.SILENT,
        one("kafka_broker_log_dir_failures_total", (1, 300), broker="2"),
        {0: None, 4400: None},
    ),
    Story(
        "counts one in a gap of the scrapes",
        Proves.GAP,
        one("kafka_broker_log_dir_failures_total", (0, 4), *GAP, (1, 10), broker="2"),
        {45: None, 120: 1, 240: 1},
    ),
    Story(
        "fires for an hour about one of seven hours in which the exporter was dead",
        Proves.FIRES,
        one("kafka_broker_log_dir_failures_total", (0, 4), *DEAD_7_H, (1, 300), broker="2"),
        {45: None, 25245: None, 25260: 1, 28800: 1, 29010: None},
    ),
    Story(
        "is silent when the counter starts again",
        Proves.RESET,
        one("kafka_broker_log_dir_failures_total", (3, 8), (0, 30), broker="2"),
        {105: None, 120: None, 500: None},
    ),
    Story(
        "is silent while two exporters change the lineage one after the other",
        Proves.SWAP,
        swapped("kafka_broker_log_dir_failures_total", 1, 0, broker="2"),
        SWAP_MOMENTS,
    ),
    labels=_BROKER_2,
)


_WHOLE_STORY = 1000
"""Scrapes: what stays as it is while a story lasts."""


def _balance(ratio: str, electable: str, standing: str = f"1x{_WHOLE_STORY}") -> dict[str, str]:
    return {
        f"kafka_cluster_recommendation_standing{{{EXPORTER}}}": standing,
        f'kafka_broker_imbalance_ratio{{{EXPORTER}, broker="2"}}': ratio,
        f'kafka_broker_preferred_electable{{{EXPORTER}, broker="2"}}': electable,
        f"kafka_cluster_imbalance_threshold_ratio{{{EXPORTER}}}": f"0.1x{_WHOLE_STORY}",
    }


def _in_kraft(series: dict[str, str]) -> dict[str, str]:
    """Return the series without a threshold, which a KRaft cluster does not have; how many are above 0 is known."""
    kept = {name: values for name, values in series.items() if "threshold" not in name}
    return {**kept, f"kafka_cluster_imbalanced_brokers{{{EXPORTER}}}": f"1x{_WHOLE_STORY}"}


IMBALANCED = about(
    "KafkaLeadersImbalanced",
    Story(
        "fires after 10 min above the threshold, resolves after the election",
        Proves.FIRES,
        _balance(times((0, 4), (0.25, 50), (0, 20)), times((0, 4), (3, 50), (0, 20))),
        {645: None, 660: 0.25, 795: 0.25, 915: 0.25, 930: None},
    ),
    Story(
        "is silent when the controller rebalances within 10 min",
        Proves.SILENT,
        _balance(times((0.25, 40), (0, 20)), times((3, 40), (0, 20))),
        {585: None, 600: None, 800: None},
    ),
    Story(
        "is silent when no election can move a leader back",
        Proves.SILENT,
        _balance(times((0.25, 80)), times((0, 80))),
        {600: None, 1185: None},
    ),
    Story(
        "is silent while nothing is recommended, as before half a minute, or after a grade",
        Proves.SILENT,
        _balance(times((0.25, 80)), times((3, 80)), times((0, 2), (1, 39), (0, 39))),
        {30: None, 600: None, 615: None, 1185: None},
    ),
    Story(
        "fires below 10 % in a KRaft cluster, whose controller has no threshold",
        Proves.FIRES,
        _in_kraft(_balance(times((0, 4), (0.05, 50), (0, 20)), times((0, 4), (3, 50), (0, 20)))),
        {645: None, 660: 0.05, 795: 0.05, 930: None},
    ),
    labels=_BROKER_2,
)

CANNOT_RETURN = about(
    "KafkaLeadersCannotReturn",
    Story(
        "fires after 30 min, resolves when the replicas are in sync again",
        Proves.FIRES,
        _balance(times((0.5, 160)), times((0, 124), (7, 36))),
        {1785: None, 1800: 0.5, 1845: 0.5, 1965: 0.5, 1980: None},
    ),
    Story(
        "is silent when an election can move a leader back",
        Proves.SILENT,
        _balance(times((0.5, 160)), times((1, 160))),
        {1800: None, 2385: None},
    ),
    labels=_BROKER_2,
)


def _skew(ratio: str, *, partitions: int, gone: str = "0x300") -> dict[str, str]:
    return {
        f"kafka_cluster_replicas_on_gone_brokers{{{EXPORTER}}}": gone,
        f'kafka_broker_leader_skew_ratio{{{EXPORTER}, broker="2"}}': ratio,
        f"kafka_cluster_partitions{{{EXPORTER}}}": times((partitions, 300)),
        f"kafka_cluster_brokers{{{EXPORTER}}}": times((3, 300)),
    }


SKEWED = about(
    "KafkaLeadersSkewed",
    Story(
        "fires after an hour, resolves after the reassignment",
        Proves.FIRES,
        _skew(times((0.75, 244), (0.2, 40)), partitions=30),
        {3585: None, 3600: 0.75, 3645: 0.75, 3765: 0.75, 3780: None},
    ),
    Story(
        "fires about a broker that leads far too little",
        Proves.FIRES,
        _skew(times((-0.75, 244), (0, 40)), partitions=30),
        {3600: 0.75, 3795: None},
    ),
    Story(
        "is silent about half as many again",
        Proves.SILENT,
        _skew(times((0.5, 280)), partitions=30),
        {3600: None, 4185: None},
    ),
    Story(
        "is silent in a cluster with too few partitions to spread",
        Proves.SILENT,
        _skew(times((0.75, 280)), partitions=29),
        {3600: None, 4185: None},
    ),
    Story(
        "is silent while brokers are down: their share is missing, not wrong",
        Proves.SILENT,
        _skew(times((-0.6, 280)), partitions=30, gone=times((18, 280))),
        {3600: None, 4185: None},
    ),
    labels=_BROKER_2,
)

STORIES = (
    *GONE,
    *GONE_AT_MIN_ISR,
    *BOUNCING,
    *ISR_FLAPPING,
    *LOG_DIRS,
    *IMBALANCED,
    *CANNOT_RETURN,
    *SKEWED,
)
