"""The images that the node runs, built by podman as `make test-images` builds them; the node keeps them from one run to the next."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.images import stand_ins
from tests.images.build import build_target, provide_base
from tests.images.checks import TARGETS
from tests.images.engine import Engine
from tests.kubernetes.cluster import PAUSE
from tools.programs import folder

SAVE_TIMEOUT_S = 600.0


def store() -> Path:
    """Return the folder in which the node's containerd keeps images."""
    return folder() / "containerd"


def imported() -> Path:
    """Return the file that says which images are in the store: the id of each."""
    return store().with_suffix(".json")


def provide(engine: Engine, archive: Path, *, registry: bool) -> Iterator[str]:
    """Build the images, and put those that the store has not into the archive, with a file of all their ids beside it."""
    base, _ = provide_base(engine, registry=registry)
    for target in TARGETS:
        build_target(engine, target, base)
    kafka = stand_ins.make_kafka_with_zookeeper(engine)
    _make_pause(engine)
    names = [*(f"localhost/{target.image}" for target in TARGETS), kafka, PAUSE]
    ids = {name: engine.inspect(name)["Id"] for name in names}
    stored = json.loads(imported().read_text()) if imported().is_file() else {}
    missing = [name for name in names if stored.get(name) != ids[name]]
    if missing:
        save = ("podman", "save", "--quiet", "--multi-image-archive", "--output", str(archive))
        engine.run(*save, *missing, timeout_s=SAVE_TIMEOUT_S)
        archive.with_suffix(".json").write_text(json.dumps(ids))
    yield f"images built on {base}; new to the node: {', '.join(missing) or 'none'}"


def _make_pause(engine: Engine) -> None:
    """Make the image of a pod's first container: Debian's catatonit, which is linked statically, waits and reaps."""
    program = shutil.which("catatonit")
    assert program is not None, "the caller has looked for it"
    with tempfile.TemporaryDirectory() as made:
        context = Path(made)
        shutil.copy(program, context / "catatonit")
        lines = ("FROM scratch", "COPY catatonit /catatonit", "USER 65535:65535", 'ENTRYPOINT ["/catatonit", "-P"]')  # fmt: skip
        (context / "Containerfile").write_text("\n".join(lines) + "\n")
        engine.build(PAUSE, context / "Containerfile", context)
