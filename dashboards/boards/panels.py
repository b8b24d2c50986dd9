"""Make panels from signals: one function for each way of showing a figure.

The rule: unit, legend and description come from the signals, so a panel without an explanation cannot be
made. Current figures are instant queries: a range query would show the last value of a series that has ended
as if it were current.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    prometheus,
    stat,
    statetimeline,
    statushistory,
    table,
    text,
)
from grafana_foundation_sdk.builders import dashboard as board
from grafana_foundation_sdk.builders import timeseries as series
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.text import TextMode

from dashboards.signals.first_screen import (
    FIGURES_STALE,
    NOT_IN_KRAFT,
    STALE,
    STALE_MEANING,
    unless_in_kraft,
    unless_stale,
    while_followed,
)
from dashboards.signals.signal import Signal

Steps: TypeAlias = tuple[tuple[float | None, str], ...]
"""Pairs of a value and the colour from that value on; None: the lowest colour."""

Texts: TypeAlias = Mapping[str, tuple[str, str]]
"""Value -> text and colour."""

NO_TEXTS: Texts = {}

Panel: TypeAlias = Builder[model.Panel]
P = TypeVar(
    "P",
    stat.Panel,
    series.Panel,
    statetimeline.Panel,
    bargauge.Panel,
    statushistory.Panel,
    table.Panel,
)

DATASOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The data source that the dashboard's variable chooses."""

PLAIN: Steps = ((None, "text"),)
ZERO_IS_GOOD: Steps = ((None, "green"), (1, "red"))
ZERO_IS_BEST: Steps = ((None, "green"), (1, "orange"))
STALE_IS_ORANGE: Steps = ((None, "orange"), (0, "green"), (1, "red"))
"""For a figure whose query is itself stale or missing: that has the colour of a problem."""
BLUE: Steps = ((None, "blue"),)
"""For figures without a limit: it is shown next to them, or there is no fixed one."""

NOT_KNOWN = "not known"
"""For a figure without a sample while the cluster is served."""

STALE_TEXT: Texts = {str(STALE): ("stale", "orange")}
NOT_IN_KRAFT_TEXT: Texts = {str(NOT_IN_KRAFT): ("not in KRaft", "text")}
YES_IS_GOOD: Texts = {"0": ("no", "red"), "1": ("yes", "green")}
NOBODY: Texts = {"-1": ("nobody", "red")}
ONLY_COLOUR: Texts = {"1": ("so", "blue")}

_LETTERS = "ABCDEFGHIJKL"
"""Names of a panel's queries."""

STAT_HEIGHT = 4
"""In grid rows: high enough that a figure is readable from a distance."""
_CELLS = 100
"""Most cells in a row: more are too narrow to be seen, and Grafana refuses to draw them."""

GRAPH_HEIGHT = 8
"""In grid rows: Grafana's usual height of a graph."""


def limit(value: float) -> Steps:
    """Return the steps of a graph that is red from a value on."""
    return ((None, "transparent"), (value, "red"))


def figure(
    title: str,
    *signals: Signal,
    span: int = 6,
    steps: Steps = PLAIN,
    texts: Texts = NO_TEXTS,
    no_value: str = "-",
    always: bool = False,
) -> stat.Panel:
    """Return a panel that shows the signals' current values in large letters.

    A figure that can be green is shown as stale while its cluster's figures do not follow. `always`: not
    this one, because it itself says whether figures follow, or counts clusters.
    """
    several = len(signals) > 1 or "{{" in signals[0].legend
    if signals[0].only_in_zookeeper:
        signals = (unless_in_kraft(signals[0]), *signals[1:])
        texts = {**texts, **NOT_IN_KRAFT_TEXT}
    if not always:
        signals, steps, texts = _unless_stale(signals, steps, texts)
    return (
        _common(stat.Panel(), title, signals, span=span, height=STAT_HEIGHT, instant=True)
        .no_value(no_value)
        .thresholds(_thresholds(steps))
        .mappings(_mappings(texts))
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .graph_mode(options.BigValueGraphMode.NONE)
        .color_mode(options.BigValueColorMode.VALUE)
        .text_mode(
            options.BigValueTextMode.VALUE_AND_NAME if several else options.BigValueTextMode.VALUE
        )
    )


def word(
    title: str, signal: Signal, *, span: int = 6, no_value: str = "-", always: bool = False
) -> stat.Panel:
    """Return a panel that shows the name of the one current series, or that it is stale.

    `always`: it is never stale, because it is no figure of the cluster or itself says whether figures follow.
    """
    signals = (signal,) if always else (while_followed(signal), FIGURES_STALE)
    steps = PLAIN if always else _orange_below_zero(PLAIN)
    return figure(title, *signals, span=span, steps=steps, no_value=no_value).text_mode(
        options.BigValueTextMode.NAME
    )


