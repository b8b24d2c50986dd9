"""Run elections chunk by chunk: watch the effect of each chunk, and stop at the first surprise.

The rule: an election is requested only if the cluster is as it was when the run began. However the
run ends, it reports what was done and what was not.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from controller_model.kafka.ids import TopicPartition
from controller_model.records.completeness import Status
from kcm.cli.text import printable
from kcm.elect.admin import NOT_NEEDED, ElectionRefusedError
from kcm.elect.watch import ClusterSample, ClusterWatch, names, surprise
from pipeline.runtime import KcmError

POLL_INTERVAL_S = 0.25
"""How often the monitor is polled for the effect, which it shows within a second."""
UNSURE = frozenset({"REQUEST_TIMED_OUT", "NETWORK_EXCEPTION"})
"""Errors after which Kafka may still have elected: the effect shows whether it did."""


Elect = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, str | None]]
"""Elects the preferred leaders of partitions; returns the error of each, or None."""


class SurpriseError(Exception):
    """Something happened that elections do not cause; the message is one sentence."""


class ElectionRun:
    """A run over chunks, and the state of each partition so far."""

    def __init__(
        self,
        chunks: Sequence[Sequence[TopicPartition]],
        *,
        elect: Elect,
        watch: ClusterWatch,
        pause_s: float,
        wait_s: float,
        say: Callable[[str], None],
    ) -> None:
        """Take the chunks, the pause between two of them, and how long the effect of one may take."""
        self._chunks = chunks
        self._elect = elect
        self._watch = watch
        self._pause_s = pause_s
        self._wait_s = wait_s
        self._say = say
        self.elected: list[TopicPartition] = []
        """Kafka elected them, and the monitor shows it."""
        self.not_needed: list[TopicPartition] = []
        self.unsure: list[TopicPartition] = []
        """They were requested, and the monitor does not show the effect."""
        self.lost: list[TopicPartition] = []
        """Their preferred replica led them, and now another replica leads them again."""
        self.failed: dict[TopicPartition, str] = {}

    def run(self) -> str | None:
        """Run all chunks; return the surprise that ended the run, None when all was done."""
        try:
            before = self._sample_in_time()
            for number, chunk in enumerate(self._chunks, 1):
                if number > 1:
                    time.sleep(self._pause_s)
                self._check(before)
                self._elect_chunk(number, chunk, before)
        except SurpriseError as error:
            return str(error)
        except KcmError as error:
            return f"what happens cannot be seen: {error}"
        return None

    def summary(self) -> list[str]:
        """Return what was done and what was not, as lines."""
        total = sum(map(len, self._chunks))
        parts = (self.elected, self.not_needed, self.unsure, self.lost, self.failed)
        tried = sum(map(len, parts))
        done, skipped = len(self.elected), len(self.not_needed)
        lines = [f"done        {done} of {total} elected, {skipped} did not need it"]
        if self.failed:
            reasons = Counter(self.failed.values())
            listed = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
            lines.append(f"refused     {listed} ({names(list(self.failed))})")
        if self.unsure:
            lines.append(
                f"not seen    {len(self.unsure)} were asked for, and were not seen to be led by "
                f"their preferred replica ({names(self.unsure)})"
            )
        if self.lost:
            lines.append(
                f"lost again  {len(self.lost)} had their preferred replica as leader, and another "
                f"leads them now ({names(self.lost)})"
            )
        if tried < total:
            lines.append(f"not tried   {total - tried}")
        return lines

    def _check(self, before: ClusterSample) -> ClusterSample:
        """Return the cluster's current state; raises SurpriseError for what elections do not cause."""
        now = self._sample_in_time()
        if (what := surprise(before, now)) is not None:
            raise SurpriseError(what)
        done = [*self.elected, *self.not_needed]
        if lost := self._watch.led_wrong(done):
            self.lost = sorted(lost)
            self.elected = [p for p in self.elected if p not in lost]
            self.not_needed = [p for p in self.not_needed if p not in lost]
            raise SurpriseError(
                f"{len(lost)} lost their preferred leader again, such as {names(self.lost[:1])}"
            )
        return now

    def _sample_in_time(self) -> ClusterSample:
        """Return a sample; figures that lag for a moment are waited for, as an effect is."""
        deadline_s = time.monotonic() + self._wait_s
        while (now := self._watch.sample()).status == Status.BEHIND:
            if time.monotonic() >= deadline_s:
                break
            time.sleep(POLL_INTERVAL_S)
        return now

    def _elect_chunk(
        self, number: int, chunk: Sequence[TopicPartition], before: ClusterSample
    ) -> None:
        """Elect one chunk and wait for its effect."""
        began_s = time.monotonic()
        self.unsure = list(chunk)
        try:
            answer = self._elect(chunk)
        except ElectionRefusedError as error:
            also = self._look_unanswered(chunk, before)
            raise SurpriseError(f"Kafka did not answer for chunk {number}: {error}{also}") from None
        refused = {
            p: e for p, e in answer.items() if e not in {None, NOT_NEEDED} and e not in UNSURE
        }
        self.failed |= refused
        self.unsure = asked = [p for p in chunk if p not in refused]
        now, left = self._await_effect(asked, before)
        seen = [p for p in asked if p not in left]
        skipped = [p for p in seen if answer.get(p) == NOT_NEEDED]
        self.not_needed += skipped
        self.elected += [p for p in seen if answer.get(p) != NOT_NEEDED]
        self.unsure = sorted(left)
        if left:
            raise SurpriseError(
                f"{len(left)} of chunk {number} are not led by their preferred replica "
                f"{self._wait_s:g} s after the election, such as {names(self.unsure[:1])}"
            )
        took_s = time.monotonic() - began_s
        self._say(
            f"chunk {number} of {len(self._chunks)}: {len(seen) - len(skipped)} elected, "
            f"{len(skipped)} did not need it; seen after {took_s:.1f} s, "
            f"{now.imbalance} in the cluster are not led by their preferred replica"
        )
        if refused:
            partition, reason = next(iter(refused.items()))
            raise SurpriseError(
                printable(f"Kafka refused {len(refused)}, such as {names([partition])}: {reason}")
            )

    def _look_unanswered(self, chunk: Sequence[TopicPartition], before: ClusterSample) -> str:
        """Count what was elected although Kafka did not answer; return what else is seen, as the end of a sentence.

        A controller that is deposed while it elects never answers (KafkaController.processReplicaLeaderElection).
        """
        with contextlib.suppress(KcmError):  # nothing is seen: then all of the chunk is unsure
            what = surprise(before, self._sample_in_time())
            left = self._watch.not_led(chunk)
            self.elected += [p for p in chunk if p not in left]
            self.unsure = sorted(left)
            return "" if what is None else f"; {what}"
        return ""

    def _await_effect(
        self, wanted: Sequence[TopicPartition], before: ClusterSample
    ) -> tuple[ClusterSample, set[TopicPartition]]:
        """Wait until the preferred replicas lead; return the partitions that they do not lead in time."""
        deadline_s = time.monotonic() + self._wait_s
        while True:
            self._check(before)
            left = self._watch.not_led(wanted)
            if not left or time.monotonic() >= deadline_s:
                return self._check(before), left
            time.sleep(POLL_INTERVAL_S)
