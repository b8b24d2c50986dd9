"""The table of signals and steps is complete, and its steps exist."""

from __future__ import annotations

from kcm.demo.steps import STEPS as DEMO_STEPS
from tests.support.signals import SIGNALS
from tests.system.drill_steps import STEPS
from tests.system.signal_steps import MOVED, UNMOVED, DemoStep, DrillStep


def test_every_signal_is_moved_by_one_step_or_the_reason_is_stated() -> None:
    """No signal can be always 0 unnoticed: the demo and the drill assert that it changes in its step."""
    assert sorted([*(name for names in MOVED.values() for name in names), *UNMOVED]) == sorted(
        SIGNALS
    )
    assert all(UNMOVED.values())


def test_steps_of_the_table_are_the_steps_of_the_demo_and_of_the_drill() -> None:
    """Each step is done, in that order."""
    assert [str(step) for step in DemoStep] == [step.title for step in DEMO_STEPS]
    assert [step.title for step in STEPS] == list(DrillStep)
