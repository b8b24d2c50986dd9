"""A reader of the topic of views reports lost views if, and only if, it lacks some.

The fold's processor and the exporter's store are the real ones; Kafka and Spark are simulated.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

from controller_model.fold import projection
from controller_model.records.completeness import Status, assess
from controller_model.state.control_plane import Assumed
from exporter.core.records import ClusterSnapshot
from exporter.intake.view_store import ViewStore
from pipeline.topic_records import Record
from streaming import processor as processor_module
from streaming.processor import FoldParameters, FoldProcessor
from tests.property.edits import write_random_changes
from tests.simulation.fold import Handle, InputRow, State
from tests.simulation.published import Published
from tests.simulation.topic import Topic
from tests.support.histories import encode_changes, small_cluster
from tests.support.samples import FRESH

CHUNK = 2
"""Partitions of a topic view here, so that topics are wide."""

MAX_LOST = 12


class Line:
    """A cluster, its log, the fold, the topic of views and an exporter."""

    def __init__(self, draws: random.Random) -> None:
        processor_module._remembered.clear()
        self.draws = draws
        self.history = small_cluster(a=dict.fromkeys(range(5), (0, 1, 2)), b={0: (1, 2)})
        self.lineages = 0
        self.folded_at = 0
        self.views = Topic("views")
        self.written: list[list[tuple[str, bytes | None]]] = []
        self.published = Published()
        self.next_offset = 0
        self.store = ViewStore()
        self.begin_lineage()

    def live(self) -> None:
        """Let the cluster change."""
        write_random_changes(self.history, self.draws, 3)

    def resync(self) -> None:
        """Let the watcher read the whole tree, later than anything before."""
        self.history.now += 1_000
        self.history.resync()

    def beat(self) -> None:
        """Let the watcher write a heartbeat."""
        self.history.heartbeat()

    # --- the fold ---------------------------------------------------------------------------

    def begin_lineage(self) -> None:
        """Fold the log again from its beginning."""
        self.lineages += 1
        self.lineage = f"{self.lineages:013d}-l"
        self.kept = [State(Handle.new(), 0)]

    def fold(self) -> None:
        """Fold what there is, in batches that end anywhere."""
        changes = self.history.changes
        while (first := self.kept[-1].offset) < len(changes):
            end = min(len(changes), first + self.draws.choice((1, 2, 5, 50)))
            self._batch(first, end)

    def _batch(self, first: int, end: int) -> None:
        before = self.kept[-1]
        handle = before.stored.copy()
        parameters = FoldParameters(self.lineage, "views", "events", 1, Assumed())
        self.folded_at += 1
        processor = FoldProcessor(parameters, clock=lambda: self.folded_at)
        processor.init(cast("StatefulProcessorHandle", handle))
        value = encode_changes(self.history.changes[first:end])
        rows = iter([InputRow("prod", 0, first, 1, value)])
        out = processor.handleInputRows(("prod",), rows, cast("TimerValues", None))
        written = [(row.key, row.value) for row in out if row.topic == "views"]
        views = self.published.after(before.views, written)
        self.kept.append(State(handle, end, views=views))
        self.written.append(written)
        self._write(written)

    def _write(self, written: Sequence[tuple[str, bytes | None]]) -> None:
        for key, value in written:
            self.views.append(0, key.encode(), value)

    def go_back(self) -> None:
        """Resume from an older checkpoint."""
        self.kept = self.kept[: self.draws.randint(1, len(self.kept))]

    def replace_worker(self) -> None:
        """End Spark's Python worker, and with it its record of sent views."""
        processor_module._remembered.clear()

    def lose_changes(self) -> None:
        """Lose changes that the fold has not read yet."""
        begin = self.kept[-1].offset
        self.live()
        del self.history.changes[begin : begin + self.draws.randint(1, 3)]

    # --- the topic of views -----------------------------------------------------------------

    def cut(self) -> None:
        """Lose the last records, so that offsets are used again; a reader beyond reads all again."""
        lost = self.draws.randint(0, MAX_LOST)
        self.views.cut(max(self.views.start, self.views.end - lost))
        if self.next_offset > self.views.end:
            self.next_offset = 0

    def compact(self) -> None:
        """Keep only the newest record of each key, up to a random offset."""
        self.views.compact(self.draws.randint(0, self.views.end))

    def write_late(self) -> None:
        """Let an abandoned Spark task write its records again."""
        self._write(self.draws.choice(self.written[-10:]))

    # --- the exporter -----------------------------------------------------------------------

    def restart(self) -> None:
        """Begin from nothing."""
        self.store = ViewStore()
        self.next_offset = 0

    def read_again(self) -> None:
        """Read the topic from its beginning, over the held views."""
        self.next_offset = 0

    def read_a_part(self) -> None:
        """Read up to a random offset."""
        self.read(self.draws.randint(0, 20))

    def read(self, most: int = 10**9) -> None:
        """Continue to read, and check the shown views at each commit."""
        for each in self.views.read(self.next_offset, most):
            self.next_offset = each.offset + 1
            self.store.apply(Record("views", 0, each.offset, each.key, each.value, 0))
            if self.store.clusters:
                self.check(self.shown)

    @property
    def shown(self) -> ClusterSnapshot:
        """What the exporter shows of the cluster."""
        return self.store.clusters["prod"]

    def check(self, shown: ClusterSnapshot) -> None:
        """Check that the cluster is incomplete for lost views exactly when some are missing."""
        view, lacks = shown.view, self.published.is_other(shown)
        assert shown.lacks_views == lacks
        if lacks:
            assert view.log.incomplete_since is not None
            assert assess(view, FRESH, 0).status not in {Status.LIVE, Status.CLOCKS_DISAGREE}


