"""What a file with a queue keeps, loses and says of what it lost."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator

import pytest

from pipeline.queued_file import QueuedFile
from tests.support.waiting import wait_until


class Pipe(io.StringIO):
    """A pipe whose reader reads only while `reader_reads` is set, and that refuses what is written while `is_full`."""

    def __init__(self) -> None:
        super().__init__()
        self.reader_reads = threading.Event()
        self.writing = threading.Event()
        self.is_full = False

    def write(self, text: str) -> int:
        """Wait until somebody reads."""
        self.writing.set()
        self.reader_reads.wait()
        if self.is_full:
            raise OSError(28, "No space left on device")
        return super().write(text)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A pipe that nobody reads yet."""
    made = Pipe()
    yield made
    made.reader_reads.set()


def queued(pipe: Pipe, max_waiting: int = 10) -> QueuedFile:
    """Return a file whose thread waits for the pipe's reader, with its first line."""
    file = QueuedFile(pipe, lambda lines: f"lost {lines}\n", max_waiting=max_waiting)
    file.write("a\n")
    assert pipe.writing.wait(10)
    return file


def test_what_finds_no_room_is_lost_and_the_next_line_says_so(pipe: Pipe) -> None:
    """The loss is told at its place: after what waited, before what found room again."""
    file = queued(pipe)
    for text in ("bb\n", "cc\n", "dd\nee\n", "ff\n", "g\n"):
        file.write(text)  # 2 characters are being written, and 8 more may wait
    assert file.lost_lines == 3
    pipe.reader_reads.set()
    assert file.finish(10)
    assert pipe.getvalue() == "a\nbb\ncc\nlost 3\ng\n"


def test_losses_are_told_at_the_end_if_no_line_follows(pipe: Pipe) -> None:
    """Nobody takes a log for whole that is not."""
    file = queued(pipe)
    file.write("too long for it\n")
    pipe.reader_reads.set()
    assert file.finish(10)
    assert pipe.getvalue() == "a\nlost 1\n"


def test_a_text_longer_than_the_queue_is_written_when_nothing_waits(pipe: Pipe) -> None:
    """The limit bounds what waits, not a line."""
    pipe.reader_reads.set()
    file = queued(pipe)
    wait_until(lambda: file._waiting == 0)
    file.write("a traceback of many lines\n")
    assert file.finish(10)
    assert (pipe.getvalue(), file.lost_lines) == ("a\na traceback of many lines\n", 0)


def test_what_a_full_disk_refuses_counts_as_lost_until_a_line_has_said_so(pipe: Pipe) -> None:
    """Also the line that would have told of the first loss is refused: the next one tells of all."""
    pipe.is_full = True
    file = queued(pipe, 100)
    pipe.reader_reads.set()
    file.write("b\n")
    wait_until(lambda: file.lost_lines == 2)
    pipe.is_full = False
    file.write("c\n")
    assert file.finish(10)
    assert pipe.getvalue() == "lost 2\nc\n"


def test_an_end_waits_for_a_reader_no_longer_than_its_limit(pipe: Pipe) -> None:
    """A pipe that nobody reads holds up no process."""
    file = queued(pipe)
    assert not file.finish(0.01)
    pipe.reader_reads.set()
    assert file.finish(10)


def test_it_passes_for_the_file(pipe: Pipe) -> None:
    """Libraries ask whether it is a terminal, and find out that it takes no bytes by writing some."""
    file = queued(pipe)
    assert not file.isatty()
    with pytest.raises(io.UnsupportedOperation):
        file.fileno()
    with pytest.raises(TypeError, match="not bytes"):
        file.write(b"")  # type: ignore[arg-type]  # the error is the purpose
