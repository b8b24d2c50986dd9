"""Format figures for cells of tables: with units, and with as many digits as are significant."""

from __future__ import annotations


def s(seconds: float | None) -> str:
    """Return seconds; None: it did not happen."""
    return "never" if seconds is None else f"{seconds:.3g} s"


def ms(milliseconds: float | None) -> str:
    """Return milliseconds; None: it was not measured."""
    return "-" if milliseconds is None else f"{milliseconds:.0f} ms"


def mib(size: float) -> str:
    """Return a size in MiB."""
    return f"{size:,.0f} MiB"


def number(value: float | None) -> str:
    """Return a number with thousands separated; None: it is not known."""
    return "-" if value is None else f"{value:,}"
