"""A cluster whose controllers speak SASL_SSL, watched by the whole pipeline: what is refused, what is shown, what is kept secret."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from exporter.api.operations import CLUSTER, OPERATIONS
from kcm.__main__ import main
from kcm.servers.kafka import KraftBroker
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.ports import HOST
from kcm.servers.supervisor import Supervisor
from kraft_source.config import KraftSettings
from kraft_source.wire.connection import Access, ControllerConnection, Tls
from kraft_source.wire.messages import ControllerEndpoint
from kraft_source.wire.sasl import Credentials
from kraft_source.wire.schema import Field, Message
from kraft_source.wire.schemas import MESSAGES
from tests.component.commands.test_doctor import Findings
from tests.component.commands.test_up import running
from tests.component.kraft.watched_quorum import LATE, batches_on_disk
from tests.component.watcher.watcher_process import WatcherProcess
from tests.support.certificates import NEEDS_OPENSSL, make_authority
from tests.support.kraft_listeners import NODES, NODES_PASSWORD, scram_over_tls
from tests.support.release_jars import nodes_jars
from tests.support.releases import KAFKA_4_4
from tests.support.waiting import DEADLINE_S, SESSION_MS, wait_until

pytestmark = [
    NEEDS_OPENSSL,
    pytest.mark.timeout(900),
    pytest.mark.full,
    pytest.mark.usefixtures("no_settings_of_the_machine"),
]

WATCHER, PASSWORD = "watcher", "Of-the-watcher-7"
SALT = b"the-salt-of-alice"
ALICE, ALICE_PASSWORD = "alice-of-scram", b"Of-alice-9"
STORE_PASSWORD = "Of-the-key-store-5"  # noqa: S105  # planted to be searched for
GRANTED_TO = "User:bob-of-acls"
QUORUM = ("controller ", "permissions, ", "cluster id", "quorum", "advertised")
"""What the doctor says of controllers is about these."""


@pytest.fixture
def cluster(supervisor: Supervisor, tmp_path: Path) -> Iterator[KraftCluster]:
    """One controller and one broker; `tmp_path` holds the authority's certificate."""
    listener, users = scram_over_tls(tmp_path, {WATCHER: PASSWORD})
    cluster = KraftCluster(
        supervisor,
        nodes_jars(KAFKA_4_4),
        tmp_path,
        controllers=(3001,),
        brokers=(1,),
        listener=listener,
        format_arguments=users,
        properties={"delegation.token.secret.key": "of-the-tokens"},
        session_timeout_ms=SESSION_MS,
        name="secured",
    )
    cluster.start()
    yield cluster
    cluster.kill()


def settings_for(cluster: KraftCluster, broker: KraftBroker, ca: Path) -> KraftSettings:
    """Return the settings of a watcher that gives up at the first refusal."""
    given: dict[str, Any] = {
        "cluster": "up",
        "controllers": cluster.quorum.bootstrap_controllers,
        "controller_cluster_id": cluster.quorum.cluster_id,
        "controller_security_protocol": "SASL_SSL",
        "controller_tls_ca": ca,
        "controller_sasl_user": WATCHER,
        "controller_sasl_password": PASSWORD,
        "bootstrap_servers": broker.bootstrap_servers,
        "topic_prefix": f"t{uuid.uuid4().hex[:8]}",
        "watcher_metrics_port": 0,
        "fail_fast": True,
    }
    return KraftSettings(**given)


def options_of(settings: KraftSettings, folder: Path) -> list[str]:
    """Return options for `kcm`; the password is in a configuration file."""
    config = folder / "kcm.toml"
    config.write_text(f'controller_sasl_password = "{PASSWORD}"\n')
    names = (
        "controllers",
        "controller_cluster_id",
        "controller_security_protocol",
        "controller_tls_ca",
    )
    of_all = {
        name: getattr(settings, name)
        for name in (*names, "controller_sasl_user", "bootstrap_servers")
    }
    of_all |= {"topic_prefix": settings.topic_prefix, "config": config}
    return [
        part
        for name, value in of_all.items()
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]


def refused(settings: KraftSettings, log_path: Path) -> str:
    """Return the last line of a watcher that is refused; a controller on busy cores may be late first."""
    return wait_until(lambda: _last_line(settings, log_path), lambda line: LATE not in line)


