"""The result of a back-test: which alert fired when, and the incidents for which no alert fired.

An incident lasts from its first abnormal event until it is closed. An alert belongs to it
if it began to fire in that time. An alert that fired before does not report it, nor does a pending
one.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from controller_model.insight.wording import counted, duration
from controller_model.records.incidents import Incident
from kcm.backtest.evaluation import Evaluated, FiredAlert
from kcm.backtest.history import ScrapedHistory
from kcm.backtest.rules import RuleFile
from kcm.cli.plain_table import PlainTable
from kcm.cli.text import printable, time_text

_QUIET_LABELS = frozenset({"alertname", "cluster", "severity"})
"""Labels that are the same in every row of a table of one cluster's alerts."""


class BackTest(NamedTuple):
    """What was evaluated, and the results; times are milliseconds since 1970."""

    history: ScrapedHistory
    rules: RuleFile
    evaluated: Evaluated

    @property
    def fired(self) -> list[FiredAlert]:
        """The alerts that fired at some time within the window."""
        return [each for each in self.evaluated.fired if _overlap(each, *self.history.window)]

    def alerts_of(self, incident: Incident) -> list[FiredAlert]:
        """Return the alerts that began to fire while an incident lasted."""
        begin, end = incident.started_at, self._end_of(incident)
        return [each for each in self.evaluated.fired if begin <= each.firing.fired_at <= end]

    def alerts_before(self, incident: Incident) -> list[FiredAlert]:
        """Return the alerts that had begun to fire before an incident and still fired in it."""
        begin, end = incident.started_at, self._end_of(incident)
        return [
            each
            for each in self.evaluated.fired
            if each.firing.fired_at < begin and _overlap(each, begin, end)
        ]

    def _end_of(self, incident: Incident) -> int:
        return self.history.window[1] if incident.closed_at is None else incident.closed_at

    @property
    def unnoticed(self) -> list[Incident]:
        """The incidents for which no alert fired."""
        return [each for each in self.history.incidents if not self.alerts_of(each)]


def _overlap(fired: FiredAlert, begin: int, end: int) -> bool:
    ended_at = fired.firing.ended_at
    return fired.firing.fired_at <= end and (ended_at is None or ended_at > begin)


def as_json(test: BackTest) -> dict[str, Any]:
    """Return a back-test as JSON."""
    history = test.history
    return {
        "cluster": history.cluster,
        "from": history.window[0],
        "to": history.window[1],
        "scrapes": len(history.scrapes),
        "samples": history.samples,
        "alerts": [_alert(each) for each in test.fired],
        "not_fired": _not_fired(test),
        "incidents": [
            {
                "number": each.number,
                "started_at": each.started_at,
                "closed_at": each.closed_at,
                "opened_by": each.opened_by,
                "summary": each.summary,
                "alerts": [_alert(fired) for fired in test.alerts_of(each)],
                "alerts_before": [_alert(fired) for fired in test.alerts_before(each)],
            }
            for each in history.incidents
        ],
        "incidents_without_alert": [each.number for each in test.unnoticed],
        "not_judged": [
            {"rule": each.rule.name, "reason": each.why} for each in test.evaluated.trouble
        ],
        "never_match": [
            {"rule": each.rule.name, "line": each.rule.line, "reason": each.why}
            for each in test.evaluated.never
        ],
    }


def _alert(fired: FiredAlert) -> dict[str, Any]:
    return {"alert": fired.rule.alert, "labels": fired.labels, **fired.firing._asdict()}


def _not_fired(test: BackTest) -> list[str]:
    names = {each.rule.alert for each in test.fired}
    unknown = {each.rule.name for each in test.evaluated.trouble}
    alerts = (rule.alert for rule in test.rules.rules if rule.alert)
    return list(dict.fromkeys(name for name in alerts if name not in names | unknown))


def as_text(test: BackTest) -> RenderableType:
    """Return a back-test as text for a terminal."""
    history = test.history
    begin, end = map(time_text, history.window)
    head = (
        f"cluster {history.cluster}, {begin} to {end}: {counted(len(history.scrapes), 'scrape')}, "
        f"{counted(history.samples, 'sample')}, {counted(len(test.rules.rules), 'rule')}"
    )
    parts: list[RenderableType] = [Text(printable(head), style="bold")]
    parts.append(_fired_table(test) if test.fired else Text("no alert would have fired"))
    parts += map(Text, map(printable, _lines(test)))
    return Group(*parts)


def _fired_table(test: BackTest) -> RenderableType:
    table = PlainTable("alert", "fired", "for", "labels", left=("fired", "labels"))
    for each in test.fired:
        firing = each.firing
        shown = [f"{n}={v}" for n, v in each.labels.items() if n not in _QUIET_LABELS]
        lasted = duration((firing.ended_at or test.history.window[1]) - firing.fired_at)
        table.add(
            printable(each.rule.alert),
            time_text(firing.fired_at),
            lasted if firing.ended_at is not None else f"{lasted}, still",
            printable(" ".join(shown) or "-"),
        )
    return table


def _lines(test: BackTest) -> Iterator[str]:
    silent = _not_fired(test)
    if silent:
        yield f"did not fire: {', '.join(silent)}"
    for never in test.evaluated.never:
        yield f"can never match: {never.rule.name} (line {never.rule.line}): {never.why}"
    told = {id(each.rule) for each in test.evaluated.never}
    for trouble in test.evaluated.trouble:
        if id(trouble.rule) not in told:
            yield f"not judged: {trouble.rule.name}: {trouble.why}"
    if not test.history.incidents:
        yield "no incident was recorded"
    for incident in test.history.incidents:
        yield f"incident {incident.number}, {time_text(incident.started_at)}: {incident.summary}"
        first: dict[str, int] = {}
        for each in test.alerts_of(incident):
            first.setdefault(each.rule.alert, each.firing.fired_at - incident.started_at)
        named = ", ".join(f"{name} after {duration(after)}" for name, after in first.items())
        before = dict.fromkeys(each.rule.alert for each in test.alerts_before(incident))
        known = f" (fired already: {', '.join(before)})" if before else ""
        yield f"    {named or 'NO ALERT FIRED'}{known}"
