"""Reads rules as people keep them: files of Prometheus, PrometheusRule manifests, several YAML documents.

What cannot be read is named with its kind and its line. Each document becomes a file for promtool in which every
rule stands on the line where it stands in the given file, so that promtool's lines are the user's.
"""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kcm.cli.text import printable, warn
from pipeline.runtime import UsageError

LINE = "line"
"""The field that each rule gets: where it stands in the file."""
_MAX_CHARACTERS = 4 * 1024 * 1024
_MAX_NODES = 500_000
"""Values of a document with each alias expanded: a few lines of aliases can stand for billions."""
_MANIFEST, _LISTS = "PrometheusRule", {"List", "PrometheusRuleList"}
_TEMPLATE_HINT = "a Helm template must be rendered first (helm template)"
_OF_OPERATORS = {"partial_response_strategy"}
"""Fields of a manifest's group that no Prometheus gets (Thanos)."""


class RuleDocument(NamedTuple):
    """The groups of one document."""

    groups: Any
    """As they stand in the file, whatever that is; texts, lists and objects of them."""
    text: str
    """The same as a file of Prometheus."""


def read_documents(path: Path) -> Iterator[RuleDocument]:
    """Yield the documents of a file that hold rules; raises UsageError. Others are named on standard error."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(_MAX_CHARACTERS + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not text") from None
    if len(text) > _MAX_CHARACTERS:
        raise UsageError(f"{path} is longer than {_MAX_CHARACTERS} characters: split it")
    return _Reader(path, text).documents()


class _Reader:
    """Reads one file."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text = path, text
        self._skipped: list[str] = []

    def documents(self) -> Iterator[RuleDocument]:
        is_any = False
        for root in self._roots():
            for holder in self._holders(root):
                is_any = True
                try:
                    yield self._document(holder)
                except (yaml.YAMLError, RecursionError) as error:
                    raise self._wrong(holder, f"it cannot be read: {_problem(error)}") from None
        if self._skipped and not is_any:
            raise UsageError(f"{self._path} has no rule: {self._skipped[0]}")
        for skipped in self._skipped:
            warn(printable(f"{self._path}: {skipped}"))

    def _roots(self) -> list[yaml.Node]:
        try:
            return list(yaml.compose_all(self._text, Loader=yaml.SafeLoader))
        except RecursionError:
            raise UsageError(
                f"{self._path} is not a valid file of rules: nested too deeply"
            ) from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            at = (
                self._text.count("\n", 0, getattr(error, "position", 0))
                if mark is None
                else mark.line
            )
            lines = self._text.splitlines()
            is_template = at < len(lines) and "{{" in lines[at]
            hint = f"; {_TEMPLATE_HINT}" if is_template else ""
            raise UsageError(
                f"{self._path} is not a valid file of rules: line {at + 1} is not YAML: {_problem(error)}{hint}"
            ) from None

    def _wrong(self, node: yaml.Node, why: str) -> UsageError:
        line = node.start_mark.line + 1
        return UsageError(f"{self._path} is not a valid file of rules: line {line}: {why}")

    def _holders(self, node: yaml.Node) -> Iterator[yaml.MappingNode]:
        """Yield the objects in a document that have `groups`."""
        if isinstance(node, yaml.ScalarNode) and not node.value:
            return
        if not isinstance(node, yaml.MappingNode):
            raise self._wrong(node, f"expected groups or a {_MANIFEST}")
        fields = _fields(node)
        kind = getattr(fields.get("kind"), "value", None)
        if kind is None and "groups" in fields:
            yield node
        elif kind == _MANIFEST:
            spec = fields.get("spec")
            name = getattr(_fields(fields.get("metadata")).get("name"), "value", "without a name")
            if not isinstance(spec, yaml.MappingNode) or "groups" not in _fields(spec):
                raise self._wrong(node, f"{_MANIFEST} {name} has no spec.groups")
            line = node.start_mark.line + 1
            warn(printable(f"{self._path}: line {line}: reading the rules of {_MANIFEST} {name}"))
            yield spec
        elif kind in _LISTS and isinstance(items := fields.get("items"), yaml.SequenceNode):
            for item in items.value:
                yield from self._holders(item)
        elif kind is None:
            raise self._wrong(node, f"it has neither groups nor the kind {_MANIFEST}")
        else:
            line = node.start_mark.line + 1
            self._skipped.append(f"line {line}: a {kind} is skipped: it is no {_MANIFEST}")

    def _document(self, holder: yaml.MappingNode) -> RuleDocument:
        groups = self._plain(_fields(holder)["groups"])
        text = self._aligned(holder)
        for group in groups if isinstance(groups, list) else ():
            if isinstance(group, dict) and not _OF_OPERATORS.isdisjoint(group):
                for name in _OF_OPERATORS:
                    group.pop(name, None)
                text = None
        if text is None:
            text = json.dumps({"groups": _without_lines(groups)})
        return RuleDocument(groups, text)

    def _aligned(self, holder: yaml.MappingNode) -> str | None:
        """Return the groups as they are written, on their lines; None if that is another document."""
        key, value = next(each for each in holder.value if each[0].value == "groups")
        first, *rest = self._text[key.start_mark.index : value.end_mark.index].split("\n")
        indent = key.start_mark.column
        rest = [line[indent:] if line[:indent].isspace() else line for line in rest]
        text = "\n" * key.start_mark.line + "\n".join((first, *rest)) + "\n"
        try:
            same = self._plain(yaml.compose(text, Loader=yaml.SafeLoader))
        except yaml.YAMLError:  # an alias of what stands elsewhere
            return None
        return text if same == {"groups": self._plain(value)} else None

    def _plain(self, node: yaml.Node | None) -> Any:
        """Return a value with texts as they are written; an object lacks fields that are null, and has its line."""
        left = itertools.count(_MAX_NODES, -1)
        merging = yaml.SafeLoader("")

        def plain(node: yaml.Node | None) -> Any:
            if node is None:
                return None
            if not next(left):
                raise self._wrong(node, f"with its aliases it has more than {_MAX_NODES} values")
            if isinstance(node, yaml.SequenceNode):
                return [plain(each) for each in node.value]
            if not isinstance(node, yaml.MappingNode):
                return node.value
            merging.flatten_mapping(node)
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise self._wrong(key, f"a name is expected; {_TEMPLATE_HINT}")
            found = {
                str(key.value): plain(value)
                for key, value in node.value
                if value.tag != "tag:yaml.org,2002:null"
            }
            if "expr" in found:
                found[LINE] = node.start_mark.line + 1
            return found

        return plain(node)


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def _without_lines(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_lines(each) for each in value]
    if isinstance(value, dict):
        return {name: _without_lines(each) for name, each in value.items() if name != LINE}
    return value


def _problem(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return " ".join(str(text).split())
