"""Make the page of limits: docs/limits.md.

The rule: a figure is written by the constant or the setting that enforces it, so the page cannot promise another
one; each row names a test, and a test holds that it is there. Threads are found in the source.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from controller_model.fold.projection import FORGET_AFTER_MS
from controller_model.insight.loss import KINDS_KEPT
from controller_model.records import changes, incidents, recommendations
from controller_model.records.completeness import CLOCKS_DISAGREE_MS, LATE_MS, OLDEST_LIVE_MS
from controller_model.records.metadata_log import CAUGHT_UP_MS
from controller_model.sources.zookeeper.pending_writes import TOPICS_LOOKED_AT
from controller_model.sources.zookeeper.znode_kinds import PATHS_REMEMBERED
from controller_model.state.cluster import _MAX_MOVES
from controller_model.tracking.asked_elections import MAX_ASKED, MAX_HELD_MS
from exporter.api import worker
from exporter.core.config import ExportSettings
from exporter.intake import event_store
from exporter.live.page_answers import _KEPT_S, MAKE_INTERVAL_S
from exporter.partitions import partition_pages, worst_topics
from kcm.run import look_topics
from kcm.run.health_watch import SILENT_S
from kcm.servers.class_archive import KAFKA_CLASSES, SPARK_CLASSES
from kraft_source.observer import observer
from kraft_source.service import quorum_sampler
from kraft_source.wire import connection, messages
from pipeline import queued_file
from pipeline.supervised_thread import STANDSTILL_S
from pipeline.topics import (
    CHANGES_KEPT_MS,
    CHANGES_SEGMENT_MS,
    EVENTS_KEPT_MS,
    EVENTS_SEGMENT_MS,
    MAX_MESSAGE_BYTES,
)
from source_log import fold_lag, publisher
from streaming import watchdog
from streaming.config import StreamSettings
from streaming.processor import _MAX_REMEMBERED_BYTES
from streaming.topic_journal import JournalLimits
from tools.docs.markdown import code, page, plain, table
from web.connections import _MAX_HEAD, MAX_CONNECTIONS, REQUEST_TIMEOUT_S
from web.guard import TAKEN_TIMEOUT_S
from web.passwords import COMPARED_TIMEOUT_S
from zk_source.config import WatchSettings
from zk_source.watcher import denied_paths, dirty_paths, subscriptions
from zk_source.wire import inbox

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "controller_model",
    "controller_simulator",
    "exporter",
    "kcm",
    "kraft_source",
    "pipeline",
    "rehearsal",
    "source_log",
    "streaming",
    "web",
    "zk_source",
)
"""The packages that ship."""

ABOUT = """What the monitor promises in numbers: how long things are kept, how late they may be, how large they may become, and what happens beyond.
Every figure is written here by the constant or the default that enforces it; the last column names the test that holds it.

What grows with the cluster, and has no other bound: what a watcher has published (a path and an mzxid for each znode), the fold's state (some 26 bytes a
partition on disk; in memory one topic at a time, and those that a batch touched), the exporter's views (those of the newest commit, and of an older one only
while an answer is made of it), and in Kafka `PREFIX.views` (the newest record of each key)."""


class Limit(NamedTuple):
    """A row: what is limited, to what, what happens beyond it, and the test that holds it."""

    what: str
    bound: str
    beyond: str
    test: str


def _default(settings: type[BaseModel], name: str) -> str:
    """Return a setting's name and default."""
    value = settings.model_fields[name].default
    return f"`{name}` ({value:,g})" if isinstance(value, int | float) else f"`{name}` ({value})"


def _time(ms: float) -> str:
    """Return a duration in its largest whole unit.

    >>> _time(7 * 86_400_000), _time(90_000), _time(2_900)
    ('7 days', '90 s', '2.9 s')
    """
    for unit, name in ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * unit and ms % unit == 0:
            return f"{ms // unit:g} {name}"
    return f"{ms / 1000:g} s"


