"""The settings of the watcher of a KRaft cluster: its controllers, and how they are reached.

The names follow Kafka's own: security protocols, SASL mechanisms. Files are PEM. Secrets are `SecretStr`, so that
nothing prints them.
"""

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from kraft_source.wire.connection import Access, Tls
from kraft_source.wire.messages import ControllerEndpoint
from kraft_source.wire.sasl import Credentials
from pipeline.runtime import UsageError
from pipeline.settings import check_hosts
from source_log.config import SourceSettings

_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{22}")


class KraftSettings(SourceSettings):
    """The settings of `kcm watch --controllers`, in addition to those of every source."""

    controllers: str = Field(
        "127.0.0.1:9093",
        description="The watched KRaft cluster's controllers, host:port,host:port, as in Kafka's "
        "controller.quorum.bootstrap.servers: one that answers is enough. Instead of zookeeper.",
    )
    controller_cluster_id: str = Field(
        "",
        description="The id that the watched KRaft cluster must have; its controllers refuse the watcher "
        "if they belong to another one. Empty: any, and the id is asked for, which controllers with an "
        "authorizer answer only to who may ALTER the cluster.",
    )
    controller_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="The security protocol of the controllers' listener."
    )
    controller_tls_ca: Path | None = Field(
        None,
        description="CA certificates (PEM) for the controllers, trusted in addition to the system's "
        "own.",
    )
    controller_tls_cert: Path | None = Field(
        None, description="Client certificate (PEM) for the controllers."
    )
    controller_tls_key: Path | None = Field(
        None, description="Key (PEM) of the client certificate for the controllers."
    )
    controller_tls_key_password: SecretStr | None = Field(None, description="Password of that key.")
    controller_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = (
        Field(
            "SCRAM-SHA-512", description="The SASL mechanism, where the security protocol has SASL."
        )
    )
    controller_sasl_user: str = Field("", description="User name for SASL on the controllers.")
    controller_sasl_password: SecretStr | None = Field(
        None, description="Password for SASL on the controllers."
    )
    controller_sasl_token_file: Path | None = Field(
        None,
        description="File with the token for OAUTHBEARER, which is read at each login: another program may "
        "renew it.",
    )
    watcher_metrics_port: int = Field(
        9641, ge=0, le=65535, description="Port of the watcher's own /metrics; 0 takes a free one."
    )

    @field_validator("controllers")
    @classmethod
    def _check_controllers(cls, value: str) -> str:
        return check_hosts(value)

    @field_validator("controller_cluster_id")
    @classmethod
    def _check_cluster_id(cls, value: str) -> str:
        if value and not _CLUSTER_ID.fullmatch(value):
            raise ValueError(
                "must be a cluster id of 22 characters, as cluster.id in a node's meta.properties"
            )
        return value

    @model_validator(mode="after")
    def _check_access(self) -> Self:
        protocol = self.controller_security_protocol
        files = {
            "controller_tls_ca": self.controller_tls_ca,
            "controller_tls_cert": self.controller_tls_cert,
            "controller_tls_key": self.controller_tls_key,
        }
        given = [name for name, path in files.items() if path is not None]
        if given and not protocol.endswith("SSL"):
            raise ValueError(
                f"{given[0]}: needs controller_security_protocol SSL or SASL_SSL, and it is {protocol}"
            )
        for name, path in files.items():
            if path is not None and not path.is_file():
                raise ValueError(f"{name}: there is no file {path}")
        if self.controller_tls_key is not None and self.controller_tls_cert is None:
            raise ValueError("controller_tls_key: needs controller_tls_cert as well")
        if self.controller_sasl_user and not protocol.startswith("SASL"):
            raise ValueError(
                "controller_sasl_user: needs controller_security_protocol SASL_SSL or "
                f"SASL_PLAINTEXT, and it is {protocol}"
            )
        try:
            self.access()
        except UsageError as error:
            raise ValueError(f"controller_sasl_...: {error}") from None
        return self

    @property
    def endpoints(self) -> list[ControllerEndpoint]:
        """The controllers that are asked first."""
        parts = (part.strip().rpartition(":") for part in self.controllers.split(","))
        return [ControllerEndpoint(host.strip("[]"), int(port)) for host, _, port in parts]

    def access(self) -> Access:
        """Return how the controllers are reached; raise UsageError if credentials are missing."""
        protocol = self.controller_security_protocol
        tls = credentials = None
        if protocol.endswith("SSL"):
            tls = Tls(
                self.controller_tls_ca,
                self.controller_tls_cert,
                self.controller_tls_key,
                _secret(self.controller_tls_key_password) or None,
            )
        if protocol.startswith("SASL"):
            credentials = Credentials(
                self.controller_sasl_mechanism,
                self.controller_sasl_user,
                _secret(self.controller_sasl_password),
                self.controller_sasl_token_file,
            )
        return Access(self.controller_cluster_id or None, tls, credentials)


def _secret(value: SecretStr | None) -> str:
    return "" if value is None else value.get_secret_value()
