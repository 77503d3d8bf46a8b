"""Every picture, as one literal list, by stage and then in the order of the tabs."""

from __future__ import annotations

from html import escape
from typing import Any

from explorer.errors import BadOption, did_you_mean
from explorer.ir.stage import Stage
from widgets.draw import plots
from widgets.draw.slide import PX
from widgets.draw.svg import Svg
from widgets.draw.table import Table, caption_sentences, draw_table, see_part
from widgets.grinder import crossing_picture, iterations, task_tree
from widgets.memory import memory_plan, memory_policies
from widgets.model.glossary import meanings
from widgets.model.house import Part, fixed_parts
from widgets.model.picture import Drawn, OnShow, Picture
from widgets.program import (
    changes_picture,
    dataflow_picture,
    flow_graph,
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
from widgets.relax import call_boundary, fusion, levels, shape_heap, shapes
from widgets.roller import (
    bank_map,
    memory_lines,
    rewrites,
    roofline,
    scale_out,
    staircase_picture,
    tile_layout,
    tile_panels,
)
from widgets.timed import (
    ablation,
    hardware,
    inside_kernel,
    kernel_table,
    low_bit,
    one_token,
    search,
    sizes,
)
from widgets.timed import options as options_picture
from widgets.training import backward, cache_panel, memory_front
from widgets.welder import connections, pipeline_picture, tile_curve, tile_graph

PICTURES: tuple[Picture, ...] = (
    stages_picture.PICTURE,
    dataflow_picture.PICTURE,
    program_diff.PICTURE,
    changes_picture.PICTURE,
    side_by_side.PICTURE,
    matches_picture.PICTURE,
    switchboard.PICTURE,
    ablation.PICTURE,
    options_picture.PICTURE,
    hardware.PICTURE,
    shapes.PICTURE,
    shape_heap.PICTURE,
    call_boundary.PICTURE,
    levels.PICTURE,
    fusion.PICTURE,
    task_tree.PICTURE,
    iterations.PICTURE,
    crossing_picture.PICTURE,
    pipeline_picture.PICTURE,
    tile_curve.PICTURE,
    connections.PICTURE,
    tile_graph.PICTURE,
    tile_panels.PICTURE,
    memory_lines.PICTURE,
    staircase_picture.PICTURE,
    scale_out.PICTURE,
    roofline.PICTURE,
    search.PICTURE,
    rewrites.PICTURE,
    bank_map.PICTURE,
    tile_layout.PICTURE,
    brick_wall_picture.PICTURE,
    policies_picture.PICTURE,
    accept_picture.PICTURE,
    two_layers_picture.PICTURE,
    rtasks_picture.PICTURE,
    errors_picture.PICTURE,
    memory_plan.PICTURE,
    memory_policies.PICTURE,
    low_bit.PICTURE,
    sizes.PICTURE,
    generated_source.PICTURE,
    linked_lines.PICTURE,
    flow_graph.PICTURE,
    inside_kernel.PICTURE,
    kernel_table.PICTURE,
    one_token.PICTURE,
    backward.PICTURE,
    memory_front.PICTURE,
    cache_panel.PICTURE,
)

CHARTS = tuple(p.name for p in PICTURES if p.chart is not None)


def find_picture(name: str) -> Picture:
    """Return the picture of a name, else of a title; raises BadOption if there is none."""
    called = {p.short.lower(): p for p in PICTURES} | {p.title.lower(): p for p in PICTURES}
    called |= {p.name: p for p in PICTURES}
    if name.lower() in called:
        return called[name.lower()]
    near = did_you_mean(name, called)
    picture_names = ", ".join(p.name for p in PICTURES)
    raise BadOption(
        f"there is no view {name[:40]!r}{near}", where=name[:40], expected=picture_names
    )


def pictures_beside(picture: Picture) -> tuple[Picture, ...]:
    """Return the pictures under the same tab, in order.

    Pictures of every stage are grouped by title.
    """
    if picture.every:
        return tuple(p for p in PICTURES if p.every == picture.every)
    return pictures_of_stage(picture.stage)


def pictures_of_stage(stage: Stage | None) -> tuple[Picture, ...]:
    """Return the pictures under a stage's tab, in order; for None those under no tab."""
    return tuple(p for p in PICTURES if p.stage == stage)


def choices() -> tuple[str, ...]:
    """Return the names of the pictures that the explorer shows under its stages."""
    return tuple(p.name for p in PICTURES if p.stage is not None or p.every)


def picture(name: str, on_show: OnShow, op: str = "") -> tuple[Svg, Table]:
    """Return a picture's drawing, or its table drawn if it is all chart, and its table."""
    _, figure, table = find_picture(name).draw(on_show, op)
    return figure or draw_table(table), table


def find_chart_picture(name: str) -> Picture:
    """Return the picture of a name that has a chart; raises BadOption, naming those that have."""
    if name not in CHARTS:
        chart_names = ", ".join(CHARTS)
        near = did_you_mean(name, CHARTS)
        problem = f"{name[:40]!r} is no view with a chart{near}; there are those of {chart_names}"
        raise BadOption(problem, where=name[:40], expected=chart_names)
    return find_picture(name)


def chart(picture: Picture, on_show: OnShow, op: str, theme: str) -> Any:
    """Return a picture's plotly figure; raises BadOption if there is nothing to show."""
    rows, _, table = picture.draw(on_show, op)
    if rows == () or picture.chart is None:
        raise BadOption(f"there is no chart {picture.name!r} to draw: {table.caption}")
    return picture.chart(rows, figure_title(table.caption), theme)


def figure_title(caption: str) -> str:
    """Return a caption as a figure's title: its first part, then the others in smaller type."""
    head, _, tail = escape(caption, quote=False).partition("; ")
    return f'{head}<br><span style="font-size:12px">{tail}</span>'


def for_page(picture: Picture, drawn: Drawn) -> dict[str, Any]:
    """Return what a page draws of a picture.

    Its `svg`, "" if it is all chart, and the sentences to `see`. Its chart's `figure` and what that
    `said`, if it has one and no drawing made for the page's pixels.
    """
    rows, svg, table = drawn
    see = table.see or caption_sentences(table.caption)
    part: dict[str, Any] = {"svg": svg.text() if svg else "", "see": see_part(see)}
    if picture.chart is not None and rows != () and (svg is None or svg.px != PX):
        figure = plots.for_page(picture.chart(rows, "", "page"))
        part |= {"figure": figure, "said": table.caption}
    return part


def page_parts() -> dict[str, Part]:
    """Return the parts of a page that are the same for every model."""
    pictures = [p.page_fields() for p in PICTURES]
    return {**fixed_parts(), "pictures": pictures, "glossary": meanings()}
