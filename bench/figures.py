"""The figures with bounds: what each must be, and what it aims at.

A scenario returns those that it measures along with its result, with their values; the rest of a
result explains them.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Figure(NamedTuple):
    """A figure with its bounds, on 2 cores with the shipped settings."""

    what: str
    unit: str
    must: float
    aim: float
    more_is_better: bool = False

    def met(self, value: float, bound: float) -> bool:
        """Return whether a value is within a bound."""
        return value >= bound if self.more_is_better else value <= bound


FIGURES = {
    "storm_10000_tail": Figure("10,000 leaders: last shown after last write", "s", 0.8, 0.4),
    "storm_10000_half": Figure("10,000 leaders: half shown after half written", "s", 1.5, 0.7),
    "storm_67000_tail": Figure(
        "67,000 leaders of 200,000 partitions: last shown after last write", "s", 3, 1.2
    ),
    "storm_67000_half": Figure(
        "67,000 leaders of 200,000 partitions: half shown after half written", "s", 5, 2
    ),
    "kill_median": Figure(
        "real broker of 3,300 led partitions killed: a partition after its write, median",
        "s",
        0.8,
        0.4,
    ),
    "kill_max": Figure(
        "real broker of 3,300 led partitions killed: a partition after its write, at most",
        "s",
        1.5,
        0.8,
    ),
    "delay_p50": Figure("10 changes/s of leaders: znode to scrape, p50", "ms", 230, 180),
    "delay_p99": Figure("10 changes/s of leaders: znode to scrape, p99", "ms", 400, 300),
    "delay_isr_p50": Figure(
        "10 changes/s of ISRs alone, which may wait: znode to scrape, p50", "ms", 400, 300
    ),
    "delay_isr_p99": Figure(
        "10 changes/s of ISRs alone, which may wait: znode to scrape, p99", "ms", 800, 650
    ),
    "cold_10000": Figure("cold start to live, 10,000 partitions", "s", 15, 11),
    "cold_200000": Figure("cold start to live, 200,000 partitions", "s", 30, 20),
    "cold_1000000": Figure("cold start to live, 1,000,000 partitions", "s", 120, 75),
    "again_200000": Figure(
        "the fold killed and started again at 200,000 partitions: next change shown", "s", 12, 8
    ),
    "look_10000": Figure("`kcm look` to its first figures, 10,000 partitions", "s", 5, 3),
    "look_10000_memory": Figure(
        "`kcm look` beside 10,000 partitions: memory (RSS)", "MiB", 150, 120
    ),
    "look_200000": Figure("`kcm look` to its first figures, 200,000 partitions", "s", 30, 20),
    "look_200000_memory": Figure(
        "`kcm look` beside 200,000 partitions: memory (RSS)", "MiB", 600, 400
    ),
    "brokers_300": Figure(
        "one change at 300 brokers and 200,000 partitions: Python per batch", "ms", 15, 5
    ),
    "replay_leaders": Figure(
        "the model on one core: changes that elect a leader", "1/s", 65_000, 90_000, True
    ),
    "backtest_hour": Figure(
        "`kcm backtest` of our rules on an hour of 10,000 partitions, 10 changes/s", "s", 60, 30
    ),
    "rehearse_10000": Figure("an operation rehearsed, 10,000 partitions", "s", 2, 1),
    "rehearse_200000": Figure("an operation rehearsed, 200,000 partitions", "s", 30, 20),
    "kraft_decoding": Figure(
        "the metadata log on one core: records checked and decoded", "1/s", 60_000, 75_000, True
    ),
    "kraft_replay": Figure("`kcm replay` of a folder with 1,000,000 records: CPU", "s", 30, 15),
    "kraft_delay_p50": Figure(
        "KRaft, 10 changes/s of leaders: append to scrape, p50", "ms", 220, 130
    ),
    "kraft_delay_p99": Figure(
        "KRaft, 10 changes/s of leaders: append to scrape, p99", "ms", 400, 200
    ),
    "kraft_delay_isr_p50": Figure(
        "KRaft, 10 changes/s of ISRs alone, which may wait: append to scrape, p50", "ms", 450, 300
    ),
    "kraft_delay_isr_p99": Figure(
        "KRaft, 10 changes/s of ISRs alone, which may wait: append to scrape, p99", "ms", 800, 650
    ),
    "kraft_fence": Figure(
        "KRaft, a broker of 3,300 led partitions is fenced: last shown after its batch",
        "s",
        0.8,
        0.4,
    ),
    "kraft_wide": Figure(
        "KRaft, 50,000 partitions change in batches of 10,000: last shown after the last batch",
        "s",
        3,
        1.5,
    ),
    "kraft_controller": Figure(
        "KRaft, the active controller is killed: the next shown after its LeaderChange",
        "s",
        0.5,
        0.25,
    ),
    "kraft_cold_10000": Figure("KRaft, cold start to live, 10,000 partitions", "s", 15, 10),
    "kraft_cold_200000": Figure("KRaft, cold start to live, 200,000 partitions", "s", 30, 15),
    "kraft_cold_1000000": Figure("KRaft, cold start to live, 1,000,000 partitions", "s", 120, 60),
    "kraft_watcher_memory": Figure(
        "KRaft, the watcher at rest beside 10,000 partitions: memory (RSS)", "MiB", 90, 70
    ),
    "kraft_watcher_cpu": Figure(
        "KRaft, the watcher at 3,000 changes/s: CPU", "% of a core", 25, 15
    ),
    "rest_cpu": Figure("the monitor at rest beside 10,000 partitions: CPU", "% of a core", 18, 10),
    "trickle_cpu": Figure(
        "the monitor at 10 changes/s of ISRs alone beside 10,000 partitions: CPU",
        "% of a core",
        40,
        25,
    ),
    "rest_memory": Figure(
        "the monitor at rest beside 10,000 partitions: memory (RSS)", "MiB", 1_200, 900
    ),
}


def judged(**values: float | None) -> dict[str, dict[str, Any]]:
    """Return figures with their must, aim and value; a figure whose value is None (not measured) is left out.

    >>> judged(delay_p50=200.0, delay_p99=None)["delay_p50"]["aim_met"]
    False
    """
    return {
        name: {
            "what": figure.what,
            "unit": figure.unit,
            "must": figure.must,
            "aim": figure.aim,
            "value": value,
            "must_met": figure.met(value, figure.must),
            "aim_met": figure.met(value, figure.aim),
        }
        for name, value in values.items()
        if value is not None
        for figure in (FIGURES[name],)
    }
