"""Evaluate rules on a history: Prometheus evaluates each expression at each moment of its group.

The rule: Prometheus evaluates all expressions. `promtool tsdb create-blocks-from rules` skips
alerts, and `promtool test rules` begins in 1970, where every `time() - …` would be wrong. So each
expression becomes a range query, which evaluates it at each step as a rule manager does, and
`firings` applies `for` and `keep_firing_for` to the result. Recorded series become blocks
before the rules that use them are evaluated; at a moment, those rules see what is recorded at that
moment. Rules that depend on each other, or on themselves, cannot be evaluated this way; they are
named.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from exporter.core.render import escape
from exporter.scrape.partition_series import PARTITION_METRICS
from kcm.backtest.blocks import BlockWriter
from kcm.backtest.history_server import HistoryServer, QueryError, Series
from kcm.backtest.rules import Rule, RuleFile, expanded, metric_names, needed_selectors
from pipeline.durations import duration_ms

_OF_PARTITIONS = {metric.name for metric in PARTITION_METRICS}


class Firing(NamedTuple):
    """One period in which an alert fired; times are milliseconds since 1970."""

    active_at: int
    """Since when it was pending."""
    fired_at: int
    ended_at: int | None
    """None: it still fires at the last moment."""


class FiredAlert(NamedTuple):
    """An alert that fired, with its labels as Prometheus shows them."""

    rule: Rule
    labels: dict[str, str]
    firing: Firing


class Trouble(NamedTuple):
    """Why the history gives no result, or only a part of it, for a rule."""

    rule: Rule
    why: str


class Evaluated(NamedTuple):
    """The results of all rules of a file."""

    fired: list[FiredAlert]
    """In the order in which they fired."""
    trouble: list[Trouble]
    never: list[Trouble] = []  # noqa: RUF012  # of a tuple, and never changed
    """Alerts that cannot fire on what is served, and why: one has no series for a selector that it needs."""


class _Placed(NamedTuple):
    """A rule, and when it is evaluated."""

    rule: Rule
    moments: range
    needs: frozenset[str]
    """The metrics that its expression names."""


class Evaluation:
    """The rules of a file, evaluated on the blocks of one server.

    Args:
        server: holds the history. It is running, and is restarted after something was recorded.
        rules: all of them.
        scrapes: the moments of the history, in milliseconds since 1970.
        interval_ms: the evaluation interval of a group that sets none.
        known: the names of the metrics that the history may have.
    """

    def __init__(
        self,
        server: HistoryServer,
        rules: RuleFile,
        *,
        scrapes: range,
        interval_ms: int,
        known: Collection[str],
    ) -> None:
        self._server = server
        self._scrapes = scrapes
        self._known = known
        self._placed = [
            _Placed(
                rule,
                _moments(scrapes, duration_ms(str(group.interval)) or interval_ms),
                frozenset(metric_names(rule.query)),
            )
            for group in rules.groups
            for rule in group.rules
        ]
        self._fired: list[FiredAlert] = []
        self._trouble: list[Trouble] = []

    def run(self, folder: Path) -> Evaluated:
        """Evaluate all rules; `folder` is for temporary files."""
        recorded = {placed.rule.record for placed in self._placed if placed.rule.record}
        left = self._placed
        while left:
            pending = {placed.rule.record for placed in left if placed.rule.record}
            ready = [placed for placed in left if not placed.needs & pending]
            if not ready:
                self._trouble += [_cycle(placed, pending) for placed in left]
                break
            left = [placed for placed in left if placed not in ready]
            new = [self._recorded_lines(placed) for placed in ready if placed.rule.record]
            for placed in ready:
                if placed.rule.alert:
                    self._evaluate_alert(placed, recorded)
            if left and any(new):
                self._serve_recorded(folder, new)
        order = {id(placed.rule): index for index, placed in enumerate(self._placed)}
        self._fired.sort(key=lambda each: (each.firing.fired_at, order[id(each.rule)]))
        return Evaluated(self._fired, self._trouble, list(self._never_matching(recorded)))

    def _never_matching(self, recorded: Collection[str]) -> Iterator[Trouble]:
        """Yield the alerts that did not fire and need series that neither the history nor kcm has."""
        judged = {id(each.rule) for each in self._fired} | {id(each.rule) for each in self._trouble}
        last = self._scrapes[-1]
        seen = f"[{last - self._scrapes.start + self._scrapes.step}ms]"
        for placed in self._placed:
            selectors = needed_selectors(placed.rule.query) if placed.rule.alert else []
            unknown = sorted(placed.needs - set(recorded) - set(self._known)) if selectors else []
            if foreign := [name for name in unknown if not _is_ours(name)]:
                yield Trouble(placed.rule, f"kcm serves no {', '.join(foreign)}")
            for selector in selectors if id(placed.rule) not in judged else ():
                asked = f"count(last_over_time({selector}{seen}))"
                try:
                    found = self._server.evaluate(asked, range(last, last + 1))
                except QueryError:
                    continue
                if not found:
                    yield Trouble(placed.rule, f"no series of the history is {selector}")
                    break

    def _evaluate(self, placed: _Placed) -> Series:
        try:
            return self._server.evaluate(placed.rule.query, placed.moments)
        except QueryError as error:
            self._trouble.append(Trouble(placed.rule, f"Prometheus says: {error}"))
            return {}

    def _evaluate_alert(self, placed: _Placed, recorded: set[str]) -> None:
        rule = placed.rule
        unknown = sorted(n for n in placed.needs - recorded if n not in self._known)
        if unknown:
            self._trouble.append(Trouble(rule, f"the history has no {', '.join(unknown)}"))
        for labels, active in _by_labels(rule, self._evaluate(placed)).items():
            for firing in firings(
                placed.moments,
                active,
                hold_ms=duration_ms(str(rule.hold)),
                keep_ms=duration_ms(str(rule.keep_firing_for)),
            ):
                self._fired.append(FiredAlert(rule, dict(labels), firing))

    def _recorded_lines(self, placed: _Placed) -> dict[int, list[str]]:
        """Return what a rule records, as lines by their times."""
        rule = placed.rule
        every_ms = self._scrapes.step
        found: dict[int, list[str]] = {}
        for labels, samples in self._evaluate(placed).items():
            merged = {**dict(labels), **{k: str(v) for k, v in rule.labels.items()}}
            merged.pop("__name__", None)
            text = ",".join(f'{name}="{escape(value)}"' for name, value in merged.items() if value)
            for at, value in samples.items():
                # a recorded value holds at the scrapes before the next evaluation, too
                next_scrape, until = at - at % every_ms + every_ms, at + placed.moments.step
                held = range(next_scrape, min(until, self._scrapes.stop), every_ms)
                for shown_at in (at, *held):
                    line = f"{rule.record}{{{text}}} {value}"
                    found.setdefault(shown_at, []).append(line)
        return found

    def _serve_recorded(self, folder: Path, recorded: Sequence[Mapping[int, list[str]]]) -> None:
        """Make blocks of the recorded series, and serve them."""
        times = sorted({at for lines in recorded for at in lines})
        with BlockWriter(folder, self._server.blocks) as blocks:
            for at in times:
                after = f" {at / 1000:.3f}\n"
                lines = (line for each in recorded for line in each.get(at, ()))
                blocks.write(at, "".join(f"{line}{after}" for line in lines).encode())
        self._server.restart()


def _is_ours(name: str) -> bool:
    """Return whether kcm serves a metric that no history has: of its own parts, or of single partitions."""
    return name.startswith("kcm_") or name in _OF_PARTITIONS


def firings(
    moments: Iterable[int], active: Collection[int], *, hold_ms: int, keep_ms: int
) -> Iterator[Firing]:
    """Yield the periods in which an alert fired: AlertingRule.Eval (Prometheus, rules/alerting.go).

    An alert is pending from its first result on, fires once it has been pending for `for`, and
    keeps firing for `keep_firing_for` after its last result. tests/component/commands/test_backtest.py
    compares this with promtool's `test rules`.

    Args:
        moments: when the rule was evaluated, in order.
        active: those at which its expression had a result with the alert's labels.
        hold_ms: `for`.
        keep_ms: `keep_firing_for`.

    >>> list(firings(range(0, 70, 10), {10, 20, 30}, hold_ms=10, keep_ms=20))
    [Firing(active_at=10, fired_at=20, ended_at=60)]
    """
    active_at: int | None = None
    fired_at: int | None = None
    kept_since: int | None = None
    for at in moments:
        if at in active:
            kept_since = None
            active_at = at if active_at is None else active_at
            if fired_at is None and at - active_at >= hold_ms:
                fired_at = at
            continue
        if fired_at is not None and active_at is not None:
            kept_since = at if kept_since is None else kept_since
            if at - kept_since < keep_ms:
                continue
            yield Firing(active_at, fired_at, at)
        active_at = fired_at = kept_since = None
    if fired_at is not None and active_at is not None:
        yield Firing(active_at, fired_at, None)


def _moments(scrapes: range, interval_ms: int) -> range:
    """Return when a group is evaluated: at multiples of its interval."""
    first = -(-scrapes.start // interval_ms) * interval_ms
    return range(first, scrapes[-1] + 1, interval_ms)


def _by_labels(rule: Rule, series: Series) -> dict[tuple[tuple[str, str], ...], set[int]]:
    """Return when each alert exists, by its labels (AlertingRule.Eval): the result's and the rule's own."""
    found: dict[tuple[tuple[str, str], ...], set[int]] = {}
    for pairs, samples in series.items():
        given = dict(pairs)
        kept = {name: value for name, value in given.items() if name != "__name__"}
        for at, value in samples.items():
            own = {name: expanded(str(text), given, value) for name, text in rule.labels.items()}
            labels = tuple(sorted((n, v) for n, v in {**kept, **own}.items() if v))
            found.setdefault(labels, set()).add(at)
    return found


def _cycle(placed: _Placed, pending: set[str]) -> Trouble:
    needed = ", ".join(sorted(placed.needs & pending))
    return Trouble(
        placed.rule, f"it needs {needed}, which is recorded from itself: that cannot be evaluated"
    )
