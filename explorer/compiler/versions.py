"""Plans of one model for different sizes, and the choice of a plan for each run.

A kernel is right for every size and fast near the sizes that it was tiled for. Runs far from these
are counted; when they have taken as long as compiling did, the model is compiled again for their
sizes in a background thread. Later runs of such sizes use that plan if it is predicted to be
faster. So it costs at most about as much as it saves (the ski-rental rule). Sums may then be added
in another order: results differ by rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from math import log2
from threading import Lock, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from explorer.errors import BoundError, IronworksError
from explorer.frontends.model import Model
from explorer.ir.decisions.wall import Wall
from explorer.ir.dims import Sizes
from explorer.ir.types import Tensor
from explorer.ops.interpreter.frame import bind_sizes
from explorer.passes.snapshots import StepTime

if TYPE_CHECKING:
    from explorer.runtime.executable import Executable

FAR_RATIO = 4  # between a size and its hint: within it a plan serves well; chosen
LEAST_SECONDS = 1.0  # to compile what was found in caches the first time; assumed
MOST_VERSIONS = 4  # beside the first: a bound on memory, chosen
MOST_SHAPES = 256  # of inputs: a bound on memory, chosen
Run = Callable[..., dict[str, Any]]


class PlannedModel(Protocol):
    """The parts of a Compilation that are used here."""

    model: Model
    steps: tuple[StepTime, ...]

    @property
    def hint(self) -> dict[str, int]:
        """The sizes that tiles were chosen for."""

    @property
    def executable(self) -> Executable:
        """The planner and runner."""

    @property
    def runnable(self) -> Executable:
        """The executable with machine code for this machine."""

    def planned_for(self, sizes: Sizes) -> PlannedModel:
        """Compile the same model for these sizes."""

    def planned_wall(self, sizes: Sizes | None = None) -> Wall:
        """Return the planned wall."""


class Versions:
    """The plans of one compiled model; its methods may be called from any thread."""

    def __init__(self, first: PlannedModel) -> None:
        """Begin with the plan that was compiled first."""
        self.first = first
        self.others: tuple[PlannedModel, ...] = ()
        self.making: Thread | None = None
        self._runs: dict[tuple[object, ...], Run] = {}
        self._lock = Lock()

    def run_of(self, inputs: Mapping[str, Any]) -> Run:
        """Return the function that runs inputs of these shapes."""
        key = tuple([(name, getattr(a, "shape", None)) for name, a in inputs.items()])
        run = self._runs.get(key)
        if run is None:
            run = self._chosen(inputs)
            if len(self._runs) >= MOST_SHAPES:
                self._runs.clear()
            self._runs[key] = run
        return run

    def wait(self) -> None:
        """Wait until no plan is being made."""
        if self.making is not None:
            self.making.join()

    def make(self, sizes: Sizes) -> None:
        """Start compiling for these sizes in the background, unless a plan is being made."""
        with self._lock:
            if self.making is None or not self.making.is_alive():
                self.making = Thread(target=self._make, args=(sizes,), daemon=True)
                self.making.start()

    def _chosen(self, inputs: Mapping[str, Any]) -> Run:
        """Return the function of the nearest plan, counted if it is far."""
        empty = _empty(self.first.model, inputs)
        if empty:
            return self._taking(empty).runnable.run
        sizes = bind_sizes(self.first.model.program, inputs)
        nearest = min((self.first, *self.others), key=lambda c: distance(c.hint, sizes))
        run: Run = nearest.runnable.run
        is_near = distance(nearest.hint, sizes) <= log2(FAR_RATIO)
        if is_near or len(self.others) >= MOST_VERSIONS:
            return run
        seconds = max(LEAST_SECONDS, sum(s.seconds for s in self.first.steps))
        return Counted(run, seconds, lambda: self.make(sizes))

    def _taking(self, empty: Sizes) -> PlannedModel:
        """Return the plan that accepts extents of 0."""
        for other in self.others:
            if all(other.model.program.env.of(name).low == 0 for name in empty):
                return other
        try:
            plan = self.first.planned_for(empty)
        except IronworksError as error:
            names = ", ".join(empty)
            what = f"{self.first.model.name} takes no 0 for {names}: {error.sentence}"
            raise BoundError(what, where=names) from error
        self._add(plan)
        return plan

    def _make(self, sizes: Sizes) -> None:
        """Compile for these sizes and add the plan if it is predicted to be faster."""
        with suppress(IronworksError):  # the plan that is there goes on
            plan = self.first.planned_for(sizes)
            if planned_us(plan, sizes) < planned_us(self.first, sizes):
                self._add(plan)

    def _add(self, plan: PlannedModel) -> None:
        """Add a plan and forget which run uses which."""
        with self._lock:
            self.others = (*self.others, plan)
            self._runs = {}


class Counted:
    """Runs by a plan that was made for other sizes.

    `then` is called once, when they have taken `seconds`.
    """

    def __init__(self, run: Run, seconds: float, then: Callable[[], None]) -> None:
        """Count down from so many seconds."""
        self.run, self.left_seconds, self.then = run, seconds, then

    def __call__(self, inputs: Mapping[str, Any], *, out: Any = None) -> dict[str, Any]:
        """Run once."""
        start = perf_counter()
        outputs = self.run(inputs, out=out)
        before, self.left_seconds = self.left_seconds, self.left_seconds - perf_counter() + start
        if self.left_seconds <= 0 < before:
            self.then()
        return outputs


def planned_us(c: PlannedModel, sizes: Sizes) -> float:
    """Return the planned time of a run in microseconds; 0 if only a run tells its sizes."""
    return 0.0 if c.executable.frames is not None else c.planned_wall(sizes).total_us


def distance(hints: Sizes, sizes: Sizes) -> float:
    """Return log2 of the largest ratio between a size and its hint."""
    both = [(max(1, hints[n]), max(1, size)) for n, size in sizes.items() if n in hints]
    return max((abs(log2(size / hint)) for hint, size in both), default=0.0)


def _empty(model: Model, inputs: Mapping[str, Any]) -> dict[str, int]:
    """Return the symbols that are 0 in these inputs and have no bound that forbids it."""
    free = {s.name for s in model.program.env.symbols if s.low == 1 and s.high is None}
    empty: dict[str, int] = {}
    for name, kind in model.inputs.items():
        shape = getattr(inputs.get(name), "shape", ())
        dims = kind.shape or () if isinstance(kind, Tensor) else ()
        if len(shape) == len(dims):
            pairs = zip(map(str, dims), shape, strict=True)
            empty |= {d: 0 for d, n in pairs if n == 0 and d in free}
    return empty
