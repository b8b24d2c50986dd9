"""List the names and phrases that the project has given up, where they still stand.

    python -m tools.words

The vocabulary is small: one idea has one name, and the name is Kafka's, ZooKeeper's, Spark's or Prometheus's
where they have one. `WORDS` says for each word that was given up what is said instead, and where it is looked for:

- a *name* is what Python code defines: a module, class, function, argument, variable, attribute or field. Uses
  follow their definition, so a library's own names are never found unless we override them;
- a *text* is anything that is read: comments, docstrings and strings of the product, pages, chart, boards, images;
  of the tests and the bench, only the phrases are looked for in texts, since they may quote anything else.

`EXCEPTIONS` holds what may stand, each with its reason; one that meets nothing any more is reported as well. Exits
with 1 if anything is reported.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path

PRODUCT = frozenset(
    {
        "controller_model",
        "controller_simulator",
        "dashboards",
        "exporter",
        "kcm",
        "kraft_source",
        "pipeline",
        "rehearsal",
        "source_log",
        "streaming",
        "web",
        "zk_source",
    }
)
_SHIPPED = PRODUCT | {"docker", "helm"}
_TESTS = frozenset({"bench", "tests"})
_OWN = frozenset({"tools/words.py", "tests/unit/tools/test_words.py"})
_READ = frozenset(
    {
        "",
        ".css",
        ".html",
        ".js",
        ".json",
        ".md",
        ".py",
        ".sh",
        ".toml",
        ".tpl",
        ".txt",
        ".yaml",
        ".yml",
    }
)
MAX_RULES = 120
"""How often "The rule:" may stand in the product: it marks what breaks figures when it is broken, and no more."""


class Where(Enum):
    """Where a word is looked for."""

    NAMES = "names of all Python files"
    FUNCTIONS = (
        "whole names of functions and methods without leading underscores; closures may say less"
    )
    WORDS = "names of all Python files, and texts outside tests and bench"
    PHRASES = "all texts"
    SHIPPED = "names and texts of what is shipped"


@dataclass(frozen=True)
class Word:
    """A word or phrase that was given up.

    Attributes:
        says: What the report and the exceptions call it.
        instead: What is said today.
        where: Where it is looked for.
        pattern: What finds it, in the text or name as it stands.
        within: Glob of the files' paths that it is looked for in.
    """

    says: str
    instead: str
    where: Where
    pattern: re.Pattern[str]
    within: str = "*"


def _word(says: str, instead: str, where: Where = Where.WORDS, *, stem: str | None = None) -> Word:
    """Return a word that begins with a stem, as a word or as a part of a snake_case or CamelCase name."""
    stem = stem or says + "(?![a-z])"
    camel = stem[0].upper() + stem[1:]
    return Word(says, instead, where, re.compile(f"(?<![A-Za-z])(?i:{stem})|{camel}"))


def _exact(says: str, instead: str, pattern: str, where: Where = Where.NAMES) -> Word:
    return Word(says, instead, where, re.compile(pattern))


def _phrase(says: str, instead: str, where: Where = Where.PHRASES) -> Word:
    """Return a phrase that is found across the ends of lines, of comments' lines and of strings too."""
    gap = r"(?:\s|[\"'#*])+"
    words = (re.escape(word) for word in says.split())
    return Word(says, instead, where, re.compile(gap.join(words), re.IGNORECASE))


_PLAIN = "plain technical English, present tense"

