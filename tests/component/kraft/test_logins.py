"""The watcher as it ships on controllers of each security protocol, with an authorizer: what is refused, and what is shown.

SASL_SSL with SCRAM goes through the whole pipeline in `test_secured_pipeline`.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, AdminClient

from kcm.servers.kafka import KraftBroker
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.ports import HOST
from kcm.servers.quorum import ControllerListener
from kcm.servers.supervisor import Supervisor
from kraft_source.config import KraftSettings
from tests.component.kraft.test_secured_pipeline import grant, refused
from tests.component.kraft.test_watcher import PublishedRecords, fold_of, shown, truth
from tests.component.watcher.watcher_process import WatcherProcess
from tests.support.certificates import NEEDS_OPENSSL, make_authority, make_certificate
from tests.support.kraft_listeners import mutual_tls, sasl_plain, sasl_unsecured_bearer
from tests.support.release_jars import nodes_jars
from tests.support.releases import KAFKA_4_4
from tests.support.topic_changes import create_topic
from tests.support.waiting import SESSION_MS, wait_until

pytestmark = [NEEDS_OPENSSL, pytest.mark.usefixtures("no_settings_of_the_machine")]

PASSWORD = "Of-the-watcher-7"  # noqa: S105 - of servers that a test starts
HOUR_S = 3_600


@dataclasses.dataclass(frozen=True)
class Login:
    """How a listener is reached; files stand in a folder that `prepare` fills."""

    protocol: str
    listener: Callable[[Path], ControllerListener]
    principal: str
    settings: Mapping[str, str | None]
    """A value that begins with `file:` is a file of the folder; None: not given."""
    mistakes: Mapping[str, Mapping[str, str | None]]
    """What the one line says, and the settings that are wrong."""


def token(subject: str, *, lives_s: int) -> str:
    """Return a token without a signature (RFC 7519, section 6)."""
    now = int(time.time())
    claims = {"sub": subject, "iat": now - HOUR_S, "exp": now + lives_s}
    parts = (json.dumps(each).encode() for each in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts) + "."


def prepare(folder: Path) -> None:
    """Write certificates and tokens, beside those of the listener."""
    if (folder / "ca.pem").exists():
        make_certificate(folder, "watcher", HOST)
        make_certificate(folder, "expired", HOST, days=-1)
    (folder / "others").mkdir()
    make_authority(folder / "others")
    make_certificate(folder / "others", "watcher", HOST)
    (folder / "token").write_text(token("watcher", lives_s=HOUR_S))
    (folder / "old-token").write_text(token("watcher", lives_s=-HOUR_S // 2))


PLAIN = {
    "controller_sasl_mechanism": "PLAIN",
    "controller_sasl_user": "watcher",
    "controller_sasl_password": PASSWORD,
}
CA = {"controller_tls_ca": "file:ca.pem"}
OTHER_CA = {"controller_tls_ca": "file:others/ca.pem"}
WRONG_PASSWORD = {"controller_sasl_password": "no"}
PLAIN_REFUSED = "does not accept our SASL PLAIN credentials"


def certificate(name: str) -> dict[str, str | None]:
    """Return the settings of a certificate of the watcher."""
    return {
        "controller_tls_cert": f"file:{name}.pem",
        "controller_tls_key": f"file:{name}.key",
    }


MUTUAL_TLS = Login(
    "SSL",
    mutual_tls,
    "User:CN=watcher",
    {**CA, "controller_tls_cert": "file:watcher.pem", "controller_tls_key": "file:watcher.key"},
    {
        "name the CA that signed it": OTHER_CA,
        "certificate of ours": dict.fromkeys(certificate("")),
        # The words around these say whether the alert arrived before the connection was gone.
        "not accept our certificate": certificate("expired"),
        "accept our certificate": certificate("others/watcher"),
    },
)
PLAIN_LOGIN = Login(
    "SASL_PLAINTEXT",
    lambda _: sasl_plain({"watcher": PASSWORD}),
    "User:watcher",
    PLAIN,
    {
        PLAIN_REFUSED: WRONG_PASSWORD,
        "does not offer SASL SCRAM-SHA-512: it offers PLAIN": {
            "controller_sasl_mechanism": "SCRAM-SHA-512"
        },
        "the port may speak no TLS": {"controller_security_protocol": "SASL_SSL"},
    },
)
PLAIN_OVER_TLS = Login(
    "SASL_SSL",
    lambda folder: sasl_plain({"watcher": PASSWORD}, folder),
    "User:watcher",
    PLAIN | CA,
    {
        PLAIN_REFUSED: WRONG_PASSWORD,
        "name the CA that signed it": OTHER_CA,
        "speaks TLS on this port": {
            "controller_security_protocol": "SASL_PLAINTEXT",
            "controller_tls_ca": None,
        },
    },
)
BEARER = Login(
    "SASL_PLAINTEXT",
    lambda _: sasl_unsecured_bearer(),
    "User:watcher",
    {
        "controller_sasl_mechanism": "OAUTHBEARER",
        "controller_sasl_token_file": "file:token",
    },
    {
        "does not accept our SASL OAUTHBEARER credentials": {
            "controller_sasl_token_file": "file:old-token"
        },
    },
)


def settings_of(
    login: Login, folder: Path, cluster: KraftCluster, broker: KraftBroker
) -> KraftSettings:
    """Return the settings of a watcher that gives up at the first refusal."""
    given: dict[str, Any] = {
        "cluster": "up",
        "controllers": cluster.quorum.bootstrap_controllers,
        "controller_cluster_id": cluster.quorum.cluster_id,
        "controller_security_protocol": login.protocol,
        "bootstrap_servers": broker.bootstrap_servers,
        "topic_prefix": f"t{uuid.uuid4().hex[:8]}",
        "watcher_metrics_port": 0,
        "fail_fast": True,
    }
    files = {
        name: folder / value.removeprefix("file:")
        for name, value in login.settings.items()
        if value is not None and value.startswith("file:")
    }
    texts = {name: value for name, value in login.settings.items() if value is not None}
    return KraftSettings(**given | texts | files)


@pytest.mark.full
@pytest.mark.parametrize(
    "login",
    [
        pytest.param(MUTUAL_TLS, id="mutual-tls"),
        pytest.param(PLAIN_LOGIN, id="plain"),
        pytest.param(PLAIN_OVER_TLS, id="plain-over-tls"),
        pytest.param(BEARER, id="oauthbearer"),
    ],
)
def test_each_mistake_is_one_line_and_the_right_alone_shows_the_cluster(
    login: Login, supervisor: Supervisor, pipeline_broker: KraftBroker, tmp_path: Path
) -> None:
    """Wrong certificates, passwords and tokens end the watcher, as a missing right does; with it, topics are as Kafka says."""
    cluster = KraftCluster(
        supervisor,
        nodes_jars(KAFKA_4_4),
        tmp_path,
        controllers=(3001,),
        brokers=(1,),
        listener=login.listener(tmp_path),
        session_timeout_ms=SESSION_MS,
        name=f"login-{uuid.uuid4().hex[:8]}",
    )
    cluster.start()
    prepare(tmp_path)
    settings = settings_of(login, tmp_path, cluster, pipeline_broker)
    for words, wrong in login.mistakes.items():
        mistaken = dataclasses.replace(login, settings={**login.settings, **wrong})
        given = settings_of(mistaken, tmp_path, cluster, pipeline_broker)
        line = refused(given, tmp_path / "refused.log")
        assert f"the controller at {settings.controllers}" in line
        assert words in line
    assert "needs CLUSTER_ACTION on Cluster" in refused(settings, tmp_path / "refused.log")

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    grant(admin, login.principal, AclOperation.CLUSTER_ACTION)
    create_topic(admin, "orders", 3)
    # The controller applies a right some moments later: this watcher tries again.
    patient = settings.model_copy(update={"fail_fast": False})
    watcher = WatcherProcess(patient, tmp_path / "watcher.log", module="kraft_source")
    published = PublishedRecords(settings)
    try:
        wait_until(lambda: shown(fold_of(published.read())), lambda topics: topics == truth(admin))
        assert watcher.exit_code is None
    finally:
        published.close()
        watcher.end()
        cluster.kill()
    assert PASSWORD not in (tmp_path / "watcher.log").read_text()
