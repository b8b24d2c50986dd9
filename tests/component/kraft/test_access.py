"""What controllers of real Kafka answer to a watcher that may not, must log in otherwise, or has the wrong address: one line each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from controller_model.kafka.metadata_records import BROKER_RESOURCE, UNCLEAN, Config
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.ports import HOST, free_port
from kcm.servers.quorum import ControllerListener
from kcm.servers.supervisor import Supervisor
from kraft_source.wire.connection import Access, ControllerConnection, Tls
from kraft_source.wire.errors import RefusedError
from kraft_source.wire.messages import ControllerEndpoint
from kraft_source.wire.sasl import Credentials
from pipeline.runtime import UnreachableError
from tests.component.kraft.watched_quorum import LATE, Watching, batches_on_disk
from tests.support.certificates import NEEDS_OPENSSL, make_certificate
from tests.support.kraft_listeners import NODES, NODES_PASSWORD, mutual_tls, sasl_plain
from tests.support.release_jars import nodes_jars
from tests.support.releases import KAFKA_4_4
from tests.support.waiting import DEADLINE_S, SESSION_MS, wait_until

connect = partial(ControllerConnection, timeout_s=DEADLINE_S)
WATCHER = Credentials("PLAIN", "watcher", "of-the-watcher")
SCRAM = "SCRAM-SHA-512"


def cluster_of(
    supervisor: Supervisor,
    folder: Path,
    listener: ControllerListener,
    name: str,
    *format_arguments: str,
) -> KraftCluster:
    """Return a cluster of one controller and one broker that runs."""
    cluster = KraftCluster(
        supervisor,
        nodes_jars(KAFKA_4_4),
        folder,
        controllers=(3001,),
        brokers=(1,),
        listener=listener,
        format_arguments=format_arguments,
        session_timeout_ms=SESSION_MS,
        name=name,
    )
    cluster.start()
    return cluster


def endpoint(cluster: KraftCluster) -> ControllerEndpoint:
    """Return where the controller listens."""
    return ControllerEndpoint(HOST, cluster.quorum.ports[3001])


PLANTED = ("of-the-store", "User:watcher", "alice-of-scram")
"""A keystore's password, an ACL, and a user with SCRAM credentials."""


def plant_secrets(admin: AdminClient) -> None:
    """Write into the metadata log what nobody else should read, and at last a setting that is kept."""
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    alice = UserScramCredentialUpsertion(PLANTED[2], scram, b"secret")
    for future in admin.alter_user_scram_credentials([alice]).values():
        future.result(DEADLINE_S)
    for name, value in (
        ("listener.name.plaintext.ssl.keystore.password", PLANTED[0]),
        (UNCLEAN, "true"),
    ):
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([broker]).values():
            future.result(DEADLINE_S)


def problem_of(watching: Watching) -> str:
    """Wait for a problem, and return it; a controller on busy cores may be late first."""
    return wait_until(
        lambda: watching.observer.status.problem, lambda text: bool(text) and LATE not in text
    )


@pytest.fixture
def asking(supervisor: Supervisor, tmp_path: Path) -> Iterator[KraftCluster]:
    """Return a cluster whose controllers ask for SASL, and have an authorizer."""
    listener = sasl_plain({"watcher": "of-the-watcher"})
    cluster = cluster_of(supervisor, tmp_path, listener, "asking")
    yield cluster
    cluster.kill()


