"""The command line: `kcm VERB`, one module per verb.

The rule: this module only routes. A verb returns its exit code or raises; how an error is told is
the same for all of them (see `exits`).
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from kcm.bundle import bundle
from kcm.config import config
from kcm.exits import INTERRUPTED, tell
from kcm.export import export
from kcm.parts import DISTRIBUTION
from kcm.replay import replay
from kcm.stream import stream
from kcm.up import up
from kcm.watch import watch

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: whole option names, and a [default] is no markup
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; None takes the program's own arguments."""
    try:
        code = app(args=arguments, prog_name="kcm", standalone_mode=False)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  # the last place where an error can be told in one line
        return tell(error)
    return code if isinstance(code, int) else 0


def _show_version(*, value: bool) -> None:
    if value:
        typer.echo(f"kcm {importlib.metadata.version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001  # its callback does the work, before any verb
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version."),
    ] = False,
) -> None:
    """Kafka Controller Monitor: watch Kafka's controller through ZooKeeper, live.

    On one machine, for your own cluster: kcm up --zookeeper zk1:2181/kafka --cluster prod

    To see it at work on a cluster that it starts and breaks: kcm demo
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command()(up)
app.command()(watch)
app.command()(stream)
app.command()(export)
app.command()(config)
app.command()(replay)
app.command()(bundle)


@app.command()
def demo(
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything running after the story, until Ctrl-C.")
    ] = False,
    fast: Annotated[bool, typer.Option("--fast", help="Shorten the waits, not the steps.")] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Plain lines instead of a live view.")
    ] = False,
) -> int:
    """Start a real Kafka cluster, break it, and watch.

    Example: kcm demo --keep

    Everything runs on this machine, on free ports and in a temporary folder. The exit code is 1 if the monitor
    ever differed from what ZooKeeper and Kafka hold.
    """
    from kcm.demo import run_demo  # noqa: PLC0415  # no other verb needs the demo or kazoo

    return run_demo(keep=keep, fast=fast, plain=plain)


if __name__ == "__main__":
    sys.exit(main())
