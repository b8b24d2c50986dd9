"""Check the exporter, the figures that it shows, and the clocks of the parts that made them.

Clocks are compared only by times that somebody wrote or answered anyway; nothing is
written to compare them. A difference that a late reading of a change could explain is not reported.
"""

import email.utils
from collections.abc import Iterator
from typing import NamedTuple

import httpx

from controller_model.records.changes import SessionState
from controller_model.records.completeness import Status
from controller_model.records.decoding import DECODING_ERRORS
from kcm.cli.text import printable
from kcm.doctor.findings import Finding, Level, fail, ok, unknown, warn
from kcm.queries.api_client import ExporterApi, Json, cluster_path
from kcm.queries.http_config import OPTION
from kcm.queries.options import ago, blame
from pipeline.clock import clock_ms
from pipeline.runtime import KcmError, UnreachableError

ANSWER_S = 5.0
"""An exporter answers within milliseconds; one that is silent for longer has a problem."""
SKEW_MS = 2_000
"""Clocks that differ by more make delays and ages wrong."""
PROVEN_MS = 15 * 60 * 1000
"""Reconciliations come every 5 minutes; after three the proof is overdue."""
_DATE_STEP_MS = 1_000
"""HTTP's Date counts whole seconds."""
_MAX_PATHS = 5
"""How many of the paths that the watcher may not read a line names."""
_READ_LATE_MS = 5_000
"""A change that the watcher saw by so much later may have been read late, after a resync."""


class ExporterReadiness(NamedTuple):
    """The answer of /readyz."""

    body: Json
    clock_ahead_ms: tuple[int, int] | None
    """How far the exporter's clock is ahead of the local one, at least and at most; None: not known."""


def ask_ready(api: ExporterApi) -> ExporterReadiness:
    """Return the answer of /readyz, ready or not; raises UnreachableError."""
    began_ms = clock_ms()
    try:
        answer = api.request(f"{api.url}/readyz")
    except httpx.HTTPError as error:
        raise UnreachableError(f"{api.url} does not answer: {error}") from None
    if not answer.content:
        raise UnreachableError(
            f"the exporter at {api.url} asks for a user and a password: name a file with them with {OPTION}"
        )
    try:
        decoded = answer.json()
        decoded["ready"], decoded["clusters"], decoded["reading"]
    except (*DECODING_ERRORS, KeyError, TypeError):
        raise UnreachableError(
            f"the server at {api.url} is not a kcm exporter; correct --exporter"
        ) from None
    return ExporterReadiness(decoded, _ahead(answer.headers.get("date"), began_ms, clock_ms()))


def check_exporter(api: ExporterApi) -> Iterator[Finding]:
    """Check whether the exporter is ready, how far it lags, and the state of its figures."""
    try:
        ready = ask_ready(api)
    except UnreachableError as error:
        yield fail("exporter", str(error), "start it (kcm up, kcm export), or give --exporter URL")
        return
    yield _exporter(api.url, ready)
    yield clock_here(ready.clock_ahead_ms)
    ahead_ms = sum(ready.clock_ahead_ms or (0,)) // 2
    for name in ready.body["clusters"]:
        try:
            answer = api.get(cluster_path(name))
        except KcmError as error:
            yield fail(name, str(error), "see the exporter's log")
            continue
        yield from check_figures(name, answer, clock_ms() + ahead_ms)


def check_figures(name: str, answer: Json, now: int) -> Iterator[Finding]:
    """Check whether a cluster's figures can be trusted; `now` is by the exporter's clock."""
    log, completeness = answer["log"], answer["completeness"]
    status = completeness["status"]
    lineage = answer["as_of"]["lineage"]
    about = f"figures of {name}"
    if status == "live":
        yield ok(about, f"live, in lineage {lineage}")
    else:
        why = printable(log["incomplete_reason"] or "")
        status_text = status.replace("_", " ")
        text = f"{status_text}{blame(completeness, now)}{f': {why}' if why else ''}"
        if status == Status.CLOCKS_DISAGREE:
            yield warn(about, text, "set the clocks by NTP")
        else:
            advice = f"check the {completeness['stage']}; kcm status --cluster {name}"
            yield fail(about, text, advice)
    proven = completeness["verified_at"]
    if proven is None or now - proven > PROVEN_MS:
        when = "never" if proven is None else f"{ago(proven, now)} ago"
        yield warn(f"proof of {name}", f"last proven: {when}", "see the watcher's and fold's logs")
    else:
        source = "ZooKeeper" if answer["quorum"] is None else "the metadata log"
        yield ok(f"proof of {name}", f"equal to {source} {ago(proven, now)} ago")
    yield _watcher(name, answer, now)
    yield _fold(name, answer, now)
    names = ("holes", "dropped_by_watcher", "unreadable", "errors")
    lost = ", ".join(f"{log[key]} {key.replace('_', ' ')}" for key in names)
    if log["errors"]:
        yield warn(f"log of {name}", lost, "see kcm events --kind Anomaly")
    else:
        yield ok(f"log of {name}", lost)
    yield _min_isr(name, answer)
    if answer["quorum"] is None:
        yield clock_of_zookeeper(name, answer)
    else:
        yield _clock_of_controller(name, answer)


