"""The exporter on a real broker: from records in two topics to what HTTP clients see."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from controller_model.kafka.ids import AsOf
from controller_model.records.event_records import encode_event
from controller_model.records.views import AnyView, ControllerView, encode_view, view_key
from exporter.core.config import ExportSettings
from exporter.serve.service import run
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import free_port
from kcm.servers.supervisor import Supervisor
from pipeline.clock import clock_ms, steady_ms
from pipeline.runtime import ConflictError, KcmError, UnreachableError
from pipeline.stop_signal import StopSignal
from pipeline.topics import client_properties, ensure_topics
from tests.support.samples import (
    as_of,
    beat,
    broker_view,
    cluster_view,
    elected,
    log_view,
    topic_view,
)
from tests.support.topic_changes import delete_topic
from tests.support.waiting import DEADLINE_S, wait_until

WITHIN_S = 0.1
QUICK = 10
"""So many of the changes must be shown within it."""
ACKNOWLEDGED_AFTER_S = 0.04
"""The delay of an acknowledgement on Linux, in which an answer without TCP_NODELAY waits."""

OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


class Answer(NamedTuple):
    """What came over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body, decoded."""
        return json.loads(self.body)


class Exporter:
    """A running exporter and a producer for its topics."""

    def __init__(self, settings: ExportSettings) -> None:
        self.settings = settings
        self.url = f"http://{settings.host}:{settings.port}"
        self.producer = Producer(client_properties(settings))
        self._lost: list[str] = []

    def get(self, path: str, headers: dict[str, str] | None = None, method: str = "GET") -> Answer:
        """Send a request, and return the answer of any status."""
        request = urllib.request.Request(
            self.url + path, headers=headers or {}, method=method
        )  # http to ourselves
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as response:  # the same
                return Answer(response.status, dict(response.headers), response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), error.read())

    def is_ready(self) -> bool:
        """Return whether /readyz reports it; False without a listening server."""
        try:
            return self.get("/readyz").status == 200
        except OSError:
            return False

    def sample(self, name: str, **labels: str) -> float | None:
        """Return the first sample with these labels; None if there is none."""
        for family in parse_text(self.get("/metrics").body.decode()):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return float(sample.value)
        return None

    def write(self, *views: AnyView) -> None:
        """Produce views under their keys, in this order, and wait until they are written."""
        for view in views:
            self.produce("views", view_key(view).encode(), encode_view(view))  # type: ignore[arg-type]  # no deletes here
        assert self.producer.flush(DEADLINE_S) == 0
        assert self._lost == [], "Kafka did not take them"

    @contextmanager
    def beating(self, cluster: str = "prod", at: AsOf | None = None) -> Iterator[None]:
        """Send the beats of a cluster's watcher; begin once they prove that its figures are live."""
        place, stop = at or as_of(1), threading.Event()

        def send() -> None:
            for number in itertools.count(1):
                now = {"sent_at": clock_ms(), "sent_steady": steady_ms()}
                of = {"seq": place.seq, "generation": place.generation}
                self.write(beat(number, cluster=cluster, **of, **now))
                if stop.wait(0.6):
                    return

        thread = threading.Thread(target=send)
        thread.start()
        try:
            wait_until(lambda: self.sample("kcm_cluster_up", cluster=cluster) == 1)
            yield
        finally:
            stop.set()
            thread.join()

    def produce(self, topic: str, key: bytes, value: bytes) -> None:
        """Produce one raw record, without waiting."""
        self.producer.produce(
            f"{self.settings.topic_prefix}.{topic}",
            key=key,
            value=value,
            partition=0,
            on_delivery=self._delivered,
        )

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._lost.append(str(error))

    def remake_topics(self) -> None:
        """Delete the three topics and make them again; a producer that knew the old ones may hold to them."""
        admin = AdminClient(client_properties(self.settings))
        for name in ("changes", "views", "events"):
            delete_topic(admin, f"{self.settings.topic_prefix}.{name}")
        ensure_topics(self.settings, stop=threading.Event())
        self.producer = Producer(client_properties(self.settings))


def make_settings(bootstrap_servers: str, prefix: str | None = None, **more: Any) -> ExportSettings:
    """Return settings with topics and a port of this test's own."""
    return ExportSettings(
        bootstrap_servers=bootstrap_servers,
        topic_prefix=prefix or f"t{uuid.uuid4().hex[:8]}",
        port=free_port(),
        **more,
    )


@contextmanager
def running(settings: ExportSettings) -> Iterator[Exporter]:
    """Run an exporter in a thread; an error of it fails the test."""
    stop = StopSignal()
    errors: list[KcmError] = []

    def target() -> None:
        try:
            run(settings, stop)
        except KcmError as error:
            errors.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    try:
        yield Exporter(settings)
    finally:
        stop.set()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    assert not errors


