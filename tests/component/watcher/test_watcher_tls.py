"""A watcher on a real ZooKeeper's TLS port: who is believed, and what is said of who is not."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kazoo.client import KazooClient

from controller_model.records.changes import ChangeKind
from kcm.doctor.findings import Finding, Level
from kcm.doctor.zookeeper import check_server
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import HOST, free_port
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from pipeline.runtime import UnreachableError
from tests.component.watcher.watching import LogReader, RunningWatcher, settings_for, watching
from tests.support.certificates import NEEDS_OPENSSL, make_authority, make_certificate
from tests.support.waiting import DEADLINE_S, wait_until
from zk_source.config import WatchSettings
from zk_source.wire.tls_advice import (
    NO_CERTIFICATE,
    REFUSED_CERTIFICATE,
    UNKNOWN_AUTHORITY,
    WRONG_NAME,
)

pytestmark = NEEDS_OPENSSL
LEAKS = pytest.mark.filterwarnings(
    # kazoo drops the socket of a handshake that failed, and leaves it to the collector to close it
    "ignore:.*unclosed <ssl.SSLSocket:ResourceWarning",
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning",
)
KEY_PASSWORD = "hush"  # noqa: S105  # of a key that exists only during this test
TOPIC = "/brokers/topics/t"


@pytest.fixture(autouse=True)
def _leaks_end_here() -> Iterator[None]:
    """Collect what a test has left open while it is still judged for it: else the warning fails any later test."""
    yield
    gc.collect()


class Secure(NamedTuple):
    """A ZooKeeper that asks for certificates, and the files that open it."""

    folder: Path
    port: int

    def options(self, *leave_out: str) -> dict[str, Any]:
        """Return the settings of a watcher that may connect, without some of them."""
        given = {
            "zk_tls": "true",
            "zk_tls_ca": str(self.folder / "ca.pem"),
            "zk_tls_cert": str(self.folder / "watcher.pem"),
            "zk_tls_key": str(self.folder / "watcher.key"),
            "zk_tls_key_password": KEY_PASSWORD,
        }
        return {name: value for name, value in given.items() if name not in leave_out}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA, and certificates of the server, of one that is named otherwise, and of the watcher."""
    folder = tmp_path_factory.mktemp("tls")
    make_authority(folder)
    make_certificate(folder, "server", "localhost")
    make_certificate(folder, "other", "other.example")
    make_certificate(folder, "watcher", "watcher", "-passout", f"pass:{KEY_PASSWORD}")
    for name in ("server", "other"):
        both = (folder / f"{name}.key").read_text() + (folder / f"{name}.pem").read_text()
        (folder / f"{name}-store.pem").write_text(both)
    return folder


@contextmanager
def zookeeper_with(supervisor: Supervisor, jars: Jars, folder: Path, name: str) -> Iterator[Secure]:
    """Run a ZooKeeper that shows this certificate and asks for one, with a topic in it."""
    port = free_port()
    properties = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "secureClientPort": str(port),
        "secureClientPortAddress": HOST,
        "ssl.keyStore.location": str(folder / f"{name}-store.pem"),
        "ssl.trustStore.location": str(folder / "ca.pem"),
        "ssl.clientAuth": "need",
    }
    zookeeper = ZooKeeper(
        supervisor,
        jars,
        supervisor.folder / f"zookeeper-tls-{name}",
        name=f"zookeeper-tls-{name}",
        properties=properties,
    )
    zookeeper.start()
    client = KazooClient(zookeeper.connect_string)
    client.start(timeout=DEADLINE_S)
    try:
        client.ensure_path("/brokers/ids")
        client.ensure_path("/brokers/topics")
        client.create(TOPIC, b'{"version":2,"partitions":{"0":[1]}}')
    finally:
        client.stop()
        client.close()
    try:
        yield Secure(folder, port)
    finally:
        zookeeper.stop()


