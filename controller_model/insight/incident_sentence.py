"""An incident in one sentence: who failed, what followed, how it ended.

Every part of the sentence is a figure of the record, and a part that is 0 is left out.
"""

import itertools
from collections.abc import Mapping

from controller_model.insight.wording import counted, duration, time_text
from controller_model.records.incidents import Incident, IncidentEnd

_ENDS = {
    "controlled_shutdown": ("was shut down", "were shut down"),
    "crashed": ("crashed", "crashed"),
    "bounced": ("bounced", "bounced"),
    "fenced": ("was fenced", "were fenced"),
    "unregistered": ("was unregistered", "were unregistered"),
    "unknown": ("was lost", "were lost"),
}
"""The words for one broker and for several, by how the registration ended (events.BrokerEnd)."""
_BROKERS_NAMED = 5


def sentence(incident: Incident) -> str:
    """Return an incident as one sentence.

    >>> sentence(Incident(number=1, started_at=0, last_abnormal_at=72_000, opened_by="BrokerStopped",
    ...     brokers_lost=(3,), brokers_back=(3,), broker_ends={"crashed": 1}, leaders_moved=42,
    ...     offline_peak=17, closed_at=132_000, end=IncidentEnd.RECOVERED))
    'Broker 3 crashed and came back; 42 leaders moved; 17 partitions offline at once; over after 1 min 12 s.'
    """
    parts = [part for part in (_brokers(incident), _controller(incident)) if part]
    # Under-replication that no lost broker explains may be why it lasted, so it is always named.
    behind = max(incident.under_replicated_peak - incident.under_replicated_before, 0)
    leaderless = 0 if incident.offline else incident.leaderless
    figures = (
        (incident.leaders_moved, "leader", " moved"),
        (incident.unclean_elections, "unclean election", ""),
        (incident.offline, "partition", " offline at once"),
        (leaderless, "partition", " left without a leader"),
        (behind, "partition", " seen under-replicated"),
        (incident.log_dir_failures, "log directory failure", ""),
        (incident.stale_writes, "write", " by an old controller"),
    )
    parts += [counted(count, noun) + what for count, noun, what in figures if count]
    if incident.zombie:
        parts.append("the controller did not do its work")
    parts.append(_how_it_ended(incident))
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}{'' if incident.complete else ' (counts are at least)'}."


def _brokers(incident: Incident) -> str:
    lost = incident.brokers_lost
    if not lost:
        return ""
    named = ", ".join(map(str, lost[:_BROKERS_NAMED]))
    named += " ..." if len(lost) > _BROKERS_NAMED else ""
    who = f"broker {named}" if len(lost) == 1 else f"{len(lost)} brokers ({named})"
    how = _how_they_ended(incident.broker_ends, brokers=len(lost))
    missing = incident.missing
    if not missing:
        return f"{who} {how} and came back"
    if len(missing) == len(lost):
        return f"{who} {how}"
    return f"{who} {how}, {len(missing)} did not come back"


def _how_they_ended(ends: Mapping[str, int], *, brokers: int) -> str:
    is_several = brokers > 1
    # How often is only stated if the number of brokers does not already show it.
    with_times = sum(ends.values()) > brokers or (is_several and len(ends) > 1)
    words = [
        _ENDS.get(kind, (kind, kind))[is_several]
        + (f" {ends[kind]} times" if with_times and ends[kind] > 1 else "")
        for kind in sorted(ends, key=lambda kind: -ends[kind])
    ]
    return " and ".join(words) or _ENDS["unknown"][is_several]


def _controller(incident: Incident) -> str:
    elections = incident.controller_elections
    up_to = "" if incident.vacancy_min_ms == incident.vacancy_max_ms else "at most "
    longest = incident.vacancy_max_ms
    vacancy = f"{up_to}{duration(longest)}" if longest else ""
    if not elections:
        return f"nobody was controller for {vacancy}" if vacancy else ""
    # A holder that follows itself is named once: the same broker may win again.
    way = " -> ".join(str(holder) for holder, _ in itertools.groupby(incident.controllers))
    times = f" in {elections} elections" if elections > 1 else ""
    return f"controller {way}{times}" + (f", {vacancy} without one" if vacancy else "")


def _how_it_ended(incident: Incident) -> str:
    unsure = incident.unsure_since
    unseen = "" if unsure is None else f"out of sight since {time_text(unsure)}"
    still = ", ".join(incident.still)
    known = f"{still} ({unseen})" if still and unseen else still
    if incident.closed_at is None:
        return f"going on: {known}" if known else unseen or "all is well again"
    lasted = duration(incident.lasted_ms)
    if incident.end is IncidentEnd.RECOVERED:
        return f"over after {lasted}"
    how = "cut" if incident.end is IncidentEnd.CUT else "closed"
    left = unseen if unseen and not known else f"still abnormal: {known or 'nothing'}"
    return f"{how} after {lasted}; {left}"
