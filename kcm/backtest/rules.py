"""Read a file of Prometheus's rules, and which metrics and durations each expression names.

Promtool decides whether a file is valid. Of an expression, only the names of metrics and
the durations are read here: they give which rule needs what another one records, and how far it
looks back.
"""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from kcm.servers.prometheus import program_of_prometheus
from pipeline.durations import DURATION, duration_ms
from pipeline.runtime import UsageError
from pipeline.yaml_file import read_yaml


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule, as Prometheus reads it (rulefmt.Rule)."""

    expr: str | int | float
    alert: str = ""
    record: str = ""
    hold: str | int = msgspec.field(default="0s", name="for")
    keep_firing_for: str | int = "0s"
    labels: dict[str, Any] = {}
    annotations: dict[str, Any] = {}

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
    try:
        path.open("rb").close()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    command = [promtool, "check", "rules", "--lint=none", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        printed = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        wrong = [line for line in printed if line and not line.startswith(("Checking ", "FAILED"))]
        raise UsageError(
            f"{path} is not a valid file of rules: {wrong[0] if wrong else 'promtool check rules failed'}"
        )
    rules = read_yaml(path, RuleFile, str(path))
    if not rules.rules:
        raise UsageError(f"{path} has no rule")
    return rules


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
