"""What helm says after an install or an upgrade of the chart."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.component.chart.chart import CHART, KUBERNETES, NEEDS_HELM, helm

LEAST = CHART / "ci" / "least-values.yaml"


def _notes(folder: Path, values: Path, *arguments: str) -> str:
    """Return what helm says after an install: `helm template` leaves it out, so it is made a manifest."""
    chart = folder / "chart"
    shutil.copytree(CHART, chart)
    text = (chart / "templates" / "NOTES.txt").read_text()
    (chart / "templates" / "notes.yaml").write_text(
        f'{{{{ define "notes" }}}}{text}{{{{ end }}}}notes: {{{{ include "notes" . | toJson }}}}'
    )
    arguments = ("--kube-version", KUBERNETES, "--values", str(values), *arguments)
    done = helm("template", "rel", str(chart), *arguments)
    assert done.returncode == 0, done.stderr
    (found,) = [
        each["notes"] for each in yaml.safe_load_all(done.stdout) if each and "notes" in each
    ]
    expected: str = found
    return expected


@NEEDS_HELM
@pytest.mark.parametrize(
    ("values", "expected", "unnamed"),
    [
        ("least", "the watched ensembles. Create the path beforehand", "WARNING: settings"),
        ("least", "Prometheus cannot reach a port", "the Ingress"),
        ("least", "The watchers of prod elect", "KRaft"),
        ("least", "helm test rel", "executor"),
        ("kraft", "modern is in KRaft mode", "modern elect"),
        ("kraft", "The watchers of old elect", "plain elect"),
        ("all", "or https://kcm.example.com/", "WARNING"),
        ("least", "prometheusRule.enabled is false", "new lineage"),
        ("all", "service/kcm-exporter 9640:9640", "serviceMonitor.enabled is false"),
        ("one-of-each", "WARNING: settings.replication_factor is below 2", "Create the path"),
        ("one-of-each", "WARNING: stream.persistence.enabled is false", "executor"),
        ("watchers-only", "watches 1 cluster(s): edge", "port-forward"),
        ("executors", "runs 2 executor(s)", "WARNING: s"),
        ("existing-claim", "watches no cluster from here", "0 cluster(s)"),
    ],
)
def test_the_install_notes_show_the_steps_for_these_values(
    tmp_path: Path, values: str, expected: str, unnamed: str
) -> None:
    """After an install the notes have only the steps for these values."""
    notes = _notes(tmp_path, CHART / "ci" / f"{values}-values.yaml")
    assert expected in notes
    assert unnamed not in notes


@NEEDS_HELM
def test_the_upgrade_notes_show_what_may_change(tmp_path: Path) -> None:
    """After an upgrade the notes say why figures may be stale for a while."""
    assert "new lineage" in _notes(tmp_path, LEAST, "--is-upgrade")
