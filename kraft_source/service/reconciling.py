"""Reads what the controllers hold anew, every few minutes, beside what the watcher follows.

The rule: the image is built by an observer of its own, on a connection of its own, from the newest snapshot and the log
behind it. It is followed until both readings stand at one offset, where the watcher writes what it holds. It may take
its time: it works for at most a share of it, so that neither the controllers nor changes wait for it.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from kraft_source.config import KraftSettings
from kraft_source.image import ImageAt, MetadataImage
from kraft_source.observer.observer import Observer
from kraft_source.observer.released import Released
from kraft_source.runner import ObserverRunner

WORKS_FOR = 0.25
"""The share of the time for which it works: 200,000 partitions take 6 s, and not 1.5."""
_MIN_WORK_S = 0.02
"""Less is not slowed down: what is committed now is followed at once."""
MAX_ENDS = 1_000
"""Ends of the log at which the digest is kept for the watcher to reach: the newest."""
TIMEOUT_S = 600.0
"""So long it is tried; then it is given up until it is due again."""


class Reconciling:
    """Builds an image when it is due, and has its digests by offset until one was used."""

    def __init__(self, settings: KraftSettings, now: float) -> None:
        self._settings = settings
        self._interval_s = settings.reconciliation_interval_s
        self._due = now + self._interval_s
        self._until = now
        self._stopping: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self._images: OrderedDict[int, ImageAt] = OrderedDict()
        self._failure: BaseException | None = None
        self.finished = 0
        """How many were written."""

    def poll(self, place: int | None, now: float) -> ImageAt | None:
        """Return what the controllers hold at an offset, once it is due and known; None: there is nothing to write.

        `place`: where the watcher stands; None: it does not write now.
        """
        if self._failure is not None:
            raise self._failure
        if self._stopping is None:
            if place is not None and now >= self._due:
                self._begin(now)
            return None
        image = None if place is None else self._images.get(place)
        if image is not None:
            self.finished += 1
        if image is not None or place is None or now > self._until:
            self.close()
            self._due = now + self._interval_s
        return image

    def _begin(self, now: float) -> None:
        self._stopping = stopping = threading.Event()
        images: OrderedDict[int, ImageAt] = OrderedDict()
        self._images = images
        self._until = now + TIMEOUT_S
        image = MetadataImage()
        deliver = _delivering(image, images, stopping)
        observer = Observer(self._settings.endpoints)
        runner = ObserverRunner(observer, self._settings.access(), deliver)

        def work() -> None:
            try:
                runner.run(stopping)
            except BaseException as error:  # noqa: BLE001  # the main loop raises it
                self._failure = error

        self._thread = threading.Thread(target=work, name="reconciliation", daemon=True)
        self._thread.start()

    def close(self, timeout_s: float = 0.0) -> None:
        """Tell the observer to end, and wait for that up to a time."""
        if self._stopping is not None:
            self._stopping.set()
        if self._thread is not None and timeout_s:
            self._thread.join(timeout_s)
        self._stopping = self._thread = None


def _delivering(
    image: MetadataImage, images: OrderedDict[int, ImageAt], stopping: threading.Event
) -> Callable[[Released], None]:
    """Return what takes all that an observer releases into an image, and keeps what it was by offset."""
    worked_s = 0.0

    def deliver(released: Released) -> None:
        nonlocal worked_s
        for each in image.apply_released(released):
            images[each.end.end_offset] = each
            if len(images) > MAX_ENDS:
                images.popitem(last=False)
        before, worked_s = worked_s, time.thread_time()
        if worked_s - before > _MIN_WORK_S:
            stopping.wait((worked_s - before) * (1 / WORKS_FOR - 1))

    return deliver
