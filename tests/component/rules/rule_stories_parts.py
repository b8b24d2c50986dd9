"""Stories about the alerts of the monitor's parts: whether each is there and does its work."""

from __future__ import annotations

from tests.component.rules.rule_stories import (
    EXPORTER,
    GAP,
    OTHER_EXPORTER,
    Proves,
    Story,
    about,
    one,
    times,
)

_LATE = {"stage": "fold"}

BEHIND_FOR_LONG = about(
    "KcmBehindForLong",
    Story(
        "pages after 10 min, resolves when the stage is in time",
        Proves.FIRES,
        one("kcm_cluster_behind_seconds", (1, 4), (90, 60), (1, 20), stage="fold"),
        {645: None, 660: 90, 945: 90, 1065: 90, 1080: None},
    ),
    Story(
        "pages nobody about an upgrade, whose parts are late for minutes",
        Proves.SILENT,
        one("kcm_cluster_behind_seconds", (1, 4), (300, 36), (1, 40), stage="fold"),
        {300: None, 585: None, 615: None, 1000: None},
    ),
    labels=_LATE,
)

_UP = f"kcm_cluster_up{{{EXPORTER}}}"
_ALL = {"cluster": "all"}

NOT_SERVED = about(
    "KcmNotServed",
    Story(
        "fires for as long as the exporter is dead, and resolves when it serves again",
        Proves.FIRES,
        {_UP: times((1, 4), ("stale", 1), ("_", 1800), (1, 20))},
        {345: None, 360: 1, 3600: 1, 21900: 1, 25200: 1, 27060: 1, 27210: None},
    ),
    Story(
        "fires though nothing was ever scraped, until something is",
        Proves.FIRES,
        {_UP: times(("_", 80), (0, 20))},
        {285: None, 300: 1, 1185: 1, 1320: None},
    ),
    Story(
        "is silent while one of two exporters serves, and while a cluster is only blind",
        Proves.SILENT,
        {
            _UP: times((1, 4), ("stale", 1), ("_", 80)),
            f"kcm_cluster_up{{{OTHER_EXPORTER}}}": times((0, 85)),
        },
        {360: None, 1200: None},
    ),
    Story(
        "is silent over a short gap in the scrapes",
        Proves.GAP,
        {_UP: times((1, 24), *GAP, (1, 40))},
        {360: None, 405: None, 700: None},
    ),
    labels=_ALL,
)


def _watchers(first: str, second: str) -> dict[str, str]:
    return {
        f"kcm_watcher_leader{{{EXPORTER}}}": first,
        f"kcm_watcher_leader{{{OTHER_EXPORTER}}}": second,
    }


NO_WATCHER_LEADS = about(
    "KcmNoWatcherLeads",
    Story(
        "fires when both stand by for 5 min, resolves when one leads",
        Proves.FIRES,
        _watchers(times((1, 4), (0, 40), (1, 20)), times((0, 64))),
        {345: None, 360: 1, 645: 1, 765: 1, 780: None},
    ),
    Story(
        "fires when all of them are gone",
        Proves.FIRES,
        _watchers(
            times((1, 4), ("stale", 1), ("_", 40), (1, 20)), times((0, 4), ("stale", 1), ("_", 60))
        ),
        {345: None, 360: 1, 660: 1, 780: 1, 795: None},
    ),
    Story(
        "is silent while the lead is handed over, and where no watcher is scraped",
        Proves.SILENT,
        _watchers(times((1, 4), (0, 40)), times((0, 20), (1, 24))),
        {300: None, 360: None, 645: None},
    ),
    Story(
        "is silent over a short gap in the scrapes",
        Proves.GAP,
        _watchers(times((1, 24), *GAP, (1, 40)), times((0, 24), *GAP, (0, 40))),
        {360: None, 405: None, 700: None},
    ),
)

STANDBY_MISSING = about(
    "KcmStandbyMissing",
    Story(
        "fires for as long as the standby is dead, resolves when there is one",
        Proves.FIRES,
        _watchers(times((1, 2000)), times((0, 60), ("stale", 1), ("_", 1800), (0, 20))),
        {1185: None, 1200: 1, 3600: 1, 25200: 1, 27900: 1, 28050: None},
    ),
    Story(
        "is silent about a single watcher, and about its update, in which two are there at once",
        Proves.SILENT,
        _watchers(times((1, 44), ("stale", 1), ("_", 80)), times(("_", 40), (1, 85))),
        {600: None, 690: None, 1800: None},
    ),
    Story(
        "is silent over a short gap in the scrapes",
        Proves.GAP,
        _watchers(times((1, 80)), times((0, 40), *GAP, (0, 36))),
        {600: None, 660: None, 1000: None},
    ),
)


