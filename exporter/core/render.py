"""Render views as lines of Prometheus's two formats: text 0.0.4 and OpenMetrics 1.0.0.

Pure functions from facts to bytes. The sample lines of both formats are the same except for
counters: in OpenMetrics each is followed by the time at which it started. A figure that is None has no
sample before it gets here; NaN and infinity are left out, too.
"""

import enum
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from prometheus_client.exposition import choose_encoder

from controller_model.metrics.metric import Metric, MetricType

V = TypeVar("V")


class Format(enum.Enum):
    """The formats of /metrics, by content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    @property
    def end(self) -> bytes:
        """The bytes that end an exposition."""
        return b"# EOF\n" if self is Format.OPENMETRICS else b""


class Lines(NamedTuple):
    """Sample lines in both formats; the same object where they do not differ."""

    text: bytes
    openmetrics: bytes

    def of(self, format_: Format) -> bytes:
        """Return the lines in one format."""
        return self.text if format_ is Format.TEXT else self.openmetrics


NO_LINES = Lines(b"", b"")


def choose_format(accept: str | None) -> Format:
    """Return the format that prometheus_client chooses for a scraper's Accept header.

    >>> choose_format("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3").name
    'OPENMETRICS'
    >>> choose_format("text/html, */*").name, choose_format(None).name
    ('TEXT', 'TEXT')
    """
    _, content_type = choose_encoder(accept or "")
    is_openmetrics = content_type.startswith("application/openmetrics-text")
    return Format.OPENMETRICS if is_openmetrics else Format.TEXT


def header(metric: Metric[Any], format_: Format) -> bytes:
    """Return the lines that declare a metric: HELP, TYPE and, in OpenMetrics, UNIT."""
    if format_ is Format.TEXT:
        text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
        kind = MetricType.GAUGE if metric.type is MetricType.INFO else metric.type
        return f"# HELP {metric.name} {text}\n# TYPE {metric.name} {kind}\n".encode()
    family = metric.family
    unit = f"# UNIT {family} {metric.unit}\n" if metric.unit else ""
    return f"# HELP {family} {escape(metric.help)}\n# TYPE {family} {metric.type}\n{unit}".encode()


def lines(metric: Metric[V], view: V, fixed: Sequence[str], created_ms: int | None) -> Lines:
    """Return the sample lines of a metric, read from a view.

    Args:
        metric: what to read.
        view: where to read it from.
        fixed: the values of the first labels: the cluster, and the broker for a broker's metric.
        created_ms: when counters started; None when that is not known.
    """
    is_counter = metric.type is MetricType.COUNTER
    text: list[str] = []
    openmetrics: list[str] = []
    for labels, value in metric.read(view):
        if not math.isfinite(value):
            continue
        named = zip(metric.labels, (*fixed, *labels), strict=True)
        block = ",".join(f'{name}="{escape(text_)}"' for name, text_ in named)
        line = f"{metric.name}{{{block}}} {value}\n"
        text.append(line)
        if is_counter and created_ms is not None:
            openmetrics += (line, f"{metric.family}_created{{{block}}} {created_ms / 1000}\n")
    encoded = "".join(text).encode()
    return Lines(encoded, "".join(openmetrics).encode() if openmetrics else encoded)


def escape(value: str) -> str:
    r"""Return a label's value with the three characters escaped that would end it.

    >>> print(escape('a"b' + chr(10)))
    a\"b\n
    """
    if '"' in value or "\\" in value or "\n" in value:
        return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return value
