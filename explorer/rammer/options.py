"""Rammer's options, and the pass that stores them in the program for each binding."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.devices.target import target_of
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.passes.ranges import Integer, PolicyOf, check, option, refuse
from explorer.rammer.model import Policy
from explorer.rammer.policy import POLICIES, name_of, resolve_policy
from explorer.rammer.task_profile import TaskProfile
from explorer.rammer.transform import Bricks

MOST_THREADS = 1024  # limits of the options, as the next two; chosen
MOST_TASKS = 1 << 24  # of a brick; chosen
MOST_BRICKS = 1 << 16  # of a unit's share of an operator; chosen


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the wall's schedule.

    `threads` 0: as many units as the device has; `brick_tasks` 0: at most `bricks` of a unit's
    share of an operator. `profile`: measured times of tasks, which plans prefer to modelled ones.
    `meet`: the largest number of units that an operator waits for one by one; where it would wait
    for more, a global barrier precedes it; 0: any number.
    """

    policy: str | Policy = option("wavefront", PolicyOf("rammer", POLICIES), "how tasks are placed")
    threads: int = option(0, Integer(0, MOST_THREADS), "cores or SMs; 0: all of the device")
    brick_tasks: int = option(0, Integer(0, MOST_TASKS), "tasks of a chunk; 0: by chunks")
    bricks: int = option(8, Integer(1, MOST_BRICKS), "chunks per core of an operator")
    profile: TaskProfile | None = None
    meet: int = option(
        0, Integer(0, MOST_THREADS), "units that are waited for one by one; 0: any number"
    )

    def __post_init__(self) -> None:
        """Check every option against its range."""
        check("rammer", self)
        if not isinstance(self.profile, TaskProfile | None):
            measured = "c.profiled(inputs) measures one"
            refuse("rammer.profile", "a TaskProfile", self.profile, measured)

    @property
    def place(self) -> Policy:
        """The policy itself."""
        return resolve_policy(self.policy)

    @property
    def policy_name(self) -> str:
        """The policy's name in pictures, or that of its type."""
        return name_of(self.policy)

    @property
    def granularity(self) -> Bricks:
        """The granularity of bricks."""
        return Bricks(self.brick_tasks, self.bricks)


@dataclass(frozen=True, slots=True)
class Ram:
    """After: the program holds the options of its wall.

    No kernel depends on them, so none compiles.
    """

    device: Device
    options: Options = Options()

    @property
    def remembered(self) -> bool:
        """True unless the policy is a function.

        A function is called for each wall, so the program holds it.
        """
        return isinstance(self.options.policy, str)

    def __call__(self, program: Program) -> Program:
        """Return the program at stage RAMMED, with the options among its decisions.

        The units of a data sheet follow from the operators of each run.
        """
        units = self.device.units if target_of(self.device).has_resident_workers else 0
        chosen = replace(self.options, threads=self.options.threads or units)
        decisions = replace(program.decisions, rammer=chosen)
        return replace(program, stage=Stage.RAMMED, decisions=decisions)
