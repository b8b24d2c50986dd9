"""Write samples as blocks of Prometheus's database, with promtool.

The text is cut at multiples of two hours, the range of a block. promtool reads its whole
input once for each block that it makes, so one text of a week would be read 84 times. Lines are in
the order of their times and not grouped by metric family: promtool takes each line by itself.
"""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from kcm.servers.prometheus import program_of_prometheus
from pipeline.runtime import EnvironmentProblemError

BLOCK_MS = 7_200_000
"""What a new block spans (Prometheus tsdb.DefaultBlockDuration)."""


class BlockWriter:
    """Writes samples to `blocks`; they are complete once the context has ended without an error."""

    def __init__(self, folder: Path, blocks: Path) -> None:
        """Take a folder for temporary texts and the one for blocks; raises EnvironmentProblemError."""
        self.samples = 0
        """How many samples were written."""
        self._text = folder / "samples.om"
        self._blocks = blocks
        self._promtool = program_of_prometheus("promtool")
        self._file: BinaryIO | None = None
        self._window = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        """Make the last block; makes none after an error."""
        if kind is None:
            self._finish()
        elif self._file is not None:
            self._file.close()

    def write(self, at: int, samples: bytes) -> None:
        """Write the samples of a moment, each with its timestamp; moments never go backwards.

        Raises EnvironmentProblemError where promtool cannot make a block.
        """
        window = at // BLOCK_MS
        if self._file is not None and window != self._window:
            self._finish()
        if self._file is None:
            self._window = window
            self._file = self._text.open("wb")
        self._file.write(samples)
        self.samples += samples.count(b"\n")

    def _finish(self) -> None:
        if self._file is None:
            return
        with self._file as file:
            file.write(b"# EOF\n")
        self._file = None
        command = [self._promtool, "tsdb", "create-blocks-from", "openmetrics"]
        done = subprocess.run(
            [*command, str(self._text), str(self._blocks)],
            capture_output=True,
            text=True,
            check=False,
        )
        self._text.unlink()
        if done.returncode:
            printed = (done.stderr or done.stdout).strip().splitlines()
            raise EnvironmentProblemError(
                f"promtool cannot make a block in {self._blocks}: {printed[-1] if printed else 'it printed nothing'}"
            )
