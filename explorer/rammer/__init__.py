"""The two-dimensional schedule: rTasks laid on units and time like bricks in a wall.

Rammer: Ma et al., OSDI 2020, "Enabling holistic deep learning compiler optimizations with
rTasks". Its nouns: rOperator, rTask, vDevice and vEU (`model`), rProgram (`ir.decisions`), the
wavefront policy (`policy`; `gang` is what its published code does), barrier-rTasks (`transform`).
Each operator has one rKernel here: there is no choice between a fast and an efficient one yet.
"""

from explorer.rammer.model import Facts, Placement, Policy, ROperator, RTask, Share, VDevice
from explorer.rammer.options import Options, Ram
from explorer.rammer.policy import POLICIES
from explorer.rammer.schedule import Schedule, schedule
from explorer.rammer.simulate import simulate

__all__ = [
    "POLICIES",
    "Facts",
    "Options",
    "Placement",
    "Policy",
    "ROperator",
    "RTask",
    "Ram",
    "Schedule",
    "Share",
    "VDevice",
    "schedule",
    "simulate",
]