def _size(count: int) -> str:
    """Return a number of bytes.

    >>> _size(64 << 20), _size(128 << 10)
    ('64 MiB', '128 KiB')
    """
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def _page_ms(file: str, name: str) -> str:
    """Return a duration that a file of the live page has as a constant, in milliseconds."""
    text = (ROOT / "exporter" / "live" / "static" / file).read_text(encoding="utf-8")
    (found,) = re.findall(rf"^const {name} = ([0-9_]+);", text, re.MULTILINE)
    return _time(int(found))


_JOURNAL = JournalLimits()
_UNIT = "tests/unit/"

LIMITS: dict[str, list[Limit]] = {
    "How long things are kept": [
        Limit(
            "a record of `PREFIX.changes`",
            f"{_time(CHANGES_KEPT_MS)}, and up to {_time(CHANGES_SEGMENT_MS)} more: Kafka deletes whole segments. Its age is by the clock of "
            "Kafka, not of its writer",
            "it is gone: a hole for a fold that had not read it, shown and mended by a resync. If `kcm doctor` finds older ones, retention does not "
            "work",
            f"{_UNIT}pipeline/test_topics.py::test_log_and_events_are_kept_as_long_as_the_pages_say",
        ),
        Limit(
            "a record of `PREFIX.events`",
            f"{_time(EVENTS_KEPT_MS)}, and up to {_time(EVENTS_SEGMENT_MS)} more",
            "it is gone; counts in the figures stay",
            f"{_UNIT}pipeline/test_topics.py::test_log_and_events_are_kept_as_long_as_the_pages_say",
        ),
        Limit(
            "topics of an older release",
            "what a topic itself does not set is added when a part starts; `message.timestamp.type` always",
            "where Kafka refuses that, the log has the command",
            f"{_UNIT}pipeline/test_topics.py::test_topics_of_an_older_release_get_what_they_lack",
        ),
        Limit(
            "the key of a deleted view",
            f"{_time(FORGET_AFTER_MS)} of the log",
            "a tombstone in Kafka",
            f"{_UNIT}streaming/test_processor.py::test_a_view_deleted_long_ago_gets_a_tombstone",
        ),
        Limit(
            "incidents of a cluster",
            f"the last {incidents.INCIDENTS_KEPT} closed and the open one",
            "older ones are in the events; counts stay exact",
            f"{_UNIT}controller_model/tracking/test_incident_tracker_views.py::test_the_view_lists_the_newest_incidents_and_counts_all",
        ),
        Limit(
            "recommendations of a cluster",
            f"{recommendations.GRADES_KEPT} grades; {recommendations.MAX_PARTITIONS} partitions listed and watched; "
            f"{recommendations.TOPICS_LOOKED_AT:,} topics examined",
            "older ones are in the events; counts stay exact",
            f"{_UNIT}controller_model/tracking/test_recommendation_tracker.py::test_the_partition_list_is_limited_and_the_partition_count_exact",
        ),
        Limit(
            "events that the exporter holds",
            f"{_default(ExportSettings, 'events_kept')} and {_size(event_store.MAX_RING_BYTES)} of a cluster; {_size(event_store.MAX_BYTES)} of all",
            "the oldest go, of the cluster that holds most; answers say from when on events are held",
            f"{_UNIT}exporter/intake/test_event_store.py::test_all_clusters_share_one_size_bound",
        ),
    ],
    "How late it may be": [
        Limit(
            "a figure that is shown as `live`, where the watcher sends beats",
            f"{_time(OLDEST_LIVE_MS)} out of date",
            "the status is `behind` or `blind`, and names the stage",
            f"{_UNIT}exporter/core/test_life_signs.py::test_figures_are_not_live_three_seconds_after_signs_of_life_stop",
        ),
        Limit(
            "the same, where only heartbeats show that a stage lives",
            f"{_time(LATE_MS)}: heartbeats come every {_default(WatchSettings, 'heartbeat_s')} seconds",
            "the status is `behind`",
            f"{_UNIT}controller_model/records/test_completeness.py::test_a_stage_without_a_sign_of_life_is_late_since_the_reader_began",
        ),
        Limit(
            "clocks of parts and of ZooKeeper",
            f"{_time(CLOCKS_DISAGREE_MS)} apart from the exporter's",
            "the status is `clocks_disagree`; no other status, and no blame for lateness, depends on a clock of another machine",
            f"{_UNIT}exporter/core/test_status.py::test_log_lag_is_measured_against_the_newest_views_of_its_partition",
        ),
        Limit(
            "a call into Spark's JVM; a batch",
            f"{_time(watchdog.ANSWER_S * 1000)}; {_time(watchdog.BATCH_S * 1000)} without the end of a batch though the log grows (the first batch: "
            f"{_time(watchdog.FIRST_BATCH_S * 1000)})",
            "the JVM is killed, and another one continues from the checkpoint",
            f"{_UNIT}streaming/test_watchdog.py::test_a_log_that_grows_while_no_batch_ends_is_a_query_that_hangs",
        ),
        Limit(
            "an answer of a part to `kcm up`",
            f"{_time(SILENT_S * 1000)}",
            "the part is killed and started again",
            f"{_UNIT}kcm/run/test_health_watch.py::test_a_part_that_accepts_connections_without_an_answer_hangs",
        ),
        Limit(
            "a request over HTTP",
            f"{_time(REQUEST_TIMEOUT_S * 1000)} to arrive, and as long for the handshake of TLS before it; "
            f"{_time(TAKEN_TIMEOUT_S * 1000)} for the client to take each piece of the answer",
            "the connection is closed",
            f"{_UNIT}web/test_connections.py::test_an_incomplete_request_is_dropped_after_a_timeout",
        ),
        Limit(
            "a password to be compared",
            f"{_time(COMPARED_TIMEOUT_S * 1000)}; clients take turns",
            "503 with Retry-After; the comparison keeps its place",
            f"{_UNIT}web/test_guard.py::test_a_password_that_is_not_compared_in_time_keeps_its_place",
        ),
        Limit(
            "log lines that nobody has read yet",
            f"{_size(queued_file.MAX_WAITING)}",
            "lost and counted; the next line says how many",
            f"{_UNIT}pipeline/test_queued_file.py::test_what_finds_no_room_is_lost_and_the_next_line_says_so",
        ),
    ],
    "Watcher": [
        Limit(
            "notifications not yet processed",
            f"{inbox.MAX_EVENTS:,}",
            "dropped, counted, and a resync",
            f"{_UNIT}zk_source/wire/test_inbox.py::test_an_inbox_overflow_marks_its_place_and_the_dropped_count",
        ),
        Limit(
            "changed paths not yet read",
            f"{dirty_paths.MAX_WAITING:,}",
            "dropped, counted, and a resync",
            f"{_UNIT}zk_source/watcher/test_watcher.py::test_more_changed_paths_than_fit_are_an_overflow",
        ),
        Limit(
            "reads under way",
            f"{subscriptions.MAX_READS} paths, and {_size(subscriptions.MAX_REQUEST_BYTES)} of them, in a request; reads per second: "
            f"{_default(WatchSettings, 'resync_reads_per_s')}, {_default(WatchSettings, 'reconciliation_reads_per_s')}",
            "they wait",
            f"{_UNIT}zk_source/watcher/test_tree_walk.py::test_a_request_keeps_to_its_limits",
        ),
        Limit(
            "changes that wait for Kafka",
            f"{_default(WatchSettings, 'buffer_mib')}, {_default(WatchSettings, 'buffer_changes')}; {publisher.MAX_MESSAGES_IN_FLIGHT} messages or "
            f"{_size(publisher.MAX_BYTES_IN_FLIGHT)} in flight; a resync's walk waits while half of the buffer is full",
            "dropped, counted, and a resync",
            f"{_UNIT}source_log/test_log_writer.py::test_what_exceeds_the_buffer_is_dropped_at_once_with_its_reason",
        ),
        Limit(
            "messages that wait for the fold of `kcm look`",
            f"{look_topics.MAX_WAITING}",
            "the watcher keeps what follows, within the same bounds as for Kafka",
            f"{_UNIT}kcm/run/test_look_topics.py::test_what_is_published_is_acknowledged_until_the_fold_is_behind",
        ),
        Limit(
            "a walk's changes that the fold has not taken, where other clusters share the fold",
            f"two steps of {fold_lag.STEP:,} changes",
            f"the walk waits, for a fold that makes no progress at most {_time(fold_lag.STOPPED_MS)}",
            f"{_UNIT}source_log/test_fold_lag.py::test_no_more_than_two_steps_are_ahead_of_the_view",
        ),
        Limit(
            "denied paths that a record names",
            f"{denied_paths.MAX_NAMED}, and {_size(denied_paths.MAX_CHARACTERS)} in all",
            "a path above them is named instead; the others are counted",
            f"{_UNIT}zk_source/watcher/test_denied_paths.py::test_each_denied_path_is_named_up_to_the_limits",
        ),
        Limit(
            "a message",
            f"{changes.MAX_CHANGES_PER_MESSAGE} changes, {_size(changes.MAX_MESSAGE_BYTES)}; one larger change goes alone, up to "
            f"{_size(MAX_MESSAGE_BYTES)}",
            "the change goes without its data, and is counted",
            f"{_UNIT}source_log/test_publisher.py::test_a_full_message_is_sent_without_waiting_for_an_acknowledgement",
        ),
    ],
    "Watcher of a KRaft cluster": [
        Limit(
            "an answer of a controller",
            f"{_size(connection.MAX_ANSWER_BYTES)}; asked for: {_size(messages.FETCH_BYTES)} of the log, {_size(messages.SNAPSHOT_BYTES)} of a "
            "snapshot",
            "not read: the connection is closed, and another controller is asked",
            "tests/component/kraft/test_hostile_controller.py::test_what_is_no_controllers_answer_is_one_line",
        ),
        Limit(
            "the wait for an answer",
            f"{_time(observer.MIN_TIMEOUT_S * 1000)}, and twice as long after each that was late, up to {_time(observer.MAX_TIMEOUT_S * 1000)}",
            "another controller is asked",
            f"{_UNIT}kraft_source/observer/test_observer.py::test_an_answer_that_is_late_gets_more_time",
        ),
        Limit(
            "requests without news",
            f"one in {_time(observer.PAUSE_S * 1000)}; to a controller that cannot be reached one in {_time(observer.RETRY_S * 1000)}, to one that "
            f"refuses us one in {_time(observer.REFUSED_RETRY_S * 1000)}",
            "they wait",
            f"{_UNIT}kraft_source/observer/test_observer.py::test_who_cannot_be_reached_is_asked_once_in_a_while",
        ),
        Limit(
            "who of the quorum is caught up",
            f"asked each {_time(quorum_sampler.INTERVAL_S * 1000)}; an answer holds for {_time(quorum_sampler.MAX_AGE_S * 1000)}, and while its "
            f"leader leads; caught up within {_time(CAUGHT_UP_MS)} of it",
            "not known, nor which controllers may be stopped",
            f"{_UNIT}kraft_source/service/test_quorum_sampler.py::test_a_leader_is_sampled_in_intervals_and_another_one_asked_again_soon",
        ),
    ],
    "Fold": [
        Limit(
            "a batch",
            f"{_default(StreamSettings, 'max_offsets_per_trigger')} messages",
            "the next batch",
            f"{_UNIT}streaming/test_query.py::test_a_batch_reads_a_limited_number_of_messages",
        ),
        Limit(
            "the row of a cluster that every batch writes",
            "brokers, requests, incidents and counts; of a tree that may not be read a count and a digest",
            "grows with brokers, not with partitions",
            "tests/property/test_denied_trees.py::test_the_row_that_every_batch_writes_does_not_grow_with_a_denied_tree",
        ),
        Limit(
            "what a worker remembers of the state",
            f"topics as packed in the state, {_size(_MAX_REMEMBERED_BYTES)} of all clusters but the one at hand",
            "the cluster that was folded longest ago is forgotten, and read from the state again",
            f"{_UNIT}streaming/test_processor.py::test_a_worker_forgets_the_topics_of_the_clusters_folded_longest_ago",
        ),
        Limit(
            "the journal",
            f"one part in {_JOURNAL.base_share} of the base, {_size(_JOURNAL.least_bytes)} to {_size(_JOURNAL.most_bytes)}; {_JOURNAL.overdue} times as much "
            "while no batch is quiet",
            "large batches write it into the base too, the more of it the longer it is",
            f"{_UNIT}streaming/test_topic_journal.py::test_a_storm_keeps_the_journal_bounded",
        ),
        Limit(
            "elections that were asked for and not seen",
            f"{MAX_ASKED:,} partitions, {_time(MAX_HELD_MS)}",
            "a request that would exceed them replaces all before it; their elections then count as others'",
            f"{_UNIT}controller_model/tracking/test_asked_elections.py::test_kept_requests_are_limited_in_time_and_number",
        ),
        Limit(
            "kinds of partition states that wait to be added to the totals",
            f"{_MAX_MOVES:,}",
            "added up at once",
            f"{_UNIT}controller_model/state/test_cluster.py::test_pending_moves_are_added_up_at_their_limit",
        ),
        Limit(
            "topics examined for pending writes at a heartbeat",
            f"{TOPICS_LOOKED_AT} that are reassigned, {TOPICS_LOOKED_AT} to be deleted",
            "the others are examined when those end",
            f"{_UNIT}controller_model/sources/zookeeper/test_pending_writes.py::test_at_most_a_hundred_topics_to_be_deleted_are_checked",
        ),
        Limit(
            "kinds of paths that are remembered",
            f"{PATHS_REMEMBERED:,}",
            "computed again",
            f"{_UNIT}tools/test_limits.py::test_remembered_paths_are_bounded",
        ),
    ],
    "Exporter": [
        Limit(
            "results of recommendations and what-ifs",
            f"{worker.KEPT}, {_time(worker.KEPT_FOR_S * 1000)} after the last question",
            "computed again",
            f"{_UNIT}exporter/api/test_worker.py::test_the_number_of_cached_results_is_bounded",
        ),
        Limit(
            "what a loss does to one kind of partition, while a what-if is computed",
            f"{KINDS_KEPT:,} kinds",
            "computed again",
            f"{_UNIT}controller_model/insight/test_loss.py::test_each_kind_of_partition_is_computed_once",
        ),
        Limit(
            "partitions that a request reads",
            f"{partition_pages.MAX_READ:,}; up to {partition_pages.MAX_READ / partition_pages.PLAIN_COST:,.0f} where the filter asks for a condition "
            "that plain partitions (led by the preferred replica, all replicas in sync) cannot meet",
            "the page ends early with `next`",
            f"{_UNIT}exporter/partitions/test_partition_pages.py::test_a_request_reads_a_bounded_number_of_partitions",
        ),
        Limit(
            "requests for work of more than a moment",
            f"one piece of work at a time, {worker.MAX_WAITING} admitted",
            "503 with Retry-After",
            f"{_UNIT}exporter/api/test_worker.py::test_too_many_waiting_requests_get_503_with_retry_after",
        ),
        Limit(
            "worst topics, what is in one rack",
            f"{worst_topics.MAX_TOPICS} topics a cluster; one part in {worst_topics.REST + 1} of a processor",
            "the figures are older, and say from when they are",
            f"{_UNIT}exporter/partitions/test_worst_topics.py::test_the_number_of_worst_topics_is_bounded",
        ),
        Limit(
            "connections",
            f"{_default(ExportSettings, 'connections_per_client')}, {MAX_CONNECTIONS} in all",
            "closed at once, and counted",
            f"{_UNIT}web/test_connections.py::test_all_clients_together_have_a_limit",
        ),
        Limit(
            "the head of a request that arrives in parts",
            _size(_MAX_HEAD),
            "refused",
            f"{_UNIT}web/test_server.py::test_the_size_of_a_request_head_is_limited",
        ),
        Limit(
            "what live pages poll",
            f"made {1 / MAKE_INTERVAL_S:g} times a second at most for each cluster that is looked at; kept {_time(_KEPT_S * 1000)} without a poll",
            "pages are sent what was made last; a page whose answers are late polls less often",
            f"{_UNIT}exporter/live/test_page_answers.py::test_changes_faster_than_pages_are_made_once_in_a_while",
        ),
        Limit(
            "polls of a page",
            f"one each {_page_ms('poll.js', 'INTERVAL_MS')}; each {_page_ms('poll.js', 'HIDDEN_INTERVAL_MS')} while nobody looks at it; after a failure "
            f"again in {_page_ms('poll.js', 'FIRST_RETRY_MS')} to {_page_ms('poll.js', 'LONGEST_RETRY_MS')}",
            f"without an answer for {_page_ms('poll.js', 'SILENT_MS')} the page is grey and says since when",
            "tests/component/page/test_live_page_keeps_up.py::test_a_hidden_page_polls_rarely_and_at_once_when_it_is_shown",
        ),
        Limit(
            "what a page asks by itself",
            f"each list every {_page_ms('ask.js', 'LEAST_REST_MS')} at most, a fifth of the time, only once a znode has changed; with 200 viewers "
            "within 20 s",
            f"the list stands for so long; after a refusal again in {_page_ms('ask.js', 'LEAST_REST_MS')} to "
            f"{_page_ms('ask.js', 'LONGEST_RETRY_MS')}",
            "tests/component/page/test_live_page_asks.py::test_two_hundred_pages_spread_their_requests",
        ),
    ],
    "Disk": [
        Limit(
            "class archives in the cache",
            f"Spark's: {SPARK_CLASSES.kept}, of {SPARK_CLASSES.mib} MB; Kafka's: {KAFKA_CLASSES.kept}, of {KAFKA_CLASSES.mib} MB; besides them, "
            "those that were used within a day",
            "the longest unused goes; Spark and Kafka start without one where none fits, or none can be made",
            f"{_UNIT}kcm/servers/test_class_archive.py::test_only_archives_in_use_and_the_last_used_are_kept",
        ),
    ],
    "What is installed": [
        Limit(
            "Python packages: `make setup`, the images",
            "those of `requirements.lock`, each by version and SHA-256; uv, which installs them, as well",
            "nothing is installed",
            f"{_UNIT}tools/test_limits.py::test_nothing_is_installed_without_a_hash",
        ),
        Limit(
            "jars of Kafka, ZooKeeper and Spark's connector",
            "the SHA-256 of `kcm/servers/ivy.sha256`, compared after the download and at each start that takes them from the cache. Jars that "
            "`connector_jars` names, and those in the images, which were compared when the image was made, are taken as they are",
            "another jar is not kept, and nothing starts",
            f"{_UNIT}kcm/servers/test_jars.py::test_a_jar_of_another_content_is_not_kept",
        ),
        Limit(
            "Java; in the images also Debian's packages",
            "not by a hash of ours: Java as it is on the machine, in the images by the release that the Dockerfile names; the base image by its digest",
            "the build of an image fails once Debian's mirrors no longer have that release",
            "tests/component/chart/test_image.py::test_packages_of_the_image_are_pinned_and_in_the_sbom",
        ),
    ],
}