def test_each_way_of_being_refused_is_one_line(asking: KraftCluster) -> None:
    """Login, rights, cluster and address: what is wrong, where, and what to do; then the right alone is enough."""
    there, cluster_id = endpoint(asking), asking.quorum.cluster_id
    with pytest.raises(RefusedError, match="does not accept our SASL PLAIN credentials: Auth"):
        connect(there, Access(credentials=Credentials("PLAIN", "watcher", "no")))
    with pytest.raises(RefusedError, match=f"does not offer SASL {SCRAM}: it offers PLAIN"):
        connect(there, Access(credentials=Credentials(SCRAM, "watcher", "no")))
    with pytest.raises(UnreachableError, match="its listener asks for SASL"):
        connect(there, Access()).call("DescribeQuorum", {"topics": []}, timeout_s=DEADLINE_S)
    with pytest.raises(UnreachableError, match="may speak no TLS"):
        connect(there, Access(tls=Tls()))
    broker = ControllerEndpoint(HOST, asking.brokers[1].port)
    with pytest.raises(RefusedError, match="is a broker's listener, which does not serve"):
        connect(broker, Access())
    with pytest.raises(UnreachableError, match="Connection refused"):
        connect(ControllerEndpoint(HOST, free_port()), Access())

    access = Access(cluster_id, credentials=WATCHER)
    with Watching(asking, access) as watching:
        problem = problem_of(watching)
        assert f"the controller at {there} does not let us read the metadata log" in problem
        assert "needs CLUSTER_ACTION on Cluster" in problem
        assert "may also register brokers" in problem
        admin = AdminClient({"bootstrap.servers": asking.bootstrap_servers})
        right = AclBinding(
            *(ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:watcher"),
            *("*", AclOperation.CLUSTER_ACTION, AclPermissionType.ALLOW),
        )
        for future in admin.create_acls([right]).values():
            future.result(DEADLINE_S)
        wait_until(lambda: watching.elected)
        wait_until(lambda: watching.observer.status.problem == "")
        plant_secrets(admin)
        wait_until(
            lambda: [
                record
                for batch in watching.batches
                for _, record in batch.records
                if isinstance(record, Config)
            ],
            lambda kept: Config(BROKER_RESOURCE, "1", UNCLEAN, "true") in kept,
        )
    log = b"".join(each.data for each in batches_on_disk(asking.controllers[3001].log_dir))
    shown = repr(watching.released)
    # Kafka writes them in plain text, so they were there to be decoded.
    for secret in PLANTED:
        assert secret.encode() in log
        assert secret not in shown
    with Watching(asking, Access("another-cluster", credentials=WATCHER)) as watching:
        problem = problem_of(watching)
        assert problem.startswith(f"the controller at {there} belongs to another cluster than")
        assert watching.released == []
    with Watching(
        asking, Access(None, credentials=Credentials("PLAIN", NODES, NODES_PASSWORD))
    ) as w:
        wait_until(lambda: w.elected)


@NEEDS_OPENSSL
def test_a_certificate_of_ours_is_enough(supervisor: Supervisor, tmp_path: Path) -> None:
    """Mutual TLS: with the certificate of a super user the log is read; without it, or without the CA, one line says so."""
    cluster = cluster_of(supervisor, tmp_path, mutual_tls(tmp_path), "tls")
    there = endpoint(cluster)
    ca, certificate, key = (tmp_path / name for name in ("ca.pem", "nodes.pem", "nodes.key"))
    with pytest.raises(RefusedError, match=r"certificate is not accepted .*: name the CA"):
        connect(there, Access(tls=Tls()))
    with pytest.raises(UnreachableError, match="ask for a certificate of ours"):
        connect(there, Access(tls=Tls(ca)))
    with pytest.raises(UnreachableError, match=r"speaks TLS|closed the connection"):
        connect(there, Access())
    ours = Access(cluster.quorum.cluster_id, Tls(ca, certificate, key))
    with Watching(cluster, ours) as watching:
        wait_until(lambda: watching.elected)
    make_certificate(tmp_path, "stranger", HOST)
    stranger = Tls(ca, tmp_path / "stranger.pem", tmp_path / "stranger.key")
    with Watching(cluster, Access(tls=stranger)) as watching:
        assert "needs CLUSTER_ACTION on Cluster" in problem_of(watching)
    cluster.kill()


@pytest.mark.full
def test_scram_logs_in_without_sending_the_password(supervisor: Supervisor, tmp_path: Path) -> None:
    """SCRAM-SHA-256 and -512 against real Kafka, also where sessions end; a wrong password is told in Kafka's own words."""
    login = "org.apache.kafka.common.security"
    jaas = (
        f'{login}.scram.ScramLoginModule required username="{NODES}" password="{NODES_PASSWORD}";'
    )
    listener = ControllerListener(
        "SASL_PLAINTEXT",
        {
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": SCRAM,
            "connections.max.reauth.ms": 5_000,
            "listener.name.controller.scram-sha-256.sasl.jaas.config": jaas,
            "listener.name.controller.scram-sha-512.sasl.jaas.config": jaas,
        },
    )
    users = [
        argument
        for mechanism in ("SCRAM-SHA-256", SCRAM)
        for user, password in ((NODES, NODES_PASSWORD), ("watcher", "of-the-watcher"))
        for argument in ("--add-scram", f'{mechanism}=[name="{user}",password="{password}"]')
    ]
    cluster = cluster_of(supervisor, tmp_path, listener, "scram", *users)
    for mechanism in ("SCRAM-SHA-256", SCRAM):
        right, wrong = (
            Credentials(mechanism, "watcher", each) for each in ("of-the-watcher", "no")
        )
        with Watching(cluster, Access(cluster.quorum.cluster_id, credentials=right)) as watching:
            wait_until(partial(getattr, watching, "elected"))
            # Sessions end after 5 s: new ones are made a second before, and the log goes on.
            wait_until(partial(getattr, watching.runner, "connections"), lambda made: made > 2)
            assert watching.runner.connection_failures == 0
            assert watching.observer.status.problem == ""
        with pytest.raises(RefusedError, match=f"does not accept our SASL {mechanism} credentials"):
            connect(endpoint(cluster), Access(credentials=wrong))
    cluster.kill()
