"""The client of the watched cluster: no value from its properties file is ever printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.elect.admin import Elections, read_properties
from pipeline.runtime import UsageError

SECRET = "hunter2"  # noqa: S105  # the password that must show nowhere


@pytest.mark.parametrize(
    "line", [f"sasl.password: {SECRET}=", f"{SECRET}=", f"{SECRET}", f"sasl.password {SECRET}=x"]
)
def test_a_mistyped_line_with_a_secret_is_not_repeated(line: str, tmp_path: Path) -> None:
    """It is reported by its number."""
    path = tmp_path / "client.properties"
    path.write_text(f"# ours\n{line}\n")
    with pytest.raises(UsageError, match="line 2 of ") as caught:
        read_properties(path)
    assert SECRET not in str(caught.value)


def test_a_value_that_the_library_refuses_is_not_repeated(tmp_path: Path) -> None:
    """The error names the property; the value may be a secret in the wrong line."""
    path = tmp_path / "client.properties"
    path.write_text(f"security.protocol={SECRET}\n")
    with pytest.raises(UsageError, match=r"security\.protocol") as caught:
        Elections("k:1", path, within_s=1.0)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["bootstrap.servers", "metadata.broker.list"])
def test_brokers_are_named_by_the_option_alone(name: str, tmp_path: Path) -> None:
    """The cluster that was checked must be the one on which elections run."""
    path = tmp_path / "client.properties"
    path.write_text(f"{name}=other:9092\n")
    with pytest.raises(UsageError, match="give --bootstrap-servers instead"):
        read_properties(path)
