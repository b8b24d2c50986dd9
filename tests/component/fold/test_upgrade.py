"""Upgrade, rollback and restored backups: fold and exporter in two releases, all of them real.

The tests share one fold and stand in the order of the story. All the while an exporter of each
release is asked what it shows, so that a step backwards is seen however short it is.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from controller_model.records.events import AnyEvent, IsrShrunk
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import free_port
from kcm.servers.process import Process
from kcm.servers.supervisor import Supervisor
from pipeline.settings import load
from pipeline.topics import ensure_topics
from streaming.config import StreamSettings
from streaming.lineage import Lineage
from streaming.published_lineage import published_lineage
from tests.component.fold.folding import FOLD_DEADLINE_S, Outcome
from tests.component.fold.releases import (
    NEXT,
    OURS,
    ReleasedStream,
    environment_of,
    next_release,
)
from tests.support.histories import History, small_cluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

CLUSTER = "lasting"
ASK_INTERVAL_S = 0.05
"""Half of what the shortest batch takes."""


class Shown(NamedTuple):
    """What the exporter showed at a moment."""

    lineage: str
    position: tuple[int, int]
    partitions: int
    elections: int
    counters_since: int
    status: str


class Screen:
    """An exporter, and all that it has shown, each answer once."""

    def __init__(
        self, supervisor: Supervisor, stream: ReleasedStream, release: Path | None
    ) -> None:
        port = free_port()
        self._url = f"http://127.0.0.1:{port}/api/v1/clusters/{CLUSTER}"
        self.shown: list[Shown] = []
        self._process = Process(
            supervisor,
            f"exporter-{stream.prefix}-{port}",
            [sys.executable, "-m", "exporter"],
            env=environment_of(release)
            | {
                "KCM_BOOTSTRAP_SERVERS": stream.bootstrap_servers,
                "KCM_TOPIC_PREFIX": stream.prefix,
                "KCM_PORT": str(port),
            },
        )
        self._process.start()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="screen", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it all."""
        self._stop.set()
        self._thread.join()
        self._process.stop()

    def latest(self, history: History) -> Shown:
        """Wait until a history is shown to its end."""
        whole = (history.generation, history.seq)
        return wait_until(
            lambda: self.shown[-1] if self.shown else None,
            lambda shown: shown is not None and shown.position >= whole,
            deadline_s=FOLD_DEADLINE_S,
        ) or pytest.fail("nothing was shown")

    def _watch(self) -> None:
        while not self._stop.wait(ASK_INTERVAL_S):
            try:
                with urllib.request.urlopen(self._url, timeout=5) as answer:
                    shown = _shown(json.load(answer))
            except (OSError, urllib.error.HTTPError):
                continue
            if not self.shown or self.shown[-1] != shown:
                self.shown.append(shown)


def _shown(body: dict[str, Any]) -> Shown:
    as_of = body["as_of"]
    return Shown(
        lineage=as_of["lineage"],
        position=(int(as_of["generation"]), int(as_of["seq"])),
        partitions=body["counts"]["partitions"],
        elections=body["controller"]["elections"],
        counters_since=body["counters_since"],
        status=body["completeness"]["status"],
    )


class Line:
    """The fold, its readers, and the cluster that all tests share."""

    def __init__(self, stream: ReleasedStream, outcome: Outcome, screens: Sequence[Screen]) -> None:
        self.stream = stream
        self.outcome = outcome
        self.screens = screens
        """Exporters of our release and of the next."""
        self.history = _cluster()

    @property
    def lineage(self) -> Lineage:
        """What the checkpoint folder says."""
        data = (self.stream.checkpoint_dir / "lineage.json").read_bytes()
        return msgspec.json.decode(data, type=Lineage)

    def live(self, steps: int) -> None:
        """Let the cluster live on: each step is a message of its own, and shows in the counters."""
        history = self.history
        for step in range(steps):
            history.elect(step % 3)
            history.state("t", 1, leader=1, isr=[1] if step % 2 else [1, 2])
            history.heartbeat()
        self.stream.append_new(history, at_a_time=1)

    def facts(self, lineage: str) -> list[AnyEvent]:
        """Return what happened, as this lineage reported it."""
        reported = self.outcome.events_of(CLUSTER)
        return [record.event for record in reported if record.id.lineage == lineage]

    def stop(self) -> None:
        """Stop the fold in order, if it runs."""
        assert self.stream.process is not None
        if self.stream.process.running:
            assert self.stream.process.stop() == 0

    def begun_because(self) -> str:
        """Return why the fold says that it began its newest lineage."""
        assert self.stream.process is not None
        lines = Path(self.stream.process.log_path).read_text().splitlines()
        said = [json.loads(line) for line in lines]
        begun = [line for line in said if line["event"] == "a new lineage begins"]
        reason: str = begun[-1]["reason"]
        return reason

    def check_counters(self) -> None:
        """The log holds all that ever happened, and so do the counters, once each."""
        view = self.outcome.folded(self.history)
        assert view.controller.elections == self.history.epoch
        assert view.counters_since == self.history.changes[0].observed_at
        assert view.log.incomplete_since is None
        assert (view.log.holes, view.log.not_newer) == (0, 0)
        shrinks = [f for f in self.facts(view.as_of.lineage) if isinstance(f, IsrShrunk)]
        assert view.counters.isr_shrinks == len(shrinks) > 0

    def shown(self) -> Shown:
        """Wait until both exporters show the history to its end, and the same; return that."""
        seen = wait_until(
            lambda: [screen.latest(self.history) for screen in self.screens],
            lambda shown: len(set(shown)) == 1,
            deadline_s=FOLD_DEADLINE_S,
        )
        return seen[0]

    def check_screens(self) -> None:
        """No answer of an exporter was older, or showed less, than the one before it."""
        for screen in self.screens:
            for before, after in itertools.pairwise(screen.shown):
                assert after.position >= before.position, (before, after)
                assert after.partitions == before.partitions, (before, after)
                assert after.elections >= before.elections or (
                    after.counters_since > before.counters_since
                ), (before, after)


