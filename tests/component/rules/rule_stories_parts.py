"""Stories about the alerts of the monitor's parts: whether each is there and does its work."""

from __future__ import annotations

from tests.component.rules.rule_stories import (
    EXPORTER,
    GAP,
    OTHER_EXPORTER,
    Proves,
    Story,
    one,
    times,
)

_LATE = {"stage": "fold"}

BEHIND_FOR_LONG = (
    Story(
        alert="KcmBehindForLong",
        claim="pages after 10 min, resolves when the stage is in time",
        proves=Proves.FIRES,
        series=one("kcm_cluster_behind_seconds", (1, 4), (90, 60), (1, 20), stage="fold"),
        moments={645: None, 660: 90, 945: 90, 1065: 90, 1080: None},
        labels=_LATE,
    ),
    Story(
        alert="KcmBehindForLong",
        claim="pages nobody about an upgrade, whose parts are late for minutes",
        proves=Proves.SILENT,
        series=one("kcm_cluster_behind_seconds", (1, 4), (300, 36), (1, 40), stage="fold"),
        moments={300: None, 585: None, 615: None, 1000: None},
        labels=_LATE,
    ),
)

_UP = f"kcm_cluster_up{{{EXPORTER}}}"
_ALL = {"cluster": "all"}

NOT_SERVED = (
    Story(
        alert="KcmNotServed",
        claim="fires for as long as the exporter is dead, and resolves when it serves again",
        proves=Proves.FIRES,
        series={_UP: times((1, 4), ("stale", 1), ("_", 1800), (1, 20))},
        moments={345: None, 360: 1, 3600: 1, 21900: 1, 25200: 1, 27060: 1, 27210: None},
        labels=_ALL,
    ),
    Story(
        alert="KcmNotServed",
        claim="fires though nothing was ever scraped, until something is",
        proves=Proves.FIRES,
        series={_UP: times(("_", 80), (0, 20))},
        moments={285: None, 300: 1, 1185: 1, 1320: None},
        labels=_ALL,
    ),
    Story(
        alert="KcmNotServed",
        claim="is silent while one of two exporters serves, and while a cluster is only blind",
        proves=Proves.SILENT,
        series={
            _UP: times((1, 4), ("stale", 1), ("_", 80)),
            f"kcm_cluster_up{{{OTHER_EXPORTER}}}": times((0, 85)),
        },
        moments={360: None, 1200: None},
        labels=_ALL,
    ),
    Story(
        alert="KcmNotServed",
        claim="is silent over a short gap in the scrapes",
        proves=Proves.GAP,
        series={_UP: times((1, 24), *GAP, (1, 40))},
        moments={360: None, 405: None, 700: None},
        labels=_ALL,
    ),
)


def _watchers(first: str, second: str) -> dict[str, str]:
    return {
        f"kcm_watcher_leader{{{EXPORTER}}}": first,
        f"kcm_watcher_leader{{{OTHER_EXPORTER}}}": second,
    }


NO_WATCHER_LEADS = (
    Story(
        alert="KcmNoWatcherLeads",
        claim="fires when both stand by for 5 min, resolves when one leads",
        proves=Proves.FIRES,
        series=_watchers(times((1, 4), (0, 40), (1, 20)), times((0, 64))),
        moments={345: None, 360: 1, 645: 1, 765: 1, 780: None},
    ),
    Story(
        alert="KcmNoWatcherLeads",
        claim="fires when all of them are gone",
        proves=Proves.FIRES,
        series=_watchers(
            times((1, 4), ("stale", 1), ("_", 40), (1, 20)), times((0, 4), ("stale", 1), ("_", 60))
        ),
        moments={345: None, 360: 1, 660: 1, 780: 1, 795: None},
    ),
    Story(
        alert="KcmNoWatcherLeads",
        claim="is silent while the lead is handed over, and where no watcher is scraped",
        proves=Proves.SILENT,
        series=_watchers(times((1, 4), (0, 40)), times((0, 20), (1, 24))),
        moments={300: None, 360: None, 645: None},
    ),
    Story(
        alert="KcmNoWatcherLeads",
        claim="is silent over a short gap in the scrapes",
        proves=Proves.GAP,
        series=_watchers(times((1, 24), *GAP, (1, 40)), times((0, 24), *GAP, (0, 40))),
        moments={360: None, 405: None, 700: None},
    ),
)

