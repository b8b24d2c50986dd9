"""Read a file of Prometheus's rules, and which metrics and durations each expression names.

Promtool decides whether a file is valid. Of an expression, only the names of metrics and
the durations are read here: they give which rule needs what another one records, and how far it
looks back.
"""

import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from controller_model.records.decoding import DECODING_ERRORS
from kcm.backtest.rule_documents import read_documents
from kcm.servers.prometheus import program_of_prometheus
from pipeline.durations import DURATION, duration_ms
from pipeline.runtime import UsageError


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule, as Prometheus reads it (rulefmt.Rule)."""

    expr: str | int | float
    alert: str = ""
    record: str = ""
    hold: str | int = msgspec.field(default="0s", name="for")
    keep_firing_for: str | int = "0s"
    labels: dict[str, Any] = {}
    annotations: dict[str, Any] = {}
    line: int = 0
    """Where it stands in its file; 0: not known."""

    @property
    def name(self) -> str:
        """The name of the alert, or of the recorded series."""
        return self.alert or self.record

    @property
    def query(self) -> str:
        """The expression as text, also where the file holds a number."""
        return str(self.expr)

    @property
    def reach_ms(self) -> int:
        """How far back it can look at most: the sum of all its durations, `for` and `keep_firing_for`."""
        durations = _DURATION_IN.findall(_STRING.sub("", self.query))
        texts = [*durations, str(self.hold), str(self.keep_firing_for)]
        return sum(map(duration_ms, texts))


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that are evaluated together (rulefmt.RuleGroup)."""

    name: str
    interval: str | int = ""
    rules: list[Rule] = []


class RuleFile(msgspec.Struct, frozen=True, kw_only=True):
    """All groups of a file."""

    groups: list[Group] = []

    @property
    def rules(self) -> list[Rule]:
        """The rules of all groups, in file order."""
        return [rule for group in self.groups for rule in group.rules]

    @property
    def reach_ms(self) -> int:
        """How far back the file can look: a rule on recorded series looks back as far as both together."""
        recorded = sum(rule.reach_ms for rule in self.rules if rule.record)
        return recorded + max((rule.reach_ms for rule in self.rules if rule.alert), default=0)


def read_rules(path: Path) -> RuleFile:
    """Return the rules of a file that promtool accepts; raises UsageError, EnvironmentProblemError."""
    promtool = program_of_prometheus("promtool")
    groups: list[Group] = []
    for document in read_documents(path):
        _check(promtool, path, document.text)
        try:
            groups += msgspec.convert(document.groups, list[Group], strict=False)
        except DECODING_ERRORS as error:
            raise UsageError(f"{path} is not a valid file of rules: {error}") from None
    rules = RuleFile(groups=groups)
    if not rules.rules:
        raise UsageError(f"{path} has no rule")
    return rules


