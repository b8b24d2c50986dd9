"""Run a Prometheus server on blocks of the past, and query its API.

The rule: when a live scrape lacks a series, Prometheus ends the series at once (a staleness
marker). Samples from a file cannot hold such markers. The history has a scrape at every interval
without a gap, so a lookback slightly shorter than the interval gives the same result: what the
newest scrape holds, and nothing from older ones.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec

from controller_model.records.decoding import DECODING_ERRORS
from kcm.servers.ports import HOST, free_port
from kcm.servers.process import Process
from kcm.servers.prometheus import program_of_prometheus, why_not_ready
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import KcmError, UnreachableError

QUERY_TIMEOUT_S = 600.0
MAX_STEPS = 10_000
"""Points of one range query: Prometheus answers 11,000 at most."""

Samples = dict[int, str]
"""Values, as Prometheus writes them, by time."""
Series = dict[tuple[tuple[str, str], ...], Samples]
"""Samples by labels, in the order of the labels' names."""


class QueryError(KcmError):
    """Prometheus cannot evaluate an expression on this history."""


class _Matrix(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(msgspec.Struct, frozen=True):
    result: list[_Matrix]


class _Answer(msgspec.Struct, frozen=True):
    status: str
    data: _Data | None = None
    error: str = ""


_decoder = msgspec.json.Decoder(_Answer)


class HistoryServer(Process):
    """One server; it serves blocks that are put into `blocks` while it runs after its next restart."""

    def __init__(self, supervisor: Supervisor, folder: Path, *, lookback_ms: int) -> None:
        """Describe the server; raises EnvironmentProblemError when the program is not on PATH."""
        self.blocks = folder / "tsdb"
        self.blocks.mkdir()
        self.url = f"http://{HOST}:{free_port()}"
        config = folder / "prometheus.yml"
        config.write_text("{}\n")
        argv = [
            program_of_prometheus("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={self.blocks}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            f"--query.lookback-delta={lookback_ms}ms",
            f"--query.timeout={QUERY_TIMEOUT_S:.0f}s",
            "--log.level=warn",
        ]
        super().__init__(supervisor, "prometheus", argv)

    def seen(self) -> str | None:
        """Return None when it is ready, else why it is not known to be."""
        return why_not_ready(self.url)

    def restart(self) -> None:
        """Start or restart it, and wait until it serves what is in `blocks`."""
        self.kill()
        self.start()
        self.wait_ready()

    def evaluate(self, query: str, moments: range) -> Series:
        """Return the values of an expression at moments in milliseconds; raises QueryError."""
        found: Series = {}
        for start in range(0, len(moments), MAX_STEPS):
            chosen = moments[start : start + MAX_STEPS]
            for labels, samples in self._ask(query, chosen):
                found.setdefault(tuple(sorted(labels.items())), {}).update(samples)
        return found

    def _ask(self, query: str, moments: range) -> Iterator[tuple[dict[str, str], Samples]]:
        asked: Mapping[str, Any] = {
            "query": query,
            "start": f"{moments[0] / 1000:.3f}",
            "end": f"{moments[-1] / 1000:.3f}",
            "step": f"{moments.step}ms",
        }
        address = f"{self.url}/api/v1/query_range"
        try:
            answer = httpx.post(address, data=asked, timeout=QUERY_TIMEOUT_S, trust_env=False)
            if not answer.is_success:
                raise QueryError(_why(answer.content))
            decoded = _decoder.decode(answer.content)
        except (httpx.HTTPError, *DECODING_ERRORS) as error:
            self.check()
            raise UnreachableError(f"Prometheus at {self.url} does not answer: {error}") from None
        for series in decoded.data.result if decoded.data else ():
            yield series.metric, {round(at * 1000): value for at, value in series.values}


def _why(body: bytes) -> str:
    try:
        return _decoder.decode(body).error
    except DECODING_ERRORS:
        return body.decode(errors="replace").strip() or "no reason given"
