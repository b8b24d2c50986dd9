"""The files of examples do what they say: programs against a real exporter and Kafka, files as their readers take them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from controller_model.records.event_records import encode_event
from exporter.serve.server import HttpServer
from kcm.__main__ import main
from kcm.cli.parts import KRAFT_WATCH, WATCH, load_all, pipeline_parts
from kcm.servers.kafka import KraftBroker
from tests.component.rules.promtool import NEEDS_PROMTOOL, promtool
from tests.support.api_server import Served
from tests.support.histories import small_cluster
from tests.support.live_story import QUIET_HOUR, LiveStory, served
from tests.support.replaying import lines, write
from tests.support.samples import T0
from tests.support.scripted_operations import BounceBroker

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def exporter(bad: Served) -> Iterator[HttpServer]:
    """A real server that shows a cluster after a bad hour: broker 2 is gone."""
    with HttpServer(bad.app, "127.0.0.1", 0) as server:
        yield server


def ran(*command: str, code: int = 0, **variables: str) -> str:
    """Run an example, which must end so; return what it printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("example", "watch", "secrets"),
    [
        ("zookeeper.toml", WATCH, {"zk_auth": "digest:kcm:p", "zk_tls_key_password": "k"}),
        ("kraft.toml", KRAFT_WATCH, {"controller_sasl_password": "p"}),
    ],
)
def test_a_configuration_starts_the_pipeline_of_its_cluster(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    example: str,
    watch: object,
    secrets: dict[str, str],
) -> None:
    """`kcm up --config` takes each setting of it, with the files and secrets that it names, and no warning."""
    for name in [each for each in os.environ if each.startswith("KCM_")]:
        monkeypatch.delenv(name)
    (tmp_path / "secrets").mkdir()
    for name, text in secrets.items():
        (tmp_path / "secrets" / name).write_text(text)
    for name in ("ca.crt", "kcm.crt", "kcm.key"):
        (tmp_path / name).touch()
    config = tmp_path / example
    config.write_text((EXAMPLES / example).read_text().replace("/etc/kcm", str(tmp_path)))
    assert pipeline_parts(config, {})[0] is watch
    settings = load_all(config, {})
    assert settings.watch.cluster == "prod"
    given = {name for each in settings for name in each.model_fields_set}
    assert given >= secrets.keys()
    named = re.findall(r"^\[?(\w+)\b", (EXAMPLES / example).read_text(), re.MULTILINE)
    assert given >= set(named) - {"prod"}


def test_the_controller_is_named_with_its_time(exporter: HttpServer) -> None:
    """The bad hour had three elections; what is shown is live."""
    printed = ran(sys.executable, "examples/who_is_the_controller.py", exporter.url)
    assert printed.startswith("prod: broker 1 since 20")
    assert printed.endswith("UTC; 3 elections; figures are live\n")


def test_events_of_the_topic_are_printed_by_kind(pipeline_broker: KraftBroker) -> None:
    """All that the topic holds, in order; with a kind, only that."""
    story = LiveStory(until=T0)
    story.play([*QUIET_HOUR, (17, BounceBroker(4))])
    client: dict[str, str | int | float | bool] = {
        "bootstrap.servers": pipeline_broker.bootstrap_servers
    }
    admin = AdminClient(client)
    (made,) = admin.create_topics([NewTopic("examples.events", 2)]).values()
    made.result(30)
    producer = Producer(client)
    for event in story.events:
        producer.produce("examples.events", encode_event(event), key="prod", partition=1)
    assert producer.flush(30) == 0
    code = (
        "import sys; from examples.read_events import main; "
        "main(sys.argv[1], set(sys.argv[2:]), 'examples.events')"
    )
    command = (sys.executable, "-c", code, pipeline_broker.bootstrap_servers)
    every = ran(*command).splitlines()
    assert [line.split()[1] for line in every] == [
        str(event.event.__struct_config__.tag) for event in story.events
    ]
    assert [line for line in every if " BrokerStopped " in line] == ran(
        *command, "BrokerStopped"
    ).splitlines()


def test_brokers_are_restarted_one_by_one_while_that_is_safe(tmp_path: Path) -> None:
    """In a sound cluster each is restarted, in the order that was given."""
    sound = served(LiveStory(until=T0), QUIET_HOUR)
    with HttpServer(sound.app, "127.0.0.1", 0) as server:
        ran(
            *("examples/rolling_restart.sh", "3", "0"),
            RESTART=f"echo $1 >> {tmp_path}/done",
            KCM_EXPORTER=server.url,
            PAUSE="0",
        )
    assert (tmp_path / "done").read_text() == "3\n0\n"


def test_no_broker_is_restarted_while_that_would_break_something(
    exporter: HttpServer, tmp_path: Path
) -> None:
    """While broker 2 is gone, another one would take partitions under min ISR: it ends, and says so."""
    printed = ran(
        *("examples/rolling_restart.sh", "3"),
        code=1,
        RESTART=f"touch {tmp_path}/done",
        KCM_EXPORTER=exporter.url,
        PAUSE="0",
        TRIES="2",
    )
    assert "broker 3 is not safe to stop: nothing was done to it" in printed
    assert not (tmp_path / "done").exists()


def test_the_plan_is_rehearsed(exporter: HttpServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The reassignment is taken as a step, and its partitions get the planned replicas."""
    plan = ("--reassign", str(EXAMPLES / "plan.json"))
    assert main(["rehearse", *plan, "--exporter", exporter.url]) == 0
    assert "orders" in capsys.readouterr().out


@NEEDS_PROMTOOL
def test_prometheus_takes_its_configuration_and_the_rules() -> None:
    """Both rule files are found and valid."""
    done = promtool("check", "config", str(EXAMPLES / "prometheus.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("rules found") == 2


@NEEDS_PROMTOOL
@pytest.mark.skipif(
    shutil.which("prometheus") is None,
    reason="prometheus is not installed (Debian: apt-get install prometheus)",
)
def test_the_rules_are_tried_on_a_recorded_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broker 2 is the controller for twenty minutes: its alert fires, and the other one does not."""
    history = small_cluster()
    history.elect(2)
    for _ in range(120):
        history.heartbeat()
    log = write(tmp_path / "log.jsonl", lines(history.changes))
    assert main(["backtest", str(EXAMPLES / "rules.yaml"), log, "--json"]) == 0
    alerts = json.loads(capsys.readouterr().out)["alerts"]
    assert {each["alert"] for each in alerts} == {"ControllerOnBroker2"}


def test_prometheus_scrapes_the_ports_that_parts_have_by_default() -> None:
    """The exporter, the watcher and the fold."""
    jobs = yaml.safe_load((EXAMPLES / "prometheus.yaml").read_text())["scrape_configs"]
    targets = [
        target for job in jobs for each in job["static_configs"] for target in each["targets"]
    ]
    assert targets == [f"127.0.0.1:{port}" for port in (9640, 9641, 9642)]
    assert all(job["honor_labels"] for job in jobs)