def _denied(paths: str, incomplete: str) -> dict[str, str]:
    return {
        f"kcm_cluster_denied_paths{{{EXPORTER}}}": paths,
        f"kcm_cluster_incomplete{{{EXPORTER}}}": incomplete,
    }


PATHS_DENIED = about(
    "KcmPathsDenied",
    Story(
        "fires after 5 min, resolves when they may be read",
        Proves.FIRES,
        _denied(times((0, 4), (3, 40), (0, 20)), times((0, 4), (1, 40), (0, 20))),
        {345: None, 360: 3, 645: 3, 765: 3, 780: None},
    ),
    Story(
        "is silent about what Kafka keeps from everybody, since nothing lacks for it",
        Proves.SILENT,
        _denied(times((1, 80)), times((0, 80))),
        {300: None, 1185: None},
    ),
)

_FOLD = 'instance="f:9641", job="kcm"'


def _restarts(*runs: tuple[float | str, int]) -> dict[str, str]:
    return {
        f'kcm_fold_restarts_total{{{_FOLD}, reason="hung"}}': times(*runs),
        f'kcm_fold_restarts_total{{{_FOLD}, reason="disk"}}': times((0, 1), ("_", 1)),
    }


RESTARTS = about(
    "KcmFoldRestarts",
    Story(
        "fires at the third within an hour, resolves when the first is past",
        Proves.FIRES,
        _restarts((0, 4), (1, 8), (2, 8), (3, 300)),
        {285: None, 300: 3, 3645: 3, 3765: 3, 3795: None},
    ),
    Story(
        "is silent about two, and about those of another hour",
        Proves.SILENT,
        _restarts((0, 4), (2, 260), (3, 40)),
        {300: None, 3600: None, 4000: None},
    ),
    Story(
        "counts those in a gap of the scrapes",
        Proves.GAP,
        _restarts((0, 8), *GAP, (3, 20)),
        {105: None, 180: 3, 400: 3},
    ),
    labels=_ALL,
)

_VOLUME = 'namespace="kafka", persistentvolumeclaim="checkpoint-kcm-stream-0", job="kubelet"'
_OF_VOLUME = {
    "cluster": "all",
    "namespace": "kafka",
    "persistentvolumeclaim": "checkpoint-kcm-stream-0",
}


def _free(*runs: tuple[float | str, int]) -> dict[str, str]:
    scrapes = sum(count for _, count in runs)
    return {
        f"kubelet_volume_stats_available_bytes{{{_VOLUME}}}": times(*runs),
        f"kubelet_volume_stats_capacity_bytes{{{_VOLUME}}}": times((1000, scrapes)),
    }


CHECKPOINT = about(
    "KcmCheckpointFull",
    Story(
        "fires below 10 % free, resolves when there is room",
        Proves.FIRES,
        _free((200, 4), (50, 40), (300, 20)),
        {345: None, 360: 0.05, 645: 0.05, 765: 0.05, 780: None},
    ),
    Story("is silent at 10 %", Proves.SILENT, _free((100, 80)), {300: None, 1185: None}),
    labels=_OF_VOLUME,
)

MIGRATING = about(
    "KafkaMigratingToKraft",
    Story(
        "fires when a migration has begun, resolves when it was taken back",
        Proves.FIRES,
        one("kafka_controller_migrating_to_kraft", (0, 4), (1, 8), (0, 20)),
        {45: None, 60: 1, 165: 1, 285: 1, 300: None},
    ),
    Story(
        "is silent about a cluster that stays with ZooKeeper",
        Proves.SILENT,
        one("kafka_controller_migrating_to_kraft", (0, 40)),
        {60: None, 585: None},
    ),
)

STORIES = (
    *BEHIND_FOR_LONG,
    *NOT_SERVED,
    *NO_WATCHER_LEADS,
    *STANDBY_MISSING,
    *PATHS_DENIED,
    *RESTARTS,
    *CHECKPOINT,
    *MIGRATING,
)
