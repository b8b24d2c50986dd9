"""Says in words why something of a cluster is not known, and how much of a cluster ZooKeeper still shows."""

from controller_model.insight.wording import time_text
from controller_model.records.views import Capability, ClusterView
from controller_model.records.visibility import Needs

_NAMED = 3
"""Denied paths that a reason names."""


def unseen(view: ClusterView, needs: Needs) -> str | None:
    """Return in words why what needs these is not known, or does not exist; None: all of them can be seen."""
    if absent := needs.intersection(view.log.absent):
        what = " and no ".join(each.replace("_", " ") for each in Capability if each in absent)
        if view.quorum is None:
            return f"not known, because this cluster's source shows no {what}"
        return f"a KRaft cluster has no {what}: what its controller decides is written at once"
    lacking = needs.intersection(view.log.hidden)
    if not lacking:
        return None
    what = ", ".join(each.replace("_", " ") for each in Capability if each in lacking)
    if view.log.left_since is not None:
        return f"not known, because {what} cannot be seen in ZooKeeper. {left_text(view)}"
    denied = ", ".join(view.log.denied[:_NAMED])
    more = len(view.log.denied[_NAMED:]) + view.log.denied_more
    return f"not known, because {what} cannot be seen: READ is denied on {denied}{f' and {more} more' if more else ''}"


def left_text(view: ClusterView) -> str:
    """Return what is known of a cluster that has left ZooKeeper, wholly or in part, for KRaft."""
    since, migration = view.log.kraft_since, view.config.migration
    what = f"a copy up to offset {migration.metadata_offset}" if migration else "at most a copy"
    ends = (
        f", last written {time_text(migration.written_at)}"
        if migration and Capability.TOPICS in view.log.hidden
        else ", and not all brokers are registered in it"
    )
    return f"A KRaft controller runs the cluster{f' since {time_text(since)}' if since else ''}: ZooKeeper is {what}{ends}"
