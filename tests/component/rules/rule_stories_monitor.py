"""Stories about the alerts of the monitor itself."""

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


def _seen(blind: str) -> dict[str, str]:
    up = " ".join({"0": "1", "1": "0"}.get(value, value) for value in blind.split())
    return {
        f"kcm_cluster_up{{{EXPORTER}}}": up,
        f'kcm_cluster_status{{{EXPORTER}, status="blind"}}': blind,
    }


BLIND = about(
    "KcmBlind",
    Story(
        "fires after 1 min without a session, resolves when there is one",
        Proves.FIRES,
        _seen(times((0, 4), (1, 8), (0, 20))),
        {105: None, 120: 1, 285: 1, 300: None},
    ),
    Story(
        "is silent about less than a minute",
        Proves.SILENT,
        _seen(times((0, 4), (1, 4), (0, 20))),
        {105: None, 120: None, 300: None},
    ),
    Story(
        "fires when the exporter is gone, and misses the cluster for 6 h",
        Proves.FIRES,
        _seen(times((0, 4), ("stale", 1), ("_", 1500))),
        {105: None, 120: 1, 3600: 1, 21600: 1, 21840: None},
    ),
    Story(
        "is silent over a short gap in the scrapes",
        Proves.GAP,
        _seen(times((0, 4), *GAP, (0, 20))),
        {60: None, 105: None, 120: None, 300: None},
    ),
    Story(
        "is silent while one of two exporters sees",
        Proves.MOVE,
        {
            f"kcm_cluster_up{{{EXPORTER}}}": times((0, 20)),
            f'kcm_cluster_status{{{EXPORTER}, status="blind"}}': times((1, 20)),
            f"kcm_cluster_up{{{OTHER_EXPORTER}}}": times((1, 20)),
            f'kcm_cluster_status{{{OTHER_EXPORTER}, status="blind"}}': times((0, 20)),
        },
        {60: None, 240: None},
    ),
)

_FOLD = {"stage": "fold"}

BEHIND = about(
    "KcmBehind",
    Story(
        "fires when a stage is late for a minute, resolves when it is not",
        Proves.FIRES,
        one("kcm_cluster_behind_seconds", (5, 4), (90, 8), (5, 20), stage="fold"),
        {105: None, 120: 90, 165: 90, 285: 90, 300: None},
    ),
    Story(
        "is silent about less than a minute",
        Proves.SILENT,
        one("kcm_cluster_behind_seconds", (5, 4), (90, 4), (5, 20), stage="fold"),
        {105: None, 120: None, 300: None},
    ),
    labels=_FOLD,
)

_WATCHER = {"stage": "watcher"}

CLOCKS = about(
    "KcmClocksDisagree",
    Story(
        "fires when a clock is off for five minutes, in either direction, resolves when it is not",
        Proves.FIRES,
        one("kcm_clock_skew_seconds", (0, 4), (-60, 28), (0, 20), stage="watcher"),
        {345: None, 375: 60, 465: 60, 1200: None},
    ),
    Story(
        "is silent at the limit",
        Proves.SILENT,
        one("kcm_clock_skew_seconds", (5, 60), stage="watcher"),
        {360: None, 800: None},
    ),
    labels=_WATCHER,
)


def _doubts(incomplete: str, divergent: str) -> dict[str, str]:
    return {
        f"kcm_cluster_incomplete{{{EXPORTER}}}": incomplete,
        f"kcm_cluster_divergent{{{EXPORTER}}}": divergent,
    }


DOUBTFUL = about(
    "KcmIncompleteOrDivergent",
    Story(
        "fires after 5 min incomplete, resolves after the resync",
        Proves.FIRES,
        _doubts(times((0, 4), (1, 24), (0, 20)), times((0, 48))),
        {345: None, 360: 1, 405: 1, 525: 1, 540: None},
    ),
    Story(
        "is silent about a resync that ends within 5 min",
        Proves.SILENT,
        _doubts(times((0, 4), (1, 20), (0, 20)), times((0, 44))),
        {345: None, 360: None, 600: None},
    ),
    Story(
        "fires when divergent, and stays one alert when it becomes incomplete as well",
        Proves.FIRES,
        _doubts(times((0, 14), (1, 20)), times((0, 4), (1, 30))),
        {345: None, 360: 2, 480: 2},
    ),
)

_UNDER = f"kafka_cluster_under_min_isr_partitions{{{EXPORTER}}}"

MIN_ISR = about(
    "KcmMinIsrNotKnown",
    Story(
        "fires after 10 min without the figure, resolves once the setting is there",
        Proves.FIRES,
        one("kafka_cluster_partitions", (12, 80)) | {_UNDER: times(("_", 60), (0, 20))},
        {585: None, 600: 12, 885: 12, 1005: 12, 1020: None},
    ),
    Story(
        "is silent where it is known, about a cluster without partitions, and without any figures",
        Proves.SILENT,
        {
            **one("kafka_cluster_partitions", (12, 80), (0, 60), ("stale", 1), ("_", 60)),
            _UNDER: times((3, 80), ("stale", 1), ("_", 120)),
        },
        {900: None, 1200: None, 2070: None, 3000: None},
    ),
    Story(
        "is silent while one of two exporters knows it",
        Proves.MOVE,
        {
            **one("kafka_cluster_partitions", (12, 80)),
            f"kafka_cluster_partitions{{{OTHER_EXPORTER}}}": times((12, 80)),
            f"kafka_cluster_under_min_isr_partitions{{{OTHER_EXPORTER}}}": times((0, 80)),
        },
        {600: None, 1190: None},
    ),
)

STORIES = (*BLIND, *BEHIND, *CLOCKS, *MIN_ISR, *DOUBTFUL)