ACTS: dict[str, Callable[[Line], None]] = {
    "live": Line.live,
    "resync": Line.resync,
    "heartbeat": Line.beat,
    "new lineage": Line.begin_lineage,
    "older checkpoint": Line.go_back,
    "worker replaced": Line.replace_worker,
    "changes lost": Line.lose_changes,
    "views cut": Line.cut,
    "views compacted": Line.compact,
    "old output written late": Line.write_late,
    "exporter restarted": Line.restart,
    "read again": Line.read_again,
    "read a part": Line.read_a_part,
}
OFTEN = ("live", "live", "views cut")
STEPS = st.lists(st.sampled_from([*ACTS, *OFTEN]), min_size=3, max_size=25)


@pytest.fixture(autouse=True, scope="module")
def _wide_topics() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "PARTITIONS_PER_TOPIC_VIEW", CHUNK)
        yield


@settings(max_examples=60)
@given(STEPS, st.randoms(use_true_random=False))
def test_an_exporter_reports_lost_views_exactly_when_it_lacks_some(
    steps: list[str], draws: random.Random
) -> None:
    """Checked at each commit; after a whole resync no exporter lacks views."""
    line = Line(draws)
    line.fold()
    for step in steps:
        ACTS[step](line)
        line.fold()
        if line.draws.random() < 0.6:
            line.read()
    line.history.new_generation("w2")
    line.resync()
    line.fold()
    line.read()
    running = line.shown
    line.restart()
    line.read()
    for shown in (running, line.shown):
        assert shown.view.views_digest is not None
        assert not shown.lacks_views


def deny(line: Line, topic: str) -> None:
    """Let a resync be denied all of a topic."""
    history, path = line.history, f"/brokers/topics/{topic}"
    history.now += 1_000
    history.start_resync()
    for each in history.znodes:
        if not f"{each}/".startswith(f"{path}/"):
            history.report(each)
    history.finish_resync(denied=(path,), denied_more=0)
    line.fold()
    line.read()


def test_a_topic_denied_to_a_resync_is_held_as_in_the_fold() -> None:
    """It may be deleted or not; no view is missing, and the status names the denied path."""
    line = Line(random.Random(1))  # noqa: S311  # a play, not a secret
    line.fold()
    deny(line, "a")
    assert {entry.name for entry in line.shown.topics.values()} == {"a", "b"}
    assert line.shown.view.views_digest is not None
    assert not line.shown.lacks_views
