"""Find Prometheus's own programs on this machine, and ask a server whether it is ready.

The rule: nothing downloads them. Servers are on this machine, so no proxy is used.
"""

import http.client
import shutil
import urllib.request

from pipeline.runtime import EnvironmentProblemError

DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_READY_TIMEOUT_S = 1.0
"""A healthy server answers in a few milliseconds."""


def program_of_prometheus(name: str) -> str:
    """Return the path of `prometheus` or `promtool`; raises EnvironmentProblemError when it is missing."""
    found = shutil.which(name)
    if found is None:
        raise EnvironmentProblemError(
            f"the program {name} is not on PATH; install it (Debian: apt install prometheus)"
        )
    return found


def why_not_ready(url: str) -> str | None:
    """Return None when the server is ready, else why it is not known to be."""
    ready = f"{url}/-/ready"
    try:
        DIRECTLY.open(ready, timeout=_READY_TIMEOUT_S).close()
    except (OSError, http.client.HTTPException) as error:
        return f"{ready}: {error}"
    return None
