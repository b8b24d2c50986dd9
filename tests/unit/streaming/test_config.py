"""The options of the fold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controller_model.state.control_plane import Assumed
from pipeline.runtime import UsageError
from pipeline.settings import given_values, load
from streaming.config import StreamSettings


def test_jars_are_split_at_commas_and_colons(monkeypatch: pytest.MonkeyPatch) -> None:
    """People separate paths in lists in both ways."""
    monkeypatch.setenv("KCM_CONNECTOR_JARS", f"/a.jar,/b.jar{os.pathsep}/c.jar")
    assert load(StreamSettings).connector_jars == (Path("/a.jar"), Path("/b.jar"), Path("/c.jar"))


def test_a_bad_setting_is_reported_in_one_line() -> None:
    """It names the option and the values that are allowed."""
    with pytest.raises(UsageError) as caught:
        load(StreamSettings, driver_memory="much", poll_delay_ms=0)
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert any(line.startswith("option --driver-memory") for line in lines)


def test_assumed_broker_settings_are_given_per_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In any accepted form; for a cluster that is not named nothing is assumed."""
    monkeypatch.setenv("KCM_MIN_INSYNC_REPLICAS", "prod=2, stage=1")
    settings = load(
        StreamSettings,
        leader_imbalance_percentage={"prod": "5"},
        auto_leader_rebalance={"dev": "false"},
    )
    assert settings.assumed_by_cluster() == {
        "dev": Assumed(None, 10, auto_leader_rebalance=False),
        "prod": Assumed(2, 5),
        "stage": Assumed(1, 10),
    }
    monkeypatch.setenv("KCM_AUTO_LEADER_REBALANCE", given_values(settings)["auto_leader_rebalance"])
    assert not load(StreamSettings).assumed("dev").auto_leader_rebalance
    assert settings.assumed() == Assumed(None, 10)
    monkeypatch.setenv("KCM_MIN_INSYNC_REPLICAS", given_values(settings)["min_insync_replicas"])
    assert load(StreamSettings).min_insync_replicas == settings.min_insync_replicas
    monkeypatch.delenv("KCM_MIN_INSYNC_REPLICAS")
    file = tmp_path / "kcm.toml"
    monkeypatch.delenv("KCM_AUTO_LEADER_REBALANCE")
    file.write_text(
        "assumed_min_insync_replicas = 3\n[min_insync_replicas]\nprod = 2\n"
        "[auto_leader_rebalance]\nprod = false\nstage = true\n"
    )
    from_file = load(StreamSettings, file)
    assert not from_file.assumed("prod").auto_leader_rebalance
    assert from_file.assumed("stage").auto_leader_rebalance
    assert from_file.assumed("prod").min_insync_replicas == 2
    assert from_file.assumed("other").min_insync_replicas == 3


@pytest.mark.parametrize("value", ["2", "=2", "prod=0", "prod=x", "prod=2,1", "{", "prod=2.5"])
def test_a_bad_figure_of_a_cluster_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable."""
    monkeypatch.setenv("KCM_MIN_INSYNC_REPLICAS", value)
    with pytest.raises(UsageError, match="KCM_MIN_INSYNC_REPLICAS"):
        load(StreamSettings)


@pytest.mark.parametrize("value", ["2", "[2]"])
def test_one_figure_for_all_clusters_in_the_file_is_refused(value: str, tmp_path: Path) -> None:
    """A number or a list names no cluster; the error names the file's key in one line."""
    file = tmp_path / "kcm.toml"
    file.write_text(f"min_insync_replicas = {value}\n")
    with pytest.raises(UsageError, match="min_insync_replicas") as caught:
        load(StreamSettings, file)
    assert len(str(caught.value).splitlines()) == 1
