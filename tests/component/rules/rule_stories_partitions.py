"""Stories about the alerts of partitions."""

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

OFFLINE = about(
    "KafkaPartitionsOffline",
    Story(
        "fires after 1 min with one partition offline, resolves 2 min after none is",
        Proves.FIRES,
        one("kafka_cluster_offline_partitions", (0, 4), (1, 8), (0, 20)),
        {105: None, 120: 1, 165: 1, 285: 1, 300: None},
    ),
    Story(
        "is silent while a failover brings them back within a minute",
        Proves.SILENT,
        one("kafka_cluster_offline_partitions", (0, 4), (250, 4), (0, 20)),
        {60: None, 105: None, 120: None, 300: None},
    ),
    Story(
        "goes on firing over a gap in the scrapes",
        Proves.GAP,
        one("kafka_cluster_offline_partitions", (3, 6), *GAP, (3, 10)),
        {45: None, 60: 3, 90: 3, 135: 3, 150: 3, 240: 3},
    ),
)

WITHOUT_STATE = about(
    "KafkaPartitionsWithoutState",
    Story(
        "fires after 5 min with one partition, resolves 2 min after none is without a state",
        Proves.FIRES,
        one("kafka_cluster_partitions_without_state", (0, 4), (1, 24), (0, 20)),
        {345: None, 360: 1, 405: 1, 525: 1, 540: None},
    ),
    Story(
        "is silent while new topics get their states within 5 min",
        Proves.SILENT,
        one("kafka_cluster_partitions_without_state", (0, 4), (900, 20), (0, 20)),
        {345: None, 360: None, 480: None},
    ),
)

REQUEST = about(
    "KafkaRequestStuck",
    Story(
        "fires after 5 min, resolves 2 min after its end",
        Proves.FIRES,
        one("kafka_cluster_oldest_request_timestamp_seconds", (0, 30), ("stale", 1), ("_", 20)),
        {300: None, 315: 315, 435: 435, 555: 435, 570: None},
    ),
    Story(
        "is silent about one that the controller has begun with before",
        Proves.SILENT,
        one("kafka_cluster_oldest_request_timestamp_seconds", (0, 20), ("stale", 1), ("_", 20)),
        {255: None, 300: None, 330: None},
    ),
)

UNDER_MIN_ISR = about(
    "KafkaPartitionsUnderMinIsr",
    Story(
        "fires after 2 min, resolves 2 min after its end",
        Proves.FIRES,
        one("kafka_cluster_under_min_isr_partitions", (0, 4), (2, 12), (0, 20)),
        {165: None, 180: 2, 225: 2, 345: 2, 360: None},
    ),
    Story(
        "is silent about less than 2 min",
        Proves.SILENT,
        one("kafka_cluster_under_min_isr_partitions", (0, 4), (2, 8), (0, 20)),
        {165: None, 180: None, 300: None},
    ),
)

UNCLEAN = about(
    "KafkaUncleanLeaderElection",
    Story(
        "fires at once, resolves when the hour is past",
        Proves.FIRES,
        one("kafka_controller_unclean_leader_elections_total", (5, 4), (7, 300)),
        {45: None, 60: 2, 3600: 2, 3765: 2, 3795: None},
    ),
    Story(
        "is silent about those of long ago",
        Proves.SILENT,
        one("kafka_controller_unclean_leader_elections_total", (5, 300)),
        {0: None, 600: None, 4400: None},
    ),
    Story(
        "counts those in a gap of the scrapes",
        Proves.GAP,
        one("kafka_controller_unclean_leader_elections_total", (5, 4), *GAP, (6, 10)),
        {45: None, 120: 1, 240: 1},
    ),
    Story(
        "fires for an hour about those of seven hours in which the exporter was dead",
        Proves.FIRES,
        one("kafka_controller_unclean_leader_elections_total", (5, 4), *DEAD_7_H, (7, 300)),
        {45: None, 25245: None, 25260: 2, 28800: 2, 29010: None},
    ),
    Story(
        "is silent about what another exporter, which is gone for hours, had not seen",
        Proves.MOVE,
        {
            f"kafka_controller_unclean_leader_elections_total{{{EXPORTER}}}": times((5, 400)),
            f"kafka_controller_unclean_leader_elections_total{{{OTHER_EXPORTER}}}": times(
                ("_", 300), (5, 150), (7, 1000)
            ),
        },
        {6735: None, 6750: 2, 10365: 2, 10500: None, 14400: None, 20000: None},
    ),
    Story(
        "is silent when the counter starts again, and counts on from there",
        Proves.RESET,
        one("kafka_controller_unclean_leader_elections_total", (5, 4), (0, 4), (1, 8)),
        {45: None, 60: None, 105: None, 120: 1},
    ),
    Story(
        "is silent while two exporters change the lineage one after the other",
        Proves.SWAP,
        swapped("kafka_controller_unclean_leader_elections_total", 5, 2),
        SWAP_MOMENTS,
    ),
)


def _moving(started: str, partitions: str) -> dict[str, str]:
    return {
        f"kafka_cluster_oldest_reassignment_timestamp_seconds{{{EXPORTER}}}": started,
        f"kafka_cluster_reassigning_partitions{{{EXPORTER}}}": partitions,
    }


