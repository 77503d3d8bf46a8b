"""A simulator of thread blocks: their Python source runs where there is no GPU.

It implements the names of `numba.cuda` that are printed. The threads of a block run one after the
other from one `syncthreads` to the next, in an order drawn anew each time; those of a warp from one
shuffle to the next. Blocks run in any order; those of a device program, which wait for each other,
take turns. Unwritten memory is poison, and an address outside of an array is an error.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import lru_cache
from operator import index
from types import CodeType, SimpleNamespace
from typing import Any

import numpy as np

from explorer.codegen.cuda import simulator_elements as elements
from explorer.errors import CheckFailed
from explorer.ir.dtypes import is_float, numpy_dtype
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS

INTEGER_NAMES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
HELD_BACK = 0.3  # of the units, which run only if no other one can; chosen
WARP = 32  # threads, on every GPU that CUDA knows
SYNCS = ("syncthreads", "syncwarp")
MOST_CONVERTED = 1 << 16  # integers cached by a type; chosen
INTEGERS = frozenset((int, *(numpy_dtype(name).type for name in INTEGER_NAMES)))
MATH = SimpleNamespace(
    **{
        name: SCALAR_FUNCTIONS[name].numpy
        for name in (
            *("exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "asin", "acos", "atan"),
            *("sinh", "cosh", "asinh", "acosh", "atanh", "floor", "ceil"),
        )
    },
    fabs=np.fabs,
    nan=math.nan,
    inf=math.inf,
)


class Memory:
    """A flat array with bounds checks."""

    __slots__ = ("array", "name", "size")

    def __init__(self, array: np.ndarray, name: str) -> None:
        """Create a view of a flat array; `name` is for errors."""
        self.array, self.name, self.size = array, name, array.size

    def __getitem__(self, at: Any) -> Any:
        """Return an element, or a slice as Memory."""
        if type(at) is slice:
            return Memory(self.array[at], self.name)
        place = index(at)
        if not 0 <= place < self.size:
            self._outside(at)
        return self.array[place]

    def __setitem__(self, at: int, value: Any) -> None:
        """Store an element."""
        place = index(at)
        if not 0 <= place < self.size:
            self._outside(at)
        self.array[place] = value

    def run(self, at: Any, count: int) -> np.ndarray:
        """Return `count` elements from a multiple of `count` on."""
        place = index(at)
        if place % count:
            message = f"a thread loads {count} of {self.name} from {at} on"
            raise CheckFailed(message, where=self.name)
        if not 0 <= place <= self.size - count:
            self._outside(place if place < 0 else max(place, self.size))
        return self.array[place : place + count]

    def _outside(self, at: int) -> None:
        raise CheckFailed(
            f"a thread accesses {self.name} out of bounds: element {at} of {self.size}",
            where=self.name,
        )


class Shared:
    """The shared memory of a block; each thread requests the same arrays in the same order."""

    def __init__(self, dynamic_bytes: int) -> None:
        """Create the memory with `dynamic_bytes` of dynamic memory."""
        self.room = _poison(dynamic_bytes, np.dtype(np.uint8))
        self.named: list[Memory] = []
        self.next_array = 0

    def array(self, size: int, dtype: Any, alignment: int = 0) -> Memory:
        """Return the next array of a thread; size 0 means the launch's dynamic memory."""
        kind = dtype.dtype if isinstance(dtype, Type) else np.dtype(dtype)
        if size == 0:
            return Memory(self.room.view(kind), "shared memory")
        if self.next_array == len(self.named):
            self.named.append(Memory(_poison(size, kind), "shared memory"))
        self.next_array += 1
        return self.named[self.next_array - 1]


