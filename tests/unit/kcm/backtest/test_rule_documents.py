"""Rules as people keep them: manifests, several documents, and what cannot be read, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.backtest import rule_documents
from kcm.backtest.rule_documents import RuleDocument, read_documents
from pipeline.runtime import UsageError

MANIFEST = """\
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: kafka-alerts}
spec:
  groups:
    - name: kafka
      interval: 30s
      rules:
        - alert: A
          expr: |
            up ==
              0
          for: 5m
          labels: {severity: critical}
"""
PLAIN = """\
groups:
- name: b
  rules:
  - {record: "a:b", expr: 1}
  - alert: B
    expr: a:b
    labels:
"""
SERVICE = "kind: Service\nmetadata: {name: kafka}\n"


def read(tmp_path: Path, text: str) -> list[RuleDocument]:
    """Read a file with this text."""
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    return list(read_documents(path))


def complaint(tmp_path: Path, text: str) -> str:
    """Return why a file cannot be read, without its name."""
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text)
    why = str(refused.value)
    assert "\n" not in why
    return why.removeprefix(f"{tmp_path / 'rules.yaml'} ")


def test_a_manifest_is_a_file_of_rules_on_the_same_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Promtool's lines are those of the manifest, which is named."""
    (document,) = read(tmp_path, MANIFEST)
    assert document.groups == [
        {
            "name": "kafka",
            "interval": "30s",
            "rules": [
                {
                    "alert": "A",
                    "expr": "up ==\n  0\n",
                    "for": "5m",
                    "labels": {"severity": "critical"},
                    "line": 9,
                }
            ],
        }
    ]
    lines = document.text.splitlines()
    assert lines[4] == "groups:"
    assert lines[12].split() == MANIFEST.splitlines()[12].split()
    assert yaml.safe_load(document.text) == {"groups": yaml.safe_load(MANIFEST)["spec"]["groups"]}
    assert "line 1: reading the rules of PrometheusRule kafka-alerts" in capsys.readouterr().err


def test_all_documents_of_a_file_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other kinds are skipped with kind and line; a field that is null is absent."""
    text = f"---\n{SERVICE}---\n{MANIFEST}---\n---\n{PLAIN}"
    first, second = read(tmp_path, text)
    assert first.groups[0]["rules"][0]["line"] == 13
    assert second.groups[0]["rules"] == [
        {"record": "a:b", "expr": "1", "line": 24},
        {"alert": "B", "expr": "a:b", "line": 25},
    ]
    assert "line 2: a Service is skipped: it is no PrometheusRule" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["List", "PrometheusRuleList"])
def test_a_list_holds_manifests(kind: str, tmp_path: Path) -> None:
    """As `kubectl get prometheusrules -o yaml` prints it."""
    items = "".join(f"  {line}\n" for line in MANIFEST.splitlines())
    (document,) = read(tmp_path, f"kind: {kind}\nitems:\n- " + items.lstrip())
    assert document.groups[0]["rules"][0]["line"] == 11


@pytest.mark.parametrize(
    "text",
    [
        "x: &rules\n- {alert: A, expr: up}\ngroups:\n- {name: a, rules: *rules}\n",
        "groups:\n- name: a\n  rules:\n  - &a {alert: A, expr: up}\n  - {<<: *a, for: 5m}\n",
        MANIFEST.replace("interval: 30s", "partial_response_strategy: warn"),
        '{"kind": "PrometheusRule", "spec": {"groups": [{"name": "a",\n"rules": []}]}}',
    ],
)
def test_what_promtool_checks_is_what_is_evaluated(text: str, tmp_path: Path) -> None:
    """Also where aliases or fields of operators make another text of it."""
    (document,) = read(tmp_path, text)
    checked = yaml.safe_load(document.text)
    assert len(checked["groups"]) == len(document.groups)
    for theirs, ours in zip(checked["groups"], document.groups, strict=True):
        assert [each["alert"] for each in theirs["rules"]] == [
            each["alert"] for each in ours["rules"]
        ]
        assert set(theirs) == set(ours)
        assert "partial_response_strategy" not in theirs


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
REFUSED = (
    (SERVICE, "has no rule: line 1: a Service is skipped: it is no PrometheusRule"),
    ("---\nkind: PrometheusRule\nmetadata: {name: a}\n", "line 2: PrometheusRule a has no spec"),
    ("kind: PrometheusRule\nspec: {}\n", "PrometheusRule without a name has no spec.groups"),
    ("\n- a\n", "line 2: expected groups or a PrometheusRule"),
    ("\n\nrules: []\n", "line 3: it has neither groups nor the kind PrometheusRule"),
    (f"{PLAIN}---\ntext\n", "line 9: expected groups or a PrometheusRule"),
    ("groups:\n- name: {{ .Values.name }}\n", "a Helm template must be rendered first"),
    ("groups:\n- name: [\n", "line 3 is not YAML: "),
    ("groups:\n  \x1b[2J\n", "line 2 is not YAML: special characters are not allowed"),
    ("groups: &a [*a]\n", "it cannot be read: nested too deeply"),
    ("groups: " + "[" * 5_000, "nested too deeply"),
    (f"{BOMB}groups: *i\n", "with its aliases it has more than 500000 values"),
    ("groups: *none\n", "line 1 is not YAML: found undefined alias"),
    ("groups:\n- {<<: 3}\n", "it cannot be read: expected a mapping"),
)


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_what_cannot_be_read_is_named_in_one_line(text: str, why: str, tmp_path: Path) -> None:
    """With its kind and its line; nothing is expanded before it is counted."""
    assert why in complaint(tmp_path, text)


def test_a_file_that_is_no_text_or_has_no_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more than a bound of it is read."""
    monkeypatch.setattr(rule_documents, "_MAX_CHARACTERS", 100)
    assert "is longer than 100 characters" in complaint(tmp_path, "#" * 101)
    path = tmp_path / "rules.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not text"):
        read_documents(path)
    with pytest.raises(UsageError, match="Is a directory"):
        read_documents(tmp_path)


PIECES = st.sampled_from(
    (
        *(
            "groups:",
            "- name: a\n",
            "kind: PrometheusRule\n",
            "---\n",
            "  ",
            "&a ",
            "*a",
            "<<: *a\n",
        ),
        *("- ", "[", "]", "{", "}", ": ", "'", '"', "|\n", "expr: up\n", "spec:\n", "rules:\n"),
        *("? ", "\n", "%", "{{ x }}", "!!binary ", "!!bool x", "items:\n", "kind: List\n"),
    )
)


def test_no_text_is_an_unexpected_error(tmp_path: Path) -> None:
    """Whatever a stranger's file holds, it is read or refused in one line."""
    path = tmp_path / "rules.yaml"
    lines: list[str] = []

    @settings(max_examples=400, deadline=None, database=None)
    @given(st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=80))
    def check(text: str) -> None:
        path.write_bytes(text.encode(errors="surrogateescape"))
        try:
            list(read_documents(path))
        except UsageError as refused:
            lines.append(str(refused))

    check()
    assert {len(line.splitlines()) for line in lines} == {1}
