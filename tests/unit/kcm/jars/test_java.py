"""The command lines of the servers' JVMs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.jars.java import find_java, server_command
from kcm.processes.errors import JavaError
from pipeline.java import Java


def test_no_java_is_an_error_of_the_stack(tmp_path: Path) -> None:
    """So that who starts servers has one kind of error to catch."""
    with pytest.raises(JavaError, match="found none"):
        find_java({"PATH": str(tmp_path)})


def test_a_command_line_has_all_its_parts_in_order() -> None:
    """Heap and properties come before the main class, its arguments after it."""
    command = server_command(
        Java(Path("/j/bin/java"), "17"),
        "a.Main",
        Path("/x.cfg"),
        classpath=[Path("/a.jar"), Path("/b.jar")],
        properties={"k": "v"},
    )
    assert command[:2] == ["/j/bin/java", "-Xmx256m"]
    assert command[-5:] == ["-Dk=v", "-cp", "/a.jar:/b.jar", "a.Main", "/x.cfg"]
