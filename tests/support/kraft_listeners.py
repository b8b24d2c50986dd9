"""Controllers' listeners that ask who a client is, and the authorizer that asks what it may do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kcm.servers.ports import HOST
from kcm.servers.quorum import ControllerListener, Properties
from tests.support.certificates import make_authority, make_certificate

NODES = "nodes"
"""The principal of controllers and brokers themselves."""
NODES_PASSWORD = "of-the-nodes"  # noqa: S105 - of servers that a test starts


def authorizer(*super_users: str) -> Properties:
    """Return the properties of StandardAuthorizer; the brokers' own listener knows its clients as ANONYMOUS."""
    users = ";".join(f"User:{user}" for user in ("ANONYMOUS", *super_users))
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": users,
    }


def sasl_plain(users: Mapping[str, str]) -> ControllerListener:
    """Return a listener with SASL PLAIN for these users and their passwords, and an authorizer."""
    accounts = " ".join(f'user_{u}="{p}"' for u, p in {NODES: NODES_PASSWORD, **users}.items())
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return ControllerListener(
        "SASL_PLAINTEXT",
        {
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": (
                f'{module} required username="{NODES}" password="{NODES_PASSWORD}" {accounts};'
            ),
            **authorizer(NODES),
        },
    )


def scram_over_tls(folder: Path, users: Mapping[str, str]) -> tuple[ControllerListener, list[str]]:
    """Return a listener with TLS, SCRAM-SHA-512 and an authorizer, and what the storage tool must write of its users."""
    make_authority(folder)
    make_certificate(folder, NODES, HOST)
    store = folder / "nodes-store.pem"
    store.write_text((folder / "nodes.key").read_text() + (folder / "nodes.pem").read_text())
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    own = {
        "scram-sha-512.sasl.jaas.config": (
            f'{module} required username="{NODES}" password="{NODES_PASSWORD}";'
        ),
        **_stores(store, folder),
    }
    listener = ControllerListener(
        "SASL_SSL",
        {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
            **{f"listener.name.controller.{key}": value for key, value in own.items()},
            **authorizer(NODES),
        },
    )
    written = [
        argument
        for user, password in {NODES: NODES_PASSWORD, **users}.items()
        for argument in ("--add-scram", f'SCRAM-SHA-512=[name="{user}",password="{password}"]')
    ]
    return listener, written


def _stores(store: Path, folder: Path) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
    }


def mutual_tls(folder: Path) -> ControllerListener:
    """Return a listener with TLS that demands a certificate of `folder`'s new authority, and an authorizer."""
    make_authority(folder)
    make_certificate(folder, NODES, HOST)
    store = folder / "nodes-store.pem"
    store.write_text((folder / "nodes.key").read_text() + (folder / "nodes.pem").read_text())
    own = {**_stores(store, folder), "ssl.client.auth": "required"}
    return ControllerListener(
        "SSL",
        {
            **{f"listener.name.controller.{key}": value for key, value in own.items()},
            **authorizer(f"CN={NODES}"),
        },
    )
