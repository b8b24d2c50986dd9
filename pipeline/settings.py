"""Settings in layers: options, then the environment (KCM_...), then a TOML file, then defaults.

The rule: everything is checked at once and before anything starts; a bad value is one line that
names the setting, where it came from, and what would do. Secrets are never printed.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Collection, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from pipeline.runtime import LogFormat, UsageError

ENV_PREFIX = "KCM_"
CONFIG_FILE_VARIABLE = "KCM_CONFIG"
_SECRET_WORDS = (
    *("password", "passphrase", "secret", "token", "jaas", "auth", "credential"),
    *("access.key", "key.pem", "keystore.key"),
)
_SECRET_SETTINGS = {"kafka_properties", "spark_conf"}
"""Settings whose parts may be secret whatever they are called: errors never repeat their values."""
_LARGEST_PORT = 65535

_EMPTY: Mapping[str, Any] = {}
_file_settings: ContextVar[Mapping[str, Any]] = ContextVar("file_settings", default=_EMPTY)
"""What the file holds while `load` makes settings: pydantic has no way to hand a source in."""

SettingsT = TypeVar("SettingsT", bound="PipelineSettings")


class PipelineSettings(BaseSettings):
    """What every part needs: the pipeline's Kafka, its three topics, logs."""

    # An empty variable counts as not given, as it does for most programs.
    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True
    )

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

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # pydantic gives it by name
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # the same
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the layers, the strongest first; properties in mappings are merged by key."""
        from_file = InitSettingsSource(settings_cls, init_kwargs=dict(_file_settings.get()))
        return init_settings, env_settings, from_file

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


class Layers(NamedTuple):
    """Where the settings of a part come from: options, the environment, a file."""

    options: Mapping[str, Any]
    environment: Collection[str]
    file: Mapping[str, Any]
    path: Path | None

    def origin(self, name: str) -> str:
        """Return where a setting's value comes from; `default` when nobody gave it."""
        if name in self.options:
            return f"option --{name.replace('_', '-')}"
        if name in self.environment:
            return f"environment variable {ENV_PREFIX}{name.upper()}"
        if name in self.file:
            return f"setting {name} in {self.path}"
        return "default"


def load(
    settings_class: type[SettingsT],
    config_file: Path | None = None,
    *,
    known: Collection[str] | None = None,
    **options: Any,
) -> SettingsT:
    """Return the settings of a part; options that are None were not given.

    The file may hold settings of all parts: a part takes its own. `known` are all names that it
    may hold; None: they are not checked, because a part alone does not know the other parts.
    Properties such as kafka_properties are merged, so that a password can stay out of the file.
    Raises UsageError with a line for each bad value.
    """
    layers = read_layers(settings_class, config_file, known=known, **options)
    fields = settings_class.model_fields
    own = {name: value for name, value in layers.file.items() if name in fields}
    token = _file_settings.set(own)
    try:
        return settings_class(**layers.options)
    except SettingsError as error:
        raise UsageError(_not_json(settings_class, error)) from None
    except ValidationError as error:
        raise UsageError(
            "\n".join(_one_line(problem, layers) for problem in error.errors())
        ) from None
    finally:
        _file_settings.reset(token)


def read_layers(
    settings_class: type[PipelineSettings],
    config_file: Path | None = None,
    *,
    known: Collection[str] | None = None,
    **options: Any,
) -> Layers:
    """Return what `load` would take the settings from; raises UsageError for a bad file."""
    path = config_file or _file_from_environment()
    return Layers(
        options={name: value for name, value in options.items() if value is not None},
        environment=_names_in_environment(settings_class),
        file=read_file(path, known) if path else {},
        path=path,
    )


def read_file(path: Path, known: Collection[str] | None = None) -> dict[str, Any]:
    """Return what a TOML configuration file holds; raises UsageError when it cannot be read."""
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"configuration file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"configuration file {path} is not TOML: {error}") from None
    unknown = sorted(set(content) - set(known)) if known is not None else []
    if unknown:
        raise UsageError(
            f"configuration file {path}: no setting is called {', '.join(unknown)}; "
            "`kcm config` lists them all"
        )
    return content


def given_values(settings: PipelineSettings) -> dict[str, str]:
    """Return the settings that somebody gave, by name, as text that `load` takes back.

    Secrets are in clear: this is for the environment of a child process, and for nothing else.
    """
    texts = {name: _as_text(getattr(settings, name)) for name in settings.model_fields_set}
    return {name: text for name, text in texts.items() if text}


def describe(settings: PipelineSettings) -> dict[str, str]:
    """Return the settings as text, for people: without secrets."""
    return {name: _shown(name, getattr(settings, name)) for name in type(settings).model_fields}


def _shown(name: str, value: object) -> str:
    if isinstance(value, SecretStr):
        return "(secret)" if value.get_secret_value() else ""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_shown(str(key), item)}" for key, item in value.items())
    if value and not isinstance(value, bool | Path) and _is_secret(name):
        return "(secret)"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def _file_from_environment() -> Path | None:
    value = os.environ.get(CONFIG_FILE_VARIABLE)
    return Path(value) if value else None


def _names_in_environment(settings_class: type[PipelineSettings]) -> set[str]:
    present = {name.upper() for name, value in os.environ.items() if value}
    return {
        name for name in settings_class.model_fields if f"{ENV_PREFIX}{name}".upper() in present
    }


def _one_line(problem: Any, layers: Layers) -> str:
    location = [str(step) for step in problem["loc"]]
    message = str(problem["msg"]).removeprefix("Value error, ")
    if not location:
        return message
    name = location[0].lower()
    inside = "".join(f"[{step}]" for step in location[1:])
    if problem["type"] == "missing":
        return f"{name} is missing: give --{name.replace('_', '-')} or {ENV_PREFIX}{name.upper()}"
    value = "" if _is_secret(*location) else f" (got {problem['input']!r})"
    return f"{layers.origin(name)}{inside}: {message}{value}"


def _not_json(settings_class: type[PipelineSettings], error: SettingsError) -> str:
    names = [name for name in settings_class.model_fields if f'"{name}"' in str(error)]
    variables = ", ".join(f"{ENV_PREFIX}{name.upper()}" for name in names) or str(error)
    return f'environment variable {variables}: this is not JSON such as {{"key": "value"}}'


def _is_secret(*names: str) -> bool:
    return not _SECRET_SETTINGS.isdisjoint(names) or any(
        word in name.lower() for name in names for word in _SECRET_WORDS
    )


def _as_text(value: Any) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return json.dumps({key: _as_text(item) for key, item in value.items()})
    if isinstance(value, tuple):
        return ",".join(_as_text(item) for item in value)
    return "" if value is None else str(value)