def lines(title: str, *signals: Signal, span: int = 12, steps: Steps = ()) -> series.Panel:
    """Return a graph over time; steps are drawn as dashed lines, and the axis always contains 0."""
    panel = (
        _common(series.Panel(), title, signals, span=span, instant=False)
        .axis_soft_min(0)
        .fill_opacity(8)
        .show_points(options.VisibilityMode.NEVER)
        .line_interpolation(options.LineInterpolation.STEP_AFTER)
        .tooltip(common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI))
        .legend(_legend(shown=True))
    )
    if steps:
        style = common.GraphThresholdsStyleConfig().mode(options.GraphThresholdsStyleMode.DASHED)
        panel = panel.thresholds(_thresholds(steps)).thresholds_style(style)
    return panel


def counts(title: str, *signals: Signal, span: int = 12, steps: Steps = ()) -> series.Panel:
    """Return a graph over time of counts: whole numbers only."""
    return lines(title, *signals, span=span, steps=steps).decimals(0)


def timeline(
    title: str, signal: Signal, *, span: int = 12, texts: Texts = NO_TEXTS, always: bool = False
) -> statetimeline.Panel:
    """Return bars over time, one colour per value, joined while the value stays the same.

    They are stale while the figures do not follow ZooKeeper. `always`: never, because the signal itself says whether
    they do.
    """
    colours = board.FieldColor().mode(model.FieldColorModeId.CONTINUOUS_BL_PU)
    shown = signal if always else unless_stale(signal)
    return (
        _common(statetimeline.Panel(), title, (shown,), span=span, instant=False)
        .color_scheme(colours)
        .min(0)
        .mappings(_mappings({**({} if always else STALE_TEXT), **texts}))
        .merge_values(True)
        .show_value(options.VisibilityMode.AUTO)
        .legend(_legend(shown=False))
    )


def links_to(title: str, description: str, *links: tuple[str, str], span: int) -> text.Panel:
    """Return a panel of links, each with its text and its address."""
    return (
        text.Panel()
        .title(title)
        .description(description)
        .span(span)
        .height(GRAPH_HEIGHT)
        .mode(TextMode.MARKDOWN)
        .content("\n".join(f"- [{name}]({address})" for name, address in links))
    )


def bars(
    title: str, signal: Signal, *, span: int = 12, steps: Steps = PLAIN, most: float | None = None
) -> bargauge.Panel:
    """Return a bar with the current value of each series; `most` is the value of a full bar, None: the largest."""
    signals, steps, texts = _unless_stale((signal,), steps, NO_TEXTS)
    panel = (
        _common(bargauge.Panel(), title, signals, span=span, instant=True)
        .min(0)
        .thresholds(_thresholds(steps))
        .mappings(_mappings(texts))
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .orientation(options.VizOrientation.HORIZONTAL)
        .display_mode(options.BarGaugeDisplayMode.BASIC)
    )
    return panel if most is None else panel.max(most)


def heat(title: str, signal: Signal, *, steps: Steps) -> statushistory.Panel:
    """Return a row of coloured cells over time for each series."""
    signals, steps, texts = _unless_stale((signal,), steps, NO_TEXTS)
    return (
        _common(statushistory.Panel(), title, signals, span=12, instant=False)
        .min(0)
        .max_data_points(_CELLS)
        .color_scheme(board.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .thresholds(_thresholds(steps))
        .mappings(_mappings(texts))
        .show_value(options.VisibilityMode.NEVER)
        .legend(_legend(shown=False))
    )


class Column(NamedTuple):
    """A column of a table: a signal with one series for each of the table's rows."""

    title: str
    signal: Signal
    steps: Steps = PLAIN
    texts: Texts = NO_TEXTS
    always: bool = False
    """Whether it is never shown as stale, because it itself says whether figures follow ZooKeeper."""

    def unless_stale(self) -> Column:
        """Return the column as it is shown: where it can be green, stale while its figures do not follow ZooKeeper."""
        if self.always:
            return self
        (signal,), steps, texts = _unless_stale((self.signal,), self.steps, self.texts)
        return self._replace(signal=signal, steps=steps, texts=texts)


def table_of(
    title: str,
    *columns: Column,
    span: int = 24,
    key: str,
    worst_by: str | None = None,
    link: str | None = None,
) -> table.Panel:
    """Return a table of current values with a row for each value of the label `key`.

    `worst_by` is the column by which the worst row is on top; None: the rows are in the order of the key. `link` is
    the address to which a click on the key leads; None: there is no link.
    """
    columns = tuple(column.unless_stale() for column in columns)
    signals = tuple(column.signal for column in columns)
    titles = [column.title for column in columns]
    heading = key.capitalize()
    sorting = common.TableSortByFieldState()
    names = {f"Value #{letter}": name for letter, name in zip(_LETTERS, titles, strict=False)}
    order = {name: place for place, name in enumerate((key, *names))}
    hidden = {"Time": True} if key == "cluster" else {"Time": True, "cluster": True}
    panel = (
        _common(table.Panel(), title, signals, span=span, instant=True, columns=titles)
        .with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            model.DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": hidden,
                    "indexByName": order,
                    "renameByName": {**names, key: heading},
                },
            )
        )
        .sort_by([sorting.display_name(worst_by or heading).desc(worst_by is not None)])
    )
    for column in columns:
        panel = panel.override_by_name(column.title, _column_properties(column))
    if link is not None:
        links = [{"title": "Open the board", "url": link}]
        panel = panel.override_by_name(heading, [model.DynamicConfigValue("links", links)])
    return panel