def _check(promtool: str, path: Path, text: str) -> None:
    """Raise UsageError with promtool's reason, if it has one."""
    with tempfile.TemporaryDirectory(prefix="kcm-rules-") as folder:
        checked = Path(folder) / "rules.yaml"
        checked.write_text(text, encoding="utf-8")
        command = [promtool, "check", "rules", "--lint=none", str(checked)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        printed = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        said = [line for line in printed if line and not line.startswith(("Checking ", "FAILED"))]
        # What belongs together: a line that ends in a colon, and the next one.
        count = 2 if said and said[0].endswith(":") else 1
        why = " ".join(said[:count]).replace(f"{checked}: ", "")
        raise UsageError(
            f"{path} is not a valid file of rules: {why or 'promtool check rules failed'}"
        )


_DURATION_IN = re.compile(rf"(?<![\w.]){DURATION}(?!\w)")


_OPERATORS = ("and", "or", "unless", "bool", "offset", "atan2", "inf", "nan")
_GROUPINGS = ("by", "without", "on", "ignoring", "group_left", "group_right")
_WORDS = frozenset((*_OPERATORS, *_GROUPINGS))
_STRING = re.compile(r'"(?:\\.|[^"\\])*"|' + r"'(?:\\.|[^'\\])*'|`[^`]*`")
_COMMENT = re.compile(r"#[^\n]*")
_MATCHERS = re.compile(r"\{([^{}]*)\}")
_LABEL_LIST = re.compile(rf"\b(?:{'|'.join(_GROUPINGS)})\s*\([^()]*\)", re.IGNORECASE)
_RANGE = re.compile(r"\[[^\[\]]*\]")
_NAME = re.compile(r"(?<![\w:.])[a-zA-Z_:][\w:]*(?!\s*\()(?![\w:])")
_NAMED = re.compile(r"\b__name__\s*=\s*@(\d+)@")


def metric_names(query: str) -> set[str]:
    """Return the metrics that an expression selects by name, without those selected by a pattern.

    >>> sorted(metric_names('sum by (a) (rate(m_total{b="c"}[5m])) / on (a) n offset 1h > bool 2'))
    ['m_total', 'n']
    >>> metric_names('{__name__="a:b", c="d"} # e')
    {'a:b'}
    """
    strings: list[str] = []

    def taken(match: re.Match[str]) -> str:
        strings.append(match.group()[1:-1])
        return f"@{len(strings) - 1}@"

    text = _COMMENT.sub("", _STRING.sub(taken, query))
    named = {
        strings[int(index)]
        for matchers in _MATCHERS.findall(text)
        for index in _NAMED.findall(matchers)
    }
    bare = _RANGE.sub(" ", _LABEL_LIST.sub(" ", _MATCHERS.sub(" ", text)))
    return named | {name for name in _NAME.findall(bare) if name.lower() not in _WORDS}


_SELECTOR = re.compile(r"(?<![\w:.@])(?:([a-zA-Z_:][\w:]*)(?!\s*\()(?![\w:])\s*)?(\{[^{}]*\})?")
_SUFFICES_EMPTY = re.compile(r"\b(?:or|unless|absent|absent_over_time|scalar)\b", re.IGNORECASE)
"""Words of an expression that may have a result although a selector in it has none."""


def needed_selectors(query: str) -> list[str]:
    """Return the selectors of an expression without whose series it has no result; none if that is not certain.

    >>> needed_selectors('sum by (a) (rate(m_total{b="c"}[5m])) / on (a) n offset 1h > bool 2')
    ['m_total{b="c"}', 'n']
    >>> needed_selectors('a or b'), needed_selectors('absent(m{a="or"})')
    ([], [])
    """
    strings: list[str] = []

    def taken(match: re.Match[str]) -> str:
        strings.append(match.group())
        return f"@{len(strings) - 1}@"

    text = _COMMENT.sub("", _STRING.sub(taken, query))
    if _SUFFICES_EMPTY.search(text):
        return []
    bare = _RANGE.sub(" ", _LABEL_LIST.sub(" ", text))
    selectors = (
        f"{name}{matchers}"
        for name, matchers in _SELECTOR.findall(bare)
        if (name or matchers) and name.lower() not in _WORDS
    )
    return [re.sub(r"@(\d+)@", lambda at: strings[int(at[1])], each) for each in selectors]


_TEMPLATE = re.compile(r"\{\{-?\s*(?:(?:\$|\.)(?i:labels)\.(\w+)|(?:\$|\.)(?i:value))\s*-?\}\}")


def expanded(text: str, labels: Mapping[str, str], value: str) -> str:
    """Return a label's text with `$labels.NAME` and `$value` filled in, as Prometheus's templates do.

    Other templates stay as they are written.

    >>> expanded("b{{ $labels.broker }} {{$value}}", {"broker": "1"}, "7")
    'b1 7'
    """

    def put(match: re.Match[str]) -> str:
        name = match.group(1)
        return value if name is None else labels.get(name, "")

    return _TEMPLATE.sub(put, text)
