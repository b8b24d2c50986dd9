"""An incident in one sentence."""

from __future__ import annotations

import msgspec

from controller_model.insight.incident_sentence import sentence
from controller_model.records.incidents import Incident, IncidentEnd


def test_a_time_beyond_the_calendar_is_reported_as_a_number() -> None:
    """A watcher's clock may show anything."""
    incident = Incident(
        number=1, started_at=0, last_abnormal_at=0, opened_by="BrokerStopped", unsure_since=10**18
    )
    assert sentence(incident) == "Out of sight since 1000000000000000000."


def test_many_brokers_are_named_in_part() -> None:
    """The sentence stays short."""
    incident = Incident(
        number=1,
        started_at=0,
        last_abnormal_at=7_260_000,
        opened_by="BrokerStopped",
        brokers_lost=tuple(range(8)),
        brokers_back=(0, 1),
        broker_ends={"unknown": 1, "crashed": 7},
        closed_at=1,
        end=IncidentEnd.STANDING,
    )
    assert sentence(incident) == (
        "8 brokers (0, 1, 2, 3, 4 ...) crashed 7 times and were lost, 6 did not come back; "
        "closed after 2 h 1 min; still abnormal: nothing."
    )
    lost = msgspec.structs.replace(incident, brokers_lost=(3,), brokers_back=(), broker_ends={})
    assert sentence(lost).startswith("Broker 3 was lost; closed")
    both = msgspec.structs.replace(
        incident, brokers_lost=(3, 4), brokers_back=(3, 4), broker_ends={"controlled_shutdown": 2}
    )
    assert sentence(both).startswith("2 brokers (3, 4) were shut down and came back; closed")
    again = msgspec.structs.replace(lost, brokers_back=(3,), broker_ends={"crashed": 3})
    assert sentence(again).startswith("Broker 3 crashed 3 times and came back; closed")