REASSIGNMENT = about(
    "KafkaReassignmentStuck",
    Story(
        "fires after an hour and 15 min without an end, resolves when one ended",
        Proves.FIRES,
        _moving(times((0, 440)), times((5, 320), (4, 120))),
        {3615: None, 4500: None, 4515: 4515, 4785: 4785, 4905: 4785, 4920: None},
    ),
    Story(
        "is silent while partitions arrive, however long all of them take",
        Proves.SILENT,
        _moving(times((0, 640)), times((5, 200), (4, 220), (3, 220))),
        {3615: None, 5000: None, 6585: None, 8000: None},
    ),
    Story(
        "goes on firing over a gap in the scrapes",
        Proves.GAP,
        _moving(times((0, 310), *GAP, (0, 30)), times((5, 310), *GAP, (5, 30))),
        {4500: None, 4515: 4515, 4650: 4635, 4695: 4635, 4710: 4710, 4995: 4995},
    ),
    Story(
        "fires when the oldest waits for 6 h while others come and go, resolves when it is gone",
        Proves.FIRES,
        _moving(times((0, 1520), (22_800, 40)), times(*((4 + n % 2, 40) for n in range(39)))),
        {21600: None, 22500: None, 22515: 22515, 22785: 22785, 22905: 22785, 22920: None},
    ),
    Story(
        "is silent about a move of many hours that becomes smaller",
        Proves.SILENT,
        _moving(times((0, 1700)), times(*((40 - n, 200) for n in range(9)))),
        {21600: None, 22515: None, 24000: None, 25485: None},
    ),
)

DELETION = about(
    "KafkaTopicDeletionStuck",
    Story(
        "fires after 20 min, resolves 2 min after its end",
        Proves.FIRES,
        one("kafka_cluster_oldest_deletion_timestamp_seconds", (0, 90), ("stale", 1), ("_", 20)),
        {1200: None, 1215: 1215, 1335: 1335, 1455: 1335, 1470: None},
    ),
    Story(
        "is silent about one that ends before",
        Proves.SILENT,
        one("kafka_cluster_oldest_deletion_timestamp_seconds", (0, 80), ("stale", 1), ("_", 20)),
        {915: None, 1185: None, 1215: None, 1400: None},
    ),
    Story(
        "goes on firing over a gap in the scrapes",
        Proves.GAP,
        one("kafka_cluster_oldest_deletion_timestamp_seconds", (0, 85), *GAP, (0, 20)),
        {1215: 1215, 1260: 1260, 1290: 1260, 1335: 1335},
    ),
)

_AT_MIN = "kafka_cluster_under_replicated_at_min_isr_partitions"


def _lacking(
    *runs: tuple[float | str, int], moved: tuple[tuple[float | str, int], ...]
) -> dict[str, str]:
    """Return the under-replicated partitions, and those of them to which a reassignment adds replicas."""
    return {
        **one("kafka_cluster_under_replicated_partitions", *runs),
        **one("kafka_cluster_under_replicated_reassigning_partitions", *moved),
    }


UNDER_REPLICATED = about(
    "KafkaPartitionsUnderReplicated",
    Story(
        "fires after 10 min, resolves when the replicas are in sync again",
        Proves.FIRES,
        _lacking((0, 4), (500, 240), (0, 20), moved=((0, 264),)),
        {645: None, 660: 500, 3600: 500, 3765: 500, 3780: None},
    ),
    Story(
        "counts what a reassignment that moves others does not explain",
        Proves.FIRES,
        {
            **_lacking((5, 60), (2, 40), moved=((2, 100),)),
            **one("kafka_cluster_reassigning_partitions", (900, 100)),
        },
        {585: None, 600: 3, 885: 3, 1005: 3, 1020: None},
    ),
    Story(
        "is silent about less than 10 min, and while a reassignment explains all",
        Proves.SILENT,
        _lacking((3, 40), (0, 20), (7, 80), moved=((0, 60), (7, 80))),
        {600: None, 615: None, 1500: None, 2085: None},
    ),
)

AT_MIN_ISR = about(
    "KafkaPartitionsAtMinIsr",
    Story(
        "fires after 10 min, resolves when the replicas are in sync again",
        Proves.FIRES,
        one(_AT_MIN, (0, 4), (3, 60), (0, 20)),
        {645: None, 660: 3, 945: 3, 1065: 3, 1080: None},
    ),
    Story(
        "is silent about partitions whose replicas are all in sync, and about less than 10 min",
        Proves.SILENT,
        {
            **one("kafka_cluster_at_min_isr_partitions", (7, 80)),
            **one(_AT_MIN, (2, 40), (0, 40)),
        },
        {600: None, 615: None, 1185: None},
    ),
)

STORIES = (
    *UNDER_REPLICATED,
    *AT_MIN_ISR,
    *OFFLINE,
    *WITHOUT_STATE,
    *REQUEST,
    *UNDER_MIN_ISR,
    *UNCLEAN,
    *REASSIGNMENT,
    *DELETION,
)
