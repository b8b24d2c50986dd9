"""The settings of every source: which values are refused, and what their texts say."""

from __future__ import annotations

from typing import Any

import pytest

from controller_model.records.completeness import LATE_BEATS_MS
from pipeline.runtime import UsageError
from pipeline.settings import load
from source_log.config import SourceSettings


@pytest.mark.parametrize(
    "options",
    [
        {"cluster": "a b"},
        {"heartbeat_s": 0},
        {"beat_s": 3},
        {"linger_ms": -1},
        {"linger_ms": 501},
        {"linger_ms": "1s"},
    ],
)
def test_a_bad_value_is_refused_in_one_line(options: dict[str, Any]) -> None:
    """Each names its setting."""
    with pytest.raises(UsageError) as refused:
        load(SourceSettings, **options)
    assert "\n" not in str(refused.value)
    assert f"--{next(iter(options)).replace('_', '-')}:" in str(refused.value)


def test_the_description_of_beats_gives_the_limit_of_the_status() -> None:
    """The setting does not load the model's views for one number, so the text repeats it."""
    description = SourceSettings.model_fields["beat_s"].description or ""
    assert f"{LATE_BEATS_MS / 1000} s" in description
