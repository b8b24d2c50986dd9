"""From signals to panels: one function for each way of showing a figure.

The rule: a panel says what its signals say. Unit, legend and description come from them, so a panel
without an explanation cannot be made. Figures of now are instant queries: a range would show the
last value of a series that has ended as if it still were so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

from grafana_foundation_sdk.builders import bargauge, common, prometheus, stat, statetimeline
from grafana_foundation_sdk.builders import dashboard as board
from grafana_foundation_sdk.builders import timeseries as series
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard as model

from dashboards.signals import Signal

Steps: TypeAlias = tuple[tuple[float | None, str], ...]
"""From which value on which colour; None is the lowest."""

Texts: TypeAlias = Mapping[str, tuple[str, str]]
"""Value -> text and colour."""

Panel: TypeAlias = stat.Panel | series.Panel | statetimeline.Panel | bargauge.Panel
P = TypeVar("P", stat.Panel, series.Panel, statetimeline.Panel, bargauge.Panel)

DATASOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
"""Chosen by the board's variable."""

PLAIN: Steps = ((None, "text"),)
ZERO_IS_GOOD: Steps = ((None, "green"), (1, "red"))
ZERO_IS_BEST: Steps = ((None, "green"), (1, "orange"))

_STAT_HEIGHT = 4
"""Grid rows: one figure is readable from a distance."""
_GRAPH_HEIGHT = 8
"""Grid rows: Grafana's usual height of a graph."""


def figure(
    title: str,
    *signals: Signal,
    span: int,
    steps: Steps = PLAIN,
    texts: Texts | None = None,
    no_value: str = "-",
) -> stat.Panel:
    """Return a panel that shows the signals' values of now in large letters."""
    several = len(signals) > 1 or "{{" in signals[0].legend
    return (
        _common(stat.Panel(), title, signals, instant=True)
        .height(_STAT_HEIGHT)
        .span(span)
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


def word(title: str, signal: Signal, *, span: int, no_value: str = "-") -> stat.Panel:
    """Return a panel that shows the name of the one series that there is now."""
    return figure(title, signal, span=span, no_value=no_value).text_mode(
        options.BigValueTextMode.NAME
    )


def lines(
    title: str, *signals: Signal, span: int, steps: Steps = (), decimals: int | None = None
) -> series.Panel:
    """Return a graph over time; steps are drawn as dashed lines, 0 is always on it."""
    panel = (
        _common(series.Panel(), title, signals, instant=False)
        .height(_GRAPH_HEIGHT)
        .span(span)
        .axis_soft_min(0)
        .fill_opacity(8)
        .show_points(options.VisibilityMode.NEVER)
        .line_interpolation(options.LineInterpolation.STEP_AFTER)
        .tooltip(common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI))
        .legend(
            common.VizLegendOptions()
            .display_mode(options.LegendDisplayMode.LIST)
            .placement(options.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
    )
    if decimals is not None:
        panel = panel.decimals(decimals)
    if steps:
        style = common.GraphThresholdsStyleConfig().mode(options.GraphThresholdsStyleMode.DASHED)
        panel = panel.thresholds(_thresholds(steps)).thresholds_style(style)
    return panel


def timeline(
    title: str, signal: Signal, *, span: int, texts: Texts | None = None
) -> statetimeline.Panel:
    """Return bars over time, one colour per value, joined while the value stays the same."""
    colours = board.FieldColor().mode(model.FieldColorModeId.CONTINUOUS_BL_PU)
    return (
        _common(statetimeline.Panel(), title, (signal,), instant=False)
        .height(_GRAPH_HEIGHT)
        .span(span)
        .color_scheme(colours)
        .mappings(_mappings(texts))
        .merge_values(True)
        .show_value(options.VisibilityMode.AUTO)
        .legend(
            common.VizLegendOptions()
            .display_mode(options.LegendDisplayMode.LIST)
            .placement(options.LegendPlacement.BOTTOM)
            .show_legend(False)
        )
    )


def bars(
    title: str, signal: Signal, *, span: int, steps: Steps = PLAIN, most: float | None = None
) -> bargauge.Panel:
    """Return a bar of now for each series; most is the length of a full bar, None the longest."""
    panel = (
        _common(bargauge.Panel(), title, (signal,), instant=True)
        .height(_GRAPH_HEIGHT)
        .span(span)
        .min(0)
        .thresholds(_thresholds(steps))
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .orientation(options.VizOrientation.HORIZONTAL)
        .display_mode(options.BarGaugeDisplayMode.BASIC)
    )
    return panel if most is None else panel.max(most)


def _common(panel: P, title: str, signals: tuple[Signal, ...], *, instant: bool) -> P:
    described = (
        panel.title(title)
        .description("\n\n".join(signal.description for signal in signals))
        .datasource(DATASOURCE)
        .unit(signals[0].unit)
    )
    for letter, signal in zip("ABCDEFGH", signals, strict=False):
        query = (
            prometheus.Dataquery()
            .ref_id(letter)
            .datasource(DATASOURCE)
            .expr(signal.on_board())
            .legend_format(signal.legend)
        )
        described = described.with_target(query.instant() if instant else query.range())
    return described


def _thresholds(steps: Steps) -> board.ThresholdsConfig:
    return (
        board.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=value, color=colour) for value, colour in steps])
    )


def _mappings(texts: Texts | None) -> list[model.ValueMapping]:
    results = {
        value: model.ValueMappingResult(text=text, color=colour, index=index)
        for index, (value, (text, colour)) in enumerate((texts or {}).items())
    }
    return [model.ValueMap(options=results)] if results else []
