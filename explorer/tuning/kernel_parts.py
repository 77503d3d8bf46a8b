"""Time of each part of a kernel by task, from a copy with time stamps, and the copy's slowdown."""

from __future__ import annotations

import ast
import ctypes
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.codegen.build import KernelCode
from explorer.codegen.cpu.object_code import compile_uncached
from explorer.compiler.compilation import Compilation
from explorer.devices.cpus import runs_on
from explorer.errors import BadOption
from explorer.ir.dims import Sizes
from explorer.ir.kernel import Kernel
from explorer.measure.compare import Comparison, comparison
from explorer.measure.one_kernel import Operands, PreparedKernel
from explorer.measure.this_cpu import this_cpu
from explorer.measure.turns import take_turns
from explorer.process.sandbox import Ended, Limits, in_helper, is_helper
from explorer.runtime.workers.aligned_memory import address_of
from explorer.runtime.workers.clock import cycles_per_us
from explorer.tuning.compare import agree

LIMITS = Limits(seconds=60.0, mib=2048)
MOST_TASKS = 16  # of a kernel, evenly spaced; chosen, as the next four
RUNS = 21  # of each task, for the median
MOST_PARTS = 12
HALF = 0.5  # of the time: a longer part is opened, unless the copy gets much slower
SLOWER = 1.3  # largest slowdown of a copy with several parts
SLOWEST = 4.0  # largest slowdown of a copy with a single part
COMPARED_SECONDS = 0.15

Table = NDArray[np.int64]
RUN = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint64)
REST = "between them"  # addresses, ends of loops, the stamps
STAMPS_IMPORT = "from explorer.codegen.cpu.stamps import begin, stamp"
ACTION_WORDS = {  # action of a function, by the name of its maker
    "micro_kernel": "multiply",
    "window_tile": "slide windows",
    "vector_nest": "map vectors",
}


