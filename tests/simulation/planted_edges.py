"""Bugs at the ends of the pipeline: in reading ZooKeeper's answers, in the live page, and in `kcm elect`.

The rule is that of `planted`, which has the bugs in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from exporter.core import life_signs
from exporter.core.life_signs import LifeSigns
from exporter.core.records import ClusterSnapshot
from exporter.live import page_answers
from exporter.live.page_answers import PageAnswers, _ClusterAnswer
from kcm.elect import run
from kcm.elect.run import ElectionRun
from kcm.elect.watch import ClusterSample, ClusterWatch
from pipeline.runtime import KcmError
from tests.simulation.zookeeper import THROTTLED
from zk_source.service.service import WatcherService
from zk_source.watcher.watcher import Watcher
from zk_source.wire.inbox import Reply
from zk_source.wire.operations import Err, MultiRead, Refused, SingleRead

Plant = Callable[[], AbstractContextManager[Any]]


@contextmanager
def each_beat_compares_clocks() -> Iterator[None]:
    """How long a beat was on its way counts as a difference of the clocks."""
    with (
        mock.patch.object(life_signs, "_TRANSITS", 1),
        mock.patch.object(life_signs, "_MIN_SAMPLES", 1),
        mock.patch.object(life_signs, "_is_timely", return_value=True),
    ):
        yield


def transits_kept_at_a_take_over() -> AbstractContextManager[Any]:
    """The steady clock of a watcher is taken for that of the one before it."""

    def transits_of(self: LifeSigns, _watcher: str) -> Any:
        return self.transits

    return mock.patch.object(LifeSigns, "_transits_of", transits_of)


def page_kept() -> AbstractContextManager[Any]:
    """The answer to the page's polls is made once."""
    return mock.patch.object(page_answers, "MAKE_INTERVAL_S", 10.0**9)


def rows_kept() -> AbstractContextManager[Any]:
    """The list of clusters is made once."""
    real = PageAnswers._make_rows

    def make_rows(self: PageAnswers, *at: Any) -> Any:
        return self._rows or real(self, *at)

    return mock.patch.object(PageAnswers, "_make_rows", make_rows)


def rows_older_than_their_answer() -> AbstractContextManager[Any]:
    """An answer keeps the list of clusters that was made before it for a whole interval more."""
    real = PageAnswers._make

    async def make(self: PageAnswers, *about: Any) -> float:
        await real(self, *about)
        now_s: float = about[-1]
        return now_s

    return mock.patch.object(PageAnswers, "_make", make)


def one_mistake_for_all() -> AbstractContextManager[Any]:
    """An exception about one cluster refuses the pages of all."""
    real = PageAnswers._judge

    def judge(self: PageAnswers, snapshot: ClusterSnapshot, now: int) -> Any:
        judged = real(self, snapshot, now)
        if judged is None:
            raise self._failure("figures", snapshot.name)
        return judged

    return mock.patch.object(PageAnswers, "_judge", judge)


def picture_kept() -> AbstractContextManager[Any]:
    """The picture of a cluster is made again only for its problems and events."""

    def is_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        return one[:2] == other[:2]

    return mock.patch.object(page_answers, "_is_same", is_same)


def etag_of_views_alone() -> AbstractContextManager[Any]:
    """An answer whose trust alone has changed has the ETag of the one before."""
    real = _ClusterAnswer.store

    def store(self: _ClusterAnswer, body: bytes) -> None:
        before = self.body.content.partition(b'"cluster"')[2]
        if before != body.partition(b'"cluster"')[2]:
            real(self, body)

    return mock.patch.object(_ClusterAnswer, "store", store)


def throttled_reads_taken_for_missing() -> AbstractContextManager[Any]:
    """A read that a server refuses by throttling counts as one of a missing znode."""
    real = Watcher.on_reply

    def on_reply(self: Watcher, token: int, zxid: int, err: int, *rest: Any) -> None:
        request = self.request(token)
        if err == THROTTLED and isinstance(request, SingleRead):
            err = Err.NO_NODE
        elif err == THROTTLED and isinstance(request, MultiRead):
            err, rest = Err.OK, ([Refused(Err.NO_NODE)] * len(request.reads), *rest[1:])
        real(self, token, zxid, err, *rest)

    return mock.patch.object(Watcher, "on_reply", on_reply)


