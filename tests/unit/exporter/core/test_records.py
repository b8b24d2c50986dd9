"""A topic kept as the bytes in which it was read."""

from __future__ import annotations

import pytest

from controller_model.records.views import encode_view
from exporter.core.records import TopicEntry
from tests.support.samples import as_of, broker_view, topic_view


def test_a_topic_entry_decodes_to_its_view() -> None:
    """Only the fields by which chunks are found and ordered are kept decoded."""
    view = topic_view("t", as_of(7), chunk=1, chunks=2)
    entry = TopicEntry.of(view, encode_view(view))
    assert (entry.as_of, entry.name, entry.chunk, entry.chunks) == (as_of(7), "t", 1, 2)
    assert entry.decode() == view


def test_a_topic_entry_of_another_views_bytes_raises_type_error() -> None:
    """That cannot happen unless there is a bug in the exporter."""
    entry = TopicEntry.of(topic_view("t"), encode_view(broker_view(0)))
    with pytest.raises(TypeError, match="BrokerView"):
        entry.decode()
