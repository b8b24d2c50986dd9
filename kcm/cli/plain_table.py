"""Tables without rules that show every figure, however narrow the terminal is.

Only host names are ever cut, and the broker's number is in front of the name. Where a
table is too wide, the gaps between columns shrink first, then words wrap, and at last lines exceed the width.
"""

from collections.abc import Collection

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

_PADDINGS = (3, 2, 1)
"""Blanks between two columns: the first of these widths with which the table fits."""
_LEAST_CUT = 10
"""Least width of a column whose text may be cut."""


class PlainTable(Table):
    """A table whose columns are as wide as their contents, or wrap between words."""

    def __init__(
        self, *columns: str, left: Collection[str] = (), cut: Collection[str] = ()
    ) -> None:
        """Take the columns' names; all but the first and those in `left` are right-aligned.

        Texts in the columns `cut` may be cut, with an ellipsis; no other column is cut.
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
        """Add a row; text is taken literally, not as markup."""
        self.add_row(
            *(Text(cell) if isinstance(cell, str) else cell for cell in cells), style=style
        )

    def add_more(self, count: int) -> None:
        """Add a row that counts the rows left out, if there are any."""
        if count > 0:
            self.add("...", f"{count} more")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        texts = [[str(each) for each in (column.header, *column.cells)] for column in self.columns]
        natural = [max(map(cell_len, column)) for column in texts]
        words = [max(map(cell_len, " ".join(column).split()), default=0) for column in texts]
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
    """Return each column's width: its least width, and the rest to the columns that need least more.

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
