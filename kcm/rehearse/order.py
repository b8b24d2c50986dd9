"""The steps of a rehearsal in the order in which they are given on the command line.

The rule: steps run in the order in which they are written. The command line's library collects the
values of each option and loses their order relative to other options; so the order is recorded
here, before that happens.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from controller_model.records.decoding import DECODING_ERRORS
from pipeline.runtime import UsageError
from rehearsal.steps import StepError, StepKind, read_step

ALL = "all"
"""The value of --preferred-election that means every partition."""

_LONGEST_FILE = 64 * 1024 * 1024
"""Characters of a step's file: a plan of 500,000 partitions has about as many."""
_ORDER = "kcm.rehearse.order"
_ELECTION = f"--{StepKind.PREFERRED_ELECTION}"
_FILES = frozenset({StepKind.REASSIGN, StepKind.PREFERRED_ELECTION})
_KINDS = {kind.value.replace("-", "_"): kind for kind in StepKind}
"""By the names of their options' parameters."""
_FLAGS = frozenset({StepKind.ROLLING_RESTART, StepKind.DELETE_CONTROLLER})


class InOrder(TyperCommand):
    """A command that records the order of its options, and accepts --preferred-election without a file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as usual, and record the order."""
        given = list(with_all(args))
        _, _, order = self.make_parser(ctx).parse_args(args=list(given))
        ctx.meta[_ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, given)


def with_all(args: Sequence[str]) -> Iterator[str]:
    """Yield the arguments, with a value for each --preferred-election that has none.

    >>> list(with_all(["--preferred-election", "--json"]))
    ['--preferred-election', 'all', '--json']
    """
    for place, arg in enumerate(args):
        yield arg
        following = args[place + 1 :]
        if arg == _ELECTION and (not following or following[0].startswith("--")):
            yield ALL


def steps_in_order(context: typer.Context, values: Mapping[StepKind, Any]) -> list[str]:
    """Return the texts of the steps; raises UsageError for none, and for one that cannot be read.

    `values` has what was given for each kind: a list, or for a flag whether it was given. For a
    rolling restart, the order of the brokers is the step's text.
    """
    left = {kind: iter(given or ()) for kind, given in values.items() if kind not in _FLAGS}
    found = []
    for name in context.meta.get(_ORDER, ()):
        kind = _KINDS.get(name or "")
        if kind is None:
            continue
        about = str(values[kind] or "") if kind in _FLAGS else str(next(left[kind]))
        found.append(_text(kind, about))
    if not found:
        steps = ", ".join(f"--{kind}" for kind in values)
        raise UsageError(f"give at least one step to rehearse: {steps}")
    return found


def _text(kind: StepKind, about: str) -> str:
    """Return a step's text, with the content of its file; a UsageError names the option and the file."""
    where = f"--{kind}"
    if kind in _FILES:
        where = f"--{kind} {about}"
        about = (
            "" if kind is StepKind.PREFERRED_ELECTION and about == ALL else _content(where, about)
        )
    text = f"{kind}:{about}" if about else kind.value
    try:
        read_step(text)
    except StepError as error:
        raise UsageError(f"option {where}: {error}") from None
    return text


def _content(where: str, name: str) -> str:
    """Return a file's JSON without blanks; other content is returned unchanged."""
    try:
        with Path(name).open(encoding="utf-8") as file:
            text = file.read(_LONGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"option {where}: cannot read it: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"option {where}: it is not text") from None
    if len(text) > _LONGEST_FILE:
        raise UsageError(
            f"option {where}: a file of more than {_LONGEST_FILE} characters is no plan"
        )
    try:
        return json.dumps(json.loads(text), separators=(",", ":"))
    except DECODING_ERRORS:
        return text or "(empty)"
