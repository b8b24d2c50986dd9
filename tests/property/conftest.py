"""Settings of the property tests: the same examples at every run, and no limit of time for one."""

from __future__ import annotations

import hypothesis

hypothesis.settings.register_profile(
    "kcm",
    deadline=None,  # machines are shared; a slow example is not a wrong one
    derandomize=True,  # nothing may be flaky: a new example comes with a change of the test
    max_examples=70,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("kcm")
