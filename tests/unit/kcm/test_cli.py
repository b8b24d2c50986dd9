"""The command line: every setting is an option, every mistake is one line, no secret is shown."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from kcm.__main__ import main
from kcm.cli.exits import describe
from kcm.cli.options import option_name
from kcm.cli.parts import EXPORT, PARTS, WATCH, Part, import_service, suspicious_variables
from kcm.processes.errors import JavaError, MissingJarsError, PortInUseError
from pipeline.runtime import ConflictError, EnvironmentProblemError, UnreachableError, UsageError
from pipeline.settings import PipelineSettings

VERBS = ("up", "watch", "stream", "export", "config", "replay", "bundle", "demo", "doctor", "elect")
ASKING = ("status", "events", "recommend", "what-if")
SECRET = "hunter2"  # noqa: S105  # the password that must show nowhere


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """Return the only line with which a command fails, without our name."""
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("kcm: ")
    return line.removeprefix("kcm: ")


def test_the_bare_command_shows_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever types `kcm` sees what it can do."""
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {verb} " in shown for verb in (*VERBS, *ASKING))


@pytest.mark.parametrize("verb", [*VERBS, *ASKING])
def test_each_verb_shows_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of a verb shows how it is used."""
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: kcm {verb}" in shown
    assert "Example" in shown


@pytest.mark.parametrize("part", PARTS)
def test_each_setting_is_an_option_with_its_description(
    part: Part, capsys: pytest.CaptureFixture[str]
) -> None:
    """The help of a part lists all its settings as options, with what they are for."""
    main([part.verb, "--help"])
    words = " ".join(capsys.readouterr().out.split()).replace("- ", "-")
    for name, field in part.settings.model_fields.items():
        assert f" {option_name(name)} " in words
        assert field.description
        assert " ".join(field.description.split()).replace("- ", "-") in words


def test_up_has_the_options_of_all_parts(capsys: pytest.CaptureFixture[str]) -> None:
    """`kcm up` takes what any part takes, each once, and its own folder."""
    main(["up", "--help"])
    shown = capsys.readouterr().out
    names = {name for part in PARTS for name in part.settings.model_fields}
    for option in {option_name(name) for name in names} | {"--data", "--config"}:
        assert shown.count(f"\n  {option} ") == 1


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """`kcm --version` prints one line and ends well."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("kcm 0.")


def test_an_unknown_option_is_named_with_the_one_that_was_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A mistyped option is one line, with a proposal."""
    line = complaint(capsys, "watch", "--zookeper", "zk:2181")
    assert "--zookeper" in line
    assert "--zookeeper" in line


def test_an_option_of_another_part_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    """A part alone takes its own options only, so that nothing is ignored in silence."""
    assert "--port" in complaint(capsys, "watch", "--port", "1")


def test_an_unknown_verb_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped verb is one line."""
    assert "wacth" in complaint(capsys, "wacth")


def test_an_option_without_its_value_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """An option at the end that lacks its value is one line."""
    assert "--heartbeat-s" in complaint(capsys, "watch", "--heartbeat-s")


