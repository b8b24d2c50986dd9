"""The lines of `kcm doctor`."""

from __future__ import annotations

from typing import Any, NoReturn

from exporter.core.config import ExportSettings
from kcm.doctor.doctor import _check_kafka, lines
from kcm.doctor.findings import fail, ok, unknown, warn
from kcm.queries.api_client import ExporterApi
from pipeline.settings import load


def test_findings_are_printed_in_columns_and_counted_by_level() -> None:
    """Each line has the level first and what to do last; colours are only for a terminal."""
    findings = [ok("kcm", "0.1"), warn("java", "old", "install 17"), unknown("x", "away")]
    findings.append(fail("zookeeper", "down", "start it"))
    assert list(lines(findings, coloured=False)) == [
        "ok    kcm        0.1",
        "warn  java       old -> install 17",
        "-     x          not measured: away",
        "fail  zookeeper  down -> start it",
        "1 ok, 1 warn, 1 fail, 1 not measured",
    ]
    assert "\x1b" in next(iter(lines(findings, coloured=True)))


class UnaskedExporter(ExporterApi):
    """An exporter that must get no request: a program that answers in its place could name any address."""

    def request(self, address: str, _headers: Any = None) -> NoReturn:
        """Fail."""
        raise AssertionError(f"asked {address}")


def test_credentials_go_to_no_address_of_the_exporters() -> None:
    """With client properties the user must give the address; without one a line says so."""
    settings = load(ExportSettings, kafka_properties={"sasl.password": "hunter2"})
    findings = _check_kafka(UnaskedExporter("http://127.0.0.1:1"), settings, 1.0)
    assert findings.cluster_id is None
    line, _ = lines(findings.findings, coloured=False)
    assert line.startswith("fail")
    assert line.endswith("-> give --bootstrap-servers")
    assert "hunter2" not in line
