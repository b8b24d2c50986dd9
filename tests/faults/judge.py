"""Judge how old and how correct each shown figure was, compared with what was true at that time.

The rule: a figure is stale from the moment at which ZooKeeper wrote its replacement. Partitions are
compared by the version of their znode, so that values that were never shown do not matter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.faults.shown import Sample, Shown, TopicAndNumber
from tests.faults.truth import VACANT, Known, Written, leader_and_isr

STALE_S = 3.0
"""The guarantee: a figure under `live` was true at most so long ago."""

AHEAD_S = 1.0
"""How long after a sample a value may become known to the test although it was there already."""


class Verdict(NamedTuple):
    """The judgement of one sample."""

    at: float
    lasted_s: float
    status: str
    old_s: float
    """How long ago the oldest figure shown was replaced; 0 when all are true."""
    oldest: str
    """Which figure that is."""
    wrong: str
    """A figure that was never true; empty when there is none."""

    @property
    def live(self) -> bool:
        """Whether the sample's status was `live`."""
        return self.status == "live"

    @property
    def is_current(self) -> bool:
        """Whether the status promises figures that are right: clocks that disagree make only times wrong."""
        return self.status in {"live", "clocks_disagree"}


def judge(samples: Iterable[Sample], known: Known) -> list[Verdict]:
    """Return a verdict for each sample; the truth must have settled before `known` was asked of it."""
    return [_judge(sample, known) for sample in samples]


def _judge(sample: Sample, known: Known) -> Verdict:
    lasted_s = sample.until - sample.at
    if sample.partitions is None:
        return Verdict(sample.at, lasted_s, sample.status, 0.0, "", "")
    ages = dict(_ages(sample, sample.partitions, known))
    wrong = next((name for name, age in ages.items() if age is None), "")
    sure = {name: age for name, age in ages.items() if age is not None}
    oldest = max(sure, key=lambda name: sure[name])
    old_s = sure[oldest]
    return Verdict(sample.at, lasted_s, sample.status, old_s, oldest if old_s else "", wrong)


def _ages(
    sample: Sample, shown: Mapping[TopicAndNumber, Shown], known: Known
) -> Iterator[tuple[str, float | None]]:
    """Yield each figure with the time for which it has been untrue; None: it was never true."""
    at = sample.at
    # A quorum without a leader writes nothing: that none leads is no less true than who led last.
    is_vacant = sample.controller == -1 and VACANT in known
    history = known.get(VACANT if is_vacant else "/controller", ())
    yield "controller", value_age(history, _broker_id, sample.controller, at, absent=-1)
    yield "epoch", value_age(known.get("/controller_epoch", ()), int, sample.epoch, at)
    seen = set()
    for path, history in known.items():
        if path.startswith("/brokers/ids/"):
            is_live = int(path.rpartition("/")[2]) in sample.brokers
            yield path, value_age(history, bool, is_live, at, absent=False)
        elif path.endswith("/state"):
            _, _, _, topic, _, number, _ = path.split("/")
            seen.add((topic, int(number)))
            yield f"{topic}-{number}", partition_age(history, shown.get((topic, int(number))), at)
    for topic, partition in shown.keys() - seen:
        yield f"{topic}-{partition}", 0.0 if shown[topic, partition].leader is None else None


def _broker_id(data: bytes) -> object:
    return json.loads(data)["brokerid"]


def value_age(
    history: Sequence[Written],
    read: Callable[[bytes], object],
    shown: object,
    at: float,
    *,
    absent: object = None,
) -> float | None:
    """Return how long a shown value had been untrue at a time; 0 if it was true, None if it never was.

    >>> epochs = [Written(10.0, 0, b"1"), Written(20.0, 1, b"2")]
    >>> value_age(epochs, int, 1, 25.0), value_age(epochs, int, 2, 25.0)
    (5.0, 0.0)
    >>> value_age(epochs, int, 7, 25.0) is None
    True
    >>> seen_late = [Written(10.0, 0, b"1"), Written(20.0, 1, b"2", earliest=15.0)]
    >>> value_age(epochs, int, 2, 16.0), value_age(seen_late, int, 2, 16.0)
    (None, 0.0)
    """
    if not history:
        return 0.0 if shown == absent else None
    ends = [each.at for each in history[1:]] + [float("inf")]
    found: float | None = None
    for each, ended in zip(history, ends, strict=True):
        value = absent if each.data is None else read(each.data)
        if value == shown and _may_have_begun(each, at):
            found = max(0.0, at - ended)
    return found


def partition_age(history: Sequence[Written], shown: Shown | None, at: float) -> float | None:
    """Return how long a shown partition had been untrue at a time; None if it was never so.

    >>> states = [Written(10.0, 0, b'{"leader":1,"isr":[1]}'), Written(20.0, 1, b'{"leader":2,"isr":[2]}')]
    >>> partition_age(states, Shown(0, 1, (1,)), 25.0), partition_age(states, Shown(1, 2, (2,)), 25.0)
    (5.0, 0.0)
    >>> partition_age(states, Shown(1, 1, (1,)), 25.0) is None
    True
    >>> partition_age(states, None, 25.0)
    15.0
    >>> deleted = Written(30.0, -1, None, earliest=22.0)
    >>> [partition_age([*states, deleted], None, at) for at in (20.0, 25.0, 35.0)]
    [10.0, 0.0, 0.0]
    >>> partition_age([*states, deleted, Written(31.0, 0, b"{}")], None, 35.0)
    4.0
    """
    if shown is None or shown.version is None or shown.leader is None:
        gone = [n for n, w in enumerate(history) if w.data is None and _may_have_begun(w, at)]
        since_gone = history[gone[-1] :] if gone else history
        begun = next((each for each in since_gone if each.data is not None), None)
        return 0.0 if begun is None else max(0.0, at - begun.at)
    for each in history:
        is_this = each.version == shown.version and each.data is not None
        if is_this and leader_and_isr(each.data or b"") != (shown.leader, shown.isr):
            return None
    later = (w.at for w in history if w.data is None or w.version > shown.version)
    return max(0.0, at - next(later, at))


def _may_have_begun(value: Written, at: float) -> bool:
    """Return whether a value may have existed by then, whenever the test learned of it."""
    if value.data is None:
        return value.earliest <= at
    return min(value.at - AHEAD_S, value.earliest or value.at) <= at


def stale_seconds(verdicts: Iterable[Verdict]) -> float:
    """Return for how long a figure was stale while the status promised that it was not."""
    return sum(v.lasted_s for v in verdicts if v.is_current and v.old_s > STALE_S)


def oldest_live(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the sample with the oldest figure that the status called right; None when there was none."""
    return max((v for v in verdicts if v.is_current), key=lambda v: v.old_s, default=None)
