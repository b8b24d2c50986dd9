"""The exact count of the controller's elections, from its epochs.

The rule: the controller epoch grows by one per election, so the count follows the epoch, and an
election that nobody watched is still counted. /controller and /controller_epoch are read one after the
other. So the count is ahead of the epoch by the elections whose /controller has been read and whose
epoch has not. The count never falls.
"""

import msgspec

from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.views import ControllerView
from controller_model.sources.zookeeper.state import ElectionCount


def start_count(count: ElectionCount, view: ControllerView, *, epoch_is_behind: bool) -> None:
    """Count from now on: a controller that is there is one election."""
    count.awaiting_epoch = int(epoch_is_behind)
    count.base_epoch = None if view.epoch is None else view.epoch + count.awaiting_epoch
    count.base_elections = int(view.id != NO_CONTROLLER)
    count.seen = 0


def continue_from(count: ElectionCount, view: ControllerView, epoch: int) -> None:
    """Keep what has been counted, and continue from this epoch."""
    count.base_epoch = epoch
    count.base_elections = view.elections
    count.base_missed = view.missed_elections
    count.seen = 0


def skip_epochs(count: ElectionCount, view: ControllerView) -> None:
    """Leave out the epochs that KRaft skipped: its own epoch becomes the controller epoch."""
    if view.epoch is None or count.base_epoch is None:
        return
    if count.base_elections + view.epoch - count.base_epoch > view.elections:
        continue_from(count, view, view.epoch)


def tally(
    count: ElectionCount, view: ControllerView, *, both_read: bool, is_final: bool = False
) -> tuple[int, int]:
    """Return (elections, missed ones) up to what is known now.

    Missed ones are only known once both znodes of the last election are read (`both_read`), or if no
    /controller can be read after the epoch any more (`is_final`).
    """
    by_epoch = 0
    if view.epoch is not None and count.base_epoch is not None:
        by_epoch = view.epoch - count.base_epoch + count.awaiting_epoch
    elections = max(view.elections, count.base_elections + max(by_epoch, count.seen))
    if both_read and count.base_epoch is not None:
        # Counting may have begun between the two reads of an election: from here on both agree.
        count.base_epoch -= max(0, count.seen - by_epoch)
    if not both_read and not is_final:
        return elections, view.missed_elections
    missed = count.base_missed + elections - count.base_elections - count.seen
    return elections, max(view.missed_elections, missed)


def final_tally(count: ElectionCount, view: ControllerView) -> tuple[int, int]:
    """Return (elections, missed ones) as if the log ended here, without a change to the count."""
    return tally(msgspec.structs.replace(count), view, both_read=False, is_final=True)
