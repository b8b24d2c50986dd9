"""The walk counts what a changed leader passes."""

from tools.walk import PASSED, Function, report, walk


def test_a_changed_leader_is_seen_in_every_part() -> None:
    """Watcher, fold, exporter, scrape and answers are all recorded, each in its own part."""
    parts = walk()
    packages = {
        part: {each.path.split("/")[0] for each in passed} for part, passed in parts.items()
    }
    assert "zk_source" in packages["watch"]
    assert {"streaming", "controller_model"} <= packages["fold"]
    assert "exporter" in packages["show"] & packages["scrape"] & packages["ask"]
    named = {(each.path, each.name) for each in parts["watch"] | parts["fold"]}
    assert ("zk_source/watcher/watcher.py", "Watcher.on_event") in named
    assert ("streaming/processor.py", "FoldProcessor.handleInputRows") in named


def test_a_function_counts_once_and_properties_count_apart() -> None:
    """What two parts pass is one function; a property and what only a scrape passes are none."""
    shared, own = Function("web/a.py", "f", False), Function("web/b.py", "g", False)
    parts: dict[str, set[Function]] = {part: {shared} for part in PASSED}
    parts["show"] = {shared, own, Function("web/c.py", "C.p", True)}
    parts["scrape"] = {Function("web/d.py", "h", False)}
    *_, properties, total = report(parts)
    assert properties.startswith("1 properties")
    assert total == "A changed leader passes 2 functions in 2 files"