STANDBY_MISSING = (
    Story(
        alert="KcmStandbyMissing",
        claim="fires for as long as the standby is dead, resolves when there is one",
        proves=Proves.FIRES,
        series=_watchers(times((1, 2000)), times((0, 60), ("stale", 1), ("_", 1800), (0, 20))),
        moments={1185: None, 1200: 1, 3600: 1, 25200: 1, 27900: 1, 28050: None},
    ),
    Story(
        alert="KcmStandbyMissing",
        claim="is silent about a single watcher, and about its update, in which two are there at once",
        proves=Proves.SILENT,
        series=_watchers(times((1, 44), ("stale", 1), ("_", 80)), times(("_", 40), (1, 85))),
        moments={600: None, 690: None, 1800: None},
    ),
    Story(
        alert="KcmStandbyMissing",
        claim="is silent over a short gap in the scrapes",
        proves=Proves.GAP,
        series=_watchers(times((1, 80)), times((0, 40), *GAP, (0, 36))),
        moments={600: None, 660: None, 1000: None},
    ),
)


def _denied(paths: str, incomplete: str) -> dict[str, str]:
    return {
        f"kcm_cluster_denied_paths{{{EXPORTER}}}": paths,
        f"kcm_cluster_incomplete{{{EXPORTER}}}": incomplete,
    }


PATHS_DENIED = (
    Story(
        alert="KcmPathsDenied",
        claim="fires after 5 min, resolves when they may be read",
        proves=Proves.FIRES,
        series=_denied(times((0, 4), (3, 40), (0, 20)), times((0, 4), (1, 40), (0, 20))),
        moments={345: None, 360: 3, 645: 3, 765: 3, 780: None},
    ),
    Story(
        alert="KcmPathsDenied",
        claim="is silent about what Kafka keeps from everybody, since nothing lacks for it",
        proves=Proves.SILENT,
        series=_denied(times((1, 80)), times((0, 80))),
        moments={300: None, 1185: None},
    ),
)

_FOLD = 'instance="f:9641", job="kcm"'


def _restarts(*runs: tuple[float | str, int]) -> dict[str, str]:
    return {
        f'kcm_fold_restarts_total{{{_FOLD}, reason="hung"}}': times(*runs),
        f'kcm_fold_restarts_total{{{_FOLD}, reason="disk"}}': times((0, 1), ("_", 1)),
    }


RESTARTS = (
    Story(
        alert="KcmFoldRestarts",
        claim="fires at the third within an hour, resolves when the first is past",
        proves=Proves.FIRES,
        series=_restarts((0, 4), (1, 8), (2, 8), (3, 300)),
        moments={285: None, 300: 3, 3645: 3, 3765: 3, 3795: None},
        labels=_ALL,
    ),
    Story(
        alert="KcmFoldRestarts",
        claim="is silent about two, and about those of another hour",
        proves=Proves.SILENT,
        series=_restarts((0, 4), (2, 260), (3, 40)),
        moments={300: None, 3600: None, 4000: None},
        labels=_ALL,
    ),
    Story(
        alert="KcmFoldRestarts",
        claim="counts those in a gap of the scrapes",
        proves=Proves.GAP,
        series=_restarts((0, 8), *GAP, (3, 20)),
        moments={105: None, 180: 3, 400: 3},
        labels=_ALL,
    ),
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


CHECKPOINT = (
    Story(
        alert="KcmCheckpointFull",
        claim="fires below 10 % free, resolves when there is room",
        proves=Proves.FIRES,
        series=_free((200, 4), (50, 40), (300, 20)),
        moments={345: None, 360: 0.05, 645: 0.05, 765: 0.05, 780: None},
        labels=_OF_VOLUME,
    ),
    Story(
        alert="KcmCheckpointFull",
        claim="is silent at 10 %",
        proves=Proves.SILENT,
        series=_free((100, 80)),
        moments={300: None, 1185: None},
        labels=_OF_VOLUME,
    ),
)

MIGRATING = (
    Story(
        alert="KafkaMigratingToKraft",
        claim="fires when a migration has begun, resolves when it was taken back",
        proves=Proves.FIRES,
        series=one("kafka_controller_migrating_to_kraft", (0, 4), (1, 8), (0, 20)),
        moments={45: None, 60: 1, 165: 1, 285: 1, 300: None},
    ),
    Story(
        alert="KafkaMigratingToKraft",
        claim="is silent about a cluster that stays with ZooKeeper",
        proves=Proves.SILENT,
        series=one("kafka_controller_migrating_to_kraft", (0, 40)),
        moments={60: None, 585: None},
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