@pytest.fixture(scope="module")
def secure(supervisor: Supervisor, jars: Jars, folder: Path) -> Iterator[Secure]:
    """A ZooKeeper whose certificate is right."""
    with zookeeper_with(supervisor, jars, folder, "server") as running:
        yield running


def refusal(secure: Secure, broker: KraftBroker, *leave_out: str, **instead: str) -> str:
    """Return the line with which a watcher ends that must not wait."""
    options = {**secure.options(*leave_out), **instead}
    settings = settings_for(f"localhost:{secure.port}", broker, fail_fast="true", **options)
    watcher = RunningWatcher(settings)
    try:
        wait_until(lambda: watcher.ended)
    finally:
        watcher.stop()
    assert isinstance(watcher.error, UnreachableError)
    return str(watcher.error)


def test_a_watcher_reads_a_cluster_over_tls(secure: Secure, pipeline_broker: KraftBroker) -> None:
    """With a certificate of its own, whose key has a password, it reads the whole tree."""
    settings = settings_for(f"localhost:{secure.port}", pipeline_broker, **secure.options())
    with watching(settings), LogReader(settings) as log:
        log.wait_for(ChangeKind.RESYNC_FINISHED)
        assert log.reader.mzxids[TOPIC]


@LEAKS
def test_a_missing_client_certificate_is_reported_as_such(
    secure: Secure, pipeline_broker: KraftBroker
) -> None:
    """The error says so in the same words for each Java of the server."""
    line = refusal(secure, pipeline_broker, "zk_tls_cert", "zk_tls_key", "zk_tls_key_password")
    assert line.startswith(f"ZooKeeper at localhost:{secure.port} does not answer")
    assert line.endswith(NO_CERTIFICATE)


@LEAKS
def test_a_certificate_of_an_unknown_authority_is_refused(
    secure: Secure, pipeline_broker: KraftBroker, tmp_path: Path
) -> None:
    """The line names the settings of the certificate that the server does not trust."""
    make_authority(tmp_path)
    make_certificate(tmp_path, "stranger", "watcher")
    stranger = {
        "zk_tls_cert": str(tmp_path / "stranger.pem"),
        "zk_tls_key": str(tmp_path / "stranger.key"),
    }
    line = refusal(secure, pipeline_broker, "zk_tls_key_password", **stranger)
    assert line.endswith(REFUSED_CERTIFICATE)


@LEAKS
def test_a_server_certificate_of_an_unknown_authority_is_refused(
    secure: Secure, pipeline_broker: KraftBroker
) -> None:
    """Without the CA the server's certificate cannot be verified."""
    assert refusal(secure, pipeline_broker, "zk_tls_ca").endswith(UNKNOWN_AUTHORITY)


@LEAKS
def test_a_server_certificate_for_another_name_is_refused(
    supervisor: Supervisor, jars: Jars, folder: Path, pipeline_broker: KraftBroker
) -> None:
    """A certificate that the CA issued for another host is refused."""
    with zookeeper_with(supervisor, jars, folder, "other") as other:
        assert refusal(other, pipeline_broker).endswith(WRONG_NAME)


@LEAKS
def test_the_doctor_checks_a_server_over_tls(secure: Secure, zookeeper: ZooKeeper) -> None:
    """It reports the version over TLS; a bad certificate, or a server without TLS, is a failure."""
    address = f"localhost:{secure.port}"

    def finding(of: str, *leave_out: str) -> Finding:
        return check_server(WatchSettings(zookeeper=of, **secure.options(*leave_out)), of)

    well = finding(address)
    assert well.level is Level.OK
    assert "3.8.4, standalone" in well.text
    stranger = finding(address, "zk_tls_ca")
    assert stranger.level is Level.FAIL
    assert stranger.todo == UNKNOWN_AUTHORITY
    nameless = finding(address, "zk_tls_cert", "zk_tls_key", "zk_tls_key_password")
    assert nameless.level is Level.FAIL
    assert nameless.todo == NO_CERTIFICATE
    plain = finding(zookeeper.connect_string)
    assert plain.level is Level.FAIL
    assert "no TLS" in plain.text