def throttled_answers_believed() -> AbstractContextManager[Any]:
    """An error in place of an answer counts as proof that the server is in contact with its leader."""
    real = WatcherService._handle_pulse

    def handle_pulse(self: WatcherService, reply: Reply) -> None:
        real(self, reply._replace(err=Err.OK) if reply.err == THROTTLED else reply)

    return mock.patch.object(WatcherService, "_handle_pulse", handle_pulse)


def elections_checked_before_the_pause() -> AbstractContextManager[Any]:
    """A run of elections checks the cluster, pauses, and then elects."""

    def run_all(self: ElectionRun) -> str | None:
        try:
            before = self._sample_in_time()
            for number, chunk in enumerate(self._chunks, 1):
                self._check(before)
                if number > 1:
                    vars(run)["time"].sleep(self._pause_s)
                self._elect_chunk(number, chunk, before)
        except (run.SurpriseError, KcmError) as error:
            return str(error)
        return None

    return mock.patch.object(ElectionRun, "run", run_all)


def elections_after_a_refusal() -> AbstractContextManager[Any]:
    """A run of elections continues after Kafka has refused some."""
    real = ElectionRun._elect_chunk

    def one(self: ElectionRun, *about: Any) -> None:
        try:
            real(self, *about)
        except run.SurpriseError as error:
            if not str(error).startswith("Kafka refused"):
                raise

    return mock.patch.object(ElectionRun, "_elect_chunk", one)


def elections_past_a_surprise() -> AbstractContextManager[Any]:
    """A run of elections continues after a change of the controller or the loss of a broker."""
    real = vars(run)["surprise"]

    def surprise(before: ClusterSample, now: ClusterSample) -> str | None:
        same = now._replace(
            controller=before.controller, epoch=before.epoch, registrations=before.registrations
        )
        what: str | None = real(before, same)
        return what

    return mock.patch.object(run, "surprise", surprise)


def elections_without_figures() -> AbstractContextManager[Any]:
    """A run of elections continues also with figures that are not live."""
    real = vars(run)["surprise"]

    def surprise(before: ClusterSample, now: ClusterSample) -> str | None:
        what: str | None = real(before, now._replace(status="live"))
        return what

    return mock.patch.object(run, "surprise", surprise)


def elections_believed() -> AbstractContextManager[Any]:
    """A run of elections takes Kafka's answer as proof of the effect."""
    return mock.patch.object(ClusterWatch, "not_led", return_value=set())


def lost_leaders_counted_as_elected() -> AbstractContextManager[Any]:
    """Leaders that are lost again still count as elected."""
    real = ElectionRun._check

    def check(self: ElectionRun, before: ClusterSample) -> ClusterSample:
        elected = list(self.elected)
        try:
            return real(self, before)
        finally:
            self.elected = elected

    return mock.patch.object(ElectionRun, "_check", check)


PLANTED: Mapping[str, Plant] = {
    "each beat compares clocks": each_beat_compares_clocks,
    "transits kept at a take-over": transits_kept_at_a_take_over,
    "elections checked before the pause": elections_checked_before_the_pause,
    "elections after a refusal": elections_after_a_refusal,
    "elections past a surprise": elections_past_a_surprise,
    "elections without figures": elections_without_figures,
    "elections believed": elections_believed,
    "lost leaders counted as elected": lost_leaders_counted_as_elected,
    "throttled reads taken for missing": throttled_reads_taken_for_missing,
    "throttled answers believed": throttled_answers_believed,
    "page kept": page_kept,
    "rows kept": rows_kept,
    "rows older than their answer": rows_older_than_their_answer,
    "one mistake for all": one_mistake_for_all,
    "picture kept": picture_kept,
    "etag of views alone": etag_of_views_alone,
}
"""By name: how to plant it."""

CAUGHT_BY: Mapping[str, tuple[int, ...]] = {
    "each beat compares clocks": (7_800_114,),
    "transits kept at a take-over": (7, 21),
    "throttled reads taken for missing": (18, 50),
    "throttled answers believed": (70,),
    "elections checked before the pause": (93,),
    "elections after a refusal": (136, 346),
    "elections past a surprise": (10,),
    "elections without figures": (10,),
    "elections believed": (51,),
    "lost leaders counted as elected": (345,),
    "page kept": (0, 1),
    "rows kept": (6, 27),
    "rows older than their answer": (591_035_836,),
    "one mistake for all": (6, 14),
    "picture kept": (0, 1),
    "etag of views alone": (1, 2),
}
"""By name: seeds that catch it."""
