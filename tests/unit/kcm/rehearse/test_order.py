"""Steps keep the order of the command line, each with its values."""

import json
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from kcm.rehearse.order import InOrder, steps_in_order, with_all
from pipeline.runtime import UsageError
from rehearsal.steps import StepKind
from tests.support.replaying import write


def texts(*arguments: str) -> list[str]:
    """Return the steps that a command with some of the verb's options takes from these arguments."""
    app = typer.Typer()
    taken: list[str] = []

    @app.command(cls=InOrder)
    def command(
        *,
        context: typer.Context,
        kill_broker: Annotated[list[int] | None, typer.Option()] = None,
        rolling_restart: Annotated[bool, typer.Option("--rolling-restart")] = False,
        delete_controller: Annotated[bool, typer.Option("--delete-controller")] = False,
        order: str = "",
        reassign: Annotated[list[str] | None, typer.Option()] = None,
        preferred_election: Annotated[list[str] | None, typer.Option()] = None,
        limit: int = 20,
    ) -> None:
        taken.extend(
            steps_in_order(
                context,
                {
                    StepKind.KILL_BROKER: kill_broker,
                    StepKind.ROLLING_RESTART: order if rolling_restart else None,
                    StepKind.DELETE_CONTROLLER: None if delete_controller else False,
                    StepKind.REASSIGN: reassign,
                    StepKind.PREFERRED_ELECTION: preferred_election,
                },
            )
        )
        assert limit

    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return taken


def test_options_that_are_no_steps_are_passed_over() -> None:
    """They may be between steps of one kind."""
    assert texts(
        "--kill-broker", "3", "--limit", "5", "--delete-controller", "--kill-broker", "1"
    ) == ["kill-broker:3", "delete-controller", "kill-broker:1"]


def test_the_order_option_applies_to_the_rolling_restart() -> None:
    """Its place does not matter; without it the step has no order."""
    assert texts("--order", "3,1", "--rolling-restart") == ["rolling-restart:3,1"]
    assert texts("--rolling-restart") == ["rolling-restart"]


def test_a_preferred_election_needs_no_file() -> None:
    """A name after it is its file; another option, or the end, is not."""
    assert list(with_all(["--preferred-election"])) == ["--preferred-election", "all"]
    assert list(with_all(["--preferred-election", "f", "--kill-broker", "1"])) == [
        "--preferred-election", "f", "--kill-broker", "1",
    ]  # fmt: skip
    assert texts("--preferred-election", "--kill-broker", "1", "--preferred-election") == [
        "preferred-election",
        "kill-broker:1",
        "preferred-election",
    ]


def test_a_json_file_becomes_a_compact_step_text(tmp_path: Path) -> None:
    """The files of two options are not mixed up."""
    moves = {"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}
    elected = {"partitions": [{"topic": "t", "partition": 1}]}
    plan = write(tmp_path / "plan.json", json.dumps(moves, indent=4).encode())
    election = write(tmp_path / "election.json", json.dumps(elected).encode())
    assert texts("--preferred-election", election, "--reassign", plan) == [
        'preferred-election:{"partitions":[{"topic":"t","partition":1}]}',
        'reassign:{"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}',
    ]


def test_a_rehearsal_without_a_step_is_bad_use() -> None:
    """The error names all kinds of steps."""
    with pytest.raises(UsageError, match="--kill-broker, --rolling-restart, --delete-controller"):
        texts("--limit", "3")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot read it: No such file or directory"),
        (b"\xff", "it is not text"),
        (b"", "not the JSON"),
        (b"[" * 100_000, "not the JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    """The error names its option, for every kind of bad file."""
    name = tmp_path / "plan.json"
    if content is not None:
        write(name, content)
    with pytest.raises(UsageError) as caught:
        texts("--reassign", str(name))
    said = str(caught.value)
    assert said.startswith(f"option --reassign {name}: ")
    assert why in said


def test_an_empty_file_is_not_an_election_of_everything(tmp_path: Path) -> None:
    """Only an option without a file means all partitions."""
    name = write(tmp_path / "election.json", b"")
    with pytest.raises(UsageError, match="not the JSON"):
        texts("--preferred-election", name)
