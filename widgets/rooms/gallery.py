"""Every picture, as one literal list, by stage and then in the order of the tabs."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from explorer.errors import BadOption, did_you_mean
from explorer.ir.stage import Stage
from widgets.charts import (
    crossing,
    errors,
    kernels,
    memory,
    peaks,
    policies,
    roofline,
    rtasks,
    search,
    sizes,
    staircase,
    tile_curve,
    waves,
)
from widgets.charts.steps import left_out as left_out_chart
from widgets.charts.what_if import hardware
from widgets.draw import plots
from widgets.draw.see import of_caption, see_part
from widgets.draw.slide import PX
from widgets.draw.svg import Svg
from widgets.draw.table import Table
from widgets.draw.table_drawing import drawn_table
from widgets.grinder import crossing_picture, iterations_picture, task_tree
from widgets.memory import memory_picture, peaks_picture
from widgets.model.glossary import meanings
from widgets.model.house import Part, fixed_parts
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture
from widgets.program import (
    changes_picture,
    dataflow_picture,
    flow_graph_picture,
    generated_source,
    linked_lines,
    matches_picture,
    program_diff,
    side_by_side,
    stages_picture,
    switchboard,
)
from widgets.rammer import (
    accept_picture,
    brick_wall_picture,
    errors_picture,
    policies_picture,
    rtasks_picture,
    two_layers_picture,
)
from widgets.relax import (
    call_boundary_picture,
    fusion_picture,
    levels_picture,
    shape_heap_picture,
    shapes_picture,
)
from widgets.roller import (
    bank_map_picture,
    memory_lines_picture,
    rewrites,
    roofline_picture,
    scale_out,
    staircase_picture,
    tile_panels_picture,
)
from widgets.roller.layout import tile_layout
from widgets.timed import (
    inside_kernel,
    kernel_table_picture,
    left_out,
    search_picture,
    sizes_picture,
)
from widgets.training import backward_picture, cache_panel, memory_front
from widgets.welder import (
    connections_picture,
    pipeline_picture,
    tile_curve_picture,
    tile_graph_picture,
)
from widgets.what_if import hardware as hardware_picture
from widgets.what_if import options as options_picture

PICTURES: tuple[Picture, ...] = (
    stages_picture.PICTURE,
    dataflow_picture.PICTURE,
    program_diff.PICTURE,
    changes_picture.PICTURE,
    side_by_side.PICTURE,
    matches_picture.PICTURE,
    switchboard.PICTURE,
    left_out.PICTURE,
    options_picture.PICTURE,
    hardware_picture.PICTURE,
    shapes_picture.PICTURE,
    shape_heap_picture.PICTURE,
    call_boundary_picture.PICTURE,
    levels_picture.PICTURE,
    fusion_picture.PICTURE,
    task_tree.PICTURE,
    iterations_picture.PICTURE,
    crossing_picture.PICTURE,
    pipeline_picture.PICTURE,
    tile_curve_picture.PICTURE,
    connections_picture.PICTURE,
    tile_graph_picture.PICTURE,
    tile_panels_picture.PICTURE,
    memory_lines_picture.PICTURE,
    staircase_picture.PICTURE,
    scale_out.PICTURE,
    roofline_picture.PICTURE,
    search_picture.PICTURE,
    rewrites.PICTURE,
    bank_map_picture.PICTURE,
    tile_layout.PICTURE,
    brick_wall_picture.PICTURE,
    policies_picture.PICTURE,
    accept_picture.PICTURE,
    two_layers_picture.PICTURE,
    rtasks_picture.PICTURE,
    errors_picture.PICTURE,
    memory_picture.PICTURE,
    peaks_picture.PICTURE,
    sizes_picture.PICTURE,
    generated_source.PICTURE,
    linked_lines.PICTURE,
    flow_graph_picture.PICTURE,
    inside_kernel.PICTURE,
    kernel_table_picture.PICTURE,
    backward_picture.PICTURE,
    memory_front.PICTURE,
    cache_panel.PICTURE,
)


PAGE_PX = 13  # the type of a drawing that was made for its page

CHARTS: dict[str, Callable[[Any, str, str], Any]] = {  # rows, title and theme to a plotly figure
    "roofline": roofline.chart,
    "search": search.chart,
    "curve": tile_curve.chart,
    "policies": policies.chart,
    "memory": memory.chart,
    "peaks": peaks.chart,
    "sizes": sizes.chart,
    "memory_time": memory_front.chart,
    "crossing": crossing.chart,
    "staircase": staircase.chart,
    "waves": waves.chart,
    "rtasks": rtasks.chart,
    "errors": errors.chart,
    "left_out": left_out_chart.chart,
    "hardware": hardware.chart,
    "kernels": kernels.chart,
}


def named(name: str) -> Picture:
    """The picture of a name, else of a title; raises BadOption where there is none."""
    called = {p.short.lower(): p for p in PICTURES} | {p.title.lower(): p for p in PICTURES}
    called |= {p.name: p for p in PICTURES}
    if name.lower() in called:
        return called[name.lower()]
    near = did_you_mean(name, called)
    known = ", ".join(p.name for p in PICTURES)
    raise BadOption(f"there is no view {name[:40]!r}{near}", where=name[:40], expected=known)


def beside(picture: Picture) -> tuple[Picture, ...]:
    """The pictures that stand under the same tab, in order; of those of all stages, the ones under
    one title are together.
    """
    if picture.every:
        return tuple(p for p in PICTURES if p.every == picture.every)
    return of_stage(picture.stage)


def of_stage(stage: Stage | None) -> tuple[Picture, ...]:
    """The pictures under a stage's tab alone, in order; those under none for None."""
    return tuple(p for p in PICTURES if p.stage == stage)


