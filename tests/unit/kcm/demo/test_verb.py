"""`kcm demo` passes its options on, and returns the exit code."""

from __future__ import annotations

import pytest

from kcm.__main__ import main
from kcm.demo import demo


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ((), {"keep": False, "fast": False, "plain": False}),
        (("--keep",), {"keep": True, "fast": False, "plain": False}),
        (("--fast", "--plain"), {"keep": False, "fast": True, "plain": True}),
    ],
)
@pytest.mark.parametrize("code", [0, 1])
def test_options_and_exit_code_are_handed_on(
    arguments: tuple[str, ...],
    given: dict[str, bool],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each option is passed by its own name."""
    asked: list[dict[str, bool]] = []

    def run_demo(**options: bool) -> int:
        asked.append(options)
        return code

    monkeypatch.setattr(demo, "run_demo", run_demo)
    assert main(["demo", *arguments]) == code
    assert asked == [given]