def _poison(size: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return an array of NaN, which is NaN as a float of any width."""
    return np.full(size * dtype.itemsize, 0xFF, np.uint8).view(dtype)


class Type:
    """A type of Numba's, which converts numbers as it does.

    Converted integers are cached: threads convert the same few addresses, millions of times, and
    NumPy is slow at single numbers.
    """

    def __init__(self, name: str) -> None:
        """Create the type of a dtype."""
        self.name, self.dtype = name, numpy_dtype(name)
        self.scalar_type, self.float = self.dtype.type, is_float(name)
        self.converted_integers: dict[int, Any] = {}

    def __call__(self, x: Any) -> Any:
        """Convert a number to this type."""
        kind = type(x)
        if kind is self.scalar_type:
            return x
        if self.float:
            return self.scalar_type(x)
        if kind not in INTEGERS:
            return self._wrapped(x)
        number = int(x)
        converted = self.converted_integers.get(number)
        if converted is None:
            converted = self._wrapped(x)
            if len(self.converted_integers) < MOST_CONVERTED:
                self.converted_integers[number] = converted
        return converted

    def _wrapped(self, x: Any) -> Any:
        return np.asarray(x).astype(self.dtype)[()]


TYPES = {"boolean": Type("bool"), **{name: Type(name) for name in (*INTEGER_NAMES, *FLOATS)}}
Step = Generator[Any, Any, Any]
Kernel = Callable[..., Step]


def run_block_source(
    source: str,
    grid: int,
    threads: int,
    dynamic_bytes: int,
    arrays: Mapping[str, np.ndarray],
    seed: int = 0,
) -> None:
    """Run all blocks of a launch; `arrays` are flat, by parameter name, and written in place.

    Raises CheckFailed if a thread leaves an array, or if threads do not reach the same Syncs.
    """
    cuda = _Cuda(grid)
    kernel = _namespace(_compile(source), cuda)["kernel"]
    order = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        for number in order.permutation(grid):
            block = _Block(kernel, cuda, int(number), threads, dynamic_bytes, arrays, order)
            while block.left:
                block.turn()


def run_program_source(
    source: str,
    units: int,
    threads: int,
    dynamic_bytes: int,
    arrays: Mapping[str, np.ndarray],
    seed: int = 0,
    watched: bool = True,
) -> None:
    """Run the blocks of a launch that are resident together and wait for each other.

    Some are quick, some slow or held back, and they take turns in an order drawn anew each time.
    The timer counts its reads.

    Raises the errors of `run_block_source`, and CheckFailed for a deadlock: all remaining blocks
    wait. If not `watched`, the blocks must end a deadlock themselves.
    """
    cuda = _Cuda(units)
    kernel = _namespace(_compile(source), cuda)["program"]
    order = np.random.default_rng(seed)
    every = [_Block(kernel, cuda, n, threads, dynamic_bytes, arrays, order) for n in range(units)]
    speeds = order.random(units) * (order.random(units) > HELD_BACK)
    with np.errstate(all="ignore"):
        while left := [b for b in every if b.left]:
            quick = [b for b in left if order.random() < speeds[b.number]]
            able = [b for b in left if speeds[b.number] > 0]
            moved = any(any(_take_turns(some, order)) for some in (quick, able, left))
            if watched and not moved:
                names = ", ".join(str(b.number) for b in left)
                raise CheckFailed(f"units {names} wait for steps that never finish: a deadlock")


def _take_turns(blocks: Sequence[_Block], order: np.random.Generator) -> list[bool]:
    """Give each block a turn; return which of them made progress."""
    return [blocks[n].turn() for n in order.permutation(len(blocks))]


class Or:
    """A thread at a Sync that reduces a condition of all threads by `or`."""

    __slots__ = ("truth",)

    def __init__(self, truth: Any) -> None:
        """Create the thread's contribution."""
        self.truth = bool(truth)


# Rows and columns of the elements that lanes pass to mma.m16n8k16, and of its sums: the figures
# of section 9.7.15.5.8 of PTX ISA. Both elements of each word of an operand.
_LANES = np.arange(WARP)[:, None, None]
_GROUP, _PLACE = _LANES // 4, _LANES % 4
_WORD, _HALF = np.arange(4)[:, None], np.arange(2)
LEFT = np.broadcast_arrays(_GROUP + 8 * (_WORD % 2), 2 * _PLACE + 8 * (_WORD // 2) + _HALF)
RIGHT = np.broadcast_arrays(2 * _PLACE + 8 * _WORD[:2] + _HALF, _GROUP)
SUMS = _GROUP[:, 0] + 8 * (_WORD.T // 2), 2 * _PLACE[:, 0] + _WORD.T % 2


class Multiply:
    """A lane at a matrix instruction of its warp.

    It contributes words of both operands, pairs of elements of a dtype, and sums.
    """

    __slots__ = ("dtype", "sums", "words")

    def __init__(self, dtype: str, *words_and_sums: Any) -> None:
        """Create the lane's contribution: four left words, two right ones, and sums."""
        self.dtype, self.words, self.sums = dtype, words_and_sums[:6], words_and_sums[6:]

    def others(self, lanes: Mapping[int, Multiply]) -> dict[int, tuple[Any, ...]]:
        """Return the sums of each lane after the instruction."""
        at = np.array([n % WARP for n in lanes])
        words = np.array([lane.words for lane in lanes.values()], np.uint32)
        pairs = words.view(numpy_dtype(self.dtype)).astype(np.float32).reshape(-1, 6, 2)
        left, right = np.zeros((16, 16), np.float32), np.zeros((16, 8), np.float32)
        total = np.zeros((16, 8), np.float32)
        left[LEFT[0][at], LEFT[1][at]] = pairs[:, :4]
        right[RIGHT[0][at], RIGHT[1][at]] = pairs[:, 4:]
        sums = SUMS[0][at], SUMS[1][at]
        total[sums] = [lane.sums for lane in lanes.values()]
        total += left @ right
        return dict(zip(lanes, map(tuple, total[sums]), strict=True))


class Exchange:
    """A lane at a shuffle: it gives a value, and receives that of the lane `away` places off."""

    __slots__ = ("away", "value")

    def __init__(self, value: Any, away: int) -> None:
        """Create the lane's contribution."""
        self.value, self.away = value, away

    def others(self, lanes: Mapping[int, Exchange]) -> dict[int, Any]:
        """Return the value that each lane receives."""
        return {n: lanes[n ^ lane.away].value for n, lane in lanes.items()}


PAUSE = object()  # a thread polls again later


class _Cuda(SimpleNamespace):
    """The `numba.cuda` of the running thread.

    `shown` counts writes that other threads may wait for.
    """

    def __init__(self, grid: int) -> None:
        """Create the namespace of a launch with `grid` blocks."""
        super().__init__(
            blockIdx=SimpleNamespace(x=0),
            threadIdx=SimpleNamespace(x=0),
            gridDim=SimpleNamespace(x=grid),
            local=SimpleNamespace(array=_local),
            atomic=SimpleNamespace(add=self.add, exch=self.exchange, cas=self.exchange_if),
            threadfence=lambda: None,
            ldcv=lambda memory, at: memory[at],
        )
        self.ticks = self.shown = 0

    def timer(self) -> int:
        """Return the number of its reads."""
        self.ticks += 1
        return self.ticks

    def add(self, memory: Memory, at: int, more: Any) -> Any:
        """Add to an element; return its old value."""
        before = memory[at]
        if more:
            self.exchange(memory, at, before + more)
        return before

    def exchange(self, memory: Memory, at: int, value: Any) -> Any:
        """Store an element that others may wait for; return its old value."""
        self.shown += 1
        before, memory[at] = memory[at], value
        return before

    def exchange_if(self, memory: Memory, at: int, expected: Any, value: Any) -> Any:
        """Store an element if it has the expected value; return its old value."""
        return self.exchange(memory, at, value) if memory[at] == expected else memory[at]


def _local(size: int, dtype: Any) -> Memory:
    return Memory(_poison(size, dtype.dtype), "registers")


class _Block:
    """A thread block.

    `ready` are its threads that may go on, `at_sync` those at a Sync, with their contributions, and
    `warps` those at a shuffle. `left` counts the threads that have not ended, `at_last_sync` those
    that were at the last Sync.
    """

    def __init__(
        self,
        kernel: Kernel,
        cuda: _Cuda,
        number: int,
        threads: int,
        dynamic_bytes: int,
        arrays: Mapping[str, np.ndarray],
        order: np.random.Generator,
    ) -> None:
        """Create a block with one generator a thread."""
        memories = [Memory(a, n) for n, a in arrays.items()]
        self.cuda, self.number, self.order = cuda, number, order
        self.shared = Shared(dynamic_bytes)
        self.running = [kernel(*memories) for _ in range(threads)]
        self.sent: list[Any] = [None] * threads
        self.ready = list(range(threads))
        self.left = self.at_last_sync = threads
        self.at_sync: dict[int, Any] = {}
        self.warps: dict[int, dict[int, Any]] = {}

    def turn(self) -> bool:
        """Run every ready thread up to its next wait; return True if the block made progress."""
        self.cuda.blockIdx.x, self.cuda.shared = self.number, self.shared
        shown, moved = self.cuda.shown, False
        turns, self.ready = self.order.permutation(self.ready).tolist(), []
        while turns:
            n = turns.pop()
            self.cuda.threadIdx.x, self.shared.next_array = n, 0
            try:
                step, self.sent[n] = self.running[n].send(self.sent[n]), None
            except StopIteration:
                self.left, moved = self.left - 1, True
                continue
            if step is PAUSE:
                self.ready.append(n)
                continue
            moved = True
            if step is None or isinstance(step, Or):
                self.at_sync[n] = step
            else:
                turns += self._join_shuffle(n, step)
        if not self.ready:
            self._release_sync()
        return moved or self.cuda.shown > shown

    def _join_shuffle(self, n: int, step: Any) -> list[int]:
        """Record a thread at a warp instruction; return the lanes to go on, once all are there."""
        number = n // WARP
        warp = self.warps.setdefault(number, {})
        warp[n] = step
        if len(warp) < min(WARP, len(self.running) - number * WARP):
            return []
        if len({type(lane) for lane in warp.values()}) > 1:
            raise CheckFailed("lanes of a warp reach different instructions")
        for k, value in step.others(warp).items():
            self.sent[k] = value
        return [int(k) for k in self.order.permutation(list(self.warps.pop(number)))]

    def _release_sync(self) -> None:
        """Release the threads at a Sync, after a check that all are there."""
        if self.warps:
            raise CheckFailed("some threads of a warp never reach a shuffle")
        if self.at_sync and len(self.at_sync) < self.at_last_sync:
            raise CheckFailed(f"{self.at_last_sync - len(self.at_sync)} threads never reach a Sync")
        condition = any(step.truth for step in self.at_sync.values() if step is not None)
        for n, step in self.at_sync.items():
            self.sent[n] = None if step is None else condition
        self.ready, self.at_last_sync, self.at_sync = list(self.at_sync), len(self.at_sync), {}


@lru_cache(maxsize=256)
def _compile(source: str) -> CodeType:
    """Compile a printed source to Python whose functions yield where threads wait."""
    tree = ast.parse(source)
    statements: list[ast.stmt] = [s for s in tree.body if isinstance(s, ast.Assign)]
    functions = [s for s in tree.body if isinstance(s, ast.FunctionDef) and _is_thread_code(s)]
    yielding = _Yielding({f.name for f in functions})
    for function in functions:
        function.decorator_list = []
        function.body.append(ast.parse("if False: yield").body[0])  # also without a Sync
        statements.append(yielding.visit(function))
    return compile(ast.fix_missing_locations(ast.Module(statements, [])), "<thread block>", "exec")


def _is_thread_code(function: ast.FunctionDef) -> bool:
    """Return True unless a function makes code itself, such as the timer.

    `_namespace` replaces those.
    """
    return not any(ast.unparse(d) == "intrinsic" for d in function.decorator_list)


class _Yielding(ast.NodeTransformer):
    """A rewrite that lets a thread yield where it waits, also in a function that it calls."""

    def __init__(self, functions: set[str]) -> None:
        """Create the rewrite for the names of functions that wait."""
        self.functions = functions

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace a call that waits by a yield.

        `cuda.syncthreads()` -> `(yield None)`, and likewise for other waits:
        `cuda.shfl_xor_sync(lanes, x, away)` -> `(yield _Exchange(x, away))`, which is the other
        lane's x.
        """
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Attribute(ast.Name("cuda"), name)) if name in SYNCS:
                return ast.Yield(None)
            case ast.Call(ast.Attribute(ast.Name("cuda"), "nanosleep")):
                return ast.Yield(ast.Name("_PAUSE", ast.Load()))
            case ast.Call(ast.Attribute(ast.Name("cuda"), "syncthreads_or"), [truth]):
                return ast.Yield(ast.Call(ast.Name("_Or", ast.Load()), [truth], []))
            case ast.Call(ast.Attribute(ast.Name("cuda"), "shfl_xor_sync"), [_, x, away]):
                return ast.Yield(ast.Call(ast.Name("_Exchange", ast.Load()), [x, away], []))
            case ast.Call(ast.Name("mma_float16" | "mma_bfloat16" as name), args):
                dtype = ast.Constant(name.removeprefix("mma_"))
                multiply = ast.Call(ast.Name("_Multiply", ast.Load()), [dtype, *args], [])
                return ast.Yield(multiply)
            case ast.Call(ast.Name(name)) if name in self.functions:
                return ast.YieldFrom(node)
        return node


def _namespace(code: CodeType, cuda: _Cuda) -> dict[str, Any]:
    """Return the names of a compiled source, with the simulator's functions."""
    names: dict[str, Any] = {
        "math": MATH,
        "cuda": cuda,
        "libdevice": SimpleNamespace(
            rint=np.rint,
            rintf=np.rint,
            float_as_int=lambda x: np.float32(x).view(np.int32),
            int_as_float=lambda x: np.int32(x).view(np.float32),
            double_as_longlong=lambda x: np.float64(x).view(np.int64),
            longlong_as_double=lambda x: np.int64(x).view(np.float64),
        ),
        "globaltimer": cuda.timer,
        "load4": elements.load(4),
        "load8": elements.load(8),
        "of_bfloat16": elements.of_bfloat16,
        "store2": elements.store2,
        "to_bfloat16": elements.to_bfloat16,
        "word2": elements.word2,
        "word_of": elements.word_of,
        "_PAUSE": PAUSE,
        "_Or": Or,
        "_Exchange": Exchange,
        "_Multiply": Multiply,
        **TYPES,
    }
    for name in ("float32", "float64"):
        names[name] = numpy_dtype(name).type
    exec(code, names)
    return names
