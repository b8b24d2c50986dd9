"""The release of pyspark whose insides `streaming` uses, and the form of what it uses.

What the fold changes in the JVM is checked there (tests/component/fold/test_fixed_costs_of_the_jvm).
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from typing import Any

import pyspark
import pyspark.daemon
import pytest
from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import GroupedData, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

MEASURED = "4.2.1"
"""The release with which `python -m bench patches` was run; pyproject.toml pins it."""

AGAIN = (
    "compare it with streaming, run `python -m bench patches`, drop each patch that saves less than "
    "3 %, then correct the figures in streaming and what is expected here"
)

SOURCES: dict[str, tuple[Callable[..., Any], str]] = {
    "query._transform_with_state": (
        vars(GroupedData.__mro__[1])["_PandasGroupedOpsMixin__transformWithState"],
        "93367c6aeff31904",
    ),
    "fixed_costs.freeze_long_lived": (pyspark.daemon.manager, "e1d4aba6f19425df"),
    "progress.ProgressReader": (vars(StreamingQuery)["recentProgress"].fget, "bb35bb83e96ac222"),
    "session.Session, its JVM": (launch_gateway, "0eb0ebee11b4e2af"),
    "session._forget_gateway": (
        vars(SparkContext)["_ensure_initialized"].__func__,
        "c65a6855846a4b56",
    ),
}
"""By what of ours builds on it: a function of pyspark, and the beginning of the hash of its source."""

ATTRIBUTES = {
    SparkContext: ("_active_spark_context", "_gateway", "_jvm"),
    SparkSession: ("_activeSession", "_instantiatedSession"),
}
"""pyspark's private attributes that `session._forget_gateway` sets."""


def test_spark_is_the_measured_release() -> None:
    """Another one may have made a patch useless, or harmful."""
    assert pyspark.__version__ == MEASURED, (
        f"streaming was measured with pyspark {MEASURED}; found {pyspark.__version__}: {AGAIN}"
    )


@pytest.mark.parametrize("ours", SOURCES)
def test_a_function_of_pyspark_that_ours_builds_on_is_unchanged(ours: str) -> None:
    """To the letter: what it does is done otherwise by ours, or relied on."""
    function, expected = SOURCES[ours]
    found = hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:16]
    name = f"{function.__module__}.{function.__qualname__}"
    assert found == expected, f"{name} has changed (now {found}), on which {ours} builds: {AGAIN}"


def test_each_private_attribute_of_pyspark_exists() -> None:
    """A new name would keep a dead JVM in use."""
    missing = [
        f"{owner.__name__}.{name}"
        for owner, names in ATTRIBUTES.items()
        for name in names
        if name not in vars(owner)
    ]
    assert not missing, f"pyspark has no {', '.join(missing)}: {AGAIN}"
