"""`kcm look`: what it says, and the settings that it has. Whole looks at real clusters are component tests."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller_model.records.changes import SessionState
from controller_model.records.views import ControllerView
from exporter.serve.service import Exporter
from kcm.cli.parts import all_names, load_all
from kcm.run import look as look_module
from kcm.run.look import NAMES, Look
from pipeline.runtime import ConflictError
from pipeline.stop_signal import StopSignal
from tests.support.api_server import Served
from tests.support.samples import T0, as_of, cluster_view, log_view

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

GIVEN = {"cluster": "prod", "zookeeper": "zk1:2181/kafka", "port": "0"}
BLIND = log_view(session=SessionState.SUSPENDED, session_since=T0 + 1_000)


class Desk:
    """A look whose figures a test writes, and the lines that it prints."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._served = Served()
        self._exporter = Exporter(
            "http://127.0.0.1:9640", self._served.collector, CollectorRegistry(), lambda: None
        )
        self.look = Look(load_all(None, GIVEN))
        self._seq = 0

    def lines(self, **about: Any) -> list[str]:
        """Show a view with these fields, if any are given; return what is printed then."""
        if about:
            self._seq += 1
            self._served.write(cluster_view(at=as_of(self._seq), **about))
        self.look._show_status(self._exporter)
        return self._capsys.readouterr().out.splitlines()


@pytest.fixture
def desk(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A look that has begun; it is always the same time."""
    monkeypatch.setattr(look_module, "clock_ms", lambda: T0)
    return Desk(capsys)


def test_the_first_figures_are_told_with_the_address_of_the_page(desk: Desk) -> None:
    """Not before they are live; and each line is told once."""
    assert desk.lines() == []
    assert desk.lines(log=log_view(verified_at=None)) == []
    first, page, last = desk.lines(log=log_view())
    assert first == "live: controller is 0, epoch 7, 2 brokers, 12 partitions"
    assert page.startswith("the page: http://127.0.0.1:9640/ (")
    assert "Ctrl-C ends it" in last
    assert desk.lines(log=log_view()) == []


def test_a_source_that_is_lost_is_told_with_the_time_and_so_is_its_return(desk: Desk) -> None:
    """The words are those of the status in the API."""
    desk.lines(log=log_view())
    (lost,) = desk.lines(log=BLIND)
    assert lost.startswith("the figures are blind since ")
    assert lost.endswith("Z: no answer from ZooKeeper at zk1:2181/kafka")
    assert desk.lines(log=BLIND) == []
    assert desk.lines(log=log_view()) == ["the figures are live"]
    (lost,) = desk.lines(log=log_view(incomplete_since=T0))
    assert lost.startswith("the figures are incomplete since ")
    assert lost.endswith("Z, by the fold")


def test_each_controller_is_told(desk: Desk) -> None:
    """Also that there is none; and the same one under a new epoch."""
    desk.lines(log=log_view())
    elections = [ControllerView(), ControllerView(id=2, epoch=8), ControllerView(id=2, epoch=9)]
    told = [desk.lines(controller=each) for each in elections]
    assert told == [
        ["no controller"],
        ["controller is 2, epoch 8"],
        ["controller is 2, epoch 9"],
    ]


def test_a_start_that_takes_long_says_what_is_missing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every ten seconds: nobody has to guess whether it still tries."""
    monkeypatch.setattr(desk.look, "_quiet_until", 0.0)
    (line,) = desk.lines()
    assert line.startswith("not ready after ")
    assert line.endswith(": no figures yet")
    assert desk.lines(log=log_view(verified_at=None)) == []
    monkeypatch.setattr(desk.look, "_quiet_until", 0.0)
    (line,) = desk.lines()
    assert line.endswith(": the figures are incomplete")


@pytest.mark.parametrize("source", ["zookeeper", "controllers"])
def test_it_says_what_it_gives_up_and_how_to_go_on(source: str) -> None:
    """The command to go on with names the same cluster."""
    given = {"cluster": "prod", source: "a:1,b:2"}
    lines = list(
        Look(load_all(None, {name: given.get(name) for name in all_names()}))._first_lines()
    )
    text = " ".join(lines)
    assert "nothing of what was before" in text
    assert "no second watcher" in text
    assert text.endswith(f"kcm up --{source} a:1,b:2 --cluster prod")


def test_it_has_the_settings_of_a_source_and_of_the_page_and_none_of_a_kafka() -> None:
    """What it has no use for is no option, so that nobody believes that it has an effect."""
    assert {"zookeeper", "zk_auth", "controllers", "controller_sasl_user", "port", "host"} <= NAMES
    assert {"web_config_file", "allowed_hosts", "min_insync_replicas", "fail_fast"} <= NAMES
    left_out = {"bootstrap_servers", "kafka_properties", "checkpoint_dir", "election_path"}
    assert NAMES.isdisjoint(left_out | {"partitions", "watcher_metrics_port", "driver_memory"})
    assert all_names() > NAMES


def test_what_ends_the_exporter_ends_the_watcher_and_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever thread fails: one error ends the look."""
    look, stop = Look(load_all(None, GIVEN)), StopSignal()
    watched = []

    def fails(*_: object) -> None:
        raise ConflictError("the exporter hangs")

    def watch(_settings: object, _term: object, _registry: object, stop: StopSignal) -> None:
        watched.append(stop.wait(20))

    monkeypatch.setattr(look, "_show_status", fails)
    with pytest.raises(ConflictError, match="hangs"):
        look.until(stop, watch)
    assert watched == [True]


def test_a_stop_ends_it_without_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The last line says so; the exporter has served until then."""
    stop = StopSignal()
    stop.set()
    watched: list[object] = []
    Look(load_all(None, GIVEN)).until(stop, lambda *about: watched.append(about[0]))
    assert "\nstopping\n" in capsys.readouterr().out
    assert len(watched) == 1
