"""Steps are read from the words and files that operators have, or refused in one line."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.operations import (
    DeleteController,
    DeleteTopic,
    ElectPreferred,
    KillBroker,
    Reassign,
    StartBroker,
    StopBroker,
)
from rehearsal.steps import (
    RollingRestart,
    Step,
    StepError,
    StepKind,
    operations_of,
    read_step,
    step_text,
)

T0 = TopicPartition("t", 0)
TARGETS = (
    'reassign:{"version":1,"partitions":'
    '[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
)


def _moved(fields: str, version: str = "1") -> str:
    """Return the step of a plan with one partition."""
    return f'reassign:{{"version":{version},"partitions":[{{"topic":"t","partition":0,{fields}}}]}}'


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("stop-broker:3", StopBroker(3)),
        ("kill-broker:0", KillBroker(0)),
        ("start-broker:2147483647", StartBroker(2147483647)),
        ("rolling-restart", RollingRestart()),
        ("rolling-restart:2,1", RollingRestart((2, 1))),
        ("delete-controller", DeleteController()),
        ("delete-topic:a:b", DeleteTopic("a:b")),
        ("preferred-election", ElectPreferred()),
        ('preferred-election:{"partitions":[{"topic":"t","partition":0}]}', ElectPreferred((T0,))),
        (TARGETS, Reassign(((T0, (1, 2)),))),
        (_moved('"replicas":[2,1]'), Reassign(((T0, (2, 1)),))),
        (TARGETS.replace('"version":1,', ""), Reassign(((T0, (1, 2)),))),
    ],
)
def test_a_step_is_read(text: str, step: Step) -> None:
    """Each kind, with its argument; files are those of Kafka's tools."""
    assert read_step(text) == step


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("explode:3", "unknown step 'explode'; the steps are stop-broker, kill-broker"),
        ("stop-broker", "stop-broker: '' is not a broker id"),
        ("kill-broker:-1", "kill-broker: '-1' is not a broker id"),
        ("start-broker:2147483648", "is not a broker id"),
        ("start-broker:" + "9" * 5000, "is not a broker id"),
        ("rolling-restart:1,,2", "rolling-restart: '' is not a broker id"),
        ("rolling-restart:1,1", "a broker is listed twice in '1,1'"),
        ("delete-controller:1", "it takes no argument, but got '1'"),
        ("delete-topic:", "the topic is missing"),
        ("reassign:[]", "not the JSON of kafka-reassign-partitions"),
        ('reassign:{"partitions":[]}', "no partition is listed"),
        (
            'reassign:{"partitions":[{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}]}',
            "a partition is listed twice",
        ),
        (_moved('"replicas":[]'), "t-0 has no replica"),
        (_moved('"replicas":[1,0,1]'), "t-0 lists a broker twice in its replicas [1, 0, 1]"),
        (_moved('"replicas":[1,0],"log_dirs":["any"]'), "t-0 has 2 replicas and 1 log dir;"),
        (_moved('"replicas":[1],"log_dirs":["any","/a"]'), "t-0 has 1 replica and 2 log dirs;"),
        (_moved('"replicas":[1],"log_dirs":null'), "Expected `array`, got `null`"),
        (_moved('"replicas":[1],"log_dirs":[1]'), "Expected `str`, got `int`"),
        (_moved('"replicas":[2147483648]'), "Expected `int` <= 2147483647"),
        (_moved('"replicas":["1"]'), "Expected `int`, got `str`"),
        (_moved('"replicas":[1]', version="2"), "the tool reads version 1, not 2"),
        (_moved('"replicas":[1]', version='"1"'), "Expected `int`, got `str`"),
        (
            'preferred-election:{"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":0}]}',
            "kafka-leader-election would refuse it: a partition is listed twice",
        ),
        ("preferred-election:x", "not the JSON of kafka-leader-election"),
        ('preferred-election:{"partitions":[]}', "no partition is listed"),
    ],
)
def test_a_text_that_is_not_a_step_is_refused(text: str, why: str) -> None:
    """The message names the reason."""
    with pytest.raises(StepError, match=r".") as refused:
        read_step(text)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (RollingRestart((2, 1)), "rolling-restart:2,1"),
        (RollingRestart(), "rolling-restart"),
        (Reassign(((T0, (1, 2)),)), "reassign of 1 partition(s)"),
        (ElectPreferred(), "preferred-election"),
        (DeleteTopic("t"), "delete-topic:t"),
        (DeleteController(), "delete-controller"),
    ],
)
def test_a_step_has_a_text(step: Step, text: str) -> None:
    """The text is short for any content of its file."""
    assert step_text(step) == text


def test_a_rolling_restart_leaves_the_controller_for_last() -> None:
    """So that the controller moves once; a given order is kept."""
    assert operations_of(RollingRestart(), {3, 1, 2}, controller=2)[::2] == [
        StopBroker(1), StopBroker(3), StopBroker(2),
    ]  # fmt: skip
    assert operations_of(RollingRestart((2, 1)), {1, 2, 3}, 2) == [
        StopBroker(2), StartBroker(2), StopBroker(1), StartBroker(1),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", StepKind)
def test_every_kind_of_step_can_be_read(kind: StepKind) -> None:
    """None is missing in the table that reads them: each refuses a bad argument under its own name."""
    with pytest.raises(StepError, match=r"broker|no argument|JSON|missing") as refused:
        read_step(f"{kind}:,") if kind is not StepKind.DELETE_TOPIC else read_step(f"{kind}:")
    assert "is no step" not in str(refused.value)