THREADS_ABOUT = f"""## Threads

A thread that is *supervised* works in turns. Its owner's loop raises the exception that ended it, and counts a turn that does not end within {_time(STANDSTILL_S * 1000)} as a thread that hangs
(`pipeline/supervised_thread.py`). The others that the monitor starts have their reasons here; a test fails on a thread that is started anywhere else. Threads of libraries
(kazoo, librdkafka, py4j, uvicorn) are not ours: one that hangs is noticed as silence of ZooKeeper, of Kafka, of Spark or of the part."""

UNSUPERVISED = {
    "exporter/api/worker.py": "a request's work; an exception is the request's, and more requests than are admitted get 503",
    "exporter/live/page_answers.py": "the page's events; an exception is the request's",
    "exporter/partitions/worst_topics.py": "the search for the worst topics, which rests by the processor time that it took. Its end ends the exporter; "
    "while it hangs, its figures stand still and say from when they are",
    "kcm/demo/cluster.py": "`kcm demo` only: writes to the demo's Kafka",
    "kcm/demo/truth.py": "`kcm demo` only: reads the demo's ZooKeeper",
    "kcm/doctor/findings.py": "a check of `kcm doctor`, which does not wait for it longer than its time",
    "kraft_source/service/observing.py": "observes the metadata log: its end ends the watcher. Each request to a controller has a deadline; while the "
    "pipeline's Kafka takes nothing, it waits on purpose",
    "kraft_source/service/reconciling.py": "reads the metadata log anew for a reconciliation: its error ends the watcher, and what it has not "
    "reached in ten minutes is tried again later",
    "pipeline/queued_file.py": "writes the log. Nothing waits for it but the end of the process, for a second; lines that it cannot write are counted",
    "pipeline/supervised_thread.py": "the supervised threads themselves",
    "streaming/session.py": "asks Spark to stop, for some seconds; then the JVM is killed",
    "web/passwords.py": "compares passwords, one at a time; an exception is the request's, and a request waits for it no longer than its time",
    "web/server.py": "the HTTP server. Its end ends the part; whether it answers is what `kcm up` and the probes ask",
    "zk_source/election/candidacy.py": "stands for election. It proves the lease, which is invalid without it, and ends the session of a main loop that hangs",
    "zk_source/wire/kazoo_client.py": "ends a session, for some seconds; then it is left",
}
"""Modules that start threads by other means than `SupervisedThread`, and why that is right."""

