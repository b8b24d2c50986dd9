"""A YAML configuration file gives its content, or an error of one line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pipeline.runtime import UsageError
from pipeline.yaml_file import read_yaml
from tests.support.hostile import DEEP


class _Config(msgspec.Struct, forbid_unknown_fields=True):
    user: str = "nobody"


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    """Every field then has its default."""
    path = tmp_path / "empty"
    path.touch()
    assert read_yaml(path, _Config, "here") == _Config()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("user: [secret", "here is not YAML"),
        ("users: a", "here: Object contains unknown field `users`"),
        ("user: 7", "here: Expected `str`, got `int` - at `$.user`"),
        ("[" * DEEP, "here"),
    ],
)
def test_a_bad_file_is_refused_in_one_line_without_its_content(
    tmp_path: Path, text: str, expected: str
) -> None:
    """Its content may be a password."""
    path = tmp_path / "bad"
    path.write_text(text)
    with pytest.raises(UsageError) as found:
        read_yaml(path, _Config, "here")
    assert str(found.value).startswith(expected)
    assert "secret" not in str(found.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """With the system's own reason."""
    with pytest.raises(UsageError, match="here: No such file"):
        read_yaml(tmp_path / "none", _Config, "here")