def _min_isr(name: str, answer: Json) -> Finding:
    """Check whether min.insync.replicas is known for every partition."""
    about = f"min ISR of {name}"
    assumed = answer["min_isr_assumed"]
    if answer["counts"]["under_min_isr"] is None:
        return warn(
            about,
            "min.insync.replicas is not known: under and at min ISR, and whether a broker is safe "
            "to stop, are not known either",
            f"set min_insync_replicas ({name}=N) for the fold; kcm doctor --bootstrap-servers with "
            "brokers of that cluster reads N from them",
        )
    holder = "ZooKeeper" if answer["quorum"] is None else "the metadata log"
    source = f"by {holder} alone" if assumed is None else f"{assumed} where {holder} holds none"
    return ok(about, f"min.insync.replicas is known: {source}")


def clock_here(ahead_ms: tuple[int, int] | None) -> Finding:
    """Check this machine's clock against the exporter's, by the Date header of its answer."""
    about = "clock, here"
    if ahead_ms is None:
        return unknown(about, "the exporter's answer has no Date")
    least, most = ahead_ms
    if least > SKEW_MS or most < -SKEW_MS:
        which = "behind" if least > 0 else "ahead of"
        by_s = min(abs(least), abs(most)) / 1000
        text = f"{by_s:.0f} s {which} the exporter's (Date of its answer)"
        return warn(about, text, "set this machine's clock, or that one's")
    return ok(about, "as the exporter's, within 2 s (Date of its answer)")


def clock_of_zookeeper(name: str, answer: Json) -> Finding:
    """Check ZooKeeper's clock against the exporter's, or the watcher's by the last change.

    A change is seen after it was committed. So a difference is certain only where ZooKeeper is
    ahead; where it seems to be behind, the change may have been read late.
    """
    about = f"clock, ZooKeeper of {name}"
    if skewed := _skewed("zookeeper", answer):
        return warn(about, skewed, "set the clocks by NTP")
    log = answer["log"]
    seen, committed = log["last_change_at"], log["last_change_mtime"]
    if seen is None or committed is None:
        return unknown(about, "no znode has changed yet, and nothing is written to find out")
    later_ms = seen - committed
    if later_ms < -SKEW_MS:
        text = f"at least {-later_ms / 1000:.0f} s ahead of the watcher's (mtime of a change)"
        return warn(about, text, "set the clocks by NTP")
    if later_ms > _READ_LATE_MS:
        return unknown(
            about,
            f"the last change was seen {later_ms / 1000:.0f} s after its mtime: read late, or a "
            "clock that is behind",
        )
    return ok(about, f"as the watcher's: the last change was seen {later_ms} ms after its mtime")


def _clock_of_controller(name: str, answer: Json) -> Finding:
    """Check the active controller's clock, by which records are dated, as the exporter judges it."""
    about = f"clock, controller of {name}"
    if skewed := _skewed("zookeeper", answer):
        return warn(about, skewed, "set the clocks by NTP")
    return ok(about, "as the exporter's, as far as records of the metadata log show")


def _exporter(url: str, ready: ExporterReadiness) -> Finding:
    reading = ready.body["reading"]
    left = reading["records_left"]
    behind = "not known" if left is None else f"{left} records"
    names = ", ".join(ready.body["clusters"]) or "none yet"
    summary = f"{url}: lag {behind}; clusters: {names}"
    if not ready.body["ready"]:
        reasons = "; ".join(ready.body["reasons"])
        return fail("exporter", f"{summary}; not ready: {reasons}", "read its log")
    if not ready.body["clusters"]:
        return warn("exporter", summary, "see the logs of kcm watch and kcm stream")
    return ok("exporter", f"ready at {summary}")


