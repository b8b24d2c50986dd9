"""A topic kept as the bytes it came in."""

from __future__ import annotations

import pytest

from controller_model.records.views import encode_view
from exporter.core.records import TopicEntry
from tests.support.samples import as_of, broker_view, topic_view


def test_a_topic_is_read_from_the_bytes_it_came_in() -> None:
    """Beside them stands only what chunks are found and ordered by."""
    view = topic_view("t", as_of(7), chunk=1, chunks=2)
    entry = TopicEntry.of(view, encode_view(view))
    assert (entry.as_of, entry.name, entry.chunk, entry.chunks) == (as_of(7), "t", 1, 2)
    assert entry.decode() == view


def test_bytes_of_another_view_are_no_topic() -> None:
    """They cannot be there: it is a mistake of ours and not of the cluster."""
    entry = TopicEntry.of(topic_view("t"), encode_view(broker_view(0)))
    with pytest.raises(TypeError, match="BrokerView"):
        entry.decode()
