"""The modules of the pictures, each loaded when it first draws: there are forty, and a page shows
one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from widgets import accept_picture as accept_picture
    from widgets import brick_wall_picture as brick_wall_picture
    from widgets import call_boundary as call_boundary
    from widgets import call_boundary_picture as call_boundary_picture
    from widgets import connections as connections
    from widgets import connections_picture as connections_picture
    from widgets import dataflow_graph as dataflow_graph
    from widgets import fusion as fusion
    from widgets import fusion_picture as fusion_picture
    from widgets import generated_source as generated_source
    from widgets import levels as levels
    from widgets import levels_picture as levels_picture
    from widgets import memory_picture as memory_picture
    from widgets import memory_plan as memory_plan
    from widgets import memory_policies as memory_policies
    from widgets import policies_picture as policies_picture
    from widgets import program_diff as program_diff
    from widgets import rammer_view as rammer_view
    from widgets import rewrites as rewrites
    from widgets import roller_view as roller_view
    from widgets import roofline as roofline
    from widgets import roofline_picture as roofline_picture
    from widgets import rtasks_picture as rtasks_picture
    from widgets import scale_out as scale_out
    from widgets import shape_heap as shape_heap
    from widgets import shape_heap_picture as shape_heap_picture
    from widgets import shapes as shapes
    from widgets import shapes_picture as shapes_picture
    from widgets import stage_strip as stage_strip
    from widgets import staircase as staircase
    from widgets import staircase_picture as staircase_picture
    from widgets import task_tree as task_tree
    from widgets import tile_curve as tile_curve
    from widgets import tile_curve_picture as tile_curve_picture
    from widgets import tile_graph as tile_graph
    from widgets import tile_graph_picture as tile_graph_picture
    from widgets import tile_layout as tile_layout
    from widgets import tile_panels as tile_panels
    from widgets import tile_panels_picture as tile_panels_picture
    from widgets import tile_stream as tile_stream
    from widgets import tile_stream_picture as tile_stream_picture
    from widgets import two_layers_picture as two_layers_picture
    from widgets import wall_table as wall_table
    from widgets import welder_view as welder_view
else:

    class _Later:
        """A module by its name; what is asked of it loads it."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            return getattr(import_module(self._name), attribute)

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Later(f"{__package__}.{name}")
