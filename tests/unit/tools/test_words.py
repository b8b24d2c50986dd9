"""The list of words that were given up finds them in names and texts, and only there."""

import pytest

from tools.words import Standing, judged, standing

PLANTED = '''"""A controller's verdict."""

MOST_TRIES = 3  # live and young
# again, for good


class GhostReport:
    """A report."""

    def keep(self, allowed: int) -> None:
        self.followed = allowed  # a background

    def keep_report(self, Foreground: object) -> None:
        def look() -> None: ...
'''


def _found(path: str, text: str) -> set[tuple[int, str]]:
    return {(each.line, each.word) for each in standing({path: text})}


def test_names_and_texts_of_the_product_are_found() -> None:
    """A text, a constant, a phrase over two comments, a class and a method stand; parts of other words do not."""
    assert _found("exporter/core/report.py", PLANTED) == {
        (1, "verdict"),
        (3, "MOST_"),
        (3, "live and young again, for good"),
        (7, "ghost"),
        (10, "keep"),
    }


def test_tests_may_quote_words_but_not_phrases() -> None:
    """In a test, names and phrases stand; a word in a text does not."""
    found = _found("tests/unit/test_ghost.py", PLANTED)
    assert found >= {(1, "ghost"), (3, "MOST_"), (3, "live and young again, for good")}
    assert (1, "verdict") not in found


@pytest.mark.parametrize(
    ("path", "is_found"),
    [("helm/kcm/boards/a.json", True), ("dashboards/a.py", True), ("docs/a.md", False)],
)
def test_what_only_what_is_shipped_may_not_say(path: str, is_found: bool) -> None:
    """The past that never was may not stand in what is shipped; a page may tell of it."""
    text = '"readers of older releases"\n'
    assert _found(path, text) == ({(1, "older releases")} if is_found else set())


def test_an_exception_excuses_its_files_and_is_reported_when_it_meets_nothing() -> None:
    """Only the word of the exception in files of its glob may stand."""
    found = [Standing("docs/a.md", 1, "ghost", "a ghost"), Standing("docs/b.md", 2, "ghost", "two")]
    excuses = [("docs/a*", "ghost", "it quotes"), ("docs/a*", "audit", "it quotes")]
    assert judged(found, excuses) == (found[1:], [("docs/a*", "audit")])
