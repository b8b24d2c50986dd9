"""The answers as records: their common fields, and their own."""

from __future__ import annotations

import pytest

from exporter.api import answers
from exporter.api.answers import AboutCluster, Answer
from exporter.api.operations import CLUSTER, OPERATIONS

OF_A_CLUSTER = [each.answer for each in OPERATIONS if each.path.startswith(f"{CLUSTER}/")]


@pytest.mark.parametrize("name", OF_A_CLUSTER)
def test_no_field_of_an_answer_shadows_a_common_field(name: str) -> None:
    """Name, position and completeness come first; no field of an answer has one of those names."""
    answer: type[Answer] = getattr(answers, name)
    assert set(AboutCluster.__struct_fields__).isdisjoint(answer.__struct_fields__)
