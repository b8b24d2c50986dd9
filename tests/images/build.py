"""The project's own images, built on the base that the Dockerfile pins, or on its stand-in."""

from __future__ import annotations

import re

from tests.images import stand_ins
from tests.images.checks import ROOT, Target
from tests.images.engine import Engine

DOCKERFILE = ROOT / "docker" / "Dockerfile"


def provide_base(engine: Engine, *, registry: bool) -> tuple[str, bool]:
    """Return the base, and whether it came from a registry."""
    found = re.search(r"^ARG BASE=(\S+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, "the Dockerfile names no base"
    pinned = f"docker.io/library/{found[1]}"
    if registry and engine.pull(pinned):
        return pinned, True
    return stand_ins.make_base(engine), False


def build_target(engine: Engine, target: Target, base: str) -> str:
    """Build an image; return the revision that it is labelled with."""
    revision = engine.run("git", "-C", str(ROOT), "rev-parse", "HEAD").stdout.strip()
    given = ("--build-arg", f"BASE={base}", "--build-arg", f"REVISION={revision}")
    engine.build(target.image, DOCKERFILE, ROOT, "--target", target.name, *given)
    return revision
