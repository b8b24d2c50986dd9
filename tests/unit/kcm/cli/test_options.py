"""Options made from settings: each setting is an option, and a bad value is reported by its name."""

from __future__ import annotations

import pytest

from kcm.__main__ import main
from kcm.cli.options import option_name
from kcm.cli.parts import PARTS, Part
from tests.support.commands import complaint

SECRET = "hunter2"  # noqa: S105  # the password that must show nowhere


@pytest.mark.parametrize("part", PARTS)
def test_each_setting_is_an_option_with_its_description(
    part: Part, capsys: pytest.CaptureFixture[str]
) -> None:
    """The help of a part lists all its settings as options, with what they are for."""
    main([part.verb, "--help"])
    words = " ".join(capsys.readouterr().out.split()).replace("- ", "-")
    for name, field in part.settings.model_fields.items():
        assert f" {option_name(name)} " in words
        assert field.description
        assert " ".join(field.description.split()).replace("- ", "-") in words


def test_up_has_the_options_of_all_parts(capsys: pytest.CaptureFixture[str]) -> None:
    """`kcm up` has the options of all parts, each once, and its own option for the folder."""
    main(["up", "--help"])
    shown = capsys.readouterr().out
    names = {name for part in PARTS for name in part.settings.model_fields}
    for option in {option_name(name) for name in names} | {"--data", "--config"}:
        assert shown.count(f"\n  {option} ") == 1


def test_an_option_of_another_part_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    """A part takes only its own options, so that none is ignored silently."""
    assert "--port" in complaint(capsys, "watch", "--port", "1")


def test_an_option_without_its_value_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """An option at the end that lacks its value is one line."""
    assert "--heartbeat-s" in complaint(capsys, "watch", "--heartbeat-s")


@pytest.mark.parametrize("verb", ["watch", "up", "config"])
def test_a_bad_option_is_named_as_an_option(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong with an option's value is reported with its name and the value."""
    line = complaint(capsys, verb, "--heartbeat-s", "often")
    assert line.startswith("option --heartbeat-s: ")
    assert "'often'" in line


def test_a_bad_secret_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    """A property that is not KEY=VALUE is refused without showing it."""
    assert SECRET not in complaint(capsys, "watch", "--kafka-properties", SECRET)