WORDS = (
    _word("audit", "reconciliation", stem="audit"),
    _word("verdict", "controller health", stem="verdict"),
    _word("patience", "write timeout", stem="patience"),
    _word("ghost", "zombie", stem="ghost"),
    _word("prediction", "pending writes", stem="prediction"),
    _exact(
        "writes due",
        "pending writes",
        "(?i:writes[ _-]due|write_due|due_writes)|WritesDue|WriteDue",
        Where.WORDS,
    ),
    _word("owed", "pending"),
    _exact("Due", "pending writes", r"^_*Due$|^_*Due[A-Z]"),
    _exact("MOST_", "MAX_", r"^_*(AT_)?MOST_"),
    _exact("FEWEST_", "MIN_", r"^_*FEWEST_"),
    _exact("_WITHIN_S", "_TIMEOUT_S", r"_WITHIN_S$"),
    _exact("_EVERY_S", "_INTERVAL_S", r"_EVERY_S$"),
    _exact("OF_THE_JVM", "a noun", "OF_THE_JVM"),
    _exact("take_in", "handle_x", "^take_in$", Where.FUNCTIONS),
    _exact("take", "apply_x, handle_x", "^take$", Where.FUNCTIONS),
    _exact("keep", "store_x", "^keep$", Where.FUNCTIONS),
    _exact("settle", "apply_x, wait_for_x", "^settle$", Where.FUNCTIONS),
    _exact("miss", "mark_incomplete", "^miss$", Where.FUNCTIONS),
    _exact("hold", "store_x", "^hold$", Where.FUNCTIONS),
    _exact("turn", "poll", "^turn$", Where.FUNCTIONS),
    _exact("look", "poll, observe_x", "^look$", Where.FUNCTIONS),
    _exact("let_go", "release_x", "^let_go$", Where.FUNCTIONS),
    _exact("saw", "observe_x", "^saw$", Where.FUNCTIONS),
    replace(_exact("_judge", "slew, outlier", "^_judge$"), within="*log_clock*"),
    _exact("_melt", "slew", r"^_?melt"),
    _word("absurd", "outlier", Where.NAMES),
    _word("doubted", "outlier", Where.NAMES),
    _exact("look_for_cycles", "relax_gc", "look_for_cycles"),
    _exact("skip_what_stays", "freeze_long_lived", "skip_what_stays"),
    _exact("FORGETS_EACH", "an interval", "FORGETS_EACH"),
    _exact("NOT_SO", "EXIT_CONDITION_FALSE", "NOT_SO"),
    _exact("lay_ground", "build_cluster", "lay_ground|lays_ground"),
    _word("ground", "cluster", Where.NAMES),
    _word("storyteller", "DemoRun"),
    _word("scene", "Step", Where.NAMES, stem="scenes?(?![a-z])"),
    _exact("_linger", "a wait", "^_*linger$"),
    _exact("UNHURRIED", "a wait", "UNHURRIED"),
    _word("restless", "flapping", stem="restless"),
    _phrase("topics are created that invite trouble", "what is done, in Kafka's words"),
    _phrase("live and young again, for good", _PLAIN),
    _phrase("whatever befalls", _PLAIN),
    _phrase("it does no harm to be at it to the byte", _PLAIN),
    _phrase("takes all for good", _PLAIN),
    _phrase("a partition stands in it twice", _PLAIN),
    _phrase("drill of the system tests", "what the figure means, what is normal", Where.SHIPPED),
    _phrase("from an older exporter", "nothing: there is no older release", Where.SHIPPED),
    _phrase("older releases", "nothing: there is no older release", Where.SHIPPED),
    _word("DemoStep", "nothing: tests/system knows the steps", Where.SHIPPED),
    _word("DrillStep", "nothing: tests/system knows the steps", Where.SHIPPED),
    _word("moved_by", "nothing: tests/system knows the steps", Where.SHIPPED),
)

EXCEPTIONS: tuple[tuple[str, str, str], ...] = (
    ("tests/*", "verdict", "what an oracle or the judge of a fault says, not the controller's"),
    ("tests/*", "scene", "what a test sets up, not a step of the demo"),
    ("kcm/demo/*", "audit", "a topic of the demo's cluster"),
    ("kcm/run/look.py", "look", "the verb `kcm look`"),
    ("exporter/core/life_signs.py", "Due", "a position of the log that the view has yet to reach"),
)
"""Glob of a path, word, and why it may stand there. A `*` of the glob meets slashes too."""


@dataclass(frozen=True, order=True)
class Standing:
    """A word that still stands: in which file and line, and the name or piece of text that holds it."""

    path: str
    line: int
    word: str
    text: str


def standing(files: Mapping[str, str]) -> list[Standing]:
    """Return every word of the table that stands in texts of files by path, in the order of the files."""
    return sorted(found for path, text in files.items() for found in _in_file(path, text))


