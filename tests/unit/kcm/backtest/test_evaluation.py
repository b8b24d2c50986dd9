"""Rules evaluated on a fake Prometheus: what is queried when, and what the answers become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kcm.backtest.evaluation import Evaluated, Evaluation, Firing, firings
from kcm.backtest.history_server import HistoryServer, QueryError, Series
from kcm.backtest.rules import Group, Rule, RuleFile
from kcm.servers.supervisor import Supervisor

EVERY_MS = 15_000
SCRAPES = range(15_000, 90_001, EVERY_MS)


class FakePrometheus(HistoryServer):
    """Answers an expression with what a test sets, and records the queries."""

    def __init__(self, supervisor: Supervisor, folder: Path, answers: Mapping[str, Series]) -> None:
        super().__init__(supervisor, folder, lookback_ms=EVERY_MS - 1)
        self.answers = answers
        self.did: list[str] = []
        self.moments: dict[str, range] = {}

    def restart(self) -> None:
        """Load the blocks that are there."""
        self.did.append(f"restart with {len(list(self.blocks.iterdir()))} blocks")

    def evaluate(self, query: str, moments: range) -> Series:
        """Return the answer for these moments."""
        self.did.append(query)
        self.moments[query] = moments
        if query not in self.answers:
            raise QueryError(f"no such thing: {query}")
        return self.answers[query]


class Bench:
    """Evaluates rules on the fake server's answers."""

    def __init__(self, supervisor: Supervisor, folder: Path) -> None:
        self._supervisor = supervisor
        self._folder = folder
        self.server: FakePrometheus

    def __call__(
        self,
        *rules: Rule,
        answers: Mapping[str, Series],
        interval: str = "",
        known: frozenset[str] = frozenset({"m", "n"}),
    ) -> Evaluated:
        """Evaluate these rules as one group."""
        self.server = FakePrometheus(self._supervisor, self._folder, answers)
        return Evaluation(
            self.server,
            RuleFile(groups=[Group(name="g", interval=interval, rules=list(rules))]),
            scrapes=SCRAPES,
            interval_ms=EVERY_MS,
            known=known,
        ).run(self._folder)

    def recorded(self) -> list[str]:
        """Return the recorded samples of all blocks."""
        return [
            line
            for block in sorted(self.server.blocks.iterdir())
            for line in block.read_text().splitlines()
            if line != "# EOF"
        ]


@pytest.fixture
def bench(programs: Path, tmp_path: Path) -> Iterator[Bench]:
    """Evaluates in this test's folder."""
    assert programs
    with Supervisor(tmp_path) as supervisor:
        yield Bench(supervisor, tmp_path)


def series(*moments: int, **labels: str) -> Series:
    """Return one series with a value at these moments."""
    return {tuple(sorted(labels.items())): dict.fromkeys(moments, "1")}


def test_an_alert_fires_with_the_labels_of_its_result_and_its_own(bench: Bench) -> None:
    """The rule's own labels are expanded and win, empty ones are dropped, and so is the metric's name."""
    labels = {"severity": "{{ $labels.broker }}/{{ $value }}", "broker": "", "team": 7}
    rule = Rule(alert="A", expr="m > 0", hold="15s", labels=labels)
    found = bench(
        rule, answers={"m > 0": series(30_000, 45_000, __name__="m", broker="1", severity="x")}
    )
    (fired,) = found.fired
    assert fired.rule is rule
    assert fired.labels == {"severity": "1/1", "team": "7"}
    assert fired.firing == (30_000, 45_000, 60_000)
    assert found.trouble == []


def test_series_that_have_the_same_labels_are_one_alert(bench: Bench) -> None:
    """An alert that continues in another series does not restart `for`; other labels are other alerts."""
    answer = series(15_000, 30_000, __name__="m") | series(45_000, __name__="n")
    rule = Rule(alert="A", expr="m or n", hold="30s")
    (fired,) = bench(rule, answers={"m or n": answer}).fired
    assert fired.firing == (15_000, 45_000, 60_000)


