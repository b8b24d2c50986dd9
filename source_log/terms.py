"""Lets a watcher stand by and lead in turns: each term writes the log until its lease or the log is lost.

A standby checks that it could lead, before it stands for election: the topics are there,
readable and writable; and it withdraws while it does not reach them. So a leader that is cut off
from the log knows from those who stand whether another would do better. A watcher keeps its name
and its count of dropped changes until its lease is lost, since the fold adds up dropped changes by
the watcher's name.
"""

import secrets
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from pipeline.kafka_errors import ReadTrouble, TopicReadError
from pipeline.runtime import Backoff, UnreachableError, get_logger
from pipeline.topic_probe import TopicProbe
from pipeline.topics import EnsuredTopics, check_writable, ensure_topics
from source_log.config import SourceSettings
from source_log.lease import Elector, Lease, LeaseLostError
from source_log.log_writer import LogLostError, OpenClients, kafka_clients
from source_log.readback import Readback

PROBE_INTERVAL_S = 5.0
"""How often a standby asks whether it reaches the log. With the request's time limit of 5 s it knows
within `CUT_OFF_MS` what the leader meets."""

LONG_TERM_S = 60.0
"""A watcher whose term lasted longer starts over at once when its log is lost."""


class Term(NamedTuple):
    """The time in which one watcher leads."""

    topics: EnsuredTopics
    lease: Lease
    watcher: str
    """The watcher's name, as its records carry it."""
    dropped: int
    """Changes that the watcher dropped in earlier terms under this name."""
    open_clients: OpenClients = kafka_clients
    """How the log is reached."""


def run_terms(
    settings: SourceSettings,
    elector: Elector,
    stop: threading.Event,
    *,
    lead: Callable[[Term], None],
    on_standby: Callable[[int], None],
) -> None:
    """Stand by and `lead` in turns until `stop` is set. `on_standby` is told the dropped changes."""
    log = get_logger("watcher")
    pause = Backoff(first_s=1.0, most_s=30.0)
    name, dropped = secrets.token_hex(3), 0
    try:
        while not stop.is_set():
            on_standby(dropped)
            topics = ensure_topics(settings, stop=stop)
            check_readable(settings, topics, stop)
            check_writable(settings, topics.names.changes)
            ends_of = (topics.names.changes,)
            lease = elector.wait(
                stop,
                partial(TopicProbe, settings, topics, every_s=PROBE_INTERVAL_S, ends_of=ends_of),
            )
            if lease is None:
                break
            # A standby may have waited for weeks, so the topics are checked again.
            topics = ensure_topics(settings, stop=stop)
            began_at = time.monotonic()
            try:
                lead(Term(topics, lease, name, dropped))
            except LeaseLostError:
                log.warning("the lease is lost: nothing more is published, standing by")
                name, dropped = secrets.token_hex(3), 0
            except LogLostError as error:
                dropped = error.dropped
                on_standby(dropped)
                elector.resign()
                if time.monotonic() - began_at > LONG_TERM_S:
                    pause.reset()
                wait_s = pause.next_s()
                log.warning(
                    "the watcher starts over", reason=str(error), dropped=dropped, next_try_s=wait_s
                )
                stop.wait(wait_s)
    except UnreachableError:
        if not stop.is_set():
            raise
    finally:
        elector.close()


def check_readable(settings: SourceSettings, topics: EnsuredTopics, stop: threading.Event) -> None:
    """Read the pipeline's topics before the lead is taken; raise TopicReadError if Kafka denies that.

    Topics that were deleted in the meantime are created again when the lead is taken.
    """
    readback = Readback(settings, topics, "")
    try:
        readback.history(stop, while_=lambda: True)
    except TopicReadError as error:
        if error.trouble is not ReadTrouble.MISSING:
            raise
    finally:
        readback.close()
