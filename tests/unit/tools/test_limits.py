"""docs/limits.md: each row's test is there, no thread is started elsewhere, nothing is installed without a hash."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from controller_model.sources.zookeeper.znode_kinds import PATHS_REMEMBERED, classify
from tools.docs import limits_page
from tools.docs.limits_page import ROOT, UNSUPERVISED, Limit, limits, thread_rows, threads


@pytest.mark.parametrize("limit", limits(), ids=lambda limit: limit.what)
def test_each_limit_has_a_test(limit: Limit) -> None:
    """It is a function of the file that the row names."""
    file, _, name = limit.test.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_no_thread_is_started_outside_of_the_supervised_ones() -> None:
    """But for those that the page lists with their reasons, each of which starts one still."""
    rows = list(thread_rows())
    assert {where.strip("`") for where, kind, _ in rows if kind == "not supervised"} == set(
        UNSUPERVISED
    )
    assert {"`exporter/serve/main_loop.py`", "`streaming/watchdog.py`"} <= {
        where for where, kind, _ in rows if kind.startswith("supervised")
    }


@pytest.mark.parametrize(
    "start",
    [
        "threading.Thread(target=run).start()",
        "Timer(1, run)",
        "ThreadPoolExecutor(2)",
        "await asyncio.to_thread(run)",
        "loop.run_in_executor(None, run)",
    ],
)
def test_a_thread_that_is_started_elsewhere_is_found(
    start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever starts it; without a reason the page cannot be made, so `make lint` fails."""
    monkeypatch.setattr(limits_page, "PACKAGES", ("web",))
    source = tmp_path / "web" / "new.py"
    source.parent.mkdir()
    source.write_text(f"async def main():\n    {start}\n")
    assert list(threads(source.read_text())) == [""]
    with pytest.raises(KeyError, match=r"web/new\.py"):
        list(thread_rows(tmp_path))


def test_the_packages_are_those_of_the_wheel() -> None:
    """A package that ships and is not looked at could start any thread."""
    (listed,) = re.findall(
        r"^packages = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert sorted(limits_page.PACKAGES) == re.findall(r'"([^"]+)"', listed)


def test_remembered_paths_are_bounded() -> None:
    """A cluster with more znodes has their kinds computed again."""
    assert classify.cache_info().maxsize == PATHS_REMEMBERED


@pytest.mark.parametrize("file", ["Makefile", "docker/Dockerfile"])
def test_nothing_is_installed_without_a_hash(file: str) -> None:
    """But for our own sources and wheel, which bring nothing with them; uv itself is in the lock, too."""
    text = (ROOT / file).read_text().replace("\\\n", " ")
    installs = re.findall(r"\bpip (?:install|sync)\b[^\n&]*", text)
    assert len(installs) >= 3
    for each in installs:
        is_own = "--no-deps" in each and each.rstrip().endswith(("-e .", "/dist/*.whl"))
        assert is_own or re.search(r"--(require|verify)-hashes", each), each
    lock = (ROOT / "requirements.lock").read_text()
    assert re.search(r"^uv==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", lock, re.MULTILINE)
