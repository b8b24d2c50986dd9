"""Stories about the alerts of the monitor itself."""

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


def _seen(blind: str) -> dict[str, str]:
    up = " ".join({"0": "1", "1": "0"}.get(value, value) for value in blind.split())
    return {
        f"kcm_cluster_up{{{EXPORTER}}}": up,
        f'kcm_cluster_status{{{EXPORTER}, status="blind"}}': blind,
    }


BLIND = (
    Story(
        alert="KcmBlind",
        claim="fires after 1 min without a session, resolves when there is one",
        proves=Proves.FIRES,
        series=_seen(times((0, 4), (1, 8), (0, 20))),
        moments={105: None, 120: 1, 285: 1, 300: None},
    ),
    Story(
        alert="KcmBlind",
        claim="is silent about less than a minute",
        proves=Proves.SILENT,
        series=_seen(times((0, 4), (1, 4), (0, 20))),
        moments={105: None, 120: None, 300: None},
    ),
    Story(
        alert="KcmBlind",
        claim="fires when the exporter is gone, and misses the cluster for 6 h",
        proves=Proves.FIRES,
        series=_seen(times((0, 4), ("stale", 1), ("_", 1500))),
        moments={105: None, 120: 1, 3600: 1, 21600: 1, 21840: None},
    ),
    Story(
        alert="KcmBlind",
        claim="is silent over a short gap in the scrapes",
        proves=Proves.GAP,
        series=_seen(times((0, 4), *GAP, (0, 20))),
        moments={60: None, 105: None, 120: None, 300: None},
    ),
    Story(
        alert="KcmBlind",
        claim="is silent while one of two exporters sees",
        proves=Proves.MOVE,
        series={
            f"kcm_cluster_up{{{EXPORTER}}}": times((0, 20)),
            f'kcm_cluster_status{{{EXPORTER}, status="blind"}}': times((1, 20)),
            f"kcm_cluster_up{{{OTHER_EXPORTER}}}": times((1, 20)),
            f'kcm_cluster_status{{{OTHER_EXPORTER}, status="blind"}}': times((0, 20)),
        },
        moments={60: None, 240: None},
    ),
)

_FOLD = {"stage": "fold"}

BEHIND = (
    Story(
        alert="KcmBehind",
        claim="fires when a stage is late for a minute, resolves when it is not",
        proves=Proves.FIRES,
        series=one("kcm_cluster_behind_seconds", (5, 4), (90, 8), (5, 20), stage="fold"),
        moments={105: None, 120: 90, 165: 90, 285: 90, 300: None},
        labels=_FOLD,
    ),
    Story(
        alert="KcmBehind",
        claim="is silent about less than a minute",
        proves=Proves.SILENT,
        series=one("kcm_cluster_behind_seconds", (5, 4), (90, 4), (5, 20), stage="fold"),
        moments={105: None, 120: None, 300: None},
        labels=_FOLD,
    ),
)

_WATCHER = {"stage": "watcher"}

CLOCKS = (
    Story(
        alert="KcmClocksDisagree",
        claim="fires when a clock is off for five minutes, in either direction, resolves when it is not",
        proves=Proves.FIRES,
        series=one("kcm_clock_skew_seconds", (0, 4), (-60, 28), (0, 20), stage="watcher"),
        moments={345: None, 375: 60, 465: 60, 1200: None},
        labels=_WATCHER,
    ),
    Story(
        alert="KcmClocksDisagree",
        claim="is silent at the limit",
        proves=Proves.SILENT,
        series=one("kcm_clock_skew_seconds", (5, 60), stage="watcher"),
        moments={360: None, 800: None},
        labels=_WATCHER,
    ),
)


def _doubts(incomplete: str, divergent: str) -> dict[str, str]:
    return {
        f"kcm_cluster_incomplete{{{EXPORTER}}}": incomplete,
        f"kcm_cluster_divergent{{{EXPORTER}}}": divergent,
    }


DOUBTFUL = (
    Story(
        alert="KcmIncompleteOrDivergent",
        claim="fires after 5 min incomplete, resolves after the resync",
        proves=Proves.FIRES,
        series=_doubts(times((0, 4), (1, 24), (0, 20)), times((0, 48))),
        moments={345: None, 360: 1, 405: 1, 525: 1, 540: None},
    ),
    Story(
        alert="KcmIncompleteOrDivergent",
        claim="is silent about a resync that ends within 5 min",
        proves=Proves.SILENT,
        series=_doubts(times((0, 4), (1, 20), (0, 20)), times((0, 44))),
        moments={345: None, 360: None, 600: None},
    ),
    Story(
        alert="KcmIncompleteOrDivergent",
        claim="fires when divergent, and stays one alert when it becomes incomplete as well",
        proves=Proves.FIRES,
        series=_doubts(times((0, 14), (1, 20)), times((0, 4), (1, 30))),
        moments={345: None, 360: 2, 480: 2},
    ),
)

_UNDER = f"kafka_cluster_under_min_isr_partitions{{{EXPORTER}}}"

MIN_ISR = (
    Story(
        alert="KcmMinIsrNotKnown",
        claim="fires after 10 min without the figure, resolves once the setting is there",
        proves=Proves.FIRES,
        series=one("kafka_cluster_partitions", (12, 80)) | {_UNDER: times(("_", 60), (0, 20))},
        moments={585: None, 600: 12, 885: 12, 1005: 12, 1020: None},
    ),
    Story(
        alert="KcmMinIsrNotKnown",
        claim="is silent where it is known, about a cluster without partitions, and without any figures",
        proves=Proves.SILENT,
        series={
            **one("kafka_cluster_partitions", (12, 80), (0, 60), ("stale", 1), ("_", 60)),
            _UNDER: times((3, 80), ("stale", 1), ("_", 120)),
        },
        moments={900: None, 1200: None, 2070: None, 3000: None},
    ),
    Story(
        alert="KcmMinIsrNotKnown",
        claim="is silent while one of two exporters knows it",
        proves=Proves.MOVE,
        series={
            **one("kafka_cluster_partitions", (12, 80)),
            f"kafka_cluster_partitions{{{OTHER_EXPORTER}}}": times((12, 80)),
            f"kafka_cluster_under_min_isr_partitions{{{OTHER_EXPORTER}}}": times((0, 80)),
        },
        moments={600: None, 1190: None},
    ),
)

STORIES = (*BLIND, *BEHIND, *CLOCKS, *MIN_ISR, *DOUBTFUL)
