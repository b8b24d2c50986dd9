"""Stories about the alerts of a KRaft cluster's quorum, and about what others mean there."""

from __future__ import annotations

from tests.component.rules.rule_stories import (
    EXPORTER,
    GAP,
    INTERVAL_S,
    OTHER_EXPORTER,
    Proves,
    Story,
    about,
    one,
    swapped,
    times,
)

Run = tuple[float | str, int]


def _folded(scrapes: int) -> dict[str, str]:
    """Return the time of the views of an exporter that follows."""
    at = " ".join(str(number * INTERVAL_S) for number in range(scrapes))
    return {f"kcm_cluster_folded_timestamp_seconds{{{EXPORTER}}}": at}


def _blind(scrapes: int) -> dict[str, str]:
    """Return what a cluster without commits shows from the fifth scrape on."""
    return {
        **one("kcm_cluster_up", (1, 4), (0, scrapes - 4)),
        **one("kcm_cluster_status", (0, 4), (1, scrapes - 4), status="blind"),
        **one("kcm_cluster_incomplete", (0, scrapes)),
        **one("kafka_quorum_voters", (3, scrapes)),
        **_folded(scrapes),
    }


SILENT = about(
    "KafkaControllerSilent",
    Story(
        "fires where survivors name a dead controller, of which nothing else tells: the id and the epoch stay",
        Proves.FIRES,
        {
            **_blind(32),
            **one("kafka_quorum_leader_silent", (0, 4), (1, 8), (0, 20)),
            **one("kafka_controller_id", (3001, 32)),
            **one("kafka_quorum_spare_voters", (1, 4), ("stale", 1), ("_", 27)),
            **one("kafka_quorum_commits_stopped", (0, 4), ("stale", 1), ("_", 27)),
        },
        {75: None, 90: 1, 165: 1, 285: 1, 300: None},
    ),
    Story(
        "is silent while a successor is elected, and where nobody answers",
        Proves.SILENT,
        one("kafka_quorum_leader_silent", (0, 4), (1, 2), (0, 4), ("stale", 1), ("_", 40)),
        {60: None, 75: None, 90: None, 300: None},
    ),
)

COMMITS = about(
    "KafkaQuorumCommitsStopped",
    Story(
        "fires after 30 s more, also while the monitor is blind, resolves 2 min after the high watermark grows again",
        Proves.FIRES,
        _blind(32) | one("kafka_quorum_commits_stopped", (0, 4), (1, 8), (0, 20)),
        {60: None, 75: None, 90: 1, 165: 1, 285: 1, 300: None},
    ),
    Story(
        "is silent about a disk that was slow for a moment, and while no leader answers",
        Proves.SILENT,
        one("kafka_quorum_commits_stopped", (0, 4), (1, 2), (0, 4), ("_", 40)),
        {60: None, 75: None, 90: None, 300: None},
    ),
)


def _spare(voters: int, *runs: Run) -> dict[str, str]:
    scrapes = sum(count for _, count in runs)
    return {
        **one("kafka_quorum_spare_voters", *runs),
        **one("kafka_quorum_voters", (voters, scrapes)),
        **_folded(scrapes),
    }


MARGIN = about(
    "KafkaQuorumMarginLost",
    Story(
        "fires when one of three voters has been away for 5 min, resolves 2 min after it follows",
        Proves.FIRES,
        _spare(3, (1, 4), (0, 30), (1, 20)),
        {345: None, 360: 0, 495: 0, 615: 0, 630: None},
    ),
    Story(
        "is silent about a restart, which takes less",
        Proves.SILENT,
        _spare(3, (1, 4), (0, 19), (1, 20)),
        {330: None, 345: None, 500: None},
    ),
    Story(
        "is silent about one of five, and about a quorum that never has a margin",
        Proves.SILENT,
        {
            **_spare(5, (2, 4), (1, 60)),
            **{
                name.replace("prod", "small"): values for name, values in _spare(1, (0, 64)).items()
            },
        },
        {360: None, 900: None},
    ),
)

