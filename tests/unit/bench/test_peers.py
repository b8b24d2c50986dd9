"""What the polls of a peer show, and since when."""

from __future__ import annotations

from bench.peers import Poll, elections_shown, shown_by
from bench.poller import Answer, read_scrape


def _poll(ended: float, *, controller: int | None = None, **fields: int) -> Poll:
    leaders = {key: value for key, value in fields.items() if key != "elections"}
    return Poll(
        began=ended - 0.5,
        ended=ended,
        leaders=leaders,
        controller=controller,
        elections=fields.get("elections"),
        bytes=None,
        series=None,
        partitions=2,
    )


def test_a_leader_is_shown_by_the_first_answer_that_has_it() -> None:
    """It counts from when the answer has arrived; what was shown before the kill does not count."""
    polls = [_poll(1.0, a=2), _poll(5.0, a=3), _poll(6.0, b=2), _poll(7.0, a=3, b=2)]
    assert shown_by(polls, {"a": 3, "b": 2}, since=4.0) == {"a": 5.0, "b": 6.0}
    assert shown_by(polls, {"a": 2}, since=4.0) == {}


def test_a_counter_shows_elections_between_two_polls() -> None:
    """Five elections between two answers count as five."""
    assert elections_shown([_poll(1.0, elections=3), _poll(2.0, elections=8)]) == 5


def test_without_a_counter_only_another_controller_shows_an_election() -> None:
    """An election that the same broker wins, or one between two polls, is not seen."""
    polls = [_poll(float(n), controller=id_) for n, id_ in enumerate((1, 1, 2, 1))]
    assert elections_shown(polls) == 2
    assert elections_shown([_poll(1.0), _poll(2.0)]) == 0


def test_a_scrape_is_read_with_the_metric_names_of_both_exporters() -> None:
    """kafka_exporter has no label for the cluster; only kcm has the controller."""
    text = (
        "# HELP kafka_topic_partition_leader Leader Broker ID\n"
        'kafka_topic_partition_leader{partition="3",topic="t"} 2\n'
        'kafka_topic_partition_leader{cluster="c",topic="t",partition="4"} 1.0\n'
        'kafka_topic_partition_leader_is_preferred{partition="3",topic="t"} 1\n'
    )
    assert read_scrape(text) == Answer({"t/3": 2, "t/4": 1}, None, None, len(text), 3)
    own = 'kafka_controller_id{cluster="c"} 3\nkafka_controller_elections_total{cluster="c"} 9.0\n'
    assert read_scrape(own)[1:3] == (3, 9)
