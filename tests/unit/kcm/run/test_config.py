"""`kcm config`: each setting with its origin, no secret, and the reference of all."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.__main__ import main
from kcm.cli.parts import PARTS

SECRET = "hunter2"  # noqa: S105  # the password that must show nowhere


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
    assert captured.out.count("(hidden)") == 3


def test_the_reference_holds_every_setting_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The Markdown reference lists each setting in one row, and its tables are whole."""
    assert main(["config", "--markdown"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| `")]
    names = [row.split("`")[1] for row in rows]
    everything = {name for part in PARTS for name in part.settings.model_fields}
    assert len(names) == len(set(names))
    assert set(names) == everything
    assert all(row.replace("\\|", "").count("|") == 6 for row in rows)