def choices() -> tuple[str, ...]:
    """The names of those that the house shows under its stages."""
    return tuple(p.name for p in PICTURES if p.stage is not None or p.every)


def picture(name: str, on_show: OnShow, op: str = "") -> tuple[Svg, Table]:
    """A picture's drawing, or its words where it is all chart, and its words."""
    _, figure, table = named(name).draw(on_show, op)
    return figure or drawn_table(table), table


def charted(name: str) -> Picture:
    """The picture of a name that has a chart; raises BadOption, naming those that have."""
    if name not in CHARTS:
        known = ", ".join(CHARTS)
        near = did_you_mean(name, CHARTS)
        said = f"{name[:40]!r} is no view with a chart{near}; there are those of {known}"
        raise BadOption(said, where=name[:40], expected=known)
    return named(name)


def chart(picture: Picture, on_show: OnShow, op: str, theme: str) -> Any:
    """A picture's plotly figure; raises BadOption where there is nothing to show."""
    rows, _, table = picture.draw(on_show, op)
    if rows == ():
        raise BadOption(f"there is no chart {picture.name!r} to draw: {table.caption}")
    return CHARTS[picture.name](rows, titled(table.caption), theme)


def titled(caption: str) -> str:
    """A caption as a figure's title: its first part, and the rest smaller."""
    head, _, rest = escape(caption, quote=False).partition("; ")
    return f'{head}<br><span style="font-size:12px">{rest}</span>'


def for_page(picture: Picture, drawn: Drawn) -> dict[str, Any]:
    """What a page draws of a picture: its `svg`, "" where it is all chart, and the sentences that
    it is to `see`; its chart's `figure` and what that `said`, where it has one and no drawing that
    is made for the page's pixels.
    """
    rows, svg, table = drawn
    see = table.see or of_caption(table.caption)
    found: dict[str, Any] = {"svg": svg.text() if svg else "", "see": see_part(see)}
    if picture.name in CHARTS and rows != () and (svg is None or svg.px != PX):
        figure = plots.for_page(CHARTS[picture.name](rows, "", "page"))
        found |= {"figure": figure, "said": table.caption}
    return found


def page_parts() -> dict[str, Part]:
    """What a page is told that is the same for every model."""
    return {**fixed_parts(), "pictures": [p.told() for p in PICTURES], "glossary": meanings()}
