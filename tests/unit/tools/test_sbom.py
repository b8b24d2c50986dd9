"""The bill of materials."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tools.sbom import bill, spark_jars


def test_installed_packages_and_jars_are_listed(tmp_path: Path) -> None:
    """Python packages are listed by name and release, jars by digest; equal contents give an equal list."""
    (tmp_path / "kafka-clients-3.9.1.jar").write_bytes(b"jar")
    (tmp_path / "odd.jar").write_bytes(b"other")
    (tmp_path / "spark-sql-kafka-0-10_2.13-4.2.0.jar").write_bytes(b"connector")
    (tmp_path / "netty-epoll-4.1.2.Final-linux-x86_64.jar").write_bytes(b"netty")
    found = bill([tmp_path])
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.5")
    by_name = {each["name"]: each for each in found["components"]}
    assert by_name["kafka-clients"]["version"] == "3.9.1"
    assert by_name["spark-sql-kafka-0-10_2.13"]["version"] == "4.2.0"
    assert by_name["netty-epoll"]["version"] == "4.1.2.Final-linux-x86_64"
    digest = hashlib.sha256(b"jar").hexdigest()
    assert by_name["kafka-clients"]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert "odd" in by_name
    assert by_name["confluent-kafka"]["purl"].startswith("pkg:pypi/confluent-kafka@")
    assert bill([tmp_path]) == found
    references = [each["bom-ref"] for each in found["components"]]
    assert len(references) == len(set(references))


def test_sparks_own_jars_are_found() -> None:
    """Spark's Python package contains its jars."""
    (folder,) = spark_jars()
    assert list(folder.glob("spark-core_*.jar"))
