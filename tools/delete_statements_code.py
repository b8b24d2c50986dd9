"""The statements of a file that can be deleted, and its text without one of them.

The rule: a deleted statement becomes `pass` and the other lines keep their numbers, so a function of the changed
text can take the place of the one that runs. Left out is what no test can or need notice: docstrings, imports,
annotations without a value, names of types that only annotations use, `__all__`, log calls, `pass`, a `return` or `continue` where a body ends anyway, what only the type checker or a shell runs. Definitions
of functions and classes are left out, too: whoever calls them notices.
"""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

_LOG_CALL = re.compile(
    r"(\w+\.)*_?((log(ger)?|get_logger\([^)]*\))\.(debug|info|warning|error|exception|bind)|out(box)?\.warn)\("
)
_NEVER_RUN = re.compile(r"if (TYPE_CHECKING|__name__ == '__main__'):")
_NO_BEHAVIOUR = (
    ast.Import,
    ast.ImportFrom,
    ast.Pass,
    ast.Global,
    ast.Nonlocal,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
)
_LONGEST_TEXT = 120


class Statement(NamedTuple):
    """A statement that can be deleted."""

    path: str
    line: int
    """Its first line."""
    last_line: int
    header: tuple[int, int]
    """The first and the last line of what runs whenever the statement is reached: all of a simple one."""
    column: int
    """In bytes of the first line."""
    within: str
    """The names of the functions and classes around it, with dots; empty at the top of the file."""
    function: tuple[str, int] | None
    """The outermost function around it: qualified name and first line; None outside of functions."""
    text: str
    """Its first words, in one line and in the formatting of `ast.unparse`."""

    @property
    def name(self) -> str:
        """What it is called in explanations: independent of other lines of the file."""
        return f"{self.within}: {self.text}" if self.within else self.text


def statements(path: str, source: str) -> list[Statement]:
    """Return what can be deleted in a file, in its order."""
    tree = ast.parse(source)
    aliases = _names_of_types(tree)
    idle = set(_idle(tree))
    return [
        found
        for found in _below(tree, path, "", None)
        if (found.within or found.text.partition(" = ")[0] not in aliases)
        and (found.line, found.column) not in idle
    ]


def _idle(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield the places of each `return` and `continue` with which a function's or a loop's body ends anyway."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for last in _last(node.body):
                if isinstance(last, ast.Return) and ast.unparse(last) in ("return", "return None"):
                    yield last.lineno, last.col_offset
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
            for last in _last(node.body):
                if isinstance(last, ast.Continue):
                    yield last.lineno, last.col_offset


def _last(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a body after which it has ended."""
    if not body:
        return
    match body[-1]:
        case ast.If(body=then, orelse=otherwise):
            yield from _last(then)
            yield from _last(otherwise)
        case ast.With(body=inner) | ast.AsyncWith(body=inner):
            yield from _last(inner)
        case ast.Match(cases=cases):
            for each in cases:
                yield from _last(each.body)
        case last:
            yield last


def _names_of_types(tree: ast.Module) -> set[str]:
    """Return the names that a file uses in annotations only: aliases for the type checker."""
    annotations = [
        annotation
        for node in ast.walk(tree)
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if annotation is not None
    ]
    of_types = [
        node.id
        for annotation in annotations
        for node in ast.walk(annotation)
        if isinstance(node, ast.Name)
    ]
    used = [
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    ]
    return {name for name in of_types if used.count(name) == of_types.count(name)}


def without(source: str, statement: Statement) -> str:
    r"""Return the text of the file with `pass` in the statement's place.

    >>> source = "def f():\n    a = g(\n        1)\n    return a"
    >>> without(source, statements("", source)[0])
    'def f():\n    pass\n\n    return a'
    """
    lines = source.split("\n")
    first = lines[statement.line - 1].encode()[: statement.column].decode()
    blank = [""] * (statement.last_line - statement.line)
    return "\n".join(
        [*lines[: statement.line - 1], f"{first}pass", *blank, *lines[statement.last_line :]]
    )


def _below(
    node: ast.AST, path: str, within: str, function: tuple[str, int] | None
) -> Iterator[Statement]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{within}.{child.name}" if within else child.name
            first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
            yield from _below(child, path, name, function or (name, first))
        elif isinstance(child, ast.ClassDef):
            name = f"{within}.{child.name}" if within else child.name
            yield from _below(child, path, name, function)
        elif isinstance(child, ast.stmt):
            text = ast.unparse(child)
            if _NEVER_RUN.match(text):
                continue
            if _changes_behaviour(child, text):
                yield _statement(child, path, within, function, text)
            yield from _below(child, path, within, function)
        else:
            yield from _below(child, path, within, function)


def _statement(
    node: ast.stmt, path: str, within: str, function: tuple[str, int] | None, text: str
) -> Statement:
    last = node.end_lineno or node.lineno
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    header_end = max(node.lineno, _first_line(body[0]) - 1) if body else last
    return Statement(
        path=path,
        line=node.lineno,
        last_line=last,
        header=(node.lineno, header_end),
        column=node.col_offset,
        within=within,
        function=function,
        text=text.partition("\n")[0][:_LONGEST_TEXT],
    )


def _first_line(node: ast.AST) -> int:
    if isinstance(node, ast.match_case):
        return node.pattern.lineno
    return int(getattr(node, "lineno", 0))


def _changes_behaviour(node: ast.stmt, text: str) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()):
            return False  # a docstring, or …
        case ast.AnnAssign(value=None):
            return False
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return False
        case ast.Expr() | ast.Assign() if _LOG_CALL.match(text.removeprefix("await ")):
            return False
    return not isinstance(node, _NO_BEHAVIOUR)
