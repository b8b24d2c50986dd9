"""`kcm elect`: what is a surprise, what a plan says, and what of a file is never repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller_model.kafka.ids import TopicPartition
from kcm.elect.admin import Elections, read_properties
from kcm.elect.elect import Plan, plan_lines
from kcm.elect.watch import ClusterSample, surprise
from pipeline.runtime import UsageError

CALM = ClusterSample(
    status="live",
    controller=1,
    epoch=7,
    registrations={1: "40", 2: "41"},
    offline=1,
    offline_named=frozenset({TopicPartition("t", 0)}),
    under_min_isr=2,
    imbalance=5,
)
SECRET = "hunter2"  # noqa: S105  # the password that must show nowhere


@pytest.mark.parametrize(
    "change",
    [
        {"imbalance": 0},
        {"registrations": {1: "40", 2: "41", 3: "9"}},
        {"offline": 0, "offline_named": frozenset()},
        {"under_min_isr": 0},
    ],
)
def test_what_gets_better_is_no_surprise(change: dict[str, Any]) -> None:
    """A broker that comes, a partition that is back."""
    assert surprise(CALM, CALM._replace(**change)) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"under_min_isr": 400}, "under min.insync.replicas: 400 are, 2 were"),
        ({"registrations": {1: "40", 2: "99"}}, "broker 2 was gone and is back"),
        ({"registrations": {1: "98", 2: "99"}}, "brokers 1, 2 were gone and are back"),
        ({"offline_named": frozenset({TopicPartition("u", 3)})}, "others came back: u-3"),
        ({"offline": 2}, "partitions went offline: 2 are, 1 were"),
    ],
)
def test_what_elections_do_not_do_is_a_surprise(change: dict[str, Any], told: str) -> None:
    """A restart between two looks and a partition that takes another's place included."""
    assert told in str(surprise(CALM, CALM._replace(**change)))


@pytest.mark.parametrize(
    ("broker", "after", "told"),
    [
        (None, 3, "imbalance   5, then 3"),
        (3, 3, "imbalance   5 of broker 3, then 3"),
        (None, None, "imbalance   5"),
    ],
)
def test_a_plan_says_whose_imbalance_it_tells(
    broker: int | None, after: int | None, told: str
) -> None:
    """And what will be left of it, where that is known."""
    plan = Plan([TopicPartition("t", 0)], [], broker, 5, after)
    assert plan_lines(plan, 1)[-1] == told


@pytest.mark.parametrize(
    "line", [f"sasl.password: {SECRET}=", f"{SECRET}=", f"{SECRET}", f"sasl.password {SECRET}=x"]
)
def test_a_mistyped_line_with_a_secret_is_not_repeated(line: str, tmp_path: Path) -> None:
    """It is told by its number."""
    path = tmp_path / "client.properties"
    path.write_text(f"# ours\n{line}\n")
    with pytest.raises(UsageError, match="line 2 of ") as caught:
        read_properties(path)
    assert SECRET not in str(caught.value)


def test_a_value_that_the_library_refuses_is_not_repeated(tmp_path: Path) -> None:
    """It names the property; the value may be a secret in the wrong line."""
    path = tmp_path / "client.properties"
    path.write_text(f"security.protocol={SECRET}\n")
    with pytest.raises(UsageError, match=r"security\.protocol") as caught:
        Elections("k:1", path, within_s=1.0)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["bootstrap.servers", "metadata.broker.list"])
def test_brokers_are_named_by_the_option_alone(name: str, tmp_path: Path) -> None:
    """What is checked to be the watched cluster must be what is elected on."""
    path = tmp_path / "client.properties"
    path.write_text(f"{name}=other:9092\n")
    with pytest.raises(UsageError, match="give --bootstrap-servers instead"):
        read_properties(path)
