"""What must hold for the fold's service under every fault.

The rule: it knows which faults occurred, and derives only from those when a lineage may begin, when
one must begin, and what may end the part. Of the service's own knowledge it uses only which batches
were reported to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from pipeline.runtime import EnvironmentProblemError, KcmError
from streaming.failures import FailureKind
from streaming.lineage import Lineage
from streaming.service import STRIKES_BEFORE_GIVING_UP, STRIKES_BEFORE_NEW_LINEAGE
from tests.simulation.oracle import BrokenError

if TYPE_CHECKING:
    from tests.simulation.service import ServicedFold

FIRST_PAUSE_S = 0.5
"""How long the service waits after a failure that followed a batch."""

STALE_MS = 10_000
"""How long a query may continue with topics that were recreated."""

_BLAMED = {FailureKind.STATE, FailureKind.OTHER}
"""What counts against a checkpoint; waiting cures all other failures."""

_LINEAGE = re.compile(rb'"lineage":"(\d{13}-\w+)"')


class ServiceOracle:
    """Judges the service."""

    def __init__(self, fold: ServicedFold) -> None:
        self._fold = fold
        self.lineage: Lineage | None = None
        """The lineage in the checkpoint folder that can be used; None: there is none."""
        self.begin()

    def begin(self) -> None:
        """Drop what an ended process knew."""
        self.has_folded = False
        self.hangs_at_start = False
        self.restarts = Counter({kind.value: 0 for kind in FailureKind})
        self.lineages = 0
        self._strikes = 0
        self._failed: FailureKind | None = None
        """The failure of the current query; None: none was reported."""
        self._blamed: FailureKind | None = None
        """The last failure that counts, until the next query."""
        self._is_fresh = True
        """Whether there was no pause since a batch, or since the start of the process."""
        self._pauses = False
        self._lacks = False
        """Whether a lack on the machine keeps the service from continuing."""
        self._ends: dict[int, int] = {}
        """Where the log ended when the service asked for that, by partition."""
        self._newest = ""
        self._stale_since: int | None = None

    # --- what is reported to the service ----------------------------------------------------

    def on_attempt(self) -> None:
        """Record the facts at the moment when the service begins to look at a checkpoint."""
        self._blamed = self._failed = None
        self._ends = self._log_ends()
        self._newest = self.newest_published()

    def on_log_end(self, partition: int, end: int) -> None:
        """Record where the log ends, as reported to the service."""
        self._ends[partition] = end

    def on_failure(self, kind: FailureKind) -> None:
        """Record a query's failure as reported to the service; only the first report counts."""
        self._failed = self._failed or kind

    def on_asked(self, batches: int) -> None:
        """Record that the service has asked for batches, and how many were reported to it."""
        if batches:
            self.has_folded = self._is_fresh = True
            self._strikes = 0

    def on_recovery(self) -> None:
        """Record that the service handles a failure; if none was reported, it is Kafka's silence."""
        kind, self._failed = self._failed or FailureKind.KAFKA, None
        self.restarts[kind.value] += 1
        self._pauses = True
        self._lacks = self._fold.is_full or kind is FailureKind.DISK
        if kind in _BLAMED and not self._lacks:
            self._strikes += 1
            self._blamed = kind

    def on_lack(self) -> None:
        """Record that the machine lacks what the service needs to continue, such as disk space or memory."""
        self._lacks = self._pauses = True

    # --- what it does -----------------------------------------------------------------------

    def on_wait(self, wait_s: float) -> None:
        """Judge a pause."""
        if not self._pauses:
            return
        if self._is_fresh and wait_s > FIRST_PAUSE_S:
            raise BrokenError("the first pause after a batch is short", f"it is {wait_s} s")
        self._pauses = self._is_fresh = False

    def on_lineage(self, lineage: Lineage) -> None:
        """Judge the start of a lineage."""
        self.lineages += 1
        old, self.lineage = self.lineage, lineage
        if old is not None and self._reason(old) is None:
            blamed = f"{self._strikes} failures count, the last is {self._blamed}"
            raise BrokenError("a lineage begins only for a reason", f"{lineage.name}: {blamed}")

    def _reason(self, old: Lineage) -> str | None:
        fold = self._fold
        if old.name in fold.damaged_files:
            return "a file of the checkpoint is damaged"
        if old.topic_ids != fold.topic_ids:
            return "the topics are others"
        if self._is_beyond(old, self._log_ends()):
            return "the log lost its end"
        if self.newest_published() > old.name:
            return "the checkpoint is older than the views"
        if self._blamed is FailureKind.STATE or (
            self._blamed and self._strikes == STRIKES_BEFORE_NEW_LINEAGE
        ):
            return "the checkpoint cannot be used"
        return None

    def on_query(self, lineage: Lineage, topic_ids: Mapping[str, str]) -> None:
        """Judge the lineage and the topics with which a query starts."""
        self._stale_since = None
        if lineage != self.lineage:
            raise BrokenError("a query is of the lineage on disk", lineage.name)
        if lineage.topic_ids != topic_ids:
            raise BrokenError("a lineage is of its topics", lineage.name)
        newest = min(self._newest, self.newest_published())
        if lineage.name < newest:
            raise BrokenError("the published lineage never goes back", f"{newest}: {lineage.name}")
        is_damaged = lineage.name in self._fold.damaged_files  # what it has folded may not be known
        if not is_damaged and self._is_beyond(lineage, self._ends):
            raise BrokenError("a fold goes on from what the log holds", lineage.name)

    def on_batch(self) -> None:
        """Judge that a query continues."""
        fold = self._fold
        now = fold.world.clock.now
        if self.is_of_the_topics or fold.is_cut_off or fold.world.topics_unknown:
            self._stale_since = None
        elif self._stale_since is None:
            self._stale_since = now
        elif now - self._stale_since > STALE_MS:
            raise BrokenError("other topics end a query", f"{now - self._stale_since} ms later")

    def on_other_topics(self) -> None:
        """Judge that a query is ended because its topics are others."""
        if self.is_of_the_topics:
            raise BrokenError("a query goes on while its topics are the same", "it was ended")

    def on_end(self, error: KcmError) -> None:
        """Judge that the part ends with a line for its user."""
        is_of_machine = isinstance(error, EnvironmentProblemError)
        may_end = (
            self._lacks and not self.has_folded
            if is_of_machine
            else self._strikes >= STRIKES_BEFORE_GIVING_UP
        )
        if not may_end:
            cleaned = self._fold.without_folder(str(error))
            raise BrokenError("what heals by waiting ends no part", f"{self._strikes}: {cleaned}")

    def on_leaving(self) -> None:
        """Judge that the process ends at once."""
        if not self.hangs_at_start:
            raise BrokenError("what heals by waiting ends no part", "no start of Spark hung")

    def check(self, registry: CollectorRegistry) -> None:
        """Judge the service by its metrics once all is quiet."""
        expected = {f"restarts_total {kind}": count for kind, count in self.restarts.items()}
        expected |= {"up": 1, "lineages_total": self.lineages}
        held = {}
        for name in expected:
            metric, _, reason = name.partition(" ")
            labels = {"reason": reason} if reason else {}
            held[name] = registry.get_sample_value(f"kcm_fold_{metric}", labels)
        if held != expected:
            raise BrokenError("the fold's metrics are true", f"{held}, not {expected}")

    @property
    def is_of_the_topics(self) -> bool:
        """Whether the checkpoint is of the current topics."""
        return self.lineage is not None and self.lineage.topic_ids == self._fold.topic_ids

    # --- what is true -----------------------------------------------------------------------

    def _log_ends(self) -> dict[int, int]:
        world = self._fold.world
        log = world.log.name
        return {p: world.at((log, p)).end for p in range(world.stage.topics.partitions)}

    def _is_beyond(self, lineage: Lineage, ends: Mapping[int, int]) -> bool:
        folded = self._fold.folded_to(lineage)
        return any(offset > ends[partition] for partition, offset in folded.items())

    def newest_published(self) -> str:
        """Return the newest lineage that the views hold; empty where they hold none."""
        world = self._fold.world
        views = [world.at((world.views.name, p)) for p in range(world.stage.topics.partitions)]
        names = (
            found[1].decode()
            for topic in views
            for record in topic.records
            if (found := _LINEAGE.search(record.value or b""))
        )
        return max((name for name in names if name in self._fold.names), default="")