VOTER = about(
    "KafkaVoterBehind",
    Story(
        "fires after a minute, resolves 2 min after it is caught up",
        Proves.FIRES,
        one(
            "kafka_quorum_replica_lag_seconds",
            (0.2, 4),
            (40, 8),
            (0.3, 20),
            node="3001",
            role="voter",
        ),
        {105: None, 120: 40, 165: 40, 285: 40, 300: None},
    ),
    Story(
        "is silent at 10 s, about a voter that restarts, and about a controller that does not vote",
        Proves.SILENT,
        {
            **one("kafka_quorum_replica_lag_seconds", (10, 40), node="3000", role="voter"),
            **one(
                "kafka_quorum_replica_lag_seconds",
                (0, 4),
                (30, 3),
                (0, 33),
                node="3001",
                role="voter",
            ),
            **one("kafka_quorum_replica_lag_seconds", (900, 40), node="3003", role="observer"),
        },
        {105: None, 120: None, 585: None},
    ),
    labels={"node": "3001"},
)

STORM = about(
    "KafkaFenceStorm",
    Story(
        "fires at the third broker, resolves when the fences are past",
        Proves.FIRES,
        one("kafka_quorum_recent_fences", (0, 4), (2, 2), (3, 40), (0, 40), window="10m"),
        {75: None, 90: 3, 675: 3, 795: 3, 810: None},
    ),
    Story(
        "is silent about two",
        Proves.SILENT,
        one("kafka_quorum_recent_fences", (0, 4), (2, 60), window="10m"),
        {75: None, 600: None},
    ),
)


def _metadata(lag: str, live: str, scrapes: int) -> dict[str, str]:
    return {
        f'kafka_broker_metadata_lag_seconds{{{EXPORTER}, broker="2"}}': lag,
        f'kafka_broker_live{{{EXPORTER}, broker="2"}}': live,
        **_folded(scrapes),
    }


METADATA = about(
    "KafkaBrokerMetadataBehind",
    Story(
        "fires for a live broker after a minute, resolves when it has caught up",
        Proves.FIRES,
        _metadata(times((0, 4), (300, 8), (0, 20)), times((1, 32)), 32),
        {105: None, 120: 300, 165: 300, 285: 300, 300: None},
    ),
    Story(
        "is silent about a broker that is fenced, be it starting or gone, and at 30 s",
        Proves.SILENT,
        _metadata(times((900, 20), (30, 20)), times((0, 20), (1, 20)), 40),
        {120: None, 285: None, 585: None},
    ),
    labels={"broker": "2"},
)

GONE_NODE = about(
    "KafkaGoneNodeRegistered",
    Story(
        "fires after half an hour, resolves when it is removed or back",
        Proves.FIRES,
        one("kafka_quorum_gone_registrations", (0, 4), (2, 260), (0, 20), kind="broker"),
        {1845: None, 1860: 2, 3945: 2, 4065: 2, 4080: None},
    ),
    Story(
        "is silent about one that is back before that",
        Proves.SILENT,
        one("kafka_quorum_gone_registrations", (0, 4), (1, 119), (0, 100), kind="broker"),
        {1830: None, 2100: None},
    ),
    labels={"kind": "broker"},
)

SNAPSHOT = about(
    "KafkaSnapshotOld",
    Story(
        "fires when three hours have passed since the newest, resolves with the next one",
        Proves.FIRES,
        one("kafka_quorum_snapshot_timestamp_seconds", (0, 760), (11_000, 20)),
        {11_100: None, 11_115: 11_115, 11_385: 11_385, 11_520: None},
    ),
    Story(
        "is silent at three hours, and about a young cluster that has none",
        Proves.SILENT,
        one("kafka_quorum_snapshot_timestamp_seconds", ("_", 10), (0, 710), (10_700, 60)),
        {60: None, 10_800: None, 11_400: None},
    ),
)