def _cluster() -> History:
    history = small_cluster()
    history.cluster = CLUSTER
    history.changes = [msgspec.structs.replace(c, cluster=CLUSTER) for c in history.changes]
    return history


@pytest.fixture(scope="module")
def line(
    supervisor: Supervisor,
    pipeline_broker: KraftBroker,
    jars: Jars,
    newer: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Line]:
    """Our release, folding; it has reported a cluster's first steps."""
    stream = ReleasedStream(supervisor, pipeline_broker, jars, tmp_path_factory.mktemp("fold"))
    process = stream.start()
    outcome = Outcome(stream.bootstrap_servers, stream.names)
    screens = [Screen(supervisor, stream, release) for release in (None, newer)]
    line = Line(stream, outcome, screens)
    line.live(12)
    # A first lineage has nothing before it: it is shown as it comes.
    for screen in screens:
        del screen.shown[: screen.shown.index(screen.latest(line.history))]
    yield line
    for screen in screens:
        screen.close()
    outcome.close()
    (stream.process or process).kill()


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A newer release, whose state has another format, and whose records say more."""
    return next_release(tmp_path_factory.mktemp("newer"))


def _move(line: Line, release: Path | None) -> tuple[Lineage, Lineage]:
    """Replace the fold by another release while its cluster continues; return both lineages."""
    before = line.lineage
    line.stop()
    line.live(3)  # nobody folds now
    line.stream.release = release
    line.stream.start()
    line.live(3)
    line.outcome.folded(line.history, lineage=before.name)
    return before, line.lineage


def _check_move(line: Line, before: Lineage, after: Lineage) -> None:
    assert after.name > before.name
    assert line.outcome.folded(line.history).as_of.lineage == after.name
    line.check_counters()
    old, new = line.facts(before.name), line.facts(after.name)
    assert len(old) > 20
    assert new[: len(old)] == old
    formats = f"format {before.format}, not {after.format}"
    assert line.begun_because() == f"the checkpoint's state is of {formats}"


@pytest.fixture(scope="module")
def first_backup(line: Line, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the first lineage's checkpoint folder, taken while the fold stood."""
    line.stop()
    folder = tmp_path_factory.mktemp("first") / "checkpoint"
    shutil.copytree(line.stream.checkpoint_dir, folder)
    return folder


@pytest.mark.usefixtures("first_backup")
def test_an_upgrade_to_another_state_format_loses_no_fact(line: Line, newer: Path) -> None:
    """The newer fold begins a lineage, folds the whole log again, and comes to the same facts."""
    before, after = _move(line, newer)
    assert (before.format, after.format) == (OURS, NEXT)
    _check_move(line, before, after)


def test_the_exporter_swaps_when_the_new_lineage_has_come_as_far(line: Line) -> None:
    """While the log is folded again, what is shown stays; it never goes back to an older state.

    That holds for an exporter of either release, and both show the same of what the newer fold writes.
    """
    assert line.shown().lineage == line.lineage.name
    line.check_screens()


def test_a_rollback_is_an_upgrade(line: Line) -> None:
    """The older release, over the newer one's checkpoint, does the same the other way round.

    What it writes is shown by an exporter of the newer release as by its own.
    """
    before, after = _move(line, None)
    assert (before.format, after.format) == (NEXT, OURS)
    _check_move(line, before, after)
    line.shown()
    line.check_screens()


