"""`python -m tests.images`: build both images and run them and the compose file, as `make test-images` does.

Where no registry is reachable, the base image and the other projects' images are stand-ins (`stand_ins`), and Grafana is left out. It
ends with 0 if all is well, 1 with what is wrong, and 5 with what is missing for it on this machine.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml

from pipeline.runtime import EnvironmentProblemError
from tests.images import stand_ins, story
from tests.images.checks import ROOT, TARGETS, check_bill, check_image, check_run
from tests.images.compose import FOLDER, Compose
from tests.images.engine import Engine, why_not
from tests.support.commands import say

NOT_HERE = 5
DOCKERFILE = FOLDER / "Dockerfile"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all steps; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.images")
    parser.add_argument("--keep", action="store_true", help="leave what compose started running")
    parser.add_argument("--stand-ins", action="store_true", help="ask no registry")
    options = parser.parse_args(arguments)
    if (reason := why_not()) is not None:
        say(f"test-images: not run: {reason}")
        return NOT_HERE
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kcm-images-") as folder:
        engine = Engine(Path(folder))
        try:
            for line in _steps(engine, registry=not options.stand_ins, keep=options.keep):
                say(f"{time.monotonic() - began:5.0f} s  {line}")
        except (AssertionError, EnvironmentProblemError, subprocess.TimeoutExpired) as error:
            say(f"test-images: FAILED after {time.monotonic() - began:.0f} s: {error}")
            return 1
    say(f"test-images: passed in {time.monotonic() - began:.0f} s")
    return 0


def _steps(engine: Engine, *, registry: bool, keep: bool) -> Iterator[str]:
    base = _pinned_base()
    registry = registry and engine.pull(base)
    if not registry:
        base = stand_ins.make_base(engine)
    yield f"base {base}{'' if registry else ' (a stand-in: no registry is reachable)'}"
    revision = engine.run("git", "-C", str(ROOT), "rev-parse", "HEAD").stdout.strip()
    for target in TARGETS:
        given = ("--build-arg", f"BASE={base}", "--build-arg", f"REVISION={revision}")
        engine.build(target.image, DOCKERFILE, ROOT, "--target", target.name, *given)
        yield f"{target.image} built"
        yield f"{target.image}: {check_image(engine, target, base, revision)}"
        check_run(engine, target)
        yield f"{target.image}: runs as it ships"
        yield f"{target.image}: its bill of materials is true: {check_bill(engine, target)}"
    without = frozenset() if registry else frozenset({"grafana"})
    kafka = _others(engine, registry=registry)
    compose = Compose(engine, without=without)
    story.remove(engine, compose)
    try:
        yield from story.steps(engine, compose, kafka)
    except AssertionError:
        for part in (*story.PARTS, *story.NODES.values()):
            done = engine.run("podman", "logs", "--tail", "8", compose.container(part), check=False)
            say(f"--- {part}:\n{done.stdout}{done.stderr}")
        raise
    finally:
        if not keep:
            story.remove(engine, compose)
    yield "removed again"


def _pinned_base() -> str:
    found = re.search(r"^ARG BASE=(\S+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, "the Dockerfile names no base"
    return f"docker.io/library/{found[1]}"


def _others(engine: Engine, *, registry: bool) -> str:
    """Provide the other projects' images of compose; return the stand-in of the Kafka that also has ZooKeeper."""
    makers: dict[str, Callable[[Engine, str], None]] = {
        "apache/kafka": stand_ins.make_kafka,
        "prom/prometheus": stand_ins.make_prometheus,
    }
    for file in ("compose.yaml", "example-cluster.yaml"):
        for service in yaml.safe_load((FOLDER / file).read_text())["services"].values():
            name, _, tag = service["image"].partition(":")
            make = makers.get(name)
            if make is not None and not (registry and engine.pull(f"docker.io/{name}:{tag}")):
                make(engine, f"docker.io/{name}:{tag}")
    stand_ins.make_base(engine)
    old = "localhost/kcm-test-kafka:3.9.1"
    stand_ins.make_kafka(engine, old)
    return old


if __name__ == "__main__":
    sys.exit(main())
