"""Orders clusters, the worst first: the one order of the live page, `kcm status` and the dashboard *Fleet*.

What is known of a cluster that is not followed is old, so it stands before those whose trouble is known.
The dashboard's weights (`dashboards.signals.fleet`) are in the same order.
"""


def trouble(
    *,
    is_followed: bool,
    controller: int | None,
    offline: int | None,
    under_min_isr: int | None,
    under_replicated: int | None,
) -> tuple[bool, bool, int, int, int]:
    """Return the sort key of a cluster; `is_followed`: its figures are neither behind nor blind; None: not known.

    >>> behind = trouble(
    ...     is_followed=False, controller=1, offline=0, under_min_isr=None, under_replicated=0
    ... )
    >>> offline = trouble(
    ...     is_followed=True, controller=1, offline=3, under_min_isr=0, under_replicated=3
    ... )
    >>> vacant = trouble(
    ...     is_followed=True, controller=-1, offline=0, under_min_isr=0, under_replicated=0
    ... )
    >>> sorted([offline, vacant, behind]) == [behind, vacant, offline]
    True
    """
    is_held = controller is None or controller >= 0
    return (is_followed, is_held, -(offline or 0), -(under_min_isr or 0), -(under_replicated or 0))
