"""The client of the watched cluster: its answers, and that no value from its properties file is ever printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller_model.kafka.ids import TopicPartition
from kcm.elect.admin import Elections, read_properties
from pipeline.runtime import UsageError
from tests.support.elections import Cluster, ElectingAdmin

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
    # a shorter secret is a part of it, and other values are parts of words that must stay readable
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.username={SECRET[:-1]}\nsasl.mechanism={SECRET}\n"
        "client.id=SL\nclient.rack=mechanism\n"
    )
    with pytest.raises(UsageError) as caught:
        Elections("k:1", path, within_s=1.0)
    assert str(caught.value) == (
        "option --command-config: Failed to create admin client: Unsupported SASL mechanism: ..."
    )


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    """Whether it is missing, or is not text, such as a key store."""
    path = tmp_path / "client.properties"
    with pytest.raises(UsageError, match="No such file or directory"):
        read_properties(path)
    path.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(UsageError, match=f"cannot read {path}: it is not text"):
        read_properties(path)


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_partition_has_kafkas_name_of_its_error(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, is_wrapped: bool
) -> None:
    """Some releases of the library wrap an error; an error of the library's own has its text."""
    ElectingAdmin(cluster, monkeypatch, is_wrapped=is_wrapped)
    cluster.leaders[1] = 1
    cluster.refuses = {2: "PREFERRED_LEADER_NOT_AVAILABLE", 3: "_TIMED_OUT"}
    kafka = Elections("k:1", None, within_s=1.0)
    answer = kafka.elect([TopicPartition("t", number) for number in range(4)])
    assert answer == {
        TopicPartition("t", 0): None,
        TopicPartition("t", 1): "ELECTION_NOT_NEEDED",
        TopicPartition("t", 2): "PREFERRED_LEADER_NOT_AVAILABLE",
        TopicPartition("t", 3): "Local: Timed out",
    }


@pytest.mark.parametrize("name", ["bootstrap.servers", "metadata.broker.list"])
def test_brokers_are_named_by_the_option_alone(name: str, tmp_path: Path) -> None:
    """The cluster that was checked must be the one on which elections run."""
    path = tmp_path / "client.properties"
    path.write_text(f"{name}=other:9092\n")
    with pytest.raises(UsageError, match="give --bootstrap-servers instead"):
        read_properties(path)
