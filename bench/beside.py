"""Measure two checkouts beside each other: the same changes of one ZooKeeper, at the same time.

The speed of a machine may change from one run to the next, and within a run. Here it changes for
both monitors at once, so the ratios of their figures can be trusted where the figures cannot. Two
monitors share the processors: each is slower than alone, and no figure of this scenario is published.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bench.delay import SIZE, Follower, described, follow
from bench.watched import Watched, znode_cluster
from kcm.run.pipeline_processes import Pipeline
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import UsageError

SUMMARY = (
    "another checkout's monitor and this one, at once: delay and processor time (about 3 minutes)"
)

NAME = "beside"
PACKAGE = "kcm/__main__.py"
"""What shows that a folder is a checkout."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument(
        "checkout", type=Path, metavar="CHECKOUT", help="folder of the other checkout"
    )


def measure(*, checkout: Path) -> dict[str, Any]:
    """Run both monitors, and return the delays in milliseconds and the costs of each."""
    other = checkout.resolve()
    if not (other / PACKAGE).is_file():
        raise UsageError(
            f"{checkout}: no checkout, {PACKAGE} is not in it; `git worktree add` makes one"
        )
    with (
        znode_cluster(SIZE) as watched,
        Supervisor(watched.folder / "other", kill_on_exit=True) as supervisor,
    ):
        both = [watched.pipeline(), _other(watched, supervisor, other)]
        for pipeline in both:
            pipeline.start()
        for pipeline in both:
            pipeline.processes["stream"].wait_ready()
        ours, theirs = follow(watched.cluster, [Follower(pipeline) for pipeline in both])
    return {"scenario": NAME, "this": ours, "other": theirs} | described()


def _other(watched: Watched, supervisor: Supervisor, checkout: Path) -> Pipeline:
    """Describe a pipeline whose parts run the other checkout's code, with the packages installed here."""
    pipeline = watched._replace(supervisor=supervisor).pipeline(name="other")
    for process in pipeline.processes.values():
        process.env["PYTHONPATH"] = str(checkout)
    return pipeline