def judged(
    found: Iterable[Standing], exceptions: Iterable[tuple[str, str, str]] = EXCEPTIONS
) -> tuple[list[Standing], list[tuple[str, str]]]:
    """Return what stands without an exception, and the exceptions (glob, word) that meet nothing."""
    unmet = {(glob, word) for glob, word, _ in exceptions}
    bare = []
    for each in found:
        excused = {
            (glob, word)
            for glob, word, _ in exceptions
            if word == each.word and fnmatchcase(each.path, glob)
        }
        unmet -= excused
        if not excused:
            bare.append(each)
    return bare, sorted(unmet)


def _in_file(path: str, text: str) -> Iterator[Standing]:
    room = path.split("/", 1)[0]
    is_python = path.endswith(".py")
    names = list(_names(path, text)) if is_python else []
    texts = _python_texts(text) if is_python else [(1, text)]
    for word in WORDS:
        if word.where is Where.SHIPPED and room not in _SHIPPED:
            continue
        if not fnmatchcase(path, word.within):
            continue
        if word.where is not Where.PHRASES:
            for line, name, is_function in names:
                part = name.lstrip("_") if word.where is Where.FUNCTIONS else name
                if (is_function or word.where is not Where.FUNCTIONS) and word.pattern.search(part):
                    yield Standing(path, line, word.says, name)
        if word.where is Where.PHRASES and is_python:
            yield from _in_texts(path, [(1, text)], word)
        elif word.where in (Where.PHRASES, Where.SHIPPED) or (
            word.where is Where.WORDS and room not in _TESTS
        ):
            yield from _in_texts(path, texts, word)


def _in_texts(path: str, texts: Iterable[tuple[int, str]], word: Word) -> Iterator[Standing]:
    for first, text in texts:
        for found in word.pattern.finditer(text):
            line = first + text.count("\n", 0, found.start())
            begin = text.rfind("\n", 0, found.start()) + 1
            whole = text[begin:].split("\n", 1)[0].strip()
            yield Standing(path, line, word.says, whole[:100])


def _names(path: str, source: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the line of each name that a file defines, the name, and whether it is a function's or method's."""
    yield 1, Path(path).stem, False
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    closures = {
        inner
        for outer in nodes
        if isinstance(outer, functions)
        for inner in outer.body
        if isinstance(inner, functions)
    }
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name, node not in closures
            case (
                ast.ClassDef(name=name)
                | ast.arg(arg=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
                | ast.alias(asname=str(name))
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                yield node.lineno, name, False


def _python_texts(source: str) -> list[tuple[int, str]]:
    """Return comments and strings with their first lines; neighbours stand in one text."""
    texts: list[tuple[int, str]] = []
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind in ("COMMENT", "STRING", "FSTRING_MIDDLE"):
            line = token.start[0]
            if texts and line == last + 1:
                texts[-1] = (texts[-1][0], f"{texts[-1][1]}\n{token.string}")
            else:
                texts.append((line, token.string))
            last = token.end[0]
    return texts


def _tracked(root: Path) -> dict[str, str]:
    """Return the texts of the files that git knows, or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],  # noqa: S607 - whichever git is on the path
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    texts = {}
    for path in sorted(set(listed) - _OWN):
        file = root / path
        if file.suffix in _READ and file.is_file() and not path.startswith("tests/recorded/"):
            texts[path] = file.read_text(encoding="utf-8", errors="replace")
    return texts


def main() -> int:
    """Print what stands, by word and place; return 1 if it should not."""
    files = _tracked(Path(__file__).parents[1])
    bare, unmet = judged(standing(files))
    say = sys.stdout.write
    instead = {word.says: word.instead for word in WORDS}
    for each in bare:
        say(f'{each.path}:{each.line}: "{each.word}" (say: {instead[each.word]}): {each.text}\n')
    for glob, word in unmet:
        say(f'tools/words.py: the exception "{word}" in {glob} meets nothing: remove it\n')
    rules = sum(text.count("The rule:") for path, text in files.items() if _is_product(path))
    if rules > MAX_RULES:
        say(f'"The rule:" stands {rules} times in the product, at most {MAX_RULES} may\n')
    for word, times in Counter(each.word for each in bare).most_common():
        say(f"{times:6} {word}\n")
    say(f"{len(bare)} words stand that were given up\n")
    return 1 if bare or unmet or rules > MAX_RULES else 0


def _is_product(path: str) -> bool:
    return path.split("/", 1)[0] in PRODUCT and path.endswith(".py")


if __name__ == "__main__":
    sys.exit(main())
