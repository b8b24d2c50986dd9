"""Loads settings in layers: options, the environment (KCM_...), a folder of secrets, a TOML file, defaults.

Everything is checked at once, before anything starts. A bad value is one line that names
the setting, where it came from, and which values would do. Secrets are never printed: of a mapping,
only the properties that `pipeline.harmless` knows are shown.
"""

import json
import os
import tomllib
from collections.abc import Collection, Mapping
from contextvars import ContextVar
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar, get_args, get_origin

from pydantic import BaseModel, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from controller_model.records.decoding import DECODING_ERRORS
from pipeline.harmless import is_harmless
from pipeline.runtime import ENV_PREFIX, LogFormat, UsageError

CONFIG_FILE_VARIABLE = "KCM_CONFIG"
HIDDEN = "(hidden)"
"""Shown in place of a value that is a secret, or may be one."""
SECRETS_DIR = "secrets_dir"
_LARGEST_PORT = 65535

_file_settings: ContextVar[tuple[Mapping[str, Any], ...]] = ContextVar("file_settings", default=())
"""The content of secrets and file while `load` makes settings: pydantic has no way to pass a source."""

SettingsT = TypeVar("SettingsT", bound="PipelineSettings")


class PipelineSettings(BaseSettings):
    """The settings that every part needs: the pipeline's Kafka, its three topics, logs."""

    # An empty variable counts as not given, as it does in most programs.
    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True
    )

    bootstrap_servers: str = Field(
        "127.0.0.1:9092",
        description="Brokers of the pipeline's own Kafka, host:port separated by commas; "
        "not the cluster that is watched.",
    )
    secrets_dir: Path | None = Field(
        None,
        description="Folder with one secret per file, as Docker and Kubernetes mount them; each "
        "file is named after the setting, such as zk_auth, or the property, such as "
        "kafka_properties.sasl.password.",
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
        description="Partitions of each topic that the monitor creates; clusters are spread over "
        "them and folded in parallel. Existing topics keep theirs.",
    )
    replication_factor: int = Field(
        1, ge=1, le=9, description="Replication factor of each topic that the monitor creates."
    )
    fail_fast: bool = Field(
        default=False,
        description="Exit at once, instead of waiting, when a server cannot be reached at start.",
    )
    metrics_host: str = Field(
        "127.0.0.1", description="Address that the part's own /metrics listens on."
    )
    web_config_file: Path | None = Field(
        None,
        description="Web configuration file of Prometheus' exporter-toolkit, for the part's HTTP "
        "port: TLS, client certificates, passwords, headers (docs/operating.md).",
    )
    allowed_hosts: str = Field(
        "",
        description="Host names that HTTP requests may use, separated by commas, besides "
        "localhost, this machine's name and any IP address; *.example.com, or * for "
        "all.",
    )
    trusted_proxies: str = Field(
        "",
        description="Addresses or networks of reverse proxies, separated by commas; behind them, "
        "clients are told apart by X-Forwarded-For.",
    )
    connections_per_client: int = Field(
        100,
        ge=1,
        le=512,
        description="Limit of open HTTP connections from one client address; all clients together "
        "may have 512.",
    )
    access_log: bool = Field(
        default=False, description="Log each answer over HTTP: client, path, status, time, user."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level of log messages that are written."
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
        """Return the layers, the one with the highest precedence first; mappings are merged by key."""
        files = (InitSettingsSource(settings_cls, dict(held)) for held in _file_settings.get())
        return init_settings, env_settings, *files

    @field_validator("bootstrap_servers")
    @classmethod
    def _check_bootstrap_servers(cls, value: str) -> str:
        return check_hosts(value)

    @field_validator("trusted_proxies")
    @classmethod
    def _check_trusted_proxies(cls, value: str) -> str:
        for part in filter(None, value.split(",")):
            ip_network(part.strip(), strict=False)
        return value

    @model_validator(mode="after")
    def _check_kafka_properties(self) -> Self:
        if "bootstrap.servers" in self.kafka_properties:
            raise ValueError("kafka_properties: give bootstrap.servers as bootstrap_servers")
        return self


def check_hosts(value: str) -> str:
    """Return `host:port,host:port` unchanged if it has that form; raise ValueError otherwise.

    >>> check_hosts("zk1:2181,[::1]:2181")
    'zk1:2181,[::1]:2181'
    """
    for part in value.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not (host and colon and port.isdecimal() and 0 < int(port) <= _LARGEST_PORT):
            raise ValueError(f"{part.strip()!r} is not host:port")
    return value


class Layers(NamedTuple):
    """The layers of a part's settings: options, the environment, secrets, a file."""

    options: Mapping[str, Any]
    environment: Collection[str]
    secrets: Mapping[str, Any]
    secrets_dir: Path | None
    file: Mapping[str, Any]
    path: Path | None

    def origin(self, name: str) -> str:
        """Return where a setting's value comes from; `default` when no layer has it."""
        if name in self.options:
            return f"option --{name.replace('_', '-')}"
        if name in self.environment:
            return f"environment variable {ENV_PREFIX}{name.upper()}"
        if name in self.secrets:
            return f"secret {name} in {self.secrets_dir}"
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
    """Return the settings of a part; options that are None count as not given.

    The file may hold settings of all parts: a part takes its own. `known` are all names that it may
    hold. With None they are not checked, because a part that runs alone does not know the other
    parts. Properties such as kafka_properties are merged, so that a password can be kept out of the
    file. Raise UsageError with a line for each bad value.
    """
    layers = read_layers(settings_class, config_file, known=known, **options)
    fields = settings_class.model_fields
    held = (layers.secrets, layers.file)
    own = tuple({name: each[name] for name in each if name in fields} for each in held)
    token = _file_settings.set(own)
    try:
        return settings_class(**layers.options)
    except SettingsError as error:
        named = [name for name in fields if f'"{name}"' in str(error)]
        variables = ", ".join(f"{ENV_PREFIX}{name.upper()}" for name in named) or str(error)
        raise UsageError(
            f'environment variable {variables}: this is not JSON such as {{"key": "value"}}'
        ) from None
    except RecursionError:
        raise UsageError("a setting is nested too deeply to be read") from None
    except ValidationError as error:
        raise UsageError(
            "\n".join(_one_line(problem, layers, fields) for problem in error.errors())
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
    """Return the layers that `load` would take the settings from; raise UsageError for a bad file."""
    given = config_file or os.environ.get(CONFIG_FILE_VARIABLE)
    path = Path(given) if given else None
    file = read_file(path, known) if path else {}
    own = {name: value for name, value in options.items() if value is not None}
    environment = os.environ.get(f"{ENV_PREFIX}{SECRETS_DIR.upper()}")
    given_dir = own.get(SECRETS_DIR) or environment or file.get(SECRETS_DIR)
    folder = Path(given_dir) if isinstance(given_dir, str | Path) else None
    fields = settings_class.model_fields
    mappings = {name for name, field in fields.items() if get_origin(field.annotation) is dict}
    present = {name.upper() for name, value in os.environ.items() if value}
    return Layers(
        options=own,
        environment={name for name in fields if f"{ENV_PREFIX}{name}".upper() in present},
        secrets={} if folder is None else read_secrets(folder, known, mappings),
        secrets_dir=folder,
        file=file,
        path=path,
    )


def read_secrets(
    folder: Path, known: Collection[str] | None, mappings: Collection[str]
) -> dict[str, Any]:
    """Return the content of a folder of secrets; raise UsageError when it cannot be read.

    A file is a setting, or a property of one: `zk_auth`, `kafka_properties.sasl.password`. A line
    end after its last line is ignored. Hidden files are Kubernetes' own and are skipped. A file
    with the name of one of `mappings` holds JSON, as its variable does.
    """
    found: dict[str, Any] = {}
    try:
        paths = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
        for path in paths:
            name, _, key = path.name.partition(".")
            if known is not None and (name not in known or name == SECRETS_DIR):
                raise UsageError(
                    f"folder of secrets {folder}: no setting is called {path.name}; "
                    "`kcm config` lists them all"
                )
            text = path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
            if key:
                held = found.get(name)
                found[name] = {**(held if isinstance(held, dict) else {}), key: text}
            else:
                found[name] = _from_json(text) if name in mappings else text
    except UnicodeDecodeError:
        raise UsageError(f"folder of secrets {folder}: {path.name} is not text") from None
    except OSError as error:
        where = error.filename or folder
        raise UsageError(f"folder of secrets {folder}: {where}: {error.strerror}") from None
    return found


def read_file(path: Path, known: Collection[str] | None) -> dict[str, Any]:
    """Return the content of a TOML configuration file; raise UsageError when it cannot be read."""
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"configuration file {path}: {error.strerror}") from None
    except DECODING_ERRORS as error:
        raise UsageError(f"configuration file {path} is not TOML: {error}") from None
    if known is not None and (unknown := sorted(set(content) - set(known))):
        raise UsageError(
            f"configuration file {path}: no setting is called {', '.join(unknown)}; "
            "`kcm config` lists them all"
        )
    return content


def given_values(settings: PipelineSettings) -> dict[str, str]:
    """Return the settings that some layer gives, by name, as text that `load` accepts again.

    Secrets are in clear text: use this only for the environment of a child process.
    """
    texts = {name: _as_text(getattr(settings, name)) for name in settings.model_fields_set}
    return {name: text for name, text in texts.items() if text}


def describe(settings: PipelineSettings) -> dict[str, str]:
    """Return the settings as text for people, without secrets."""
    return {name: _shown(getattr(settings, name)) for name in type(settings).model_fields}


def _shown(value: object) -> str:
    if isinstance(value, SecretStr):
        return HIDDEN if value.get_secret_value() else ""
    if isinstance(value, Mapping):
        # A number is no secret; a text is shown if its property is known to hold none.
        shown = {
            key: HIDDEN
            if isinstance(item, str | SecretStr) and not is_harmless(key)
            else _as_text(item)
            for key, item in value.items()
        }
        return ", ".join(f"{key}={text}" for key, text in shown.items())
    return str(value) if isinstance(value, BaseModel) else _as_text(value)


def _one_line(problem: Any, layers: Layers, fields: Mapping[str, FieldInfo]) -> str:
    location = [str(step) for step in problem["loc"]]
    message = str(problem["msg"]).removeprefix("Value error, ")
    if not location:
        return message
    name = location[0].lower()
    inside = "".join(f"[{step}]" for step in location[1:])
    if problem["type"] == "missing":
        return f"{name} is missing: give --{name.replace('_', '-')} or {ENV_PREFIX}{name.upper()}"
    field = fields.get(name)
    # An error never repeats the value of a secret or of a property.
    may_repeat = (
        field is not None
        and get_origin(field.annotation) is not dict
        and SecretStr not in (field.annotation, *get_args(field.annotation))
    )
    value = f" (got {problem['input']!r})" if may_repeat else ""
    return f"{layers.origin(name)}{inside}: {message}{value}"


def _from_json(text: str) -> Any:
    """Return a mapping that is written as JSON; any other text unchanged, for the setting to check."""
    try:
        value = json.loads(text)
    except DECODING_ERRORS:
        return text
    return value if isinstance(value, dict) else text


def _as_text(value: Any) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return json.dumps({key: _as_text(item) for key, item in value.items()})
    if isinstance(value, BaseModel):
        return value.model_dump_json(by_alias=True, exclude_unset=True)
    if isinstance(value, tuple):
        return ",".join(_as_text(item) for item in value)
    return "" if value is None else str(value)
