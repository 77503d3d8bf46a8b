"""Two-dimensional schedules: rTasks laid on units and time like bricks in a wall.

Rammer: Ma et al., OSDI 2020, "Enabling holistic deep learning compiler optimizations with rTasks".
Its nouns: rOperator, rKernel, rTask, vDevice and vEU (`model`), rProgram (`ir.decisions.wall`),
append and wait (instructions in `transform`), the wavefront policy of Algorithm 1
(`wavefront`, `rkernels`; `published_gangs` is what its published code does), barrier-rTasks
(`transform`). Not in the paper: `critical_path`, and `weight_stationary`, which leaves weights in
the private caches of units (`cache_model`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from explorer.rammer.model import (
    Facts,
    Placement,
    Policy,
    RKernel,
    ROperator,
    RTask,
    Share,
    VDevice,
)
from explorer.rammer.options import Options, Ram
from explorer.rammer.policy import POLICIES
from explorer.rammer.task_profile import Overheads, TaskProfile, TaskTime

if TYPE_CHECKING:
    from explorer.rammer.simulator import simulate
    from explorer.rammer.wall_schedule import Schedule, schedule

__all__ = [
    "POLICIES",
    "Facts",
    "Options",
    "Overheads",
    "Placement",
    "Policy",
    "RKernel",
    "ROperator",
    "RTask",
    "Ram",
    "Schedule",
    "Share",
    "TaskProfile",
    "TaskTime",
    "VDevice",
    "schedule",
    "simulate",
]

OF_WALLS = {
    "Schedule": "explorer.rammer.wall_schedule",
    "schedule": "explorer.rammer.wall_schedule",
    "simulate": "explorer.rammer.simulator",
}


def __getattr__(name: str) -> Any:
    """Load what makes walls when it is first used: compiling makes none."""
    if name in OF_WALLS:
        return getattr(import_module(OF_WALLS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
