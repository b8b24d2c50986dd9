"""The command line: `kcm VERB`, one module per verb.

This module only routes, and loads no verb that was not named. A verb returns its exit code or raises; how an error is printed is
the same for all of them (see `exits`).
"""

import ast
import importlib
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from kcm.cli.exits import INTERRUPTED, print_error, traced
from pipeline import build
from pipeline.runtime import run_program

VERBS = {
    "look": "kcm.run.look",
    "up": "kcm.run.up",
    "status": "kcm.queries.status",
    "events": "kcm.queries.events",
    "recommend": "kcm.queries.recommend",
    "what-if": "kcm.queries.what_if",
    "rehearse": "kcm.rehearse.rehearse",
    "elect": "kcm.elect.elect",
    "doctor": "kcm.doctor.doctor",
    "watch": "kcm.run.parts",
    "stream": "kcm.run.parts",
    "export": "kcm.run.parts",
    "config": "kcm.run.config",
    "replay": "kcm.history.replay",
    "bundle": "kcm.history.bundle",
    "forget": "kcm.history.forget",
    "backtest": "kcm.backtest.backtest",
    "demo": "kcm.demo.verb",
}
"""Every verb in the order of the help, with the module that holds its function."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; None takes the program's own arguments."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal shows a question mark for a letter that it does not have, instead of an error.
        sys.stdout.reconfigure(errors="replace")
    try:
        with traced(wanted=os.environ.get("KCM_LOG_LEVEL") == "debug"):
            code = _app(given)(args=given, prog_name="kcm", standalone_mode=False)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  # the last place where an error can be printed in one line
        return print_error(error)
    return code if isinstance(code, int) else 0


def _app(given: Sequence[str]) -> typer.Typer:
    """Return the command line with the verb that was asked for, or with all verbs to choose from.

    A verb's module is loaded only to run or to complete the verb: some modules import packages that
    take a second to load.
    """
    app = typer.Typer(
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help: option names stay whole, a [default] is no markup
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    words = given or completed_words(os.environ)
    if words and words[0] in VERBS:
        function = function_of(words[0])
        # A verb whose command needs its own class names that class in its module.
        own_class = getattr(sys.modules[VERBS[words[0]]], "COMMAND_CLASS", None)
        app.command(name=words[0], cls=own_class)(function)
        return app
    for verb in VERBS:
        app.command(name=verb, help=summary(verb))(_listed)
    return app


def function_of(verb: str) -> Callable[..., int]:
    """Return the function of a verb; loads the verb's module."""
    function: Callable[..., int] = getattr(
        importlib.import_module(VERBS[verb]), verb.replace("-", "_")
    )
    return function


def completed_words(environ: Mapping[str, str]) -> list[str]:
    """Return the words that a shell wants completed, without the program's name; empty if none does.

    >>> completed_words({"_KCM_COMPLETE": "complete_bash", "COMP_WORDS": "kcm status --wa"})
    ['status', '--wa']
    """
    if "_KCM_COMPLETE" not in environ:
        return []
    words = environ.get("COMP_WORDS") or environ.get("_TYPER_COMPLETE_ARGS") or ""
    return words.split()[1:]


def summary(verb: str) -> str:
    """Return the first line of a verb's help, read from its source: loading all modules takes a second."""
    path = Path(__file__).parents[1] / f"{VERBS[verb].replace('.', '/')}.py"
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == verb.replace("-", "_"):
            return (ast.get_docstring(node) or "").partition("\n")[0]
    return ""


def _listed() -> None:
    """Serve as the placeholder of a verb in the list; naming a verb runs the verb itself."""


def _show_version(*, value: bool) -> None:
    if value:
        typer.echo(f"kcm {build.version()}")
        raise typer.Exit


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

    To complete verbs and options by the Tab key: kcm --install-completion
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def program() -> NoReturn:
    """Run the command line as a program of its own, and end it."""
    run_program(main)


if __name__ == "__main__":
    program()
