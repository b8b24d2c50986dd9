"""Tables without lines, for the eye, that hide no figure however narrow the terminal is.

The rule: only the name of a host is ever cut, and its broker's number stands before it. Where a
table is too wide, its columns move together, words wrap, and in the end its lines run over.
"""

from collections.abc import Collection

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

_PADDINGS = (3, 2, 1)
"""Columns between two of the table's, the first that leaves room for all."""
_LEAST_CUT = 10
"""Columns that a text which may be cut keeps."""


class PlainTable(Table):
    """A table whose columns are as wide as what stands in them, or wrap at words."""

    def __init__(
        self, *columns: str, left: Collection[str] = (), cut: Collection[str] = ()
    ) -> None:
        """Take the columns' names; all but the first and `left` are set to the right.

        Texts in the columns `cut` may be cut, with an ellipsis; in no other column.
        """
        super().__init__(box=None, pad_edge=False)
        for index, name in enumerate(columns):
            is_left = index == 0 or name in left
            self.add_column(
                Text(name),
                justify="left" if is_left else "right",
                no_wrap=name in cut,
                overflow="ellipsis" if name in cut else "fold",
            )

    def add(self, *cells: str | Text, style: str = "") -> None:
        """Add a row; text is taken as it is, markup is none."""
        self.add_row(
            *(Text(cell) if isinstance(cell, str) else cell for cell in cells), style=style
        )

    def add_more(self, count: int) -> None:
        """Add a row about rows that are left out, if there are any."""
        if count > 0:
            self.add("...", f"{count} more")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        texts = [[str(each) for each in (column.header, *column.cells)] for column in self.columns]
        natural = [max(map(cell_len, column)) for column in texts]
        words = [max(map(_longest_word, column)) for column in texts]
        least = [
            min(word, _LEAST_CUT) if column.no_wrap else word
            for column, word in zip(self.columns, words, strict=True)
        ]
        room, between = options.max_width, len(self.columns) - 1
        padding = next((p for p in _PADDINGS if sum(least) + p * between <= room), _PADDINGS[-1])
        self.padding = (0, padding, 0, 0)
        widths = shared_out(natural, least, room - padding * between)
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width
        needed = sum(widths) + padding * between
        yield from super().__rich_console__(console, options.update(width=max(room, needed)))


def shared_out(natural: list[int], least: list[int], room: int) -> list[int]:
    """Return each column's width: at least what it must have, the rest to who needs least more.

    >>> shared_out([5, 30, 9], [5, 8, 4], 30)
    [5, 16, 9]
    >>> shared_out([5, 30, 9], [5, 8, 4], 0)
    [5, 8, 4]
    """
    widths = list(least)
    left = max(0, room - sum(least))
    for index in sorted(range(len(widths)), key=lambda i: natural[i] - least[i]):
        more = min(left, natural[index] - least[index])
        widths[index] += more
        left -= more
    return widths


def _longest_word(text: str) -> int:
    return max((cell_len(word) for word in text.split()), default=0)
