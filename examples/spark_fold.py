"""The fold, for a Spark platform: `spark-submit --master 'local[1]' spark_fold.py [OPTIONS OF KCM STREAM]`.

The fold starts a JVM of its own, with options that only a start takes, and kills it when it hangs. So it gets nothing of the one that
spark-submit has started, and ends when that one ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""Of prctl(2): the signal that this process gets when the thread that started it ends."""


def main(arguments: list[str]) -> None:
    """Become `kcm stream`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    names = ("PYSPARK_", "SPARK_", "_PYSPARK_", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    kcm = (sys.executable, "-m", "kcm", "stream", *arguments)
    os.execve(sys.executable, kcm, kept)  # noqa: S606  # no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