def test_alerts_come_in_the_order_in_which_they_fired(bench: Bench) -> None:
    """Alerts that fire at the same moment are in the order of the file."""
    rules = [Rule(alert=name, expr=name.lower()) for name in ("M", "N", "K")]
    found = bench(
        *rules,
        answers={"m": series(60_000), "n": series(30_000), "k": series(30_000)},
        known=frozenset({"m", "n", "k"}),
    )
    assert [each.rule.alert for each in found.fired] == ["N", "K", "M"]


@pytest.mark.parametrize(
    ("interval", "moments"),
    [
        ("", range(15_000, 90_001, 15_000)),
        ("30s", range(30_000, 90_001, 30_000)),
        ("2m", range(120_000, 90_001, 120_000)),
    ],
)
def test_a_group_is_evaluated_at_multiples_of_its_interval(
    interval: str, moments: range, bench: Bench
) -> None:
    """The multiples are within the history; a group without an interval uses the file's default."""
    bench(Rule(alert="A", expr="m"), answers={"m": {}}, interval=interval)
    assert bench.server.moments["m"] == moments


def test_a_rule_without_its_metrics_is_named_and_evaluated_all_the_same(bench: Bench) -> None:
    """Its expression may be about missing metrics: absent(x) fires."""
    rule = Rule(alert="A", expr="absent(x) and on () z or m")
    found = bench(rule, answers={str(rule.expr): series(15_000)})
    assert [(each.rule, each.why) for each in found.trouble] == [(rule, "the history has no x, z")]
    assert len(found.fired) == 1


def test_recording_rules_are_evaluated_before_the_rules_that_query_them(bench: Bench) -> None:
    """The order in the file does not matter; the server is restarted between the two."""
    found = bench(
        Rule(alert="A", expr="a:b > 0"),
        Rule(record="a:b", expr="sum(m)", labels={"team": 7, "gone": ""}),
        answers={
            "sum(m)": series(30_000, gone="x", broker='1"'),
            "a:b > 0": series(30_000, __name__="a:b", broker='1"'),
        },
    )
    assert bench.server.did == ["sum(m)", "restart with 1 blocks", "a:b > 0"]
    assert bench.recorded() == ['a:b{broker="1\\"",team="7"} 1 30.000']
    assert found.trouble == []
    assert [each.labels for each in found.fired] == [{"broker": '1"'}]


def test_a_recorded_value_is_in_each_scrape_until_the_next_evaluation(bench: Bench) -> None:
    """The value is in each scrape in between, and not after the end of the history."""
    rules = (Rule(record="r", expr="m"), Rule(alert="A", expr="r"))
    bench(*rules, answers={"m": series(30_000, 90_000), "r": {}}, interval="1m")
    assert bench.recorded() == [f"r{{}} 1 {at}.000" for at in (30, 45, 60, 75, 90)]


def test_an_evaluation_between_two_scrapes_is_seen_by_the_next(bench: Bench) -> None:
    """Intervals of groups need not be multiples of the scrape interval."""
    rules = (Rule(record="r", expr="m"), Rule(alert="A", expr="r"))
    bench(*rules, answers={"m": series(40_000), "r": {}}, interval="20s")
    assert bench.recorded() == ["r{} 1 40.000", "r{} 1 45.000"]


def test_a_recording_rule_that_no_rule_queries_makes_no_block(bench: Bench) -> None:
    """A rule that records nothing makes no block, either."""
    bench(Rule(record="r", expr="m"), answers={"m": series(15_000)})
    assert bench.server.did == ["m"]
    assert bench.recorded() == []