def _unless_stale(
    signals: tuple[Signal, ...], steps: Steps, texts: Texts
) -> tuple[tuple[Signal, ...], Steps, Texts]:
    """Return how signals are shown: where they can be green, stale while their figures do not follow ZooKeeper.

    They can be if a value is green and the lowest are green or plain.
    """
    colours = {colour for _, colour in (*steps, *texts.values())}
    if "green" not in colours or steps[0][1] not in {"green", PLAIN[0][1]}:
        return signals, steps, texts
    return tuple(map(unless_stale, signals)), _orange_below_zero(steps), {**STALE_TEXT, **texts}


def _orange_below_zero(steps: Steps) -> Steps:
    """Return steps that are orange below 0, where the values for stale and missing figures are."""
    (_, lowest), *others = steps
    return ((None, "orange"), (0, lowest), *others)


def _column_properties(column: Column) -> list[model.DynamicConfigValue]:
    properties = [model.DynamicConfigValue(id_val="unit", value=column.signal.unit)]
    if column.texts:
        properties.append(model.DynamicConfigValue("mappings", _mappings(column.texts)))
    if column.steps != PLAIN or column.texts:
        steps = _thresholds(column.steps).build()
        properties.append(model.DynamicConfigValue("thresholds", steps))
        properties.append(model.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}))
    return properties


def _described(signals: Sequence[Signal], names: Sequence[str]) -> str:
    """Return the description of a panel: that of its signal, or one paragraph for each, with its name if it has one."""
    texts = [
        signal.description
        if len(signals) == 1 or "{{" in name
        else f"**{name}:** {signal.description}"
        for name, signal in zip(names, signals, strict=True)
    ]
    if any(signal.shows_stale for signal in signals):
        texts.append(STALE_MEANING)
    return "\n\n".join(texts)


def _common(
    panel: P,
    title: str,
    signals: tuple[Signal, ...],
    *,
    span: int,
    height: int = GRAPH_HEIGHT,
    instant: bool,
    columns: Sequence[str] = (),
) -> P:
    described = (
        panel.title(title)
        .span(span)
        .height(height)
        .description(_described(signals, columns or [signal.legend for signal in signals]))
        .datasource(DATASOURCE)
        .unit(signals[0].unit)
    )
    if len(signals) > len(_LETTERS):
        raise ValueError(f"panel {title!r} has more queries than letters")
    for letter, signal in zip(_LETTERS, signals, strict=False):
        query = (
            prometheus.Dataquery()
            .ref_id(letter)
            .datasource(DATASOURCE)
            .expr(signal.on_board())
            .legend_format(signal.legend)
        )
        if columns:
            query = query.format(PromQueryFormat.TABLE)
        described = described.with_target(query.instant() if instant else query.range())
    return described


def _legend(*, shown: bool) -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .display_mode(options.LegendDisplayMode.LIST)
        .placement(options.LegendPlacement.BOTTOM)
        .show_legend(shown)
    )


def _thresholds(steps: Steps) -> board.ThresholdsConfig:
    return (
        board.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=value, color=colour) for value, colour in steps])
    )


def _mappings(texts: Texts) -> list[model.ValueMapping]:
    results = {
        value: model.ValueMappingResult(text=text, color=colour, index=index)
        for index, (value, (text, colour)) in enumerate(texts.items())
    }
    return [model.ValueMap(options=results)] if results else []
