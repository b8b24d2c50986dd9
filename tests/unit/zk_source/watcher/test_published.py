"""What exists according to the log, and its digest."""

from __future__ import annotations

from tests.support.ensemble_in_memory import digest_of
from zk_source.watcher.published import Published


def test_the_digest_is_that_of_the_znodes_held() -> None:
    """It follows sets, newer values and deletes; a delete of an unknown path changes nothing."""
    published = Published()
    assert published.digest == digest_of({})
    published.add("/a", 1)
    published.add("/b", 2)
    published.add("/a", 3)
    assert published.digest == digest_of({"/a": 3, "/b": 2})
    published.remove("/unknown")
    published.remove("/b")
    assert published.digest == digest_of({"/a": 3})
    assert (len(published), published.mzxid("/a"), published.mzxid("/b")) == (1, 3, None)


def test_published_paths_are_listed_once() -> None:
    """They come in the order in which they were last published."""
    published = Published()
    for mzxid, path in enumerate(("/a", "/c", "/b", "/c")):
        published.add(path, mzxid)
    assert list(published) == ["/a", "/b", "/c"]
