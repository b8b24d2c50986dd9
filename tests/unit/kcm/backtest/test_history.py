"""Which part of a log is scraped and reported for a window of time."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.backtest.history import ScrapedHistory, Window, record
from kcm.history.log_source import LogSource
from kcm.history.options import load_replay
from kcm.history.replay_input import Line
from pipeline.runtime import UsageError
from tests.support.bundles import manifest
from tests.support.histories import History, small_cluster
from tests.support.replaying import lines

EVERY_MS = 15_000


def source_of(history: History) -> LogSource:
    """Return a history as a recorded log."""
    recorded = [Line("log:1", line) for line in lines(history.changes).splitlines()]
    return LogSource(iter(recorded), {}, load_replay(None, {}).assumed)


def _in_sync(history: History, *isr: int, leader_epoch: int) -> None:
    """Let the controller write an ISR of both partitions."""
    for partition in (0, 1):
        history.state("t", partition, leader=partition, isr=isr, leader_epoch=leader_epoch)


@pytest.fixture
def story() -> History:
    """Two incidents, one for each of two brokers: one is closed, one is open at the end of the log."""
    history = small_cluster()
    for broker in (2, 1):
        for _ in range(6):
            history.heartbeat()
        history.broker_gone(broker)
        if broker == 2:
            _in_sync(history, 0, 1, leader_epoch=1)
        for _ in range(6):
            history.heartbeat()
        if broker == 2:
            history.broker(2)
            _in_sync(history, 0, 1, 2, leader_epoch=1)
            for _ in range(12):
                history.heartbeat()
    return history


class Recorder:
    """Records histories to a folder of blocks."""

    def __init__(self, folder: Path, blocks: Path) -> None:
        self.folder = folder
        self.blocks = blocks

    def __call__(
        self,
        history: History,
        window: Window = Window(None, None),  # noqa: B008  # it is frozen
        *,
        reach_ms: int = 0,
        cluster: str | None = None,
    ) -> ScrapedHistory:
        """Record a history and return the result."""
        return record(
            source_of(history),
            cluster,
            window,
            reach_ms=reach_ms,
            interval_ms=EVERY_MS,
            labels={"job": "kcm"},
            folder=self.folder,
            blocks=self.blocks,
        )


@pytest.fixture
def recorder(programs: Path, tmp_path: Path, blocks: Path) -> Recorder:
    """Records to this test's folder, with a promtool that keeps its input."""
    assert programs
    return Recorder(tmp_path, blocks)


def test_the_window_of_a_bundle_is_its_incident() -> None:
    """Options override the bundle's times."""
    bundles = {"a.zip": manifest(from_ms=10, to_ms=20), "b.zip": manifest(from_ms=15, to_ms=40)}
    source = LogSource(iter(()), bundles, load_replay(None, {}).assumed)
    assert Window.read(None, None).of_bundles(source) == (10, 40)
    assert Window.read("12", None).of_bundles(source) == (12, 40)
    assert Window.read(None, "30").of_bundles(source) == (10, 30)
    assert Window.read(None, "30").of_bundles(source._replace(manifests={})) == (None, 30)


def test_a_window_does_not_end_before_it_begins() -> None:
    """A window may be a single moment."""
    assert Window.read("20", "20") == (20, 20)
    with pytest.raises(UsageError, match="--from 20 is after --to 19"):
        Window.read("20", "19")


def test_the_whole_log_is_scraped_without_a_window(story: History, recorder: Recorder) -> None:
    """The result holds its scrapes, their samples and all incidents, the open one last."""
    found = recorder(story)
    first, last = story.changes[0].observed_at, story.changes[-1].observed_at
    assert found.cluster == "prod"
    assert found.scrapes == range(-(-first // EVERY_MS) * EVERY_MS, last + 1, EVERY_MS)
    assert found.window == (found.scrapes[0], found.scrapes[-1])
    assert [each.number for each in found.incidents] == [1, 2]
    assert found.incidents[0].closed_at is not None
    assert found.incidents[1].closed_at is None
    (block,) = recorder.blocks.iterdir()
    samples = block.read_text().splitlines()
    assert len(samples) == found.samples + 1
    ups = [line for line in samples if line.startswith("up{")]
    assert len(ups) == len(found.scrapes)
    assert ups[0] == f'up{{job="kcm"}} 1 {found.scrapes[0] / 1000:.3f}'


def test_an_incident_that_begins_with_the_last_scrape_is_reported(
    story: History, recorder: Recorder
) -> None:
    """It is in the last scrape; an incident that begins later is in none."""
    (_, two) = recorder(story).incidents
    end = -(-two.started_at // EVERY_MS) * EVERY_MS
    numbers = [each.number for each in recorder(story, Window(None, end)).incidents]
    assert numbers == [1, 2]
    assert [each.number for each in recorder(story, Window(None, end - EVERY_MS)).incidents] == [1]


def test_rules_look_back_before_the_window(story: History, recorder: Recorder) -> None:
    """Scrapes begin earlier than the reported window."""
    end = story.changes[-1].observed_at
    begin = end - 60_000
    found = recorder(story, Window(begin, None), reach_ms=60_000)
    assert begin - 60_000 <= found.scrapes[0] < begin - 60_000 + EVERY_MS
    assert found.window[0] == begin
    assert [each.number for each in found.incidents] == [2]
    long = recorder(story, Window(begin, None), reach_ms=10**12)
    assert long.scrapes[0] < begin - 60_000


def test_an_incident_outside_of_the_window_is_not_reported(
    story: History, recorder: Recorder
) -> None:
    """One incident is closed before the window, one begins after it; one that ends within it counts."""
    (one, two) = recorder(story).incidents
    assert one.closed_at is not None
    only_first = Window(one.closed_at, two.started_at - EVERY_MS)
    assert [each.number for each in recorder(story, only_first, reach_ms=600_000).incidents] == [1]
    after = Window(one.closed_at + 1, two.started_at - EVERY_MS)
    assert recorder(story, after, reach_ms=600_000).incidents == []


@pytest.mark.parametrize("window", [Window(10**12, None), Window(None, 5)])
def test_a_window_outside_of_the_log_is_bad_use(
    window: Window, story: History, recorder: Recorder
) -> None:
    """This is bad use, not a result without alerts."""
    with pytest.raises(UsageError, match="there is no scrape in the history"):
        recorder(story, window)


def test_another_cluster_of_the_log_is_bad_use(story: History, recorder: Recorder) -> None:
    """No block is made."""
    with pytest.raises(UsageError, match="no change of cluster other in the log; it has: prod"):
        recorder(story, cluster="other")
    assert list(recorder.blocks.iterdir()) == []
