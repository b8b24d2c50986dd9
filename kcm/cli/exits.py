"""How a command ends: one line on standard error, and an exit code for the kind of trouble.

A user sees no stack trace without asking for one, and a script never has to parse the
output. The codes: 2 bad use, 3 unreachable server, 4 conflict, 5 the machine lacks something, 6 a
check (--check, kcm doctor) failed, 7 nothing was done because nobody confirmed, 8 stopped before
all was done, 9 a check found no harm but did not have all figures that it needs, 10 there is
nothing to elect, 1 a bug.
"""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.runtime import KcmError

UNEXPECTED = 1
BAD_USE = 2
EXIT_CONDITION_FALSE = 6
"""A check failed, or its result cannot be known now."""
NOT_CONFIRMED = 7
"""A command printed what it would do and was not confirmed: `kcm elect` by --confirm, `kcm forget` by an answer."""
STOPPED = 8
"""A command stopped before all was done, and printed what was done and what was not."""
NOT_KNOWN = 9
"""`kcm what-if --check` found no harm by live figures, but min.insync.replicas, or how far controllers are, is not known."""
NOTHING_TO_ELECT = 10
"""`kcm recommend --json` or `--output`: no partition can be elected now; there is no election to run."""
INTERRUPTED = 130
"""The command was ended by Ctrl-C."""
_TRACE_PRINTED = "the trace was printed"


@contextmanager
def traced(*, wanted: bool) -> Iterator[None]:
    """Print the stack trace of an unexpected error if that is wanted, and re-raise the error."""
    try:
        yield
    except (KcmError, KeyboardInterrupt):
        raise
    except Exception as error:
        is_reported = hasattr(error, "format_message") or _TRACE_PRINTED in getattr(
            error, "__notes__", ()
        )
        if wanted and not is_reported:
            traceback.print_exc()
            error.add_note(_TRACE_PRINTED)
        raise


def print_error(error: Exception) -> int:
    """Print what went wrong, and return the exit code."""
    from kcm.cli.text import printable  # noqa: PLC0415  # help loads no more than it needs

    text, code = describe(error)
    lines = text.splitlines() or [type(error).__name__]
    for line in lines:
        # The tail of a log is indented. What a stranger's file or server says must not steer the terminal.
        shown = printable(line.expandtabs())
        sys.stderr.write(f"{shown}\n" if line.startswith(" ") else f"kcm: {shown}\n")
    return code


def describe(error: Exception) -> tuple[str, int]:
    """Return the text and the exit code of an error."""
    if isinstance(error, KcmError):
        return str(error), error.exit_code
    # typer's usage errors: not all versions of typer have a public name for their class
    format_message = getattr(error, "format_message", None)
    if format_message is not None:
        message = " ".join(format_message().split()).rstrip(".")
        return f"{message}; see --help", BAD_USE
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return f"unexpected: {what}; run with KCM_LOG_LEVEL=debug for the trace", UNEXPECTED