def now_ms() -> int:
    """Return the time as views count it."""
    return clock_ms()


def fresh_cluster(name: str = "prod", at: AsOf | None = None, **fields: Any) -> Any:
    """Return a cluster view whose stages all were alive just now."""
    now = now_ms()
    fresh = {"folded_at": now, "log": log_view(heartbeat_at=now, last_change_at=now)}
    return cluster_view(name, at, **(fresh | fields))


@pytest.fixture(scope="module")
def shared(pipeline_broker: KraftBroker) -> Iterator[Exporter]:
    """One exporter for the tests that only add clusters of their own."""
    settings = make_settings(pipeline_broker.bootstrap_servers, partition_metrics=True)
    with running(settings) as exporter:
        wait_until(exporter.is_ready)
        yield exporter


@pytest.fixture
def own_supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """The owner of a broker that a test kills."""
    with Supervisor(tmp_path, kill_on_exit=True) as owner:
        yield owner


def test_a_batch_becomes_visible_at_its_cluster_view(shared: Exporter) -> None:
    """Brokers and topics of a batch appear together with its cluster view, in both formats."""
    shared.write(broker_view(0, cluster="a", leaders=6), topic_view("t", cluster="a"))
    assert shared.sample("kafka_broker_leaders", cluster="a") is None
    shared.write(fresh_cluster("a"))
    assert wait_until(lambda: shared.sample("kafka_broker_leaders", cluster="a")) == 6
    assert shared.sample("kafka_controller_elections_total", cluster="a") == 7
    assert shared.sample("kcm_cluster_up", cluster="a") == 0, (
        "nothing shows that a watcher is alive"
    )
    with shared.beating("a"):
        pass  # they are live with it
    assert shared.sample("kafka_topic_partition_leader") is None
    answer = shared.get("/metrics", OPENMETRICS)
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    parsed = parse_openmetrics(answer.body.decode())  # type: ignore[no-untyped-call]  # the package leaves it untyped
    families = {family.name: family for family in parsed}
    created = [s for s in families["kafka_controller_elections"].samples if "_created" in s.name]
    assert created[0].value == cluster_view().counters_since / 1000
    partitions = shared.get("/metrics/partitions").body.decode()
    assert 'kafka_topic_partition_leader{cluster="a",topic="t",partition="1"} 1\n' in partitions


def test_the_api_shows_a_cluster_with_text_for_64_bit_numbers(shared: Exporter) -> None:
    """The API shows brokers, events and completeness, and no JSON reader can round an id."""
    event = elected(5, cluster="b")
    shared.produce("events", b"b", encode_event(event))
    shared.write(broker_view(0, cluster="b"), fresh_cluster("b", as_of(5, generation=2**40)))
    answer = wait_until(
        lambda: shared.get("/api/v1/clusters/b"),
        lambda seen: seen.status == 200 and bool(seen.json()["events"]),
    )
    body = answer.json()
    assert body["as_of"]["generation"] == str(2**40)
    assert body["brokers"][0]["epoch"] == str(2**60 + 1)
    assert body["events"][0]["kind"] == "ControllerElected"
    assert body["events"][0]["source_number"] == str(2**60 + 5)
    with shared.beating("b", as_of(5, generation=2**40)):
        wait_until(
            lambda: shared.get("/api/v1/clusters/b").json()["completeness"]["status"],
            lambda status: status == "live",
        )
    names = [cluster["name"] for cluster in shared.get("/api/v1/clusters").json()["clusters"]]
    assert "b" in names


