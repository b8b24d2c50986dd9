"""Make the man pages of `kcm`: one for the program, and one for each verb.

The rule: they are read from the command line itself, as docs/commands.md is. Only what roff takes for itself is escaped.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator

import typer

from kcm.__main__ import VERBS, summary
from tools.docs.commands_page import command_of, exit_codes

_MANUAL = "Kafka Controller Monitor"
_ROW = re.compile(r"^\| (\d+) \| (.*) \|$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


def man_pages(version: str, date: dt.date) -> dict[str, str]:
    """Return the pages by their file names."""
    pages = {f"kcm-{verb}.1": _page(f"kcm-{verb}", version, date, _verb(verb)) for verb in VERBS}
    return {"kcm.1": _page("kcm", version, date, _program()), **pages}


def _page(name: str, version: str, date: dt.date, body: Iterator[str]) -> str:
    head = f'.TH "{name.upper()}" "1" "{date.isoformat()}" "kcm {version}" "{_MANUAL}"'
    # No hyphenation, and no spaces that align the right margin: commands stay as they are typed.
    return "\n".join([head, ".nh", ".ad l", *body]) + "\n"


def _program() -> Iterator[str]:
    yield from (".SH NAME", r"kcm \- watch Kafka's controller, live")
    yield from (".SH SYNOPSIS", r"\fBkcm\fR \fIVERB\fR [\fIOPTIONS\fR]")
    yield ".SH VERBS"
    for verb in VERBS:
        yield from (".TP", rf"\fBkcm\-{_text(verb)}\fR(1)", _line(summary(verb)))
    yield ".SH EXIT STATUS"
    for code, meaning in _ROW.findall(exit_codes()):
        yield from (".TP", rf"\fB{code}\fR", _line(_LINK.sub(r"\1", meaning).replace("`", "")))


def _verb(verb: str) -> Iterator[str]:
    command = command_of(verb)
    context = typer.Context(command, info_name=f"kcm {verb}")
    first, *further = (" ".join(each.split()) for each in (command.help or "").split("\n\n"))
    yield from (".SH NAME", rf"kcm\-{_text(verb)} \- {_text(first.rstrip('.'))}")
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (".SH SYNOPSIS", rf"\fBkcm {_text(verb)}\fR {_text(usage)}")
    yield ".SH DESCRIPTION"
    for paragraph in (first, *further):
        yield from (".PP", _line(paragraph))
    yield ".SH OPTIONS"
    for parameter in command.get_params(context):
        if record := parameter.get_help_record(context):
            option, text = record
            yield from (".TP", rf"\fB{_text(option)}\fR", _line(text or option))
    yield from (".SH SEE ALSO", r"\fBkcm\fR(1)")


def _line(text: str) -> str:
    r"""Return a line of text that roff takes for no request.

    >>> _line(".so x -- 'y'")
    "\\&.so x \\-\\- 'y'"
    """
    line = _text(" ".join(text.split()))
    return rf"\&{line}" if line.startswith((".", "'")) else line


def _text(text: str) -> str:
    """Return text whose backslashes and hyphens roff prints as they are."""
    return text.replace("\\", r"\e").replace("-", r"\-")
