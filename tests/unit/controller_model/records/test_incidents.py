"""What an incident's record gives in addition to its fields."""

from __future__ import annotations

from controller_model.records.incidents import Incident


def test_derived_fields_of_an_incident() -> None:
    """How long it lasted, what was offline because of it, and which brokers are still gone."""
    incident = Incident(
        number=1,
        started_at=1_000,
        last_abnormal_at=5_500,
        opened_by="BrokerStopped",
        brokers_lost=(3, 1, 2),
        brokers_back=(1,),
        offline_before=4,
        offline_peak=9,
    )
    assert (incident.lasted_ms, incident.offline, incident.missing) == (4_500, 5, (3, 2))


def test_fewer_offline_partitions_than_before_count_as_zero() -> None:
    """Partitions that came back during it do not make a negative number."""
    incident = Incident(
        number=1,
        started_at=1,
        last_abnormal_at=1,
        opened_by="ControllerVacated",
        offline_before=4,
        offline_peak=2,
    )
    assert (incident.lasted_ms, incident.offline, incident.missing) == (0, 0, ())
