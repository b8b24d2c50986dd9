"""Stories about the alerts of the controller."""

from __future__ import annotations

from tests.component.rules.rule_stories import (
    EXPORTER,
    INTERVAL_S,
    OTHER_EXPORTER,
    Proves,
    Story,
    about,
    one,
    times,
)


def _held(*runs: tuple[float | str, int], exporter: str = EXPORTER) -> dict[str, str]:
    """Return who holds /controller by an exporter that follows: what it shows is of now."""
    at = 0
    folded = []
    for value, scrapes in runs:
        for _ in range(scrapes):
            folded.append(str(value) if isinstance(value, str) else str(at * INTERVAL_S))
            at += 1
    return {
        f"kafka_controller_id{{{exporter}}}": times(*runs),
        f"kcm_cluster_folded_timestamp_seconds{{{exporter}}}": " ".join(folded),
    }


def _stuck(holder: int, scrapes: int) -> dict[str, str]:
    """Return the other exporter, whose figures stay as they were at the beginning."""
    return {
        f"kafka_controller_id{{{OTHER_EXPORTER}}}": times((holder, scrapes)),
        f"kcm_cluster_folded_timestamp_seconds{{{OTHER_EXPORTER}}}": times((-15, scrapes)),
    }


MISSING = about(
    "KafkaControllerMissing",
    Story(
        "fires after 30 s without a controller, resolves 2 min after there is one",
        Proves.FIRES,
        _held((2, 5), (-1, 8), (3, 20)),
        {60: None, 90: None, 105: -1, 180: -1, 300: -1, 315: None},
    ),
    Story(
        "is silent when a controller is elected within 30 s",
        Proves.SILENT,
        _held((2, 5), (-1, 2), (3, 20)),
        {75: None, 90: None, 105: None, 120: None, 240: None},
    ),
    Story(
        "is one alert that goes on while the exporter moves to another address",
        Proves.MOVE,
        {
            **_held((-1, 6), ("stale", 1)),
            **_held(("_", 6), (-1, 10), exporter=OTHER_EXPORTER),
        },
        {15: None, 30: -1, 75: -1, 90: -1, 105: -1, 210: -1},
    ),
    Story(
        "fires although another exporter stands still at the controller of before",
        Proves.FIRES,
        {**_held((2, 5), (-1, 8), (3, 20)), **_stuck(2, 33)},
        {60: None, 90: None, 105: -1, 180: -1, 300: -1, 315: None},
    ),
    Story(
        "is silent although another exporter stands still at a vacancy that is over",
        Proves.SILENT,
        {**_held((3, 33)), **_stuck(-1, 33)},
        {60: None, 105: None, 300: None},
    ),
)


def _recent(window: str, *runs: tuple[float | str, int]) -> dict[str, str]:
    return one("kafka_controller_recent_elections", *runs, window=window)


FLAPPING = (
    *about(
        "KafkaControllerFlapping",
        Story(
            "fires at the first scrape after three elections, resolves when they are past",
            Proves.FIRES,
            _recent("10m", (0, 4), (3, 40), (0, 40)),
            {45: None, 60: 3, 645: 3, 765: 3, 780: None},
        ),
        Story(
            "is silent about two elections, and about an epoch that jumps as a watcher catches up",
            Proves.SILENT,
            {
                **_recent("10m", (0, 8), (2, 40), (0, 20)),
                **one("kafka_controller_epoch", (7, 8), (900, 20), (950, 40)),
            },
            {105: None, 120: None, 435: None, 900: None},
        ),
        Story(
            "fires as soon as an exporter comes that was late",
            Proves.FIRES,
            _recent("10m", ("_", 20), (4, 20), (0, 40)),
            {285: None, 300: 4, 585: 4, 705: 4, 720: None},
        ),
        Story(
            "goes on firing when the exporter moves to another address",
            Proves.MOVE,
            {
                f'kafka_controller_recent_elections{{{EXPORTER}, window="10m"}}': times(
                    (0, 4), (3, 4), ("stale", 1)
                ),
                f'kafka_controller_recent_elections{{{OTHER_EXPORTER}, window="10m"}}': times(
                    ("_", 8), (3, 20)
                ),
            },
            {45: None, 60: 3, 120: 3, 405: 3},
        ),
    ),
    *about(
        "KafkaControllerFlappingSlowly",
        Story(
            "fires at the sixth election within 6 h, resolves when the first is past",
            Proves.FIRES,
            _recent("6h", (5, 20), (6, 20), (5, 40)),
            {285: None, 300: 6, 585: 6, 705: 6, 720: None},
        ),
        Story(
            "is silent about five",
            Proves.SILENT,
            _recent("6h", (0, 20), (5, 60)),
            {285: None, 300: None, 1185: None},
        ),
    ),
)

ZOMBIE = about(
    "KafkaControllerZombie",
    Story(
        "fires when the health is zombie, resolves 2 min after it is not",
        Proves.FIRES,
        one("kafka_controller_health", (0, 4), (1, 8), (0, 20), health="zombie"),
        {45: None, 60: 1, 165: 1, 285: 1, 300: None},
    ),
    Story(
        "is silent about a controller that works",
        Proves.SILENT,
        {
            **one("kafka_controller_health", (0, 20), health="zombie"),
            **one("kafka_controller_health", (1, 20), health="working"),
        },
        {60: None, 285: None},
    ),
)


def _failover(since: str, under_way: str) -> dict[str, str]:
    return {
        f"kafka_controller_failover_since_timestamp_seconds{{{EXPORTER}}}": since,
        f'kafka_controller_failover{{{EXPORTER}, state="under_way"}}': under_way,
    }


SLOW_FAILOVER = about(
    "KafkaControllerFailoverSlow",
    Story(
        "fires after more than a minute of failover, resolves 2 min after its end",
        Proves.FIRES,
        _failover(times(("_", 2), (30, 40)), times((0, 2), (1, 8), (0, 30))),
        {90: None, 105: 75, 135: 105, 150: 105, 255: 105, 270: None},
    ),
    Story(
        "is silent about a minute",
        Proves.SILENT,
        _failover(times(("_", 2), (30, 40)), times((0, 2), (1, 5), (0, 30))),
        {90: None, 105: None, 300: None},
    ),
)

FOREIGN = about(
    "KafkaForeignWrites",
    Story(
        "fires when elections are aborted, resolves 2 min after they are not",
        Proves.FIRES,
        one("kafka_cluster_foreign_writes", (0, 4), (2, 8), (0, 20), kind="controller_epoch_above"),
        {45: None, 60: 2, 165: 2, 285: 2, 300: None},
    ),
    Story(
        "is silent about a cluster that only Kafka writes",
        Proves.SILENT,
        one("kafka_cluster_foreign_writes", (0, 40), kind="controller_epoch_above"),
        {60: None, 585: None},
    ),
    labels={"kind": "controller_epoch_above"},
)

STORIES = (*FOREIGN, *MISSING, *FLAPPING, *ZOMBIE, *SLOW_FAILOVER)
