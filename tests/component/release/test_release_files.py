"""The files of a release, each read by what its users read it with."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import _jsonnet
import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from dashboards.__main__ import FOLDER
from dashboards.signals.signal import RUNBOOKS
from kcm.__main__ import VERBS
from tests.component.chart.chart import CHART, HELM, NEEDS_HELM, helm
from tests.component.release.conftest import Built
from tools.docs.commands_page import command_of
from tools.release.__main__ import STEPS, main
from tools.site import ROOT, pages

BOARDS = sorted((FOLDER / "dashboards").glob("*.json"))
RULES = FOLDER / "rules" / "kafka-controller-monitor.yaml"


def test_each_step_says_what_it_made_or_why_not(built: Built) -> None:
    """Nothing is left out in silence, and nothing is made that is not told."""
    told = re.findall(r"^(.+?): (?:skipped: (.+)|(\S+), [0-9,]+ bytes)$", built.said, re.MULTILINE)
    assert {step for step, _, _ in told} == set(STEPS)
    reasons = {step: reason for step, reason, _ in told if reason}
    assert reasons.pop("images") == "left out by --without"
    assert reasons.pop("chart's signature") == "no --sign-key is given"
    assert set(reasons) == (set() if HELM else {"chart"})
    assert {file for _, _, file in told if file} == {path.name for path in built.folder.iterdir()}


def test_the_list_of_checksums_covers_every_file(built: Built) -> None:
    """As sha256sum reads it."""
    lines = (built.folder / "SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    present = {path.name: path for path in built.folder.iterdir() if path.name != "SHA256SUMS"}
    assert listed.keys() == present.keys()
    for name, path in present.items():
        assert listed[name] == hashlib.sha256(path.read_bytes()).hexdigest(), name


def test_the_source_distribution_has_what_the_tests_need(built: Built) -> None:
    """And the revision that it was made from, for wheels that are made of it."""
    with tarfile.open(built.one("kafka_controller_monitor-*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pipeline/revision.txt", "tests/conftest.py", "requirements.lock", "Makefile"} <= names


@NEEDS_HELM
def test_the_packed_chart_renders_what_the_folder_renders(built: Built) -> None:
    """The files that .helmignore leaves out are none that a template reads."""
    values = ("--values", str(CHART / "ci" / "all-values.yaml"), "--kube-version", "1.31.0")
    package = helm("template", "rel", str(built.one("*.tgz")), *values)
    folder = helm("template", "rel", str(CHART), *values)
    assert package.returncode == folder.returncode == 0, package.stderr
    assert package.stdout == folder.stdout
    with tarfile.open(built.one("*.tgz")) as archive:
        assert not [name for name in archive.getnames() if "/ci/" in name or "jsonnet" in name]


@NEEDS_HELM
@pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed")
def test_a_signed_chart_is_verified_by_helm(tmp_path: Path) -> None:
    """`helm verify` takes the signature, and refuses a package that was changed since."""
    # The agent's socket is below it, whose path is limited to 108 bytes.
    home = Path(tempfile.mkdtemp(prefix="gpg-", dir="/tmp"))
    gpg = ("gpg", "--homedir", str(home), "--batch", "--quiet", "--yes", "--passphrase", "")
    key = ("--quick-generate-key", "Kafka Controller Monitor", "rsa2048", "sign", "never")
    subprocess.run([*gpg, *key], check=True, capture_output=True, timeout=60)
    rings = {"public": "--export", "secret": "--export-secret-keys"}
    for name, export in rings.items():
        output = ("--output", str(tmp_path / name), export)
        subprocess.run([*gpg, *output], check=True, capture_output=True, timeout=60)
    end = (shutil.which("gpgconf") or "gpgconf", "--homedir", str(home), "--kill", "all")
    subprocess.run(end, check=True, timeout=60)
    shutil.rmtree(home)
    dist = tmp_path / "dist"
    others = [f"--without={step}" for step in STEPS if not step.startswith("chart")]
    signing = ["--sign-key", "Kafka Controller Monitor", "--keyring", str(tmp_path / "secret")]
    assert main(["--output", str(dist), "--unreleased", *signing, *others]) == 0
    (package,) = dist.glob("*.tgz")
    verify = ("verify", "--keyring", str(tmp_path / "public"), str(package))
    assert helm(*verify).returncode == 0
    with package.open("ab") as file:
        file.write(b"\0")
    assert helm(*verify).returncode != 0


@pytest.mark.parametrize("board", BOARDS, ids=lambda path: path.stem)
def test_a_board_asks_for_what_differs_by_installation(
    built: Built, tmp_path: Path, board: Path
) -> None:
    """With the answers in their places, as Grafana's import puts them, it is the shipped board."""
    shared = json.loads((built.unpacked("boards", tmp_path) / board.name).read_text())
    inputs = {each["name"]: each for each in shared.pop("__inputs")}
    assert [inputs[name]["type"] for name in sorted(inputs)] == ["datasource", "constant"]
    answers = {"DS_PROMETHEUS": "my-prometheus", "VAR_RUNBOOKS": "https://kcm.example.com/runbooks"}
    assert inputs.keys() == answers.keys()
    text = json.dumps(shared)
    assert RUNBOOKS not in text
    for name, answer in answers.items():
        assert f"${{{name}}}" in text, name
        text = text.replace(f"${{{name}}}", answer)
    imported = json.loads(text)
    panels = {need["id"] for need in imported.pop("__requires") if need["type"] == "panel"}
    assert panels == {each for each in _panel_kinds(imported["panels"]) if each != "row"}
    assert (imported.pop("id"), imported.pop("__elements")) == (None, {})
    (source,) = [v for v in imported["templating"]["list"] if v["type"] == "datasource"]
    assert source.pop("current") == {"text": "my-prometheus", "value": "my-prometheus"}
    shipped = board.read_text().replace(RUNBOOKS, answers["VAR_RUNBOOKS"])
    assert imported == json.loads(shipped)