def test_rules_that_depend_on_each_other_are_named(bench: Bench) -> None:
    """All rules that depend on them are named, and none of them is queried."""
    rules = [
        Rule(record="a", expr="b + m"),
        Rule(record="b", expr="a"),
        Rule(alert="A", expr="a > b"),
        Rule(alert="B", expr="m"),
    ]
    found = bench(*rules, answers={"m": {}})
    assert {each.rule.name: each.why for each in found.trouble} == {
        name: f"it needs {needs}, which is recorded from itself: that cannot be evaluated"
        for name, needs in (("a", "b"), ("b", "a"), ("A", "a, b"))
    }
    assert bench.server.did[0] == "m"
    assert all(query.startswith("count(") for query in bench.server.did[1:])


@pytest.mark.parametrize(
    ("expr", "why"),
    [
        ("m == 1", ""),
        ('m{a="x"} == 1', 'no series of the history is m{a="x"}'),
        ('n / on () m{a="x"}', 'no series of the history is m{a="x"}'),
        ('n or m{a="x"}', ""),
        ('absent(m{a="x"})', ""),
        ("z > 1", "kcm serves no z"),
        ("kcm_fold_delay > 1", ""),
        ("kafka_topic_partition_leader < 0", ""),
        ("vector(1) > 2", ""),
    ],
)
def test_an_alert_that_can_never_match_is_named(expr: str, why: str, bench: Bench) -> None:
    """If it needs a series that is not there; one that did not fire with all its series may yet fire."""
    seen = {("m", 1), ("n", 1), ('m{a="x"}', 0)}
    span = SCRAPES[-1] - SCRAPES.start + SCRAPES.step
    answers = {
        f"count(last_over_time({name}[{span}ms]))": series(*SCRAPES[-1:]) if is_there else {}
        for name, is_there in seen
    }
    found = bench(Rule(alert="A", expr=expr, line=7), answers={**answers, expr: {}})
    assert [each.why for each in found.never] == ([why] if why else [])


def test_an_alert_that_fired_can_match(bench: Bench) -> None:
    """Nothing more is asked of it."""
    found = bench(Rule(alert="A", expr="m"), answers={"m": series(*SCRAPES)})
    assert (found.never, bench.server.did) == ([], ["m"])


def test_samples_are_written_in_the_order_of_their_times(bench: Bench) -> None:
    """The order of the series does not matter: Prometheus takes no sample older than the last."""
    answer: dict[Any, Any] = {
        (("s", "1"),): {75_000: "1", 15_000: "2"},
        (("s", "2"),): {45_000: "3"},
    }
    bench(Rule(record="r", expr="m"), Rule(alert="A", expr="r"), answers={"m": answer, "r": {}})
    assert bench.recorded() == [
        'r{s="1"} 2 15.000',
        'r{s="2"} 3 45.000',
        'r{s="1"} 1 75.000',
    ]


MOMENTS = range(0, 200, 10)


@pytest.mark.parametrize(
    ("active", "hold_ms", "keep_ms", "expected"),
    [
        (set(), 0, 0, []),
        ({10, 20}, 0, 0, [Firing(10, 10, 30)]),
        ({10, 20}, 10, 0, [Firing(10, 20, 30)]),
        ({10, 20}, 20, 0, []),
        ({10, 30, 40}, 10, 0, [Firing(30, 40, 50)]),
        ({10, 30, 50}, 0, 20, [Firing(10, 10, 80)]),
        ({10, 50}, 0, 20, [Firing(10, 10, 40), Firing(50, 50, 80)]),
        ({10}, 10, 100, []),
        ({180, 190}, 10, 0, [Firing(180, 190, None)]),
        ({170}, 0, 1000, [Firing(170, 170, None)]),
    ],
    ids=str,
)
def test_for_and_keep_firing_for_delay_the_begin_and_the_end_of_an_alert(
    active: set[int], hold_ms: int, keep_ms: int, expected: list[Firing]
) -> None:
    """An alert is pending for `for`, kept for `keep_firing_for`, and a gap while pending restarts it."""
    assert list(firings(MOMENTS, active, hold_ms=hold_ms, keep_ms=keep_ms)) == expected