ISR_EMPTY = about(
    "KafkaIsrEmpty",
    Story(
        "fires after a minute, resolves 2 min after somebody leads",
        Proves.FIRES,
        one("kafka_cluster_empty_isr_partitions", (0, 4), (6, 8), (0, 20)),
        {105: None, 120: 6, 165: 6, 285: 6, 300: None},
    ),
    Story(
        "is silent about a moment, and about a cluster without eligible leader replicas",
        Proves.SILENT,
        one("kafka_cluster_empty_isr_partitions", (0, 4), (6, 3), (0, 4), ("_", 20)),
        {105: None, 120: None, 300: None},
    ),
)

RECOVERING = about(
    "KafkaPartitionsRecovering",
    Story(
        "fires after 5 min, resolves when they have recovered",
        Proves.FIRES,
        one("kafka_cluster_recovering_partitions", (0, 4), (3, 24), (0, 20)),
        {345: None, 360: 3, 405: 3, 525: 3, 540: None},
    ),
    Story(
        "is silent about seconds",
        Proves.SILENT,
        one("kafka_cluster_recovering_partitions", (0, 4), (3, 19), (0, 20)),
        {345: None, 585: None},
    ),
)


def _fenced(replicas: str, live: str, fenced: str, scrapes: int) -> dict[str, str]:
    broker = f'{EXPORTER}, broker="2"'
    return {
        f"kafka_broker_replicas{{{broker}}}": replicas,
        f"kafka_broker_live{{{broker}}}": live,
        f"kafka_broker_fenced{{{broker}}}": fenced,
        **_folded(scrapes),
    }


_DOWN = _fenced(
    times((9, 60)), times((1, 4), (0, 30), (1, 26)), times((0, 4), (1, 30), (0, 26)), 60
)
_REMOVED = _fenced(
    times((9, 60)), times((1, 4), (0, 56)), times((0, 4), ("stale", 1), ("_", 55)), 60
)

FENCED = (
    *about(
        "KafkaBrokerFenced",
        Story(
            "fires after 5 min, resolves 2 min after the broker is unfenced",
            Proves.FIRES,
            _DOWN,
            {345: None, 360: 9, 495: 9, 615: 9, 630: None},
        ),
        Story(
            "is silent about one without replicas, and about one whose registration is removed",
            Proves.SILENT,
            _REMOVED
            | {
                name.replace('broker="2"', 'broker="3"'): values.replace("9", "0")
                for name, values in _DOWN.items()
                if "broker" in name
            },
            {360: None, 885: None},
        ),
        labels={"broker": "2"},
    ),
    *about(
        "KafkaBrokerGone",
        Story(
            "is silent about a fenced broker of a KRaft cluster, of which KafkaBrokerFenced tells",
            Proves.SILENT,
            _DOWN,
            {360: None, 495: None},
        ),
        Story(
            "fires in a KRaft cluster when a registration was removed and replicas are left",
            Proves.FIRES,
            _REMOVED,
            {345: None, 360: 9, 885: 9},
        ),
        labels={"broker": "2"},
    ),
)


def _fences(*runs: Run) -> dict[str, str]:
    scrapes = sum(count for _, count in runs)
    broker = {"broker": "2"}
    return {
        **one("kafka_broker_ends_total", *runs, **broker, end="fenced"),
        **one("kafka_broker_ends_total", (0, 1), (7, scrapes - 1), **broker, end="bounced"),
        **one("kafka_broker_registrations_total", (1, scrapes), **broker),
    }


BOUNCING = about(
    "KafkaBrokerBouncing",
    Story(
        "fires when a broker was fenced three times without a restart, until the first is past",
        Proves.FIRES,
        _fences((0, 4), (1, 8), (3, 300)),
        {165: None, 180: 3, 3645: 3, 3765: 3, 3780: None},
    ),
    Story(
        "is silent about two fences, and about ends of other kinds",
        Proves.SILENT,
        _fences((0, 4), (2, 260)),
        {60: None, 3600: None},
    ),
    Story(
        "counts fences in a gap of the scrapes",
        Proves.GAP,
        _fences((0, 8), *GAP, (3, 20)),
        {105: None, 180: 3, 400: 3},
    ),
    Story(
        "is silent while two exporters begin to count again one after the other",
        Proves.SWAP,
        swapped("kafka_broker_ends_total", 9, 0, broker="2", end="fenced")
        | swapped("kafka_broker_registrations_total", 1, 0, broker="2"),
        {105: None, 150: None, 300: None},
    ),
    labels={"broker": "2"},
)