def _panel_kinds(panels: list[dict[str, Any]]) -> set[str]:
    below = (_panel_kinds(panel.get("panels", [])) for panel in panels)
    return {panel["type"] for panel in panels}.union(*below)


def test_the_mixin_renders_to_the_shipped_boards_and_rules(built: Built, tmp_path: Path) -> None:
    """Jsonnet renders it, with runbooks where its user says; a mixin of others adds its groups beside ours."""
    folder = built.unpacked("mixin", tmp_path)
    assert json.loads((folder / "jsonnetfile.json").read_text())["version"] == 1
    base = "https://kcm.example.com/runbooks"
    program = f"""
        local m = (import 'mixin.libsonnet') + {{ _config+:: {{ runbookBaseUrl: '{base}' }} }}
          + {{ prometheusAlerts+:: {{ groups+: [{{ name: 'others', rules: [] }}] }} }};
        {{ boards: m.grafanaDashboards, alerts: m.prometheusAlerts, folder: m.grafanaDashboardFolder }}
    """
    rendered = json.loads(_jsonnet.evaluate_snippet(str(folder / "user.jsonnet"), program))
    assert rendered["folder"] == "Kafka"
    assert rendered["boards"].keys() == {f"kcm-{board.name}" for board in BOARDS}
    for board in BOARDS:
        shipped = json.loads(board.read_text().replace(RUNBOOKS, base))
        assert rendered["boards"][f"kcm-{board.name}"] == shipped
    groups = yaml.safe_load(RULES.read_text().replace(RUNBOOKS, base))["groups"]
    assert rendered["alerts"]["groups"] == [*groups, {"name": "others", "rules": []}]


