"""`kcm demo` as a verb: start a real cluster, break it, and watch."""

from typing import Annotated

import typer


def demo(
    *,
    kraft: Annotated[
        bool,
        typer.Option(
            "--kraft", help="A KRaft cluster and its quorum, instead of one with ZooKeeper."
        ),
    ] = False,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Leave everything running after the last step, until Ctrl-C."),
    ] = False,
    fast: Annotated[
        bool, typer.Option("--fast", help="Shorten the waits; the steps stay the same.")
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Plain lines instead of a live view.")
    ] = False,
) -> int:
    """Start a real Kafka cluster, break it, and show what the monitor sees.

    Examples: kcm demo --keep, kcm demo --kraft

    Everything runs on this machine, on free ports and in a temporary folder. The exit code is 1 if the monitor
    ever differed from what ZooKeeper, or a KRaft cluster's controllers, and Kafka hold.
    """
    from kcm.demo.demo import run_demo  # noqa: PLC0415  # the help needs neither the demo nor kazoo

    return run_demo(kraft=kraft, keep=keep, fast=fast, plain=plain)