@dataclass(frozen=True, slots=True)
class TracedKernel:
    """Times of a kernel's parts on one thread, alone, with its data in the caches if it fits.

    `us` has a row for each of `tasks`, which are some of `of`: first the time between the parts,
    then each part, as the median of several runs. Stamps are included: the copy takes `slower`
    times as long as the kernel, with interval `low` to `high`.
    """

    kernel: str
    parts: tuple[SourcePart, ...]
    tasks: tuple[int, ...]
    of: int
    us: tuple[tuple[float, ...], ...]
    slower: float
    low: float
    high: float

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of all time: first between the parts, then each part; they sum to 1."""
        sums = [sum(column) for column in zip(*self.us, strict=True)]
        return tuple(us / (sum(sums) or 1.0) for us in sums)


def kernel_parts(c: Compilation, name: str, sizes: Sizes | None = None) -> TracedKernel:
    """Measure the parts of a kernel's task; the kernel is named by itself or by a source operator.

    It runs in a process of its own.

    Raises:
        BadOption: there is no such kernel, no such process, or the copy does not finish.
    """
    binding = c.binding(name)
    code = c.codes.get(binding.name)
    if code is None or not runs_on(c.device, this_cpu()):
        raise BadOption(f"{name} has no code that runs here", where=name)
    if is_helper():
        raise BadOption("an instrumented copy needs a helper process, which is not available here")
    bound = {**c.hint, **(sizes or {})}
    kernel = binding.kernel_call.kernel

    def work(tell: Callable[[str], None]) -> None:
        tell(json.dumps(_measure_in_helper(code, kernel, bound)))

    try:
        (message,) = in_helper(work, LIMITS)
    except Ended as end:
        raise BadOption(f"the instrumented copy of {name} {end.why}", where=name) from None
    result = json.loads(message)
    parts = tuple(SourcePart(*row) for row in result["parts"])
    us = tuple(tuple(row) for row in result["us"])
    return TracedKernel(
        binding.name, parts, tuple(result["tasks"]), result["of"], us, *result["slower"]
    )


def _measure_in_helper(code: KernelCode, kernel: Kernel, sizes: Sizes) -> dict[str, Any]:
    """Measure in the helper: open the longest parts first while stamps are cheap."""
    operands = Operands(kernel, sizes)
    ours = PreparedKernel(code, operands)
    ours.launch(1)
    want = {name: array.copy() for name, array in operands.outputs.items()}
    outputs = frozenset(a.local for a in code.arguments if a.name in operands.outputs)
    parts = Parts(code.source, outputs)
    tasks = _sample_tasks(code.tasks(sizes))
    best = _Copy(code, operands, parts, want, ours, tasks)
    closed: set[int] = set()
    while (s := _longest(best, parts, closed)) is not None:
        before = set(parts.opened)
        parts.opened.add(s)
        while len(parts.statements) == 1 and parts.can_open(parts.statements[0]):
            parts.opened.add(parts.statements[0])  # a single part is no division
        more = len(parts.statements) <= MOST_PARTS
        candidate = _Copy(code, operands, parts, want, ours, tasks) if more else None
        most = SLOWER if len(best.descriptions) > 1 else SLOWEST
        if candidate is None or candidate.slower.ratio > most:
            parts.opened = before
            closed.add(id(s))
        else:
            best = candidate
    ratio = best.slower
    return {
        "parts": [[p.what, p.line, p.edge] for p in best.descriptions],
        "tasks": tasks,
        "of": code.tasks(sizes),
        "us": best.us,
        "slower": [ratio.ratio, ratio.low, ratio.high],
    }


def _longest(best: _Copy, parts: Parts, closed: set[int]) -> ast.stmt | None:
    """Return the part to open next."""
    shares = zip(best.shares[1:], parts.statements, strict=True)
    long_parts = [(x, n, s) for n, (x, s) in enumerate(shares) if x > HALF and parts.can_open(s)]
    return next((s for _, _, s in sorted(long_parts, reverse=True) if id(s) not in closed), None)


def _sample_tasks(count: int) -> list[int]:
    most = min(count, MOST_TASKS)
    return sorted({n * count // most for n in range(most)})


class _Copy:
    """An instrumented copy with stamps around these parts, its times and its slowdown."""

    def __init__(
        self,
        code: KernelCode,
        operands: Operands,
        parts: Parts,
        want: dict[str, np.ndarray],
        ours: PreparedKernel,
        tasks: list[int],
    ) -> None:
        """Compile, check and time the copy."""
        self.descriptions = parts.describe_parts()
        self.table: Table = np.zeros(1 + 2 * (1 + len(self.descriptions)), np.int64)
        source = parts.stamped(address_of(self.table))
        machine_code = compile_uncached(source, code.isa)
        copy = KernelCode(source, machine_code, code.tile_program, code.arguments, code.isa)
        prepared = PreparedKernel(copy, operands)
        prepared.launch(1)
        for name, array in operands.outputs.items():
            if not agree(array, want[name]):
                raise AssertionError(f"the instrumented copy has another answer, {name}")
        self.us = self._times(prepared, copy.address, tasks)
        runs = min(ours.runs, prepared.runs)
        works = (lambda: ours.launch(runs)), (lambda: prepared.launch(runs))
        self.slower: Comparison = comparison(*take_turns(works, COMPARED_SECONDS, perf_counter_ns))

    @property
    def shares(self) -> list[float]:
        """The shares of the time between parts and of each part."""
        sums = np.array(self.us).sum(0)
        return [float(us) for us in sums / (sums.sum() or 1.0)]

    def _times(self, prepared: PreparedKernel, address: int, tasks: list[int]) -> list[list[float]]:
        """Return the microseconds by task and part, each the median of the runs."""
        run, block = RUN(address), address_of(prepared.blocks[0])
        cycles = np.zeros((len(tasks), RUNS, 1 + len(self.descriptions)), np.int64)
        for turn in range(RUNS):
            for n, task in enumerate(tasks):
                self.table[:] = 0
                run(task, task + 1, block)
                cycles[n, turn] = self.table[1::2]
        us: list[list[float]] = (np.median(cycles, 1) / cycles_per_us()).round(6).tolist()
        return us


@dataclass(frozen=True, slots=True)
class SourcePart:
    """Statements from a source line on: their function, and whether they run only at an edge."""

    what: str
    line: int
    edge: bool = False

    @property
    def words(self) -> str:
        """A description in one line."""
        return f"{self.what}{' at an edge' if self.edge else ''}, line {self.line}"


@dataclass(eq=False)
class Parts:
    """A kernel's source in parts; `opened` are statements that are divided into inner parts."""

    source: str
    outputs: frozenset[str]
    tree: ast.Module = field(init=False)
    task: ast.For = field(init=False)
    makers: dict[str, str] = field(init=False)
    opened: set[ast.stmt] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        """Parse the source."""
        self.tree = ast.parse(self.source)
        self.task = _task_of(self.tree)
        self.makers = dict(_makers(self.tree.body))

    @property
    def statements(self) -> list[ast.stmt]:
        """The instrumented statements, in order."""
        return list(self._instrumented_statements(self.task.body))

    def _instrumented_statements(self, body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        for s in body:
            if s in self.opened:
                for inner in _bodies(s):
                    yield from self._instrumented_statements(inner)
            elif self._is_substantial(s):
                yield s

    def _is_substantial(self, s: ast.stmt) -> bool:
        """Return True if a statement is more than a few instructions."""
        match s:
            case ast.For():
                return True
            case ast.If():
                return any(self._is_substantial(x) for body in _bodies(s) for x in body)
            case ast.Expr(ast.Call(ast.Name(name))):
                return name in self.makers
        return False

    def can_open(self, s: ast.stmt) -> bool:
        """Return True if a statement contains parts."""
        return any(self._is_substantial(x) for body in _bodies(s) for x in body)

    def describe_parts(self) -> tuple[SourcePart, ...]:
        """Describe each instrumented statement."""
        edges = {
            id(x)
            for s in self.opened
            if isinstance(s, ast.If)
            for inner in s.orelse
            for x in ast.walk(inner)
        }
        return tuple(
            SourcePart(self._describe(s), s.lineno, id(s) in edges) for s in self.statements
        )

    def _describe(self, s: ast.stmt) -> str:
        called = {
            self.makers[n.func.id]
            for n in ast.walk(s)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in self.makers
        }
        actions = [ACTION_WORDS.get(name, name.replace("_", " ")) for name in sorted(called)]
        stored = list(dict.fromkeys(_stored(s)))
        if not actions and stored and all(name.endswith("_rows") for name in stored):
            return "find the rows"
        results = [n for n in stored if n in self.outputs]
        scratch = [n for n in stored if n not in self.outputs and not n.endswith("_rows")]
        if results:
            actions.append(f"write {', '.join(results)}")
        elif scratch and not called:
            verb = "pack" if all("pack" in n for n in scratch) else "make"
            actions.append(f"{verb} {', '.join(scratch)}")
        return " and ".join(actions) or "loop"

    def stamped(self, table: int) -> str:
        """Return the instrumented copy.

        It counts in a table at that address; row 0 is the time between the parts.
        """
        parts = {id(s): n for n, s in enumerate(self.statements, 1)}
        tree = ast.parse(self.source)
        twins = dict(zip(map(id, ast.walk(self.tree)), ast.walk(tree), strict=True))
        task = _task_of(tree)
        numbers = {id(twins[at]): n for at, n in parts.items()}
        opened = {id(twins[id(s)]) for s in self.opened}
        task.body = [
            _call("begin", table), *_with_stamps(task.body, numbers, opened, table),
            _call("stamp", table, 0),
        ]  # fmt: skip
        tree.body.insert(0, ast.parse(STAMPS_IMPORT).body[0])
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _task_of(tree: ast.Module) -> ast.For:
    """Return the loop over the tasks of a kernel."""
    kernel = next(s for s in tree.body if isinstance(s, ast.FunctionDef))
    return next(
        s
        for s in kernel.body
        if isinstance(s, ast.For) and isinstance(s.target, ast.Name) and s.target.id == "task"
    )


def _with_stamps(
    body: Sequence[ast.stmt], numbers: dict[int, int], opened: set[int], table: int
) -> list[ast.stmt]:
    instrumented: list[ast.stmt] = []
    for s in body:
        if (n := numbers.get(id(s))) is not None:
            instrumented += [_call("stamp", table, 0), s, _call("stamp", table, n)]
            continue
        if id(s) in opened and isinstance(s, ast.For | ast.If):
            s.body = _with_stamps(s.body, numbers, opened, table)
            s.orelse = _with_stamps(s.orelse, numbers, opened, table)
        instrumented.append(s)
    return instrumented


def _call(name: str, *values: int) -> ast.stmt:
    return ast.Expr(ast.Call(ast.Name(name, ast.Load()), [ast.Constant(v) for v in values], []))


def _bodies(s: ast.stmt) -> list[list[ast.stmt]]:
    return [s.body, s.orelse] if isinstance(s, ast.For | ast.If) else []


def _makers(head: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield the functions of a kernel's head with the names of their makers."""
    for s in head:
        match s:
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name(maker))):
                yield name, maker


def _stored(s: ast.stmt) -> Iterator[str]:
    """Yield the arrays that stores name."""
    for node in ast.walk(s):
        match node:
            case ast.Call(ast.Name(name), [target, *_]) if name.startswith("st_"):
                first = next((n for n in ast.walk(target) if isinstance(n, ast.Name)), None)
                if first is not None:
                    yield first.id
