"""A history as scrapes: their moments, their labels, and their content."""

from __future__ import annotations

import re

import pytest

from controller_model.history.log_replay import LogReplay
from controller_model.metrics.catalogue import CATALOGUE
from controller_model.records.changes import SessionState
from controller_model.records.loose_log import decode_line
from controller_model.state.control_plane import Assumed
from kcm.backtest import sampling
from kcm.backtest.sampling import ScrapeSampler
from pipeline.runtime import UsageError
from tests.support.histories import History, encode_changes, replaced, small_cluster

INTERVAL_MS = 15_000


class Scrapes:
    """The scrapes of a history."""

    def __init__(self, history: History, *, begin_ms: int = 0, end_ms: int | None = None) -> None:
        self.at: dict[int, dict[str, float]] = {}
        self.sampler = ScrapeSampler(
            interval_ms=INTERVAL_MS,
            labels={"job": "kcm"},
            scraped=self._sampled,
            begin_ms=begin_ms,
            end_ms=end_ms,
        )
        replay = LogReplay(assumed=lambda _: Assumed(min_insync_replicas=1), sampler=self.sampler)
        for change in decode_line(encode_changes(history.changes)).changes:
            replay.apply_changes((change,))
        replay.finish()

    def _sampled(self, at: int, lines: bytes) -> None:
        samples = {}
        for line in lines.decode().splitlines():
            series, value, seconds = line.rsplit(" ", 2)
            assert float(seconds) * 1000 == at
            samples[series.replace('job="kcm",cluster="prod"', "")] = float(value)
        self.at[at] = samples

    def values(self, series: str) -> list[float | None]:
        """Return a series moment by moment; None: no sample."""
        return [samples.get(series) for samples in self.at.values()]


def lost_and_found() -> History:
    """Return a cluster that loses its controller for 40 s."""
    history = small_cluster()
    history.heartbeat()
    history.broker_gone(0)
    for _ in range(4):
        history.heartbeat()
    history.elect(1)
    history.heartbeat()
    return history


def test_scrapes_are_at_multiples_of_the_interval_with_the_values_of_that_time() -> None:
    """Scrapes go from the end of the first resync to the end of the log, however the log is cut in lines."""
    history = lost_and_found()
    scrapes = Scrapes(history)
    gone = next(each for each in history.changes if each.kind == "deleted").observed_at
    back = [each for each in history.changes if each.path == "/controller"][-1].observed_at
    moments = list(scrapes.at)
    assert moments == list(range(moments[0], moments[-1] + 1, INTERVAL_MS))
    assert moments[0] % INTERVAL_MS == 0
    assert moments[-1] <= history.changes[-1].observed_at < moments[-1] + INTERVAL_MS
    held = [0 if at < gone else -1 if at < back else 1 for at in moments]
    assert scrapes.values("kafka_controller_id{}") == held
    assert set(held) == {0, -1}


def test_a_series_that_is_not_served_has_no_sample() -> None:
    """What is absent from a view is absent from the scrape; what depends on the moment changes with it."""
    scrapes = Scrapes(lost_and_found())
    since = scrapes.values("kafka_controller_vacant_since_timestamp_seconds{}")
    assert [each is None for each in since] == [
        each == 0 for each in scrapes.values("kafka_controller_id{}")
    ]
    vacant = [each for each in scrapes.values("kafka_controller_vacant_seconds{}") if each]
    assert vacant == [vacant[0] + 15 * n for n in range(len(vacant))]


def test_every_scraped_series_is_a_metric_of_the_catalogue() -> None:
    """Each scrape also has `up`, as Prometheus adds it."""
    scrapes = Scrapes(lost_and_found())
    names = {re.split(r"[{]", series)[0] for samples in scrapes.at.values() for series in samples}
    assert names <= {metric.name for metric in CATALOGUE} | {"up"}
    assert set(scrapes.values('up{job="kcm"}')) == {1.0}
    assert len(names) > len(CATALOGUE) / 2


def test_cluster_up_is_0_while_the_watcher_sends_no_heartbeat() -> None:
    """It is behind after 25 s without a record, and up again with the next record."""
    history = small_cluster()
    history.heartbeat()
    history.heartbeat(after_ms=90_000)
    history.heartbeat()
    up = Scrapes(history).values("kcm_cluster_up{}")
    assert up[0] == up[-1] == 1
    assert 0 in up


def test_the_status_is_blind_while_the_zookeeper_session_is_suspended() -> None:
    """Its heartbeats say so."""
    history = small_cluster()
    for _ in range(3):
        history.heartbeat(session=SessionState.SUSPENDED)
    assert Scrapes(history).values('kcm_cluster_status{,status="blind"}')[-1] == 1


def test_scrapes_stay_within_the_window() -> None:
    """No moment is before its start or after its end."""
    history = lost_and_found()
    begin, end = 1_030_000, 1_050_000
    assert list(Scrapes(history, begin_ms=begin, end_ms=end).at) == [1_035_000, 1_050_000]


def test_too_many_moments_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says what to do."""
    monkeypatch.setattr(sampling, "MAX_SCRAPES", 2)
    with pytest.raises(UsageError, match="more than 2 scrapes: give --from and --to"):
        Scrapes(lost_and_found())


@pytest.mark.parametrize(
    ("name", "reported"), [("", "name it with --cluster"), ("a/b", "cluster name 'a/b'")]
)
def test_a_cluster_needs_a_name_that_can_be_a_label(name: str, reported: str) -> None:
    """A log of another source may have no name, or any."""
    history = small_cluster()
    history.heartbeat()
    history.heartbeat()
    history.changes = [replaced(change, cluster=name) for change in history.changes]
    with pytest.raises(UsageError, match=reported):
        Scrapes(history)
