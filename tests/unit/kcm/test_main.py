"""The command line: verbs and their help, unknown verbs, completion, and how little is imported."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kcm.__main__ import VERBS, completed_words, main, summary
from tests.support.commands import complaint
from tools.docs.commands_page import command_of

BY_HAND = (
    *(
        "up",
        "watch",
        "stream",
        "export",
        "config",
        "replay",
        "bundle",
        "backtest",
        "demo",
        "doctor",
        "elect",
    ),
    *("status", "events", "recommend", "what-if"),
)
"""Every verb, listed a second time, so that none is lost unnoticed."""


def test_the_bare_command_shows_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """A user who types `kcm` sees what it can do."""
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {verb} " in shown for verb in BY_HAND)


@pytest.mark.parametrize("verb", BY_HAND)
def test_each_verb_shows_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of a verb shows how it is used."""
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: kcm {verb}" in shown
    assert "Example" in shown


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """`kcm --version` prints one line and succeeds."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("kcm 0.")


def test_an_unknown_option_is_named_with_the_one_that_was_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A mistyped option is reported in one line, with a proposal."""
    line = complaint(capsys, "watch", "--zookeper", "zk:2181")
    assert "--zookeper" in line
    assert "--zookeeper" in line


def test_an_unknown_verb_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped verb is reported in one line."""
    assert "wacth" in complaint(capsys, "wacth")


def test_the_command_line_loads_no_heavy_package() -> None:
    """Options and settings need neither pyspark nor kazoo: the exporter installs without them."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['kazoo', 'pyspark', 'pyarrow'])); "
        "from kcm.__main__ import main; from kcm.cli.parts import *; import_service(EXPORT); "
        "sys.exit(main(['config']))"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


HEAVY = ("structlog", "prometheus_client", "confluent_kafka", "kazoo", "pyspark", "starlette")


IN_BASH = ("bash", "--norc", "-c", '"$0" "$@"; exit $?')
"""Bash as the parent: completion is for the nearest shell among the parents, if there is one."""

_needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")


def run(*words: str, shell: tuple[str, ...] = (), **environment: str) -> str:
    """Run `kcm` as a shell does, or in a shell, and return its output."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("KCM_")}
    ended = subprocess.run(
        [*shell, sys.executable, "-P", "-m", "kcm", *words],
        capture_output=True,
        text=True,
        check=True,
        env={**own, **environment},
    )
    return ended.stdout


def completed(line: str) -> list[str]:
    """Return what bash offers at the end of a line."""
    words = line.split(" ")
    return run(
        _KCM_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1)
    ).split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("kcm ", list(VERBS)),
        ("kcm st", ["status", "stream"]),
        ("kcm recommend --j", ["--json"]),
        ("kcm nonsense", []),
    ],
)
def test_bash_completes_verbs_and_options(line: str, offered: list[str]) -> None:
    """Matching words are offered, and no other."""
    assert completed(line) == offered


def test_zsh_completion_shows_the_description_of_a_verb() -> None:
    """Shells that show descriptions get the first line of the help."""
    reported = run(_KCM_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="kcm stat")
    assert '"status":"Show the state of a cluster' in reported


@_needs_bash
def test_the_printed_completion_script_works_in_bash(tmp_path: Path) -> None:
    """Sourced in a real bash, the script completes through the program itself."""
    script = tmp_path / "completion.sh"
    script.write_text(run("--show-completion", "bash", shell=IN_BASH))
    program = tmp_path / "kcm"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m kcm "$@"\n')
    program.chmod(0o755)
    line = (
        f". {script}; COMP_WORDS=(kcm what); COMP_CWORD=1; _kcm_completion {program}; "
        "echo ${COMPREPLY[@]}"
    )
    ended = subprocess.run(
        ["bash", "--norc", "-c", line],  # noqa: S607  # whichever bash the user has
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "what-if\n"


@_needs_bash
def test_completion_is_installed_for_the_users_shell(tmp_path: Path) -> None:
    """The script is in the user's own folder, and their shell's start file sources it."""
    reported = run("--install-completion", "bash", shell=IN_BASH, HOME=str(tmp_path))
    assert "bash completion installed in" in reported
    (script,) = tmp_path.rglob("kcm.sh")
    assert "_KCM_COMPLETE=complete_bash" in script.read_text()
    assert str(script) in (tmp_path / ".bashrc").read_text()


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_has_the_same_summary_in_the_list_and_in_its_own_help(verb: str) -> None:
    """The line that is read from the source is the first of the verb's own help."""
    assert summary(verb)
    assert command_of(verb).help.splitlines()[0] == summary(verb)


def test_nothing_is_completed_unless_a_shell_asks() -> None:
    """Left-over words in the environment have no effect."""
    assert completed_words({"COMP_WORDS": "kcm status"}) == []
    assert completed_words({"_KCM_COMPLETE": "complete_bash"}) == []


@pytest.mark.parametrize("verb", ["status", "events", "recommend", "what-if"])
def test_a_query_command_loads_no_heavy_package(verb: str) -> None:
    """It must answer at once, so it needs no Kafka client, no logging and no metrics."""
    code = (
        "import sys; from kcm.__main__ import main; "
        f"main(['{verb}', '--exporter', 'http://127.0.0.1:1']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "[]\n"


def test_help_loads_no_verb() -> None:
    """The list of verbs is printed without loading a verb."""
    code = (
        "import sys; from kcm.__main__ import main; main(['--help']); "
        "print(sorted(name for name in sys.modules if name.startswith('kcm.')))"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines()[-1] == ("['kcm.__main__', 'kcm.cli', 'kcm.cli.exits']")
