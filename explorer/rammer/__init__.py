"""Two-dimensional schedules: rTasks laid on units and time like bricks in a wall.

Rammer: Ma et al., OSDI 2020, "Enabling holistic deep learning compiler optimizations with rTasks".
Its nouns: rOperator, rKernel, rTask, vDevice and vEU (`model`), rProgram (`ir.decisions.rprogram`),
append and wait (`walls.schedule_builder`), the wavefront policy of Algorithm 1
(`policies.wavefront`, `policies.rkernels`; `policies.published_gangs` is what its published code
does), barrier-rTasks (`transform`). Not in the paper: `policies.critical_path`, and
`policies.weight_stationary`, which leaves weights in the private caches of units (`cache_model`).
"""

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
from explorer.rammer.schedule import Schedule, schedule
from explorer.rammer.task_profile import Overheads, TaskProfile, TaskTime
from explorer.rammer.walls.schedule_builder import Builder
from explorer.rammer.walls.simulate import simulate

__all__ = [
    "POLICIES",
    "Builder",
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
