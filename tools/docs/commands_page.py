"""Make the reference of commands: docs/commands.md.

The rule: verbs, options and examples are read from the command line itself. An option that is a
setting is only named here; the configuration reference describes it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import typer

from kcm.__main__ import VERBS, function_of
from kcm.cli import exits
from kcm.cli.options import default_text
from kcm.cli.parts import PARTS
from pipeline.runtime import KcmError
from tools.docs.markdown import code, page, plain, shell, table

ABOUT = """What `kcm --help` and `kcm VERB --help` print. Commands that ask (`status`, `events`, `recommend`, `what-if` and
the like) talk to the exporter's [HTTP API](http-api.md) and to nothing else. In a terminal they print tables, in a pipe plain
text, with `--json` what a program can read. `kcm --install-completion` teaches your shell to complete verbs, options and the names of clusters. Settings are options of the commands that run a part: [configuration](configuration.md)."""
_EXAMPLES = re.compile(r"^Examples?: ")
_NEXT_EXAMPLE = re.compile(r", (?=kcm )")
_EVERYWHERE = {"help", "install_completion", "show_completion"}


def commands_page() -> str:
    """Return the page."""
    blocks = [ABOUT, _contents()]
    for verb in VERBS:
        blocks += _command(verb)
    return page("Commands", *blocks, "## Exit codes", exit_codes())


def exit_codes() -> str:
    """Return the table of exit codes, from the errors that have them and the constants in `exits`."""
    kinds = {
        0: "Success.",
        KcmError.exit_code: "An unexpected error; of `kcm demo`: a figure that differed.",
        **{
            kind.exit_code: (kind.__doc__ or "").strip()
            for kind in KcmError.__subclasses__()
            if kind.__module__ == KcmError.__module__  # other modules have special cases of these
        },
        **dict(_constants_shown()),
    }
    rows = ((str(number), plain(text)) for number, text in sorted(kinds.items()))
    return table(("Code", "Means"), rows)


def _constants_shown() -> Iterator[tuple[int, str]]:
    """Yield the exit codes whose constants have a sentence below them in their module's source."""
    body = ast.parse(inspect.getsource(exits)).body
    for node, below in pairwise(body):
        match node, below:
            case (
                ast.Assign(value=ast.Constant(value=int(number))),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield number, text


@functools.cache
def command_of(verb: str) -> Any:
    """Return the command that the command line has for a verb."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name=verb)(function_of(verb))
    return typer.main.get_command(app)


def _contents() -> str:
    rows = (
        (f"[`kcm {verb}`](#kcm-{verb})", plain(_paragraphs(command_of(verb))[0])) for verb in VERBS
    )
    return table(("Command", "Does"), rows)


def _command(verb: str) -> Iterator[str]:
    command = command_of(verb)
    yield f"## kcm {verb}"
    for paragraph in _paragraphs(command):
        if _EXAMPLES.match(paragraph):
            yield shell(*_NEXT_EXAMPLE.split(_EXAMPLES.sub("", paragraph)))
        else:
            yield plain(paragraph)
    context = typer.Context(command, info_name=f"kcm {verb}")
    parameters = [each for each in command.get_params(context) if each.name not in _EVERYWHERE]
    settings = [each for each in parameters if each.help == _shown_as_settings().get(each.name)]
    own = [each for each in parameters if each not in settings]
    if own:
        yield table(("Option", "Does"), (_option(each, context) for each in own))
    if settings:
        names = ", ".join(f"`{each.opts[0]}`" for each in settings)
        yield f"Settings, described in [configuration](configuration.md): {names}."


def _option(parameter: Any, context: typer.Context) -> tuple[str, str]:
    options, text = parameter.get_help_record(context)
    return code(options), plain(text)


@functools.cache
def _shown_as_settings() -> dict[str, str]:
    """Return the help of every setting of the parts; a verb with its own default gives that itself."""
    fields = {name: field for part in PARTS for name, field in part.settings.model_fields.items()}
    defaults = {name: default_text(field) for name, field in fields.items()}
    return {
        name: f"{field.description}{f' [default: {defaults[name]}]' if defaults[name] else ''}"
        for name, field in fields.items()
    }


def _paragraphs(command: Any) -> list[str]:
    return [" ".join(each.split()) for each in (command.help or "").split("\n\n")]