@pytest.mark.parametrize("verb", ["watch", "up", "config"])
def test_a_bad_option_is_named_as_an_option(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong with an option's value is told with its name and the value."""
    line = complaint(capsys, verb, "--heartbeat-s", "often")
    assert line.startswith("option --heartbeat-s: ")
    assert "'often'" in line


@pytest.mark.parametrize("verb", ["export", "up", "config"])
def test_a_bad_variable_is_named_as_a_variable(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with an environment variable is told with its name."""
    monkeypatch.setenv("KCM_PORT", "99999")
    assert complaint(capsys, verb).startswith("environment variable KCM_PORT: ")


@pytest.mark.parametrize("verb", ["stream", "up", "config"])
def test_a_bad_line_of_the_file_is_named_with_the_file(
    verb: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What is wrong in the configuration file is told with the setting and the path."""
    path = tmp_path / "kcm.toml"
    path.write_text("max_offsets_per_trigger = 0\n")
    line = complaint(capsys, verb, "--config", str(path))
    assert line.startswith(f"setting max_offsets_per_trigger in {path}: ")


def test_a_mistyped_name_in_the_file_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A name that no part knows is a mistake; one of another part is not."""
    path = tmp_path / "kcm.toml"
    path.write_text('hearbeat_s = 5\nzookeeper = "zk:2181"\n')
    line = complaint(capsys, "export", "--config", str(path))
    assert "no setting is called hearbeat_s;" in line


def test_a_mistyped_variable_is_told_and_foreign_ones_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A near miss is a warning; what Kubernetes sets for services of our name is left alone."""
    monkeypatch.setenv("KCM_ZOKEEPER", "zk:2181")
    monkeypatch.setenv("KCM_EXPORTER_SERVICE_HOST", "10.0.0.1")
    (line,) = suspicious_variables()
    assert "KCM_ZOKEEPER" in line
    assert "KCM_ZOOKEEPER?" in line


def test_config_shows_the_layers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Options win over the environment, this over the file, and each origin is shown."""
    path = tmp_path / "kcm.toml"
    path.write_text('port = 1\nhost = "file"\ncluster = "file"\n')
    monkeypatch.setenv("KCM_PORT", "2")
    monkeypatch.setenv("KCM_CLUSTER", "env")
    assert main(["config", "--config", str(path), "--port", "3"]) == 0
    rows = {
        line.split()[0]: line.split(maxsplit=2)[1:] for line in capsys.readouterr().out.splitlines()
    }
    assert rows["port"] == ["3", "(option --port)"]
    assert rows["cluster"] == ["env", "(environment variable KCM_CLUSTER)"]
    assert rows["host"] == ["file", f"(setting host in {path})"]
    assert rows["log_level"] == ["info", "(default)"]


def test_no_secret_is_ever_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secrets from every layer are named and not shown."""
    monkeypatch.setenv("KCM_ZK_AUTH", f"digest:kcm:{SECRET}")
    monkeypatch.setenv("KCM_SPARK_CONF", f'{{"spark.x.password": "{SECRET}"}}')
    assert main(["config", "--kafka-properties", f"sasl.password={SECRET}"]) == 0
    captured = capsys.readouterr()
    assert SECRET not in captured.out + captured.err
    assert captured.out.count("(secret)") == 3


def test_a_bad_secret_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    """A property that is not KEY=VALUE is refused without showing it."""
    assert SECRET not in complaint(capsys, "watch", "--kafka-properties", SECRET)


def test_the_reference_holds_every_setting_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The Markdown reference lists each setting in one row, and its tables are whole."""
    assert main(["config", "--markdown"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| `")]
    names = [row.split("`")[1] for row in rows]
    everything = {name for part in PARTS for name in part.settings.model_fields}
    assert len(names) == len(set(names))
    assert set(names) == everything
    assert all(row.replace("\\|", "").count("|") == 6 for row in rows)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (UnreachableError("x"), 3),
        (ConflictError("x"), 4),
        (PortInUseError("kafka", "127.0.0.1", 9), 4),
        (EnvironmentProblemError("x"), 5),
        (JavaError("x"), 5),
        (MissingJarsError("x"), 5),
        (RuntimeError("x\ny"), 1),
    ],
)
def test_each_error_has_one_line_and_its_exit_code(error: Exception, code: int) -> None:
    """The exit code tells the kind of trouble, and the message is one line."""
    text, exit_code = describe(error)
    assert exit_code == code
    assert len(text.splitlines()) == 1


def test_a_missing_package_is_told_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part whose package is not installed says which extra brings it."""
    (tmp_path / "part_that_needs_more.py").write_text("import no_such_package.inside\n")
    monkeypatch.syspath_prepend(tmp_path)
    part = WATCH._replace(service="part_that_needs_more")
    with pytest.raises(EnvironmentProblemError) as caught:
        import_service(part)
    assert str(caught.value) == (
        "the Python package no_such_package is not installed: "
        "pip install 'kafka-controller-monitor[watch]'"
    )


@pytest.mark.parametrize("part", PARTS)
def test_each_part_has_a_service(part: Part) -> None:
    """What the command line runs is there (and not imported: Spark takes seconds)."""
    assert importlib.util.find_spec(part.service) is not None


def test_a_part_without_more_packages_is_imported() -> None:
    """A part whose packages are there gives the function that runs it."""
    assert callable(import_service(EXPORT))


def test_the_command_line_loads_no_heavy_package() -> None:
    """Options and settings need neither pyspark nor kazoo: the exporter installs without them."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['kazoo', 'pyspark', 'pandas', 'pyarrow'])); "
        "from kcm.__main__ import main; from kcm.cli.parts import *; import_service(EXPORT); "
        "sys.exit(main(['config']))"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_shared_settings_are_the_same_in_all_parts() -> None:
    """A part adds settings and never changes what a shared one means."""
    for part in PARTS:
        for name, field in PipelineSettings.model_fields.items():
            assert part.settings.model_fields[name].description == field.description
