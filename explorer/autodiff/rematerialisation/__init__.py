"""Rematerialisation: what a function keeps for later, and what it computes again (Chen et al. 2016,
Training deep nets with sublinear memory cost).

It works on kernels as they will run: what is computed again is the same kernel under the same
tiling, so its bits are the same, and what Welder keeps inside of a kernel is no value to be saved.
Before that, loops stack what they keep where it takes no memory of its own.
"""

from __future__ import annotations

from explorer.autodiff.rematerialisation.facts import steps_of
from explorer.autodiff.rematerialisation.options import Options
from explorer.autodiff.rematerialisation.policy import front
from explorer.autodiff.rematerialisation.stacked_in_place import stack_in_place
from explorer.autodiff.rematerialisation.transform import Rematerialise

__all__ = ["Options", "Rematerialise", "front", "stack_in_place", "steps_of"]
