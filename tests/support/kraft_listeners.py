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


def sasl_plain(users: Mapping[str, str], folder: Path | None = None) -> ControllerListener:
    """Return a listener with SASL PLAIN for these users and their passwords, and an authorizer.

    With a folder it speaks TLS, by a certificate of the folder's new authority.
    """
    accounts = " ".join(f'user_{u}="{p}"' for u, p in {NODES: NODES_PASSWORD, **users}.items())
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="{NODES}" password="{NODES_PASSWORD}" {accounts};'
    return _sasl("PLAIN", jaas, folder)


def scram_over_tls(folder: Path, users: Mapping[str, str]) -> tuple[ControllerListener, list[str]]:
    """Return a listener with TLS, SCRAM-SHA-512 and an authorizer, and what the storage tool must write of its users."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = f'{module} required username="{NODES}" password="{NODES_PASSWORD}";'
    written = [
        argument
        for user, password in {NODES: NODES_PASSWORD, **users}.items()
        for argument in ("--add-scram", f'SCRAM-SHA-512=[name="{user}",password="{password}"]')
    ]
    return _sasl("SCRAM-SHA-512", jaas, folder), written


def sasl_unsecured_bearer() -> ControllerListener:
    """Return a listener with OAUTHBEARER that takes tokens without a signature, and an authorizer."""
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    return _sasl("OAUTHBEARER", f'{module} required unsecuredLoginStringClaim_sub="{NODES}";', None)


def _sasl(mechanism: str, jaas: str, folder: Path | None) -> ControllerListener:
    """Return a listener with one mechanism and an authorizer; with a folder, over TLS."""
    own = {f"{mechanism.lower()}.sasl.jaas.config": jaas}
    if folder is not None:
        own |= _stores(folder)
    return ControllerListener(
        "SASL_PLAINTEXT" if folder is None else "SASL_SSL",
        {
            "sasl.enabled.mechanisms": mechanism,
            "sasl.mechanism.controller.protocol": mechanism,
            **{f"listener.name.controller.{key}": value for key, value in own.items()},
            **authorizer(NODES),
        },
    )


def _stores(folder: Path) -> dict[str, str]:
    """Make an authority and the nodes' certificate; return where nodes find them."""
    make_authority(folder)
    make_certificate(folder, NODES, HOST)
    store = folder / "nodes-store.pem"
    store.write_text((folder / "nodes.key").read_text() + (folder / "nodes.pem").read_text())
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
    }


def mutual_tls(folder: Path) -> ControllerListener:
    """Return a listener with TLS that demands a certificate of `folder`'s new authority, and an authorizer."""
    own = {**_stores(folder), "ssl.client.auth": "required"}
    return ControllerListener(
        "SSL",
        {
            **{f"listener.name.controller.{key}": value for key, value in own.items()},
            **authorizer(f"CN={NODES}"),
        },
    )
