"""The statements of the pages, compared with the program: links, commands, metrics, messages, requests."""

from __future__ import annotations

import re
import urllib.parse
from typing import Any

import pytest
import yaml

from controller_model.metrics.catalogue import CATALOGUE
from exporter.api.openapi import document
from exporter.api.operations import OPERATIONS
from kcm.__main__ import VERBS
from tests.support.api_server import Served
from tests.support.samples import broker_view, cluster_view, topic_view
from tests.unit.tools.pages import Found, anchors, code, commands, links, split
from tools.docs.commands_page import command_of, exit_codes
from tools.docs.http_page import CLUSTER_NAME, HOST
from tools.site import ROOT

PLACEHOLDERS = {"N": "3", "TIME": "1h"}
"""A placeholder in place of a value that an option checks."""
OF_THE_WHOLE = {"--help", "--version", "--install-completion", "--show-completion"}
"""Options that may come before any verb."""
RULES = ROOT / "helm/kafka-controller-monitor/files/rules/kafka-controller-monitor.yaml"
PACKAGES = (
    "controller_model",
    "exporter",
    "kcm",
    "kraft_source",
    "pipeline",
    "source_log",
    "streaming",
    "web",
    "zk_source",
)
_METRIC = re.compile(
    r"\b(?:kafka_(?:cluster|controller|broker)|kcm_(?:cluster|broker|watcher|fold|exporter))"
    r"_[a-z0-9_]*[a-z0-9]\b(?!_|\*|…)"
)
OF_OTHERS = {"kafka_cluster_state", "kafka_controller_monitor"}
"""What looks like a metric: a path of Cruise Control, on the page that compares kcm with other tools; the name of a wheel."""
_LEAST_TELLING = 9
"""The number of characters of a message that suffices to find it."""


@pytest.mark.parametrize("link", links(), ids=str)
def test_the_target_of_a_link_exists(link: Found) -> None:
    """A relative link leads to a file, and to a heading in it; others are complete addresses."""
    address, _, anchor = link.text.partition("#")
    if "://" in address:
        assert address.startswith("https://")
        return
    target = (link.page.parent / urllib.parse.unquote(address)).resolve() if address else link.page
    assert target.exists()
    assert target.is_relative_to(ROOT)
    if anchor:
        assert anchor in anchors(target)


@pytest.mark.parametrize(
    ("found", "arguments"), [*commands("kcm")], ids=lambda each: str(each) if each else ""
)
def test_a_command_is_accepted_by_the_program(found: Found, arguments: list[str]) -> None:
    """The verb exists, and takes these options and values."""
    assert_taken(arguments, found.text)


def assert_taken(arguments: list[str], shown: str) -> None:
    """Check a command against the verb that it names; `kcm VERB` stands for any verb."""
    if not arguments or arguments[0] in {"VERB", "..."} | OF_THE_WHOLE:
        return
    verb, *rest = arguments
    assert verb in VERBS, shown
    command: Any = command_of(verb)
    if rest == ["--help"]:
        return
    values = [PLACEHOLDERS.get(each, each) for each in rest if each != "..."]
    required = any(each.required for each in command.params)
    if required and not any(each.startswith("-") for each in values):
        return  # it only names the verb
    command.make_context(f"kcm {verb}", values)


def test_the_commands_of_alerts_are_accepted_by_the_program() -> None:
    """The commands in the descriptions of alerts are valid."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    answer = [
        line.removeprefix("Command: ")
        for group in groups
        for rule in group["rules"]
        for line in rule.get("annotations", {}).get("description", "").splitlines()
        if line.startswith("Command: ")
    ]
    assert answer
    for line in answer:
        filled = re.sub(r"\{\{.*?\}\}", "3", line).replace("; then ", "; ")
        for words in split(filled):
            if words and words[0] == "kcm":
                assert_taken(words[1:], line)


def test_every_metric_that_is_named_exists() -> None:
    """A metric on a page is one that the reference of metrics lists."""
    reference = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| `(\w+)` \|", reference, re.MULTILINE))
    assert {metric.name for metric in CATALOGUE} <= known
    named = {(found.page.name, name) for found in code() for name in _METRIC.findall(found.text)}
    assert len(named) > len(known)
    assert {(page, name) for page, name in named if name not in known | OF_OTHERS} == set()


def test_every_message_of_the_troubleshooting_table_is_in_the_source() -> None:
    """Each piece of a line in the table is in the source, so a user's message can be found."""
    text = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    table = text.partition("| Line begins | Code | Do |\n")[2].partition("\n\n")[0]
    lines = [row.split(" | ")[0].removeprefix("| ") for row in table.splitlines()[1:]]
    source = re.sub(
        r'"\s*\n\s*f?"',
        "",
        "\n".join(
            path.read_text(encoding="utf-8")
            for package in PACKAGES
            for path in (ROOT / package).rglob("*.py")
        ),
    )
    assert len(lines) > 15
    missing = [
        piece
        for line in lines
        for piece in re.split(r" ?… ?| / |:$", line)
        if len(piece) >= _LEAST_TELLING and piece.strip(" :/") not in source
    ]
    assert missing == []


def test_each_exit_code_is_listed_once() -> None:
    """Each kind of error has its own code, and a meaning."""
    rows = [row.split(" | ") for row in exit_codes().splitlines()[2:]]
    codes = [int(row[0].removeprefix("| ")) for row in rows]
    assert codes == sorted(set(codes))
    assert {0, 1, 2, 3, 4, 5} <= set(codes)
    assert all(len(row[1]) > len(" |") for row in rows)


@pytest.fixture(scope="module")
def served() -> Served:
    """An exporter with a cluster to which the examples apply."""
    served = Served()
    served.write(
        broker_view(0, rack="r0"),
        broker_view(1, rack="r1"),
        broker_view(2, rack="r1"),
        topic_view("t"),
        cluster_view(CLUSTER_NAME, brokers_live=(0, 1, 2), brokers_known=(0, 1, 2)),
    )
    return served


REQUESTS = [
    (found, word.removeprefix(HOST))
    for found, words in commands("curl")
    for word in words
    if word.startswith(HOST)
]


@pytest.mark.parametrize(("found", "path"), REQUESTS, ids=str)
def test_a_request_of_the_pages_is_answered(served: Served, found: Found, path: str) -> None:
    """A request on a page is answered, not refused."""
    answer = served.get(path)
    assert answer.status_code == 200, f"{found}: {answer.text}"


def test_an_example_of_each_operation_gets_the_documented_answer(served: Served) -> None:
    """Every operation has an example, and its answer has the fields that the page lists."""
    made = (found_path for found, found_path in REQUESTS if found.page.name == "http-api.md")
    paths = {path.partition("?")[0]: path for path in made}
    for operation in OPERATIONS:
        path = paths[operation.path.replace("{name}", CLUSTER_NAME)]
        schema = document()["components"]["schemas"][operation.answer]
        if "properties" in schema:
            assert set(served.get(path).json()) == set(schema["properties"])


def test_the_other_paths_of_the_http_page_are_served(served: Served) -> None:
    """Each path outside the API that the page lists has a route, except paths that a setting opens."""
    text = (ROOT / "docs" / "http-api.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `(/[^`]*)` \|", text.partition("## Outside of /api/v1")[2], re.MULTILINE
    )
    assert "/metrics" in rows
    for path in set(rows) - {"/metrics/partitions"}:
        assert served.get(path).status_code == 200, path
