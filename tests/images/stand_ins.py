"""Stand-ins for images of registries that cannot be reached: the same programs, from Debian's packages and Maven Central.

The base is Debian's own bookworm with its Python. Kafka's image has the jars that kcm runs, and turns variables into a
configuration by the program of Kafka's own that its published images use (kafka.docker.KafkaDockerWrapper). Prometheus is
Debian's. For Grafana there is none.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from kcm.servers.jars import KAFKA_4, default_cache, ensure_jars, ensure_set
from pipeline.runtime import EnvironmentProblemError
from tests.images.engine import Engine

FOLDER = Path(__file__).with_name("stand_ins")
BASE = "localhost/kcm-test-base:bookworm"
PACKAGES = "ca-certificates,netbase,tzdata,python3,python3-venv,python3-pip,adduser"
TRUSTED = Path("/usr/local/share/ca-certificates")
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
TAR_TIMEOUT_S = 900


def make_base(engine: Engine) -> str:
    """Make the stand-in of python:3.11-slim-bookworm if it is not there, and return its name."""
    if engine.has(BASE):
        return BASE
    tar = default_cache() / "tools" / "bookworm.tar"
    if not tar.is_file():
        tar.parent.mkdir(parents=True, exist_ok=True)
        part = tar.with_suffix(".part.tar")
        make = ("mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(part))
        engine.run(*make, timeout_s=TAR_TIMEOUT_S)
        part.rename(tar)
    with tempfile.TemporaryDirectory() as made:
        context = Path(made)
        (context / "certificates").mkdir()
        for each in TRUSTED.glob("*.crt"):  # a mirror may be reached through a proxy of its own
            shutil.copy(each, context / "certificates")
        (context / "sources").mkdir()
        if SOURCES.is_file():
            shutil.copy(SOURCES, context / "sources")
        shutil.copy(FOLDER / "Containerfile.base", context)
        shutil.copy(tar, context)
        engine.build(BASE, context / "Containerfile.base", context)
    return BASE


def make_kafka(engine: Engine, tag: str) -> None:
    """Make the stand-in of apache/kafka:VERSION for a version whose jars kcm runs."""
    version = tag.rpartition(":")[2]
    jars = next(
        each for each in (ensure_jars().broker, ensure_set(KAFKA_4)["broker"])
        if any(path.name == f"kafka_2.13-{version}.jar" for path in each)
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as made:
        context = Path(made)
        (context / "libs").mkdir()
        for path in jars:
            shutil.copy(path, context / "libs")
        _build(engine, tag, "kafka", context, ("run.sh",))


def make_kafka_with_zookeeper(engine: Engine) -> str:
    """Make the stand-in of a Kafka whose jars hold a ZooKeeper as well, and return its name."""
    make_base(engine)
    tag = "localhost/kcm-test-kafka:3.9.1"
    make_kafka(engine, tag)
    return tag


def make_prometheus(engine: Engine, tag: str) -> None:
    """Make the stand-in of prom/prometheus from Debian's program."""
    program = shutil.which("prometheus")
    if program is None:
        raise EnvironmentProblemError("prometheus is missing: apt-get install prometheus")
    with tempfile.TemporaryDirectory() as made:
        shutil.copy(program, Path(made) / "prometheus")
        _build(engine, tag, "prometheus", Path(made))


def _build(engine: Engine, tag: str, name: str, context: Path, files: Iterable[str] = ()) -> None:
    for file in (f"Containerfile.{name}", *files):
        shutil.copy(FOLDER / file, context)
    engine.build(tag, context / f"Containerfile.{name}", context, "--build-arg", f"BASE={BASE}")
