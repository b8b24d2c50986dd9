"""Says which build of the package this process runs: its version, and the revision that it was made from.

The file `revision.txt` stands in wheels and source distributions only: `tools/build_hook.py` puts it there. Without it, as in a checkout whose
files may change under a running process, the revision is not known.
"""

from pathlib import Path

DISTRIBUTION = "kafka-controller-monitor"

_REVISION = Path(__file__).with_name("revision.txt")


def version() -> str:
    """Return the version of the installed package."""
    import importlib.metadata  # noqa: PLC0415  # takes longer than all else that some verbs need

    return importlib.metadata.version(DISTRIBUTION)


def revision(file: Path = _REVISION) -> str:
    """Return the commit that this build was made from, with `-dirty` where files differed from it; `unknown` in a checkout."""
    return file.read_text(encoding="utf-8").strip() if file.is_file() else "unknown"