def _watcher(name: str, answer: Json, now: int) -> Finding:
    about = f"watcher of {name}"
    log = answer["log"]
    heartbeat_at = log["heartbeat_at"]
    if heartbeat_at is None:
        return fail(about, "no heartbeat yet", "start kcm watch")
    quorum = answer["quorum"]
    where = "" if quorum is not None else f" on {printable(log['zookeeper'] or 'no server')}"
    summary = f"{printable(log['watcher'])}{where}"
    if late := _late("watcher", answer, now):
        return fail(about, f"{summary}; {late}", "read its log")
    if skewed := _skewed("watcher", answer):
        return warn(about, f"{summary}; {skewed}", "set the clocks by NTP")
    if log["denied"]:
        listed = printable(", ".join(log["denied"][:_MAX_PATHS]))
        unnamed = len(log["denied"][_MAX_PATHS:]) + log["denied_more"]
        more = f" and {unnamed} more" if unnamed else ""
        return warn(about, f"{summary}; not readable: {listed}{more}", "give it READ there")
    if (lacking := _lacking(answer, now)) is not None:
        level, text, todo = lacking
        return Finding(level, about, f"{summary}; {text}", todo)
    return ok(about, f"{summary}, last heartbeat {ago(heartbeat_at, now)} ago")


def _lacking(answer: Json, now: int) -> tuple[Level, str, str] | None:
    """Return what the watcher does not get from ZooKeeper or the controllers, and what to do; None: nothing."""
    quorum, session = answer["quorum"], answer["log"]["session"]
    todo = "kcm doctor --controllers says why"
    if quorum is None:
        is_connected = session == SessionState.CONNECTED
        return None if is_connected else (Level.FAIL, f"session {session}", "check ZooKeeper")
    if quorum["unreachable_since"] is not None:
        silent = ago(quorum["unreachable_since"], now)
        return Level.FAIL, f"no controller has answered it for {silent}", todo
    if quorum["leader_silent_since"] is not None:
        silent = ago(quorum["leader_silent_since"], now)
        text = f"the active controller, {quorum['leader']}, has not answered it for {silent}"
        return Level.FAIL, text, todo
    if not quorum["is_sampled"]:
        text = "no answer to DescribeQuorum: which controllers may be stopped is not known"
        return Level.WARN, text, todo
    return None


def _fold(name: str, answer: Json, now: int) -> Finding:
    about = f"fold of {name}"
    if late := _late("fold", answer, now):
        return fail(about, late, "read its log")
    if skewed := _skewed("fold", answer):
        return warn(about, skewed, "set the clocks by NTP")
    return ok(about, f"wrote {ago(answer['folded_at'], now)} ago")


def _late(stage: str, answer: Json, now: int) -> str:
    """Return how long ago a stage last gave a sign of life, by the exporter; empty while it is in time."""
    completeness = answer["completeness"]
    if completeness["status"] != Status.BEHIND or completeness["stage"] != stage:
        return ""
    return f"no sign of life for {ago(completeness['since'], now)}"


def _skewed(stage: str, answer: Json) -> str:
    """Return how far a stage's clock differs from the exporter's; empty where it agrees."""
    ahead_ms = answer["completeness"]["clock_skew_ms"].get(stage)
    if ahead_ms is None:
        return ""
    which = "ahead of" if ahead_ms > 0 else "behind"
    return f"its clock is {abs(ahead_ms) / 1000:.0f} s {which} the exporter's"


def _ahead(date: str | None, began_ms: int, ended_ms: int) -> tuple[int, int] | None:
    """Return how far a clock is ahead of the local one, at least and at most.

    >>> _ahead("Thu, 01 Jan 1970 00:00:10 GMT", 9_000, 9_400)
    (600, 2000)
    """
    try:
        date_ms = int(email.utils.parsedate_to_datetime(date or "").timestamp()) * 1000
    except ValueError:
        return None
    return date_ms - ended_ms, date_ms + _DATE_STEP_MS - began_ms