def test_the_bill_of_materials_is_valid_and_holds_what_an_installation_brings(built: Built) -> None:
    """CycloneDX's own schema takes it; packages have the lock's versions, jars their hashes, and nothing is of the developers'."""
    text = built.one("*.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    components = {each["name"]: each for each in document["components"]}
    lock = (ROOT / "requirements.lock").read_text()
    packages = {n for n, c in components.items() if c["purl"].startswith("pkg:pypi/")}
    assert {"kazoo", "pyspark", "uvicorn", "h11"} <= packages
    assert not packages & {"pytest", "mkdocs", "hatchling"}
    for name in packages:
        assert f"\n{name}=={components[name]['version']} " in lock, name
    pinned = (ROOT / "kcm" / "servers" / "ivy.sha256").read_text().split()[::2]
    hashes = {h["content"] for c in document["components"] for h in c.get("hashes", ())}
    assert hashes == set(pinned)
    assert components["spark-sql-kafka-0-10_2.13"]["version"] == "4.2.0"
    needed = {each["ref"]: each.get("dependsOn", []) for each in document["dependencies"]}
    whole = document["metadata"]["component"]["bom-ref"]
    assert components["kazoo"]["bom-ref"] in needed[whole]


@pytest.mark.parametrize("verb", VERBS)
def test_a_man_page_has_every_option_of_its_verb(built: Built, tmp_path: Path, verb: str) -> None:
    """As groff formats it, without a warning."""
    page = built.unpacked("man", tmp_path) / "man1" / f"kcm-{verb}.1"
    groff = shutil.which("groff")
    if groff is None:
        shown = page.read_text().replace("\\-", "-")
    else:
        # -P-c: no colours, -P-b -P-u: no overstrikes.
        formed = (groff, "-man", "-Tascii", "-ww", "-P-cbu", str(page))
        done = subprocess.run(formed, capture_output=True, text=True, check=True, timeout=60)
        assert done.stderr == ""
        shown = done.stdout
    for parameter in command_of(verb).params:
        for option in getattr(parameter, "opts", ()):
            assert option in shown or not option.startswith("-"), option


def test_the_first_man_page_lists_all_verbs(built: Built, tmp_path: Path) -> None:
    """Each by the name of its page, which exists."""
    folder = built.unpacked("man", tmp_path) / "man1"
    listed = re.findall(r"^\\fBkcm\\-(.+)\\fR\(1\)$", (folder / "kcm.1").read_text(), re.MULTILINE)
    assert [name.replace("\\-", "-") for name in listed] == list(VERBS)
    assert {path.name for path in folder.iterdir()} == {
        "kcm.1",
        *(f"kcm-{verb}.1" for verb in VERBS),
    }


class _Loads(HTMLParser):
    """Collects what a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in {"script", "img", "iframe", "source"}:
            self.addresses.append(given.get("src") or "")
        if tag == "link" and given.get("rel") in {"stylesheet", "preload", "preconnect", "icon"}:
            self.addresses.append(given.get("href") or "")


def test_the_site_has_every_page_and_is_searched_without_the_internet(
    built: Built, tmp_path: Path
) -> None:
    """Building it proved all links; its search knows each page's words, and no page loads anything from elsewhere."""
    folder = built.unpacked("docs", tmp_path)
    index = json.loads((folder / "search" / "search_index.json").read_text())["docs"]
    found = {each["location"].partition("#")[0] for each in index}
    for page in pages():
        name = page.relative_to(ROOT).with_suffix(".html").as_posix()
        name = re.sub(r"README\.html$", "index.html", name)
        assert name in found or (name == "index.html" and "" in found), name
        html = (folder / name).read_text()
        loads = _Loads()
        loads.feed(html)
        assert loads.addresses
        assert not [each for each in loads.addresses if "//" in each], name
    hits = [each["location"] for each in index if "KafkaControllerFlapping" in each["title"]]
    assert "docs/runbooks/KafkaControllerFlapping.html" in hits


def test_the_notes_are_those_of_the_changelog(built: Built) -> None:
    """What stands under Unreleased, and no heading of another version."""
    notes = (built.folder / "release-notes.md").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert notes.startswith("- ")
    assert f"## Unreleased\n\n{notes}" in changelog
    assert "## " not in notes