def test_errors_are_problem_json_and_only_get_and_head_are_served(shared: Exporter) -> None:
    """Unknown clusters, unknown paths and other methods are answered as RFC 9457 wants it."""
    unknown = shared.get("/api/v1/clusters/nobody")
    assert unknown.status == 404
    assert unknown.headers["content-type"] == "application/problem+json"
    assert "nobody" in unknown.json()["detail"]
    assert shared.get("/nowhere").json()["status"] == 404
    posted = shared.get("/metrics", method="POST")
    assert (posted.status, posted.json()["status"]) == (405, 405)
    assert "GET" in posted.headers["allow"]
    head = shared.get("/metrics", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert shared.get("/healthz").status == 200
    assert b'href="metrics"' in shared.get("/").body


def test_a_record_is_visible_within_milliseconds(shared: Exporter) -> None:
    """From the flush of the record to the scrape that shows it.

    Each is written when the one before is shown, so a pause between readings would delay all of them; a busy machine
    delays some.
    """
    delays: list[float] = []

    def one_more() -> list[float]:
        epoch = 100 + len(delays)
        controller = ControllerView(id=0, epoch=epoch, elections=epoch)
        shared.write(fresh_cluster("fast", as_of(epoch), controller=controller))
        written = time.perf_counter()
        line = f'kafka_controller_epoch{{cluster="fast"}} {epoch}\n'.encode()
        while line not in shared.get("/metrics").body:
            assert time.perf_counter() - written < DEADLINE_S
        delays.append(time.perf_counter() - written)
        return delays

    wait_until(one_more, lambda found: sum(took_s < WITHIN_S for took_s in found) >= QUICK)


def test_scrapes_on_a_kept_connection_do_not_wait_for_acknowledgements(shared: Exporter) -> None:
    """Answers leave at once (TCP_NODELAY), not after the 40 ms of a delayed acknowledgement."""
    where = (shared.settings.host, shared.settings.port)
    connection = http.client.HTTPConnection(*where, timeout=DEADLINE_S)
    durations = []
    for _ in range(21):
        began = time.perf_counter()
        connection.request("GET", "/metrics")
        connection.getresponse().read()
        durations.append(time.perf_counter() - began)
    connection.close()
    # Without the option all take longer; a busy machine delays some.
    assert min(durations) < ACKNOWLEDGED_AFTER_S, durations


def test_a_topic_made_anew_is_read_from_its_beginning(pipeline_broker: KraftBroker) -> None:
    """After both topics were deleted and made again, old figures stay until new ones replace them."""
    settings = make_settings(pipeline_broker.bootstrap_servers, forget_after_s=1)
    with running(settings) as exporter:
        wait_until(exporter.is_ready)
        for seq in range(1, 30):
            exporter.write(fresh_cluster("kept", as_of(seq)), fresh_cluster("lost", as_of(seq)))
        wait_until(lambda: exporter.sample("kafka_controller_id", cluster="lost") == 0)
        exporter.remake_topics()
        controller = ControllerView(id=5, epoch=9)
        exporter.write(fresh_cluster("kept", as_of(1, lineage="L2"), controller=controller))
        wait_until(lambda: exporter.sample("kafka_controller_id", cluster="kept") == 5)
        wait_until(lambda: exporter.sample("kafka_controller_id", cluster="lost") is None)
        topic = f"{settings.topic_prefix}.views"
        assert exporter.sample("kcm_exporter_rereads_total", topic=topic)
        wait_until(exporter.is_ready)


@pytest.mark.full
def test_figures_stay_served_and_flagged_while_kafka_is_away(
    own_supervisor: Supervisor, jars: Jars
) -> None:
    """A dead broker makes /readyz 503 with the reason; its return makes it 200, with new figures."""
    broker = KraftBroker(own_supervisor, jars, own_supervisor.folder / "kafka")
    broker.start()
    settings = make_settings(broker.bootstrap_servers, kafka_gone_s=2)
    with running(settings) as exporter:
        wait_until(exporter.is_ready)
        exporter.write(fresh_cluster("prod", as_of(1)))
        with exporter.beating():
            pass
        broker.kill()
        answer = wait_until(lambda: exporter.get("/readyz"), lambda seen: seen.status == 503)
        assert "has not answered for" in answer.json()["reasons"][0]
        assert exporter.get("/healthz").status == 200
        assert exporter.sample("kafka_controller_id", cluster="prod") == 0
        broker.start()
        wait_until(exporter.is_ready)
        exporter.write(fresh_cluster("prod", as_of(2), controller=ControllerView(id=3)))
        wait_until(
            lambda: exporter.sample("kafka_controller_id", cluster="prod"),
            lambda seen: seen == 3,
        )
        assert exporter.sample("kcm_exporter_rereads_total") is None


def test_readyz_fails_without_kafka_and_a_port_in_use_is_one_line() -> None:
    """Without Kafka /readyz says why; a second exporter's error names the port."""
    settings = make_settings(f"127.0.0.1:{free_port()}")
    with running(settings) as exporter:
        answer = wait_until(lambda: answer_of(exporter), lambda seen: seen is not None)
        assert answer is not None
        assert answer.status == 503
        assert "waiting for the pipeline's Kafka" in answer.json()["reasons"][0]
        with pytest.raises(ConflictError, match=str(settings.port)):
            run(settings, StopSignal())


def answer_of(exporter: Exporter) -> Answer | None:
    """Return the answer of /readyz, None without a listening server."""
    try:
        return exporter.get("/readyz")
    except OSError:
        return None


def test_fail_fast_gives_up_without_kafka() -> None:
    """With fail_fast a missing Kafka ends the exporter with the exit code of a missing server."""
    settings = make_settings(f"127.0.0.1:{free_port()}", fail_fast=True)
    with pytest.raises(UnreachableError) as caught:
        run(settings, StopSignal())
    assert caught.value.exit_code == 3
