"""The watcher's settings.

Every setting is checked before anything starts, has a description, and keeps its unit
in its name. Secrets are `SecretStr`, so that nothing prints them.
"""

import importlib.util
import re
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator

from controller_model.sources.zookeeper.znode_kinds import WATCHED_SUBTREES
from pipeline.settings import check_hosts
from source_log.config import SourceSettings

_AUTH_FORM = (
    "<scheme>:<user>:<password> with scheme digest or sasl, or gssapi:<service>:<principal>"
)
_SERVER = re.compile(r"\s*[^/]+:\d+\s*(?:/|$)")
"""A server of a connect string, with a chroot or without one."""
_SASL_PACKAGES = {"sasl": ("pure-sasl", "puresasl"), "gssapi": ("kerberos", "kerberos")}
"""For each authentication scheme: the package that it needs in addition to kazoo, and the module of that package."""
_MS = 1000
_SILENT_SESSIONS = 2.5
_LEAST_NEW_CLIENT_S = 5.0


class WatchSettings(SourceSettings):
    """The settings of `kcm watch`, in addition to those of every source."""

    zookeeper: str = Field(
        "127.0.0.1:2181",
        description="The watched cluster's ZooKeeper: host:port,host:port, and its chroot if it "
        "has one, as in Kafka's zookeeper.connect.",
    )
    session_timeout_s: float = Field(
        6.0,
        ge=1,
        le=60,
        description="ZooKeeper session timeout, after which the watcher leaves a "
        "server that does not answer.",
    )
    zk_auth: SecretStr | None = Field(
        None,
        description=f"Credentials for ZooKeeper: {_AUTH_FORM}. sasl is DIGEST-MD5; gssapi is "
        "Kerberos with the tickets that kinit stores, where service is usually zookeeper and the principal "
        "may be empty.",
    )
    zk_tls: bool = Field(default=False, description="Connect to ZooKeeper's TLS port.")
    zk_tls_ca: Path | None = Field(
        None,
        description="CA certificates (PEM) for ZooKeeper, trusted in addition to the system's own.",
    )
    zk_tls_cert: Path | None = Field(None, description="Client certificate (PEM) for ZooKeeper.")
    zk_tls_key: Path | None = Field(None, description="Key (PEM) of the client certificate.")
    zk_tls_key_password: SecretStr | None = Field(
        None, description="Password of the client certificate's key."
    )
    zk_watches: Literal["auto", "recursive", "one-shot"] = Field(
        "auto",
        description="How the watcher learns of changes: auto uses recursive watches and, where "
        "ZooKeeper refuses them (before 3.6), one-shot watches; recursive and one-shot "
        "allow only that kind.",
    )
    election_path: str = Field(
        "",
        description="Path of the watchers' election, such as /kcm/election: of several watchers of "
        "one cluster, one leads, elected by znodes under <election_path>/<cluster>. "
        "Empty: no election, one watcher runs alone.",
    )
    election_zookeeper: str = Field(
        "",
        description="The ZooKeeper that holds the election: host:port,host:port, and a chroot. "
        "Empty: the watched one, where election_path then needs CREATE, DELETE and READ.",
    )
    election_auth: SecretStr | None = Field(
        None,
        description="Credentials for election_zookeeper, in zk_auth's form; if empty, zk_auth is "
        "used.",
    )
    election_tls: bool = Field(
        default=False,
        description="Connect to election_zookeeper's TLS port, with zk_tls's certificates.",
    )
    full_resync_s: float = Field(
        86_400.0, gt=0, description="Seconds between full resyncs that nothing else requested."
    )
    resync_reads_per_s: float = Field(
        50_000.0, gt=0, description="Maximum number of znodes read per second in a resync."
    )
    reconciliation_reads_per_s: float = Field(
        5_000.0, gt=0, description="Maximum number of znodes read per second in a reconciliation."
    )
    watcher_metrics_port: int = Field(
        9641, ge=0, le=65535, description="Port of the watcher's own /metrics; 0 takes a free one."
    )

    @field_validator("zookeeper", "election_zookeeper")
    @classmethod
    def _check_zookeeper(cls, value: str, info: ValidationInfo) -> str:
        if not value and info.field_name == "election_zookeeper":
            return value
        hosts, slash, chroot = value.rstrip("/").partition("/")
        if any(_SERVER.match(part) for part in chroot.split(",")[1:]):
            # ZooKeeper's client takes all after the first slash for the chroot (ConnectStringParser).
            servers = ",".join(part.partition("/")[0] for part in value.split(","))
            one = chroot.partition(",")[0].strip("/")
            raise ValueError(
                "a chroot stands once, behind the last server, for all of them: write "
                f"{servers}{'/' if one else ''}{one}"
            )
        check_hosts(hosts)
        if "//" in slash + chroot:
            raise ValueError(f"{slash + chroot!r} is not a chroot such as /kafka")
        return hosts + slash + chroot

    @field_validator("election_path")
    @classmethod
    def _check_election_path(cls, value: str) -> str:
        names = value.split("/")[1:]
        if value and (not value.startswith("/") or not names or {"", ".", ".."} & set(names)):
            raise ValueError("must be a path such as /kcm/election")
        if any(f"{value}/".startswith(f"{watched}/") for watched in WATCHED_SUBTREES):
            raise ValueError("is below Kafka's own znodes: choose a path such as /kcm/election")
        return value

    @field_validator("zk_auth", "election_auth")
    @classmethod
    def _check_auth(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        scheme, _, rest = value.get_secret_value().partition(":")
        if scheme not in {"digest", *_SASL_PACKAGES} or ":" not in rest:
            raise ValueError(f"must be {_AUTH_FORM}")
        package, module = _SASL_PACKAGES.get(scheme, (None, ""))
        if package is not None and importlib.util.find_spec(module) is None:
            raise ValueError(f"{scheme} needs the package {package}: pip install {package}")
        if scheme == "gssapi" and rest.startswith(":"):
            raise ValueError("gssapi needs the service's name, such as gssapi:zookeeper:")
        return value

    @model_validator(mode="after")
    def _check_election(self) -> Self:
        if self.election_zookeeper and not self.election_path:
            raise ValueError("election_zookeeper: this setting needs election_path as well")
        if not self.election_zookeeper and (self.election_auth or self.election_tls):
            raise ValueError("election_auth, election_tls: these need election_zookeeper as well")
        return self

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        files = self.zk_tls_ca or self.zk_tls_cert or self.zk_tls_key
        if files and not (self.zk_tls or self.election_tls):
            raise ValueError("zk_tls_...: these settings need zk_tls as well")
        for path in (self.zk_tls_ca, self.zk_tls_cert, self.zk_tls_key):
            if path is not None and not path.is_file():
                raise ValueError(f"zk_tls_...: there is no file {path}")
        return self

    @property
    def hosts(self) -> str:
        """ZooKeeper's servers, without the chroot."""
        return self.zookeeper.partition("/")[0]

    @property
    def chroot(self) -> str:
        """The chroot with its slash; empty when there is none."""
        _, slash, chroot = self.zookeeper.partition("/")
        return slash + chroot

    def auth_data(self) -> list[tuple[str, str]] | None:
        """Return kazoo's form of digest credentials; None when there are none."""
        scheme, _, credential = self._auth()
        return [(scheme, credential)] if scheme == "digest" else None

    def sasl_options(self) -> dict[str, Any] | None:
        """Return kazoo's form of SASL credentials; None when there are none."""
        scheme, _, credential = self._auth()
        name, _, secret = credential.partition(":")
        if scheme == "sasl":
            return {"mechanism": "DIGEST-MD5", "username": name, "password": secret}
        if scheme == "gssapi":
            return {"mechanism": "GSSAPI", "service": name, "principal": secret or None}
        return None

    def tls_key_password(self) -> str | None:
        """Return the key's password; None when it has none."""
        password = self.zk_tls_key_password
        return None if password is None else password.get_secret_value()

    def for_election(self) -> Self:
        """Return these settings with the election's ZooKeeper in place of the watched one."""
        if not self.election_zookeeper:
            return self
        there = {
            "zookeeper": self.election_zookeeper,
            "zk_auth": self.election_auth,
            "zk_tls": self.election_tls,
        }
        return self.model_copy(update=there)

    @property
    def most_silent_ms(self) -> int:
        """Milliseconds without a connection after which the session is given up and a new one is made."""
        return int(max(_LEAST_NEW_CLIENT_S, self.session_timeout_s * _SILENT_SESSIONS) * _MS)

    def _auth(self) -> tuple[str, str, str]:
        secret = "" if self.zk_auth is None else self.zk_auth.get_secret_value()
        return secret.partition(":")