_STARTS = {
    "Thread",
    "Timer",
    "ThreadPoolExecutor",
    "run_in_threadpool",
    "run_in_executor",
    "to_thread",
    "run_sync",
    "start_new_thread",
}
"""Calls that start a thread, by the last part of their names."""


def threads(source: str) -> Iterator[str]:
    r"""Yield for each call that starts a thread the supervised thread's name, or "" where it is not supervised.

    >>> list(threads("SupervisedThread('reader', poll)\nthreading.Thread(target=run)"))
    ['reader', '']
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Name(id="SupervisedThread"), args=[ast.Constant(value=str(name)), *_]
            ):
                yield name
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if (
                called in _STARTS
            ):
                yield ""


def thread_rows(root: Path = ROOT) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each thread of the packages that ship; raises KeyError for one that has no reason."""
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            where = path.relative_to(root).as_posix()
            for name in dict.fromkeys(threads(path.read_text(encoding="utf-8"))):
                if name:
                    yield code(where), f"supervised, {code(name)}", ""
                else:
                    yield code(where), "not supervised", plain(UNSUPERVISED[where])


def limits() -> list[Limit]:
    """Return all rows."""
    return [limit for rows in LIMITS.values() for limit in rows]


def limits_page() -> str:
    """Return the page."""
    blocks = [ABOUT]
    for title, rows in LIMITS.items():
        cells = ((row.what, row.bound, row.beyond, _link(row.test)) for row in rows)
        listed = table(("What", "Bound", "Beyond it", "Test"), cells)
        blocks += [f"## {title}", listed]
    found = table(("Where", "Thread", "Why"), thread_rows())
    return page("Limits", *blocks, THREADS_ABOUT, found)


def _link(test: str) -> str:
    """Return a link to the file of a test, with a short text."""
    file, _, name = test.partition("::")
    return f"[{name.removeprefix('test_').replace('_', ' ')}](../{file})"
