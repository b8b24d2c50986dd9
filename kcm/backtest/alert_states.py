"""When an alert fires, computed from the moments at which its expression has a result.

The rule: this is AlertingRule.Eval (Prometheus, rules/alerting.go), moment by moment. An alert is
pending from its first result on, fires once it has been pending for `for`, and keeps firing for
`keep_firing_for` after its last result. tests/component/commands/test_backtest.py compares this
with promtool's `test rules`.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple


class Firing(NamedTuple):
    """One period in which an alert fired; times are milliseconds since 1970."""

    active_at: int
    """Since when it was pending."""
    fired_at: int
    ended_at: int | None
    """None: it still fires at the last moment."""


def firings(
    moments: Iterable[int], active: Collection[int], *, hold_ms: int, keep_ms: int
) -> Iterator[Firing]:
    """Yield the periods in which an alert fired.

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