LOG_DIRS = about(
    "KafkaLogDirFailed",
    Story(
        "fires in a KRaft cluster for as long as a directory is offline, however long ago it failed",
        Proves.FIRES,
        one("kafka_broker_offline_log_dirs", (0, 4), (1, 300), (0, 20), broker="2"),
        {45: None, 60: 1, 4500: 1, 4670: 1, 4695: None},
    ),
    Story(
        "is silent once it is repaired, although it failed within the hour",
        Proves.SILENT,
        {
            **one("kafka_broker_offline_log_dirs", (0, 60), broker="2"),
            **one("kafka_broker_log_dir_failures_total", (0, 8), (1, 52), broker="2"),
        },
        {150: None, 800: None},
    ),
    labels={"broker": "2"},
)


def _known(spare: str, controller: str, scrapes: int) -> dict[str, str]:
    return {
        f"kafka_quorum_voters{{{EXPORTER}}}": times((3, scrapes)),
        f"kafka_quorum_spare_voters{{{EXPORTER}}}": spare,
        f"kafka_controller_id{{{EXPORTER}}}": controller,
        **_folded(scrapes),
    }


NOT_KNOWN = about(
    "KcmQuorumNotKnown",
    Story(
        "fires when the leader has not told who follows for 10 min, resolves when it does",
        Proves.FIRES,
        _known(times((1, 4), ("stale", 1), ("_", 49), (1, 20)), times((3000, 74)), 74),
        {645: None, 660: 3, 795: 3, 915: 3, 930: None},
    ),
    Story(
        "is silent while there is no controller, of which another alert tells",
        Proves.SILENT,
        _known(times((1, 4), ("stale", 1), ("_", 69)), times((3000, 4), (-1, 70)), 74),
        {660: None, 1095: None},
    ),
    Story(
        "is silent while the controller does not answer at all, of which another alert tells",
        Proves.SILENT,
        _known(times((1, 4), ("stale", 1), ("_", 69)), times((3000, 74)), 74)
        | one("kafka_quorum_leader_silent", (0, 4), (1, 70)),
        {660: None, 1095: None},
    ),
)

MISSING = about(
    "KafkaControllerMissing",
    Story(
        "fires for a quorum without a leader, which the monitor is blind for, whatever candidates do to its epoch",
        Proves.FIRES,
        {
            **_blind(24),
            **one("kafka_controller_id", (3000, 4), (-1, 20)),
            **one("kafka_quorum_voters", (3, 24)),
            **one("kafka_controller_epoch", (7, 4), *((8 + number, 1) for number in range(20))),
            **_folded(24),
        },
        {75: None, 90: -1, 345: -1},
    ),
    Story(
        "is silent while it is not known who is active, as after a snapshot",
        Proves.SILENT,
        {
            **one("kafka_controller_id", ("_", 24)),
            **one("kafka_quorum_voters", (3, 24)),
            f"kafka_controller_id{{{OTHER_EXPORTER}}}": times(("_", 24)),
            **_folded(24),
        },
        {90: None, 345: None},
    ),
)

STORIES = (
    *SILENT,
    *COMMITS,
    *MARGIN,
    *VOTER,
    *STORM,
    *METADATA,
    *GONE_NODE,
    *SNAPSHOT,
    *ISR_EMPTY,
    *RECOVERING,
    *FENCED,
    *BOUNCING,
    *LOG_DIRS,
    *NOT_KNOWN,
    *MISSING,
)
