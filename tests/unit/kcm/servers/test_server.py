"""What servers have in common: the command line of a JVM, and its configuration."""

from __future__ import annotations

from pathlib import Path

from kcm.servers.server import jvm_command


def test_a_command_line_has_all_its_parts_in_order(java: str, tmp_path: Path) -> None:
    """Heap and options come before the main class, the configuration file after it; it is written."""
    config = tmp_path / "x.cfg"
    command = jvm_command(
        "a.Main",
        config,
        {"port": 9, "dir": Path("/d")},
        classpath=[Path("/a.jar"), Path("/b.jar")],
        options=["-Dk=v"],
    )
    assert command[:2] == [java, "-Xmx256m"]
    assert command[-5:] == ["-Dk=v", "-cp", "/a.jar:/b.jar", "a.Main", str(config)]
    assert config.read_text() == "port=9\ndir=/d\n"
