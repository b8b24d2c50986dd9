"""The changes of an installation to alerts: read from all sources of settings, refused without effect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller_model.insight.thresholds import THRESHOLDS, Severity
from exporter.core.alert_settings import changed_thresholds
from exporter.core.config import ExportSettings
from pipeline.runtime import UsageError
from pipeline.settings import describe, given_values, load

CHANGES = {"KafkaPartitionsOffline": {"threshold": 100, "for": "1h30m", "severity": "warning"}}


def test_alerts_without_changes_keep_the_shipped_thresholds() -> None:
    """Without changes the table is the shipped one; a change of one alert leaves the others."""
    assert changed_thresholds(load(ExportSettings).alerts) == THRESHOLDS
    changed = changed_thresholds(load(ExportSettings, None, alerts=CHANGES).alerts)
    offline = changed["KafkaPartitionsOffline"]
    assert (offline.limit, offline.for_s, offline.severity) == (100, 5400, Severity.WARNING)
    assert {**changed, "KafkaPartitionsOffline": THRESHOLDS["KafkaPartitionsOffline"]} == THRESHOLDS


def test_a_disabled_alert_is_missing_from_the_thresholds() -> None:
    """It is missing from the table, so that nothing is judged by it."""
    settings = load(ExportSettings, None, alerts={"KcmBlind": {"enabled": False}})
    assert THRESHOLDS.keys() - changed_thresholds(settings.alerts).keys() == {"KcmBlind"}


def test_a_custom_severity_label_leaves_the_page_severity_unchanged() -> None:
    """The page keeps the shipped severity."""
    settings = load(ExportSettings, None, alerts={"KcmBlind": {"severity": "page"}})
    assert changed_thresholds(settings.alerts)["KcmBlind"].severity is Severity.CRITICAL


def test_alert_changes_are_read_from_option_variable_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be JSON or a table, and the settings that a child process gets are the same."""
    as_option = {name: json.dumps(change) for name, change in CHANGES.items()}
    expected = load(ExportSettings, None, alerts=CHANGES)
    assert load(ExportSettings, None, alerts=as_option).alerts == expected.alerts
    file = tmp_path / "kcm.toml"
    file.write_text(
        '[alerts.KafkaPartitionsOffline]\nthreshold = 100\nfor = "1h30m"\nseverity = "warning"\n'
    )
    assert load(ExportSettings, file).alerts == expected.alerts
    for text in (json.dumps(CHANGES), given_values(expected)["alerts"]):
        monkeypatch.setenv("KCM_ALERTS", text)
        assert load(ExportSettings).alerts == expected.alerts
    assert '"for":"1h30m"' in describe(expected)["alerts"], "no secret: it is shown"


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("KafkaNothing", {}, "there is no alert KafkaNothing"),
        ("KcmBlind", {"threshold": 2}, "compares with no number"),
        ("KcmBlind", {"for": "soon"}, "should match pattern"),
        ("KcmBlind", {"treshold": 2}, "not permitted"),
        ("KcmBlind", "{", "Expecting property name"),
    ],
)
def test_an_alert_change_without_effect_is_refused(name: str, change: object, why: str) -> None:
    """With a mistyped name, for example, the page would judge differently from Prometheus."""
    with pytest.raises(UsageError, match=why):
        load(ExportSettings, None, alerts={name: change})