@pytest.fixture(scope="module")
def backup(line: Line, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkpoint folder, taken while the fold stood, and some life since then."""
    line.stop()
    folder = tmp_path_factory.mktemp("backup") / "checkpoint"
    shutil.copytree(line.stream.checkpoint_dir, folder)
    line.stream.start()
    line.live(4)
    line.shown()
    return folder


def _restore(line: Line, backup: Path) -> None:
    line.stop()
    shutil.rmtree(line.stream.checkpoint_dir)
    shutil.copytree(backup, line.stream.checkpoint_dir)
    line.live(3)
    line.stream.start()
    line.live(3)


def test_a_restored_checkpoint_goes_on_where_it_was_copied(line: Line, backup: Path) -> None:
    """The log since then is folded again, in the same lineage: nothing is counted or reported twice."""
    before = line.lineage
    _restore(line, backup)
    line.shown()
    assert line.lineage == before
    line.check_counters()
    ids = [record.id for record in line.outcome.events_of(CLUSTER)]
    assert ids == sorted(set(ids))
    assert line.outcome.duplicates > 0
    line.check_screens()


def test_a_checkpoint_of_an_earlier_lineage_is_not_continued(
    line: Line, first_backup: Path
) -> None:
    """Its lineage is below the one that readers hold: they would take nothing that it writes."""
    before = line.lineage
    _restore(line, first_backup)
    line.outcome.folded(line.history, lineage=before.name)
    assert line.shown().lineage == line.lineage.name > before.name
    assert before.name in line.begun_because()
    line.check_counters()
    line.check_screens()


def test_a_lost_checkpoint_and_a_truncated_log_are_marked_incomplete(
    line: Line,
) -> None:
    """Facts of the lost part are not counted; figures are incomplete until a whole resync."""
    history, names = line.history, line.stream.names
    line.stop()
    admin = AdminClient({"bootstrap.servers": line.stream.bootstrap_servers, "log_level": 2})
    everything = TopicPartition(names.changes, 0, OFFSET_END)
    for cut in admin.delete_records([everything]).values():
        cut.result()
    shown, last = line.screens[0].shown[-1], history.seq
    shutil.rmtree(line.stream.checkpoint_dir)
    line.live(3)
    line.stream.start()
    reported = line.outcome.folded(history, lineage=shown.lineage)
    assert line.begun_because() == "there was no checkpoint"
    assert reported.log.incomplete_since is not None
    assert reported.counters_since == history.changes[last].observed_at
    assert reported.counts.partitions < shown.partitions
    assert reported.resync_wanted is not None
    assert line.screens[0].shown[-1].lineage == shown.lineage
    history.resync(answers=reported.resync_wanted.number)
    line.stream.append_new(history)
    assert line.shown().lineage == line.lineage.name
    assert line.outcome.folded(history).log.incomplete_since is None
    line.check_screens()


def test_after_the_loss_of_the_topics_a_resync_restores_the_figures(line: Line) -> None:
    """Without the topics the history is lost; a resync makes the figures correct again."""
    before, history = line.lineage, line.history
    admin = AdminClient({"bootstrap.servers": line.stream.bootstrap_servers, "log_level": 2})
    for gone in admin.delete_topics(list(line.stream.names), operation_timeout=10).values():
        gone.result()
    wait_until(
        lambda: line.lineage.name, lambda seen: seen > before.name, deadline_s=FOLD_DEADLINE_S
    )
    history.new_generation("w2")
    first = len(history.changes)
    history.resync()
    line.stream.append_new(history)
    outcome = Outcome(line.stream.bootstrap_servers, line.stream.names)
    try:
        view = outcome.folded(history)
    finally:
        outcome.close()
    assert view.as_of.lineage == line.lineage.name
    assert view.log.verified_at is not None
    assert view.counters_since == history.changes[first].observed_at
    assert view.controller.epoch == history.epoch
    line.shown()
    line.check_screens()


def test_the_published_lineage_is_read_from_the_end_of_the_views(line: Line) -> None:
    """The newest lineage is read from the topic, also if it holds garbage."""
    settings = load(
        StreamSettings,
        bootstrap_servers=line.stream.bootstrap_servers,
        topic_prefix=line.stream.prefix,
    )
    topics = ensure_topics(settings, stop=threading.Event())
    assert published_lineage(settings, topics) == line.lineage.name
    garbage = (None, b"\xff", b"[]", b'{"as_of":{"lineage":"zzz"}}')
    producer = Producer({"bootstrap.servers": line.stream.bootstrap_servers, "log_level": 2})
    for value in garbage:
        producer.produce(line.stream.names.views, value=value, key=b"lasting/topic/x/0")
    assert producer.flush(20) == 0
    assert published_lineage(settings, topics) == line.lineage.name
