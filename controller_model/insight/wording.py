"""Numbers, partitions and times in words, for sentences that operators read."""

import datetime as dt
from collections.abc import Sequence

from controller_model.kafka.ids import TopicPartition

EXAMPLES_SHOWN = 3
"""How many partitions a sentence names; the total is given with them."""

_MS_PER_S, _S_PER_MIN, _MIN_PER_H = 1000, 60, 60
_YEAR_10000_MS = 253_402_300_800_000
"""A time from here on is beyond the calendar; a watcher's clock may report anything."""


def named(partitions: Sequence[TopicPartition]) -> str:
    """Return the first few partitions as text, in Kafka's spelling.

    >>> named([TopicPartition("t", n) for n in range(5)])
    't-0, t-1, t-2, ...'
    """
    shown = [f"{topic}-{partition}" for topic, partition in partitions[:EXAMPLES_SHOWN]]
    return ", ".join([*shown, "..."] if len(partitions) > EXAMPLES_SHOWN else shown)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "leader"), counted(2, "leader")
    ('1 leader', '2 leaders')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def duration(milliseconds: int) -> str:
    """Return a duration as text.

    >>> duration(98), duration(4200), duration(72_000), duration(7_260_000)
    ('98 ms', '4.2 s', '1 min 12 s', '2 h 1 min')
    """
    if milliseconds < _MS_PER_S:
        return f"{milliseconds} ms"
    seconds = milliseconds // _MS_PER_S
    if seconds < _S_PER_MIN:
        return f"{milliseconds / _MS_PER_S:.1f} s"
    minutes = seconds // _S_PER_MIN
    if minutes < _MIN_PER_H:
        return f"{minutes} min {seconds % _S_PER_MIN} s"
    return f"{minutes // _MIN_PER_H} h {minutes % _MIN_PER_H} min"


def time_text(milliseconds: int) -> str:
    """Return a time as people read it; in milliseconds if it is beyond the calendar.

    >>> time_text(1795251600123), time_text(10**18)
    ('2026-11-21T09:00:00Z', '1000000000000000000')
    """
    if not 0 <= milliseconds < _YEAR_10000_MS:
        return str(milliseconds)
    return f"{dt.datetime.fromtimestamp(milliseconds // _MS_PER_S, dt.UTC):%Y-%m-%dT%H:%M:%S}Z"
