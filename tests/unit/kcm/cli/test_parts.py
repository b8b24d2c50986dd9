"""The parts as verbs: where their settings come from, and which packages are missing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from kcm.cli.parts import (
    EXPORT,
    KRAFT_WATCH,
    PARTS,
    WATCH,
    Part,
    import_service,
    load_all,
    suspicious_variables,
    watch_part,
)
from kraft_source.config import KraftSettings
from pipeline.runtime import EnvironmentProblemError
from pipeline.settings import PipelineSettings
from tests.support.commands import complaint


@pytest.mark.parametrize("verb", ["export", "up", "config"])
def test_a_bad_variable_is_named_as_a_variable(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with an environment variable is reported with its name."""
    monkeypatch.setenv("KCM_PORT", "99999")
    assert complaint(capsys, verb).startswith("environment variable KCM_PORT: ")


@pytest.mark.parametrize("verb", ["stream", "up", "config"])
def test_a_bad_line_of_the_file_is_named_with_the_file(
    verb: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What is wrong in the configuration file is reported with the setting and the path."""
    path = tmp_path / "kcm.toml"
    path.write_text("max_offsets_per_trigger = 0\n")
    line = complaint(capsys, verb, "--config", str(path))
    assert line.startswith(f"setting max_offsets_per_trigger in {path}: ")


def test_a_mistyped_name_in_the_file_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A name that no part knows is refused; a name of another part is not."""
    path = tmp_path / "kcm.toml"
    path.write_text('hearbeat_s = 5\nzookeeper = "zk:2181"\n')
    line = complaint(capsys, "export", "--config", str(path))
    assert "no setting is called hearbeat_s;" in line


def test_a_mistyped_variable_is_reported_and_foreign_ones_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A similar name gives a warning; variables that Kubernetes sets for services are ignored."""
    monkeypatch.setenv("KCM_ZOKEEPER", "zk:2181")
    monkeypatch.setenv("KCM_EXPORTER_SERVICE_HOST", "10.0.0.1")
    (line,) = suspicious_variables()
    assert "KCM_ZOKEEPER" in line
    assert "KCM_ZOOKEEPER?" in line


def test_a_missing_package_is_reported_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line names the extra that installs it."""
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
    """The function that the command line runs exists (it is not imported: Spark takes seconds)."""
    assert importlib.util.find_spec(part.service) is not None


def test_a_part_without_more_packages_is_imported() -> None:
    """A part whose packages are installed gives its function."""
    assert callable(import_service(EXPORT))


def test_shared_settings_are_the_same_in_all_parts() -> None:
    """A part adds settings and never redefines a shared one."""
    for part in PARTS:
        for name, field in PipelineSettings.model_fields.items():
            assert part.settings.model_fields[name].description == field.description


@pytest.mark.parametrize("verb", ["watch", "up"])
def test_a_watcher_is_told_one_cluster(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two kinds of clusters, or none, are refused in one line that says what to give; a bad value comes first."""
    assert complaint(capsys, verb).startswith("no cluster to watch is named: give --zookeeper")
    monkeypatch.setenv("KCM_ZOOKEEPER", "zk:2181")
    both = complaint(capsys, verb, "--controllers", "c1:9093")
    assert both.startswith("environment variable KCM_ZOOKEEPER and option --controllers: ")


def test_the_settings_decide_which_watcher_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper's where none is named."""
    assert watch_part(None, {}) is WATCH
    assert watch_part(None, {"controllers": "c1:9093"}) is KRAFT_WATCH
    assert watch_part(None, {"controllers": ""}) is WATCH
    monkeypatch.setenv("KCM_CONTROLLERS", "c1:9093")
    assert watch_part(None, {}) is KRAFT_WATCH
    assert isinstance(load_all(None, {}).watch, KraftSettings)
