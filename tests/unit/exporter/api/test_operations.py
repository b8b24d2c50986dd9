"""The table of operations: every path has its handler, and every answer its schema."""

from __future__ import annotations

from exporter.api.endpoints import ApiPages
from exporter.api.openapi import document
from exporter.api.operations import OPERATIONS


def test_every_operation_has_a_handler_and_a_schema_of_its_answer() -> None:
    """A path needs only a row of the table and a handler method."""
    schemas = document()["components"]["schemas"]
    for operation in OPERATIONS:
        assert callable(getattr(ApiPages, operation.handler)), operation.path
        assert operation.answer in schemas, operation.path


def test_paths_and_handlers_are_unique() -> None:
    """A client can use the handlers' names as method names."""
    assert len({operation.path for operation in OPERATIONS}) == len(OPERATIONS)
    assert len({operation.handler for operation in OPERATIONS}) == len(OPERATIONS)


def test_every_limit_has_a_default_within_its_bounds() -> None:
    """A request without a limit gets a page, not everything."""
    limits = [each for of in OPERATIONS for each in of.parameters if each.name == "limit"]
    assert len(limits) >= 8
    for limit in limits:
        assert limit.default is not None
        assert limit.least <= limit.default <= limit.most
