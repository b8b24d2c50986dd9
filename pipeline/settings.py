"""Settings in layers: options, then the environment (KCM_...), then a TOML file, then defaults.

The rule: everything is checked at once and before anything starts; a bad value is one line that
names the setting, where it came from, and what would do. Secrets are never printed.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from pipeline.runtime import LogFormat, UsageError

ENV_PREFIX = "KCM_"
CONFIG_FILE_VARIABLE = "KCM_CONFIG"
_SECRET_WORDS = ("password", "secret", "token", "jaas", "auth", "credential")
_LARGEST_PORT = 65535

SettingsT = TypeVar("SettingsT", bound="PipelineSettings")


class PipelineSettings(BaseSettings):
    """What every part needs: the pipeline's Kafka, its three topics, logs."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True)

    bootstrap_servers: str = Field(
        "127.0.0.1:9092",
        description="Brokers of the pipeline's own Kafka, host:port separated by commas; "
        "not the cluster that is watched.",
    )
    kafka_properties: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="More client properties for the pipeline's Kafka in librdkafka's names, such "
        "as security.protocol and sasl.password; as JSON in the environment.",
    )
    topic_prefix: str = Field(
        "kcm",
        pattern=r"^[A-Za-z0-9._-]{1,200}$",
        description="The topics are <prefix>.changes, <prefix>.views and <prefix>.events.",
    )
    partitions: int = Field(
        1,
        ge=1,
        le=1000,
        description="Partitions of each topic when we create it: clusters are folded in parallel "
        "over them. Existing topics keep theirs.",
    )
    replication_factor: int = Field(
        1, ge=1, le=9, description="Replication factor of each topic when we create it."
    )
    fail_fast: bool = Field(
        default=False,
        description="Give up at once when a server is not there at start, instead of waiting.",
    )
    metrics_host: str = Field(
        "127.0.0.1", description="Address that the part's own /metrics listens on."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least important log line that is written."
    )
    log_format: LogFormat = Field(
        "auto", description="console, json, or auto: console on a terminal, json elsewhere."
    )

    @field_validator("bootstrap_servers")
    @classmethod
    def _check_bootstrap_servers(cls, value: str) -> str:
        return check_hosts(value)

    @model_validator(mode="after")
    def _check_kafka_properties(self) -> Self:
        if "bootstrap.servers" in self.kafka_properties:
            raise ValueError("kafka_properties: give bootstrap.servers as bootstrap_servers")
        return self


def check_hosts(value: str) -> str:
    """Return `host:port,host:port` unchanged if it is that; raise ValueError otherwise.

    >>> check_hosts("zk1:2181,[::1]:2181")
    'zk1:2181,[::1]:2181'
    """
    for part in value.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not (host and colon and port.isdecimal() and 0 < int(port) <= _LARGEST_PORT):
            raise ValueError(f"{part.strip()!r} is not host:port")
    return value


def load(
    settings_class: type[SettingsT], config_file: Path | None = None, **options: Any
) -> SettingsT:
    """Return the settings of a part; options that are None were not given.

    The file may hold settings of all parts: a part takes the ones it knows. A name that no part
    knows is refused by `known_names`, which the command line passes through `unknown_names`.
    Raises UsageError with a line for each bad value.
    """
    given = {name: value for name, value in options.items() if value is not None}
    path = config_file or _file_from_environment()
    from_file = read_file(path) if path else {}
    from_environment = _names_in_environment(settings_class)
    layered = {
        name: value
        for name, value in from_file.items()
        if name in settings_class.model_fields and name not in from_environment
    } | given
    try:
        return settings_class(**layered)
    except ValidationError as error:
        origins = _Origins(given, from_environment, path)
        lines = [_one_line(problem, origins) for problem in error.errors()]
        raise UsageError("\n".join(lines)) from None


def read_file(path: Path) -> dict[str, Any]:
    """Return what a TOML configuration file holds; raises UsageError when it cannot be read."""
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"configuration file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"configuration file {path} is not TOML: {error}") from None
    known = known_names()
    unknown = sorted(set(content) - known)
    if unknown:
        raise UsageError(
            f"configuration file {path}: no setting is called {', '.join(unknown)}; "
            "`kcm config` lists them all"
        )
    return content


def known_names() -> set[str]:
    """Return the names of all settings of the parts that are loaded."""
    names: set[str] = set()
    todo: list[type[PipelineSettings]] = [PipelineSettings]
    while todo:
        settings_class = todo.pop()
        names |= set(settings_class.model_fields)
        todo += settings_class.__subclasses__()
    return names


def describe(settings: PipelineSettings) -> dict[str, str]:
    """Return the settings as text, for people: without secrets."""
    return {name: _shown(name, getattr(settings, name)) for name in type(settings).model_fields}


def _shown(name: str, value: object) -> str:
    if isinstance(value, SecretStr):
        return "(secret)" if value.get_secret_value() else ""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_shown(str(key), item)}" for key, item in value.items())
    if value and any(word in name.lower() for word in _SECRET_WORDS):
        return "(secret)"
    return str(value)


def _file_from_environment() -> Path | None:
    value = os.environ.get(CONFIG_FILE_VARIABLE)
    return Path(value) if value else None


def _names_in_environment(settings_class: type[PipelineSettings]) -> set[str]:
    present = {name.upper() for name in os.environ}
    return {
        name for name in settings_class.model_fields if f"{ENV_PREFIX}{name}".upper() in present
    }


class _Origins:
    """Where each value came from, to say so when it is bad."""

    def __init__(self, given: dict[str, Any], environment: set[str], path: Path | None) -> None:
        self._given = given
        self._environment = environment
        self._path = path

    def of(self, name: str) -> str:
        """Return how a user would name the setting where they wrote it."""
        if name in self._given:
            return f"option --{name.replace('_', '-')}"
        if name in self._environment:
            return f"environment variable {ENV_PREFIX}{name.upper()}"
        return f"setting {name} in {self._path}" if self._path else f"setting {name}"


def _one_line(problem: Any, origins: _Origins) -> str:
    location = [str(step) for step in problem["loc"]]
    if not location:
        return str(problem["msg"]).removeprefix("Value error, ")
    name = location[0].lower()
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "missing":
        return f"{name} is missing: give --{name.replace('_', '-')} or {ENV_PREFIX}{name.upper()}"
    secret = any(word in name for word in _SECRET_WORDS) or name == "kafka_properties"
    value = "" if secret else f" (got {problem['input']!r})"
    return f"{origins.of(name)}: {message}{value}"