def _last_line(settings: KraftSettings, log_path: Path) -> str:
    """Run a watcher to its end, with the code of a server that cannot be reached."""
    process = WatcherProcess(settings, log_path, module="kraft_source")
    assert wait_until(lambda: process.exit_code, lambda code: code is not None) == 3, (
        log_path.read_text()
    )
    *_, last = log_path.read_text().splitlines()
    assert "Traceback" not in log_path.read_text()
    assert PASSWORD not in log_path.read_text()
    return last


def grant(admin: AdminClient, principal: str, operation: AclOperation) -> None:
    """Allow a principal an operation on the cluster."""
    right = AclBinding(
        *(ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, principal),
        *("*", operation, AclPermissionType.ALLOW),
    )
    for future in admin.create_acls([right]).values():
        future.result(DEADLINE_S)


TOKEN_REQUEST = Message(38, (3, 3), 2, (
    Field("owner_principal_type", "string", is_nullable=True),
    Field("owner_principal_name", "string", is_nullable=True),
    Field("renewers", "[]CreatableRenewers", fields=(
        Field("principal_type", "string"),
        Field("principal_name", "string"),
    )),
    Field("max_lifetime_ms", "int64"),
))  # fmt: skip
TOKEN_RESPONSE = Message(38, (3, 3), 2, (
    Field("error_code", "int16"),
    *(Field(f"{who}_{what}", "string") for who in ("principal", "requester") for what in ("type", "name")),
    *(Field(f"{what}_timestamp_ms", "int64") for what in ("issue", "expiry", "max")),
    Field("token_id", "string"),
    Field("hmac", "bytes"),
    Field("throttle_time_ms", "int32"),
))  # fmt: skip
"""CreateDelegationToken, which the product does not know."""


