"""Whether a part works, for probes and metrics: the age of its main loop's last turn, what its log lost, which build it is.

The rule: the answer comes from another thread than the one it is about. A restart is the only cure of a main loop
that hangs, so the limit is longer than anything that a loop that works does in a turn.
"""

import asyncio
import platform
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pipeline.build import revision, version
from pipeline.runtime import lost_log_lines
from pipeline.supervised_thread import STANDSTILL_S

_NO_STORE = {"cache-control": "no-store"}

_MOMENT_S = 1.0
"""What a loop gets before it counts as hanging: after a stop of the whole process both go on at the same time."""


class PartHealth(Collector):
    """The health of the part that this process runs."""

    def __init__(self, registry: CollectorRegistry, age_s: Callable[[], float]) -> None:
        """Show it in a registry. `age_s` returns the seconds since the main loop's last turn."""
        self._age_s = age_s
        self._build = (version(), revision(), platform.python_version())
        registry.register(self)

    @property
    def hangs(self) -> bool:
        """Whether the main loop's last turn is too old now."""
        return self._age_s() > STANDSTILL_S

    async def answer(self, _request: Request) -> Response:
        """Answer /healthz: 200 while the part works, 503 and one line that says why when it is to be restarted."""
        if self.hangs:
            await asyncio.sleep(_MOMENT_S)
        if not self.hangs:
            return JSONResponse({"alive": True}, headers=_NO_STORE)
        reason = (
            f"the main loop has not turned for {self._age_s():.0f} s: it hangs; restart this part"
        )
        return JSONResponse({"alive": False, "reason": reason}, 503, headers=_NO_STORE)

    def collect(self) -> Iterator[Metric]:
        """Yield the figures as of this scrape (`prometheus_client.registry.Collector`)."""
        build = InfoMetricFamily(
            "kcm_build",
            "The build that this part runs, and its Python; `revision` is the commit that it was made from, `unknown` in a checkout.",
            labels=("version", "revision", "python"),
        )
        build.add_metric(self._build, {})
        yield build
        yield GaugeMetricFamily(
            "kcm_main_loop_age_seconds",
            f"Seconds since the last turn of this part's main loop; normally below 1. Above "
            f"{STANDSTILL_S:.0f} it hangs, and /healthz answers 503.",
            value=self._age_s(),
        )
        yield CounterMetricFamily(
            "kcm_log_lost_lines",
            "Lines of this part's log that were lost because nobody read it, or the disk was full; "
            "normally 0.",
            value=lost_log_lines(),
        )

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics' names."""
        return self.collect()
