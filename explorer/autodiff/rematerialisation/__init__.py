"""Rematerialisation: which values a function stores, and which it recomputes.

Source: Chen et al. 2016, Training deep nets with sublinear memory cost.

It works on kernels as they will run. A recomputed kernel has the same tiling, so its bits are the
same, and a value that Welder keeps inside of a kernel is never stored. Before that, loops stack
their saved rows in memory that is already there, if they can.
"""

from __future__ import annotations

from explorer.autodiff.rematerialisation.function_steps import steps_of
from explorer.autodiff.rematerialisation.options import Options
from explorer.autodiff.rematerialisation.policy import front
from explorer.autodiff.rematerialisation.stacked_in_place import stack_in_place
from explorer.autodiff.rematerialisation.transform import Rematerialise

__all__ = ["Options", "Rematerialise", "front", "stack_in_place", "steps_of"]
