"""Paths that the watcher may not read, and what of a cluster cannot be seen because of them."""

from collections.abc import Collection, Container, Iterable, Mapping

from controller_model.records.changes import ZnodeChange
from controller_model.records.views import Capability
from controller_model.state.cluster import ClusterState

_TOPICS = "/brokers/topics"

_PATHS: Mapping[Capability, tuple[str, ...]] = {
    Capability.CONTROLLER: ("/controller", "/controller_epoch"),
    Capability.BROKERS: ("/brokers/ids",),
    Capability.TOPICS: (_TOPICS,),
    Capability.TOPIC_CONFIGS: ("/config/topics",),
    Capability.BROKER_CONFIGS: ("/config/brokers",),
    Capability.DELETIONS: ("/admin/delete_topics",),
    Capability.REQUESTS: (
        "/admin/preferred_replica_election",
        "/admin/reassign_partitions",
        "/isr_change_notification",
        "/log_dir_event_notification",
        "/config/changes",
    ),
    Capability.CLUSTER: ("/cluster", "/feature", "/migration", "/brokers/seqid"),
}
"""The subtrees that hold what belongs to each capability."""


def is_below(path: str, denied: Iterable[str]) -> bool:
    """Return whether a path is one of the denied ones, or below one.

    >>> is_below("/brokers/topics/t", ["/brokers/topics/t2", "/brokers"])
    True
    """
    return any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in denied)


def root_of(path: str, denied: Container[str]) -> str | None:
    """Return the topmost denied path that a path is, or is below; None if there is none.

    >>> root_of("/brokers/topics/t", {"/brokers/topics/t2", "/brokers"})
    '/brokers'
    """
    if "/" in denied:
        return "/"
    end = path.find("/", 1)
    while end > 0:
        if path[:end] in denied:
            return path[:end]
        end = path.find("/", end + 1)
    return path if path in denied else None


def hidden_by(denied: Collection[str]) -> tuple[Capability, ...]:
    """Return what cannot be seen, wholly or in part, while these paths are denied.

    >>> [each.value for each in hidden_by(["/brokers/topics/t", "/config"])]
    ['topics', 'topic_configs', 'broker_configs', 'requests']
    """
    return tuple(
        capability
        for capability, roots in _PATHS.items()
        if any(
            is_below(root, denied) or any(is_below(d, (root,)) for d in denied) for root in roots
        )
    )


def note_denied(state: ClusterState, change: ZnodeChange, still: Collection[str] = ()) -> None:
    """Store what a control record says that the watcher is denied, and what is `still` not proved."""
    log = state.control.log
    view = log.view
    denied = tuple(sorted({*change.denied, *still})) if still else change.denied
    if (denied, change.denied_more) == (view.denied, view.denied_more):
        return
    for path in set(denied).symmetric_difference(view.denied):
        _mark_topics(state, path)
    view.denied, view.denied_more = denied, change.denied_more
    missed = [path for path in denied if not is_below(path, _PATHS[Capability.BROKER_CONFIGS])]
    log.hidden_reason = None
    if missed:
        unnamed = len(missed) - 1 + change.denied_more
        others = f" and {unnamed} more" if unnamed else ""
        log.hidden_reason = (
            f"READ is denied on {missed[0]}{others}: what depends on it is not known"
        )


def _mark_topics(state: ClusterState, path: str) -> None:
    """Mark views of topics to be made again of which this path holds a part."""
    if is_below(_TOPICS, (path,)):
        for name in state.topics.names():
            state.mark_changed(name)
    elif is_below(path, (_TOPICS,)):
        state.mark_changed(path.removeprefix(f"{_TOPICS}/").partition("/")[0])
