"""`python -m tests.images`: build both images and run them and the compose file, as `make test-images` does.

Where no registry is reachable, the base image and the other projects' images are stand-ins (`stand_ins`), and Grafana is left out. It
ends with 0 if all is well, 1 with what is wrong, and 5 with what is missing for it on this machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml

from pipeline.runtime import EnvironmentProblemError
from tests.images import stand_ins, story
from tests.images.build import build_target, provide_base
from tests.images.checks import TARGETS, check_bill, check_image, check_run
from tests.images.compose import FOLDER, Compose
from tests.images.engine import Engine, why_not
from tests.support.commands import say

NOT_HERE = 5


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
    base, registry = provide_base(engine, registry=registry)
    yield f"base {base}{'' if registry else ' (a stand-in: no registry is reachable)'}"
    for target in TARGETS:
        revision = build_target(engine, target, base)
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
    return stand_ins.make_kafka_with_zookeeper(engine)


if __name__ == "__main__":
    sys.exit(main())
