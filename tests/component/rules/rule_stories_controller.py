"""Stories about the alerts of the controller."""

from __future__ import annotations

from tests.component.rules.rule_stories import (
    EXPORTER,
    GAP,
    INTERVAL_S,
    OTHER_EXPORTER,
    Proves,
    Story,
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


MISSING = (
    Story(
        alert="KafkaControllerMissing",
        claim="fires after 30 s without a controller, resolves 2 min after there is one",
        proves=Proves.FIRES,
        series=_held((2, 5), (-1, 8), (3, 20)),
        moments={60: None, 90: None, 105: -1, 180: -1, 300: -1, 315: None},
    ),
    Story(
        alert="KafkaControllerMissing",
        claim="is silent when a controller is elected within 30 s",
        proves=Proves.SILENT,
        series=_held((2, 5), (-1, 2), (3, 20)),
        moments={75: None, 90: None, 105: None, 120: None, 240: None},
    ),
    Story(
        alert="KafkaControllerMissing",
        claim="is silent about broker 0, an id like any other",
        proves=Proves.SILENT,
        series=_held((0, 20)),
        moments={120: None, 285: None},
    ),
    Story(
        alert="KafkaControllerMissing",
        claim="goes on firing over a gap in the scrapes",
        proves=Proves.GAP,
        series=_held((2, 5), (-1, 4), *GAP, (-1, 8)),
        moments={105: -1, 135: -1, 165: -1, 180: -1, 195: -1, 210: -1, 270: -1},
    ),
    Story(
        alert="KafkaControllerMissing",
        claim="is one alert that goes on while the exporter moves to another address",
        proves=Proves.MOVE,
        series={
            **_held((-1, 6), ("stale", 1)),
            **_held(("_", 6), (-1, 10), exporter=OTHER_EXPORTER),
        },
        moments={15: None, 30: -1, 75: -1, 90: -1, 105: -1, 210: -1},
    ),
    Story(
        alert="KafkaControllerMissing",
        claim="fires although another exporter stands still at the controller of before",
        proves=Proves.FIRES,
        series={**_held((2, 5), (-1, 8), (3, 20)), **_stuck(2, 33)},
        moments={60: None, 90: None, 105: -1, 180: -1, 300: -1, 315: None},
    ),
    Story(
        alert="KafkaControllerMissing",
        claim="is silent although another exporter stands still at a vacancy that is over",
        proves=Proves.SILENT,
        series={**_held((3, 33)), **_stuck(-1, 33)},
        moments={60: None, 105: None, 300: None},
    ),
)


def _recent(window: str, *runs: tuple[float | str, int]) -> dict[str, str]:
    return one("kafka_controller_recent_elections", *runs, window=window)


BY_THEIR_TIMES = (
    Story(
        alert="KafkaControllerFlapping",
        claim="fires at the first scrape after three elections, resolves when they are past",
        proves=Proves.FIRES,
        series=_recent("10m", (0, 4), (3, 40), (0, 40)),
        moments={45: None, 60: 3, 645: 3, 765: 3, 780: None},
    ),
    Story(
        alert="KafkaControllerFlapping",
        claim="is silent about a rebuilt cluster whose epoch is far higher, and a watcher that catches up",
        proves=Proves.SILENT,
        series={
            **_recent("10m", (0, 8), (1, 40), (0, 20)),
            **one("kafka_controller_epoch", (7, 8), (900, 20), (950, 40)),
        },
        moments={105: None, 120: None, 435: None, 900: None},
    ),
    Story(
        alert="KafkaControllerFlapping",
        claim="fires as soon as an exporter comes that was late",
        proves=Proves.FIRES,
        series={
            **_recent("10m", ("_", 20), (4, 20), (0, 40)),
            **one("kafka_controller_epoch", ("_", 20), (11, 60)),
        },
        moments={285: None, 300: 4, 585: 4, 705: 4, 720: None},
    ),
    Story(
        alert="KafkaControllerFlappingSlowly",
        claim="counts six elections of 6 h by their times, whatever the epoch did",
        proves=Proves.FIRES,
        series={
            **_recent("6h", (5, 20), (6, 20), (5, 40)),
            **one("kafka_controller_epoch", (7, 10), (1, 70)),
        },
        moments={285: None, 300: 6, 585: 6, 705: 6, 720: None},
    ),
)

FLAPPING = (
    Story(
        alert="KafkaControllerFlapping",
        claim="fires at the third election within 10 min, resolves when they are past",
        proves=Proves.FIRES,
        series=one("kafka_controller_epoch", (7, 4), (8, 4), (9, 4), (10, 60)),
        moments={60: None, 165: None, 180: 3, 630: 3, 750: 3, 795: None},
    ),
    Story(
        alert="KafkaControllerFlapping",
        claim="is silent about two elections",
        proves=Proves.SILENT,
        series=one("kafka_controller_epoch", (7, 4), (8, 1), (9, 60)),
        moments={60: None, 75: None, 300: None, 630: None},
    ),
    Story(
        alert="KafkaControllerFlapping",
        claim="is silent about three elections over more than 10 min",
        proves=Proves.SILENT,
        series=one("kafka_controller_epoch", (7, 4), (8, 24), (9, 24), (10, 40)),
        moments={60: None, 420: None, 780: None, 900: None, 1200: None},
    ),
    Story(
        alert="KafkaControllerFlapping",
        claim="counts elections between two scrapes and in a gap of them",
        proves=Proves.GAP,
        series=one("kafka_controller_epoch", (7, 4), *GAP, (10, 10)),
        moments={45: None, 120: 3, 240: 3},
    ),
    Story(
        alert="KafkaControllerFlapping",
        claim="is silent when an ensemble is built again and the epoch starts again",
        proves=Proves.RESET,
        series=one("kafka_controller_epoch", (50, 8), (1, 60)),
        moments={105: None, 120: None, 600: None, 900: None},
    ),
    Story(
        alert="KafkaControllerFlapping",
        claim="is silent when a cluster is scraped for the first time",
        proves=Proves.SILENT,
        series=one("kafka_controller_epoch", ("_", 4), (4711, 20)),
        moments={60: None, 285: None},
    ),
    Story(
        alert="KafkaControllerFlapping",
        claim="counts on when the exporter moves to another address",
        proves=Proves.MOVE,
        series={
            f"kafka_controller_epoch{{{EXPORTER}}}": times((7, 4), (8, 1), (9, 3), ("stale", 1)),
            f"kafka_controller_epoch{{{OTHER_EXPORTER}}}": times(("_", 8), (9, 4), (10, 20)),
        },
        moments={165: None, 180: 3, 450: 3},
    ),
)

FLAPPING_SLOWLY = (
    Story(
        alert="KafkaControllerFlappingSlowly",
        claim="fires at the sixth election within 6 h, resolves when the first is past",
        proves=Proves.FIRES,
        series=one("kafka_controller_epoch", *((7 + n, 120) for n in range(6)), (13, 1600)),
        moments={9000: None, 10785: None, 10800: 6, 23385: 6, 23535: None},
    ),
    Story(
        alert="KafkaControllerFlappingSlowly",
        claim="is silent about five",
        proves=Proves.SILENT,
        series=one("kafka_controller_epoch", *((7 + n, 120) for n in range(5)), (12, 400)),
        moments={7200: None, 9000: None, 14000: None},
    ),
    Story(
        alert="KafkaControllerFlappingSlowly",
        claim="counts elections in a gap of the scrapes",
        proves=Proves.GAP,
        series=one("kafka_controller_epoch", (7, 40), *GAP, (13, 20)),
        moments={585: None, 660: 6, 900: 6},
    ),
    Story(
        alert="KafkaControllerFlappingSlowly",
        claim="is silent when an ensemble is built again",
        proves=Proves.RESET,
        series=one("kafka_controller_epoch", (50, 40), (1, 40)),
        moments={600: None, 1000: None},
    ),
)

ZOMBIE = (
    Story(
        alert="KafkaControllerZombie",
        claim="fires when the health is zombie, resolves 2 min after it is not",
        proves=Proves.FIRES,
        series=one("kafka_controller_health", (0, 4), (1, 8), (0, 20), health="zombie"),
        moments={45: None, 60: 1, 165: 1, 285: 1, 300: None},
    ),
    Story(
        alert="KafkaControllerZombie",
        claim="is silent about a controller that works",
        proves=Proves.SILENT,
        series={
            **one("kafka_controller_health", (0, 20), health="zombie"),
            **one("kafka_controller_health", (1, 20), health="working"),
        },
        moments={60: None, 285: None},
    ),
    Story(
        alert="KafkaControllerZombie",
        claim="goes on firing over a gap in the scrapes",
        proves=Proves.GAP,
        series=one("kafka_controller_health", (1, 4), *GAP, (1, 10), health="zombie"),
        moments={45: 1, 60: 1, 105: 1, 120: 1, 200: 1},
    ),
)


def _failover(since: str, under_way: str) -> dict[str, str]:
    return {
        f"kafka_controller_failover_since_timestamp_seconds{{{EXPORTER}}}": since,
        f'kafka_controller_failover{{{EXPORTER}, state="under_way"}}': under_way,
    }


SLOW_FAILOVER = (
    Story(
        alert="KafkaControllerFailoverSlow",
        claim="fires after more than a minute of failover, resolves 2 min after its end",
        proves=Proves.FIRES,
        series=_failover(times(("_", 2), (30, 40)), times((0, 2), (1, 8), (0, 30))),
        moments={90: None, 105: 75, 135: 105, 150: 105, 255: 105, 270: None},
    ),
    Story(
        alert="KafkaControllerFailoverSlow",
        claim="is silent about a minute",
        proves=Proves.SILENT,
        series=_failover(times(("_", 2), (30, 40)), times((0, 2), (1, 5), (0, 30))),
        moments={90: None, 105: None, 300: None},
    ),
    Story(
        alert="KafkaControllerFailoverSlow",
        claim="goes on firing over a gap in the scrapes",
        proves=Proves.GAP,
        series=_failover(times((0, 8), *GAP, (0, 10)), times((1, 8), *GAP, (1, 10))),
        moments={60: None, 75: 75, 105: 105, 120: 105, 165: 105, 180: 180},
    ),
)

STORIES = (*BY_THEIR_TIMES, *MISSING, *FLAPPING, *FLAPPING_SLOWLY, *ZOMBIE, *SLOW_FAILOVER)