def create_token(
    cluster: KraftCluster, ca: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Create a delegation token at the controller, which a client of the broker's listener here may not."""
    monkeypatch.setitem(MESSAGES, "CreateDelegationTokenRequest", TOKEN_REQUEST)
    monkeypatch.setitem(MESSAGES, "CreateDelegationTokenResponse", TOKEN_RESPONSE)
    access = Access(None, Tls(ca), Credentials("SCRAM-SHA-512", NODES, NODES_PASSWORD))
    endpoint = ControllerEndpoint(HOST, cluster.quorum.ports[3001])
    with closing(ControllerConnection(endpoint, access, timeout_s=DEADLINE_S)) as connection:
        connection.versions["CreateDelegationToken"] = 3
        owner = {"owner_principal_type": None, "owner_principal_name": None}
        token = connection.call(
            "CreateDelegationToken", {**owner, "renewers": [], "max_lifetime_ms": -1}
        )
    assert token["error_code"] == 0
    return dict(token)


def plant(admin: AdminClient, token: dict[str, Any]) -> dict[str, bytes]:
    """Write secrets into the metadata log, and at last a topic; return what must not be found anywhere, by what it is.

    The token is there already: its id is in the log, the secret that is made of it is not.
    """
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion(ALICE, info, ALICE_PASSWORD, SALT)
    for future in admin.alter_user_scram_credentials([upsertion]).values():
        future.result(DEADLINE_S)
    grant(admin, GRANTED_TO, AclOperation.ALTER)
    entry = ConfigEntry(
        "listener.name.plaintext.ssl.keystore.password",
        STORE_PASSWORD,
        incremental_operation=AlterConfigOpType.SET,
    )
    broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([broker]).values():
        future.result(DEADLINE_S)
    for future in admin.create_topics([NewTopic("after-the-secrets", 3, 1)]).values():
        future.result(DEADLINE_S)
    salted = hashlib.pbkdf2_hmac("sha256", ALICE_PASSWORD, SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return {
        "SCRAM user": ALICE.encode(),
        "SCRAM salt": SALT,
        "SCRAM StoredKey": hashlib.sha256(client_key).digest(),
        "SCRAM ServerKey": hmac.digest(salted, b"Server Key", "sha256"),
        "principal of an ACL": GRANTED_TO.encode(),
        "keystore password": STORE_PASSWORD.encode(),
        "id of a delegation token": token["token_id"].encode(),
    }


def forms(secret: bytes) -> set[bytes]:
    """Return a secret as itself, and as text may hold it."""
    found = {
        secret,
        secret.hex().encode(),
        base64.b64encode(secret),
        base64.urlsafe_b64encode(secret),
    }
    return found | {each.rstrip(b"=") for each in found if each != secret}


def topics_bytes(settings: KraftSettings) -> dict[str, bytes]:
    """Return all that the three topics hold up to now, keys and headers as well."""
    consumer = Consumer({"bootstrap.servers": settings.bootstrap_servers, "group.id": "s"})
    found: dict[str, bytes] = {}
    for kind in ("changes", "views", "events"):
        topic = f"{settings.topic_prefix}.{kind}"
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_S)
        consumer.assign([TopicPartition(topic, 0, 0)])
        parts: list[bytes] = []
        while consumer.position([TopicPartition(topic, 0)])[0].offset < end:
            if (message := consumer.poll(2)) is not None and message.error() is None:
                headers = repr(message.headers()).encode()
                parts += [message.key() or b"", message.value() or b"", headers]
        found[topic] = b"\n".join(parts)
        assert len(found[topic]) > 100, topic
    consumer.close()
    return found


def served_bytes(url: str) -> dict[str, bytes]:
    """Return what the exporter answers on each path, with all its pages' parameters left as they are."""
    needs = {"what-if": {"each": "node"}}
    paths = [
        "/metrics",
        "/",
        "/healthz",
        "/readyz",
        "/api/v1/page?cluster=up",
    ]
    paths += [each.path.replace("{name}", "up") for each in OPERATIONS]
    found = {}
    for path in paths:
        params = needs.get(path.rpartition("/")[2])
        answer = httpx.get(f"{url}{path}", params=params, follow_redirects=True, timeout=DEADLINE_S)
        is_asked = path.startswith(CLUSTER.replace("{name}", "up"))
        assert answer.status_code == 200 or (is_asked and answer.status_code in {400, 409}), (
            path,
            answer.text,
        )
        found[path] = answer.content
    return found


def files_bytes(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files below a folder: checkpoints, states, logs."""
    found = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    unpacked = {
        name: gzip.decompress(data)
        for name, data in found.items()
        if data.startswith(b"\x1f\x8b") and not name.endswith("tar.gz")
    }
    for name in [name for name, data in found.items() if data.startswith(b"PK\x03\x04")]:
        with zipfile.ZipFile(folder / name) as archive:
            unpacked |= {f"{name}/{each}": archive.read(each) for each in archive.namelist()}
    return found | unpacked


def packed_bytes(path: Path) -> dict[str, bytes]:
    """Return each member of a bundle, unpacked."""
    with zipfile.ZipFile(path) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    return {
        name: gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        for name, data in found.items()
    }


def of_controllers(
    capsys: pytest.CaptureFixture[str], *options: str
) -> dict[str, tuple[str, str, str]]:
    """Return the doctor's findings about controllers: level, text and what to do, by their subject.

    A controller on busy cores may be late: then it is examined again.
    """
    every = wait_until(
        lambda: Findings(capsys, *options).all,
        lambda found: (
            not any(
                late in each["text"]
                for each in found
                for late in (LATE, "no controller can be asked")
            )
        ),
    )
    return {
        each["about"].partition(" 127")[0]: (each["level"], each["text"], each["todo"])
        for each in every
        if each["about"].startswith(QUORUM)
    }


def check_refusals(settings: KraftSettings, folder: Path) -> None:
    """Check that each mistake ends a watcher with one clear line."""
    other = folder / "other"
    other.mkdir()
    make_authority(other)
    mistakes: dict[str, dict[str, Any]] = {
        "does not accept our SASL SCRAM-SHA-512 credentials": {"controller_sasl_password": "no"},
        "its certificate is not accepted": {"controller_tls_ca": other / "ca.pem"},
        "speaks TLS on this port": {
            "controller_security_protocol": "SASL_PLAINTEXT",
            "controller_tls_ca": None,
        },
        "needs CLUSTER_ACTION on Cluster": {},
    }
    for words, options in mistakes.items():
        line = refused(settings.model_copy(update=options), folder / "refused.log")
        assert f"the controller at {settings.controllers}" in line
        assert words in line


def test_each_mistake_is_one_clear_line_and_no_secret_leaves_the_watcher(
    cluster: KraftCluster,
    pipeline_broker: KraftBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wrong password, CA, cluster id and rights, then the whole pipeline, of which every byte is searched."""
    settings = settings_for(cluster, pipeline_broker, tmp_path / "ca.pem")
    check_refusals(settings, tmp_path)
    options = options_of(settings, tmp_path)
    nowhere = ("--exporter", "http://127.0.0.1:9")
    found = of_controllers(capsys, *nowhere, *options)
    assert found.keys() == {"controller", "permissions, log"}, "who leads is told to nobody else"
    assert (found["controller"][0], "metadata.version" in found["controller"][1]) == ("ok", True)
    level, text, todo = found["permissions, log"]
    assert (level, "register brokers, vote and change partitions" in text) == ("fail", True)
    assert todo.endswith("--operation ClusterAction --cluster")

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    grant(admin, f"User:{WATCHER}", AclOperation.CLUSTER_ACTION)
    stranger = settings.model_copy(update={"controller_cluster_id": "A" * 22})
    wrong_id = wait_until(
        lambda: refused(stranger, tmp_path / "id.log"), lambda line: "CLUSTER_ACTION" not in line
    )
    assert "belongs to another cluster" in wrong_id
    found = of_controllers(capsys, *nowhere, *options)
    assert found["permissions, log"][0] == "ok"
    level, text, todo = found["permissions, quorum"]
    assert (level, "which may be stopped, is not known" in text) == ("warn", True)
    assert todo.endswith("--operation Describe --cluster")

    with running(tmp_path, *options) as command:
        ready = command.says(
            r"ready: controller is 3001, epoch \d+; metrics at (http://\S+)/metrics"
        )
        url = ready[1]
        assert main(["what-if", "--exporter", url, "--check"]) == 6, "the only voter"
        assert "needs DESCRIBE on Cluster" in capsys.readouterr().out
        grant(admin, f"User:{WATCHER}", AclOperation.DESCRIBE)
        secrets = plant(admin, create_token(cluster, tmp_path / "ca.pem", monkeypatch))
        api = f"{url}/api/v1/clusters/up"
        wait_until(
            lambda: httpx.get(f"{api}/what-if?each=controller", timeout=DEADLINE_S).json(),
            lambda answer: "quorum" in answer and answer["quorum"]["unknown"] is None,
        )
        wait_until(
            lambda: httpx.get(f"{api}/topics", timeout=DEADLINE_S).json(),
            lambda answer: any(
                each["name"] == "after-the-secrets" for each in answer.get("topics", ())
            ),
        )
        found = of_controllers(capsys, "--exporter", url, *options)
        assert {level for level, _, _ in found.values()} == {"ok"}, found
        assert "all voters are caught up" in found["quorum"][1]
        assert found.keys() > {"advertised addresses", "cluster id"}
        bundle = tmp_path / "bundle.zip"
        times = ("--from", "2026-01-01T00:00:00Z", "--to", "2100-01-01T00:00:00Z")
        kept = ("--bootstrap-servers", settings.bootstrap_servers)
        place = (*kept, "--topic-prefix", settings.topic_prefix, "--output", str(bundle))
        assert main(["bundle", *times, *place]) == 0, capsys.readouterr().err
        shown = topics_bytes(settings) | served_bytes(url)
        assert command.end() == 0
        shown |= {"output": command.output.encode(), "printed": capsys.readouterr().out.encode()}
        shown |= packed_bytes(bundle) | files_bytes(command.data)
    log = b"".join(each.data for each in batches_on_disk(cluster.controllers[3001].log_dir))
    for what, secret in secrets.items():
        assert secret in log, f"{what} was there to be decoded"
        for where, data in shown.items():
            assert not any(form in data for form in forms(secret)), f"{what} is in {where}"
    assert [where for where, data in shown.items() if PASSWORD.encode() in data] == []
    assert b"after-the-secrets" in shown[f"{settings.topic_prefix}.changes"]
    assert b"after-the-secrets" in shown["/api/v1/clusters/up/topics"]
