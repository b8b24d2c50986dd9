"""Settings in layers: precedence, what is refused, and what is never shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.core.config import ExportSettings
from pipeline.runtime import UsageError
from pipeline.settings import (
    PipelineSettings,
    check_hosts,
    describe,
    given_values,
    load,
    read_layers,
)
from streaming.config import StreamSettings
from zk_source.config import WatchSettings

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

DEEP = 20_000
"""Levels of nesting: more than any stack allows."""


@pytest.fixture
def toml(tmp_path: Path) -> Callable[[str], Path]:
    """Write a configuration file and return its path."""

    def write(text: str) -> Path:
        path = tmp_path / "kcm.toml"
        path.write_text(text)
        return path

    return write


def complaint(*arguments: object, **options: object) -> str:
    """Return the lines of the error of loading the exporter's settings."""
    with pytest.raises(UsageError) as caught:
        load(ExportSettings, *arguments, **options)  # type: ignore[arg-type]  # bad values are intended
    return str(caught.value)


def test_options_precede_environment_file_and_defaults(
    toml: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each setting comes from the layer with the highest precedence that has it."""
    path = toml('port = 1\nevents_kept = 1\nhost = "file"\n')
    monkeypatch.setenv("KCM_PORT", "2")
    monkeypatch.setenv("KCM_EVENTS_KEPT", "2")
    settings = load(ExportSettings, path, port="3")
    assert (settings.port, settings.events_kept, settings.host) == (3, 2, "file")
    assert settings.kafka_gone_s == ExportSettings.model_fields["kafka_gone_s"].default


def test_each_value_knows_where_it_came_from(
    toml: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The origin names option, variable or file as a user would write it."""
    path = toml('host = "file"\n')
    monkeypatch.setenv("KCM_EVENTS_KEPT", "2")
    layers = read_layers(ExportSettings, path, port="3")
    origins = [layers.origin(name) for name in ("port", "events_kept", "host", "log_level")]
    assert origins == [
        "option --port",
        "environment variable KCM_EVENTS_KEPT",
        f"setting host in {path}",
        "default",
    ]


def test_the_file_can_be_named_by_the_environment(
    toml: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """KCM_CONFIG names the file unless an argument does."""
    monkeypatch.setenv("KCM_CONFIG", str(toml("port = 7\n")))
    assert load(ExportSettings).port == 7


def test_properties_of_several_layers_are_merged(
    toml: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password can come from the environment while the other properties are in the file."""
    path = toml('[kafka_properties]\n"security.protocol" = "SSL"\n"sasl.password" = "old"\n')
    monkeypatch.setenv("KCM_KAFKA_PROPERTIES", '{"sasl.password": "new"}')
    properties = load(PipelineSettings, path).kafka_properties
    assert {name: value.get_secret_value() for name, value in properties.items()} == {
        "security.protocol": "SSL",
        "sasl.password": "new",
    }


def test_an_empty_variable_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty environment variable leaves the default, and is not named as the origin."""
    monkeypatch.setenv("KCM_PORT", "")
    assert load(ExportSettings).port == ExportSettings.model_fields["port"].default
    assert read_layers(ExportSettings).origin("port") == "default"


def test_every_bad_value_has_its_line(
    toml: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All bad values are reported at once: which setting, where it was written, what was given."""
    path = toml("kafka_gone_s = 0\n")
    monkeypatch.setenv("KCM_EVENTS_KEPT", "many")
    lines = sorted(complaint(path, port="70000").splitlines())
    assert len(lines) == 3
    assert lines[0].startswith("environment variable KCM_EVENTS_KEPT: ")
    assert lines[0].endswith("(got 'many')")
    assert lines[1].startswith("option --port: ")
    assert lines[2].startswith(f"setting kafka_gone_s in {path}: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("port = ", "is not TOML"),
        ("x = 1\n", "no setting is called x"),
        ("port = " + "[" * DEEP + "]" * DEEP, "is not TOML"),
    ],
    ids=["no value", "no setting", "nested"],
)
def test_a_bad_file_is_named(toml: Callable[[str], Path], text: str, words: str) -> None:
    """A file that cannot be read, or contains an unknown setting, is one line with its path."""
    path = toml(text)
    line = complaint(path, known={"port"})
    assert str(path) in line
    assert words in line
    assert len(line.splitlines()) == 1


@pytest.mark.parametrize(
    "text", ['{"a":' * DEEP, "[" * DEEP + "]" * DEEP], ids=["objects", "arrays"]
)
def test_a_deeply_nested_variable_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """It is an error of its author, not an unexpected exception."""
    monkeypatch.setenv("KCM_KAFKA_PROPERTIES", text)
    assert complaint() == "a setting is nested too deeply to be read"


def test_a_deeply_nested_secret_is_not_read_as_a_mapping(secrets_dir: Path) -> None:
    """It is checked like any other text that is not a mapping."""
    (secrets_dir / "kafka_properties").write_text('{"a":' * DEEP)
    line = complaint(secrets_dir=str(secrets_dir))
    assert line.startswith(f"secret kafka_properties in {secrets_dir}: ")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A configuration file that does not exist is refused, not ignored."""
    path = tmp_path / "none.toml"
    assert complaint(path) == f"configuration file {path}: No such file or directory"


def test_the_file_may_contain_settings_of_other_parts(toml: Callable[[str], Path]) -> None:
    """One file serves all parts: each takes its own settings."""
    assert load(ExportSettings, toml('port = 7\nzookeeper = "zk:1"\n')).port == 7


SECRET = "hunter2"  # noqa: S105  # a password that must not appear anywhere


@pytest.mark.parametrize(
    "bad",
    [
        {"KCM_ZK_AUTH": SECRET},
        {"KCM_KAFKA_PROPERTIES": SECRET},
        {"KCM_KAFKA_PROPERTIES": f'["{SECRET}"]'},
        {"KCM_KAFKA_PROPERTIES": f'{{"sasl.password": ["{SECRET}"]}}'},
        {"KCM_KAFKA_PROPERTIES": f'{{"bootstrap.servers": "{SECRET}"}}'},
    ],
)
def test_a_bad_secret_is_not_repeated(bad: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The line about a bad secret names the setting and does not show the value."""
    for name, value in bad.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as caught:
        load(WatchSettings)
    assert SECRET not in str(caught.value)
    assert any(word in str(caught.value).lower() for word in ("zk_auth", "kafka_properties"))


def test_settings_are_described_without_secrets() -> None:
    """The description names secrets and does not print them."""
    settings = load(
        WatchSettings,
        zk_auth=f"digest:kcm:{SECRET}",
        zk_tls=True,
        kafka_properties={"sasl.password": SECRET},
    )
    shown = describe(settings)
    assert SECRET not in " ".join(shown.values()) + repr(settings)
    assert shown["zk_auth"] == "(hidden)"
    assert shown["kafka_properties"] == "sasl.password=(hidden)"
    assert shown["zk_tls"] == "True"
    assert shown["zookeeper"] == "127.0.0.1:2181"


@pytest.mark.parametrize(
    "name",
    [
        "spark.my.ssl.key.pem",
        "spark.my.ssl.keystore.key",
        "spark.my.key.passphrase",
        "spark.hadoop.fs.azure.account.key.acct.blob.core.windows.net",
        "spark.executor.extraJavaOptions",
        "spark.of.a.plugin.that.nobody.knows",
    ],
)
def test_a_property_that_is_not_known_is_hidden(name: str) -> None:
    """The names of all secrets cannot be listed: only properties that are known to hold none are shown."""
    shown = describe(load(StreamSettings, spark_conf={name: SECRET, "spark.ui.enabled": "false"}))
    assert shown["spark_conf"] == f"{name}=(hidden), spark.ui.enabled=false"


@pytest.fixture
def secrets_dir(tmp_path: Path) -> Path:
    """A folder as Kubernetes mounts it, with the name that it keeps for itself."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "..data").mkdir()
    return folder


def test_secrets_come_from_files(secrets_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is a setting or a property; the line end after its last line is ignored, everything else counts."""
    (secrets_dir / "zk_auth").write_text(f"digest:kcm:{SECRET} \n")
    (secrets_dir / "kafka_properties.sasl.password").write_text(f"{SECRET}\r\n")
    (secrets_dir / "kafka_properties.ssl.key.password").write_text("a\nb")
    monkeypatch.setenv("KCM_SECRETS_DIR", str(secrets_dir))
    monkeypatch.setenv("KCM_KAFKA_PROPERTIES", '{"sasl.username": "kcm"}')
    settings = load(WatchSettings)
    assert settings.zk_auth is not None
    assert settings.zk_auth.get_secret_value() == f"digest:kcm:{SECRET} "
    held = {name: each.get_secret_value() for name, each in settings.kafka_properties.items()}
    assert held == {
        "sasl.password": SECRET,
        "ssl.key.password": "a\nb",
        "sasl.username": "kcm",
    }
    assert read_layers(WatchSettings).origin("zk_auth") == f"secret zk_auth in {secrets_dir}"


def test_a_file_of_properties_is_json_beside_files_of_single_ones(secrets_dir: Path) -> None:
    """As its variable is; a secret of another kind that looks like JSON stays text."""
    (secrets_dir / "kafka_properties").write_text(
        f'{{"sasl.username": "kcm", "sasl.password": "{SECRET}"}}\n'
    )
    (secrets_dir / "kafka_properties.ssl.key.password").write_text("k")
    (secrets_dir / "zk_tls_key_password").write_text('{"a": 1}')
    settings = load(WatchSettings, secrets_dir=str(secrets_dir))
    held = {name: each.get_secret_value() for name, each in settings.kafka_properties.items()}
    assert held == {"sasl.username": "kcm", "sasl.password": SECRET, "ssl.key.password": "k"}
    assert settings.zk_tls_key_password is not None
    assert settings.zk_tls_key_password.get_secret_value() == '{"a": 1}'


def test_a_secrets_folder_precedes_the_file_and_follows_variables(
    secrets_dir: Path, toml: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the layers; the file may name the folder, and an option has precedence over it."""
    path = toml(f'secrets_dir = "{secrets_dir}"\nhost = "file"\nport = 1\nevents_kept = 1\n')
    (secrets_dir / "host").write_text("secrets")
    (secrets_dir / "port").write_text("2")
    monkeypatch.setenv("KCM_PORT", "3")
    settings = load(ExportSettings, path)
    assert (settings.host, settings.port, settings.events_kept) == ("secrets", 3, 1)
    assert load(ExportSettings, path, secrets_dir=str(secrets_dir / "..data")).host == "file"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("zk_auht", SECRET.encode(), "no setting is called zk_auht"),
        ("secrets_dir", b"/x", "no setting is called secrets_dir"),
        ("zk_auth", b"\xff" + SECRET.encode(), "zk_auth is not text"),
        ("zk_auth", SECRET.encode(), "secret zk_auth in "),
        ("kafka_properties", SECRET.encode(), "secret kafka_properties in "),
        ("kafka_properties", f'["{SECRET}"]'.encode(), "secret kafka_properties in "),
    ],
)
def test_a_bad_file_of_secrets_is_named_and_not_repeated(
    secrets_dir: Path, name: str, content: bytes, words: str
) -> None:
    """A mistyped name is refused, and no error shows the content of the file."""
    (secrets_dir / name).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load(WatchSettings, secrets_dir=str(secrets_dir), known=set(WatchSettings.model_fields))
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_missing_folder_of_secrets_is_named(tmp_path: Path) -> None:
    """A folder that is not mounted is refused, and not taken for an empty one."""
    with pytest.raises(UsageError, match="No such file or directory"):
        load(WatchSettings, secrets_dir=str(tmp_path / "none"))


def test_given_values_load_again_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that gets the given values as its environment has the same settings."""
    settings = load(
        WatchSettings,
        zookeeper="zk:2181/kafka",
        zk_auth=f"digest:kcm:{SECRET}",
        fail_fast=True,
        reconciliation_interval_s=7.5,
        kafka_properties={"sasl.password": SECRET, "sasl.username": "me"},
    )
    values = given_values(settings)
    assert set(values) == settings.model_fields_set
    for name, value in values.items():
        monkeypatch.setenv(f"KCM_{name.upper()}", value)
    assert load(WatchSettings) == settings


@pytest.mark.parametrize(
    "value",
    ["", "host", "host:", ":9092", "host:0", "host:70000", "host:x", "a:1,", "a:1,,b:2", "a:-1"],
)
def test_a_server_without_host_and_port_is_refused(value: str) -> None:
    """Each of the servers must be host:port with a port that exists."""
    with pytest.raises(ValueError, match="is not host:port"):
        check_hosts(value)
