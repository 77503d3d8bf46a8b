"""A thread block's source in Python, where there is no GPU: what `numba.cuda` means of the few of
its names that are printed.

The threads of a block go one after the other from one `syncthreads` to the next, in an order drawn
anew each time, those of a warp from one shuffle to the next; blocks go in any order, and those of a
device program, which wait for each other, take turns. Memory that nobody has written is poison, and
no address lies outside.
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

from explorer.codegen.cuda import stand_in_elements as elements
from explorer.errors import CheckFailed
from explorer.ir.dtypes import is_float, numpy_dtype
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS

WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
HELD_BACK = 0.3  # of the units, which go on only where no other one can; chosen
WARP = 32  # threads, on every GPU that CUDA knows
SYNCS = ("syncthreads", "syncwarp")
KNOWN = 1 << 16  # whole numbers of a type; chosen
INTEGERS = frozenset((int, *(numpy_dtype(name).type for name in WHOLE)))
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
    """A flat array that knows its ends."""

    __slots__ = ("array", "name", "size")

    def __init__(self, array: np.ndarray, name: str) -> None:
        self.array, self.name, self.size = array, name, array.size

    def __getitem__(self, at: Any) -> Any:
        if type(at) is slice:
            return Memory(self.array[at], self.name)
        place = index(at)
        if not 0 <= place < self.size:
            self._outside(at)
        return self.array[place]

    def __setitem__(self, at: int, value: Any) -> None:
        place = index(at)
        if not 0 <= place < self.size:
            self._outside(at)
        self.array[place] = value

    def run(self, at: Any, count: int) -> np.ndarray:
        """So many elements, which lie where their number divides their place."""
        place = index(at)
        if place % count:
            what = f"a thread loads {count} of {self.name} from {at} on"
            raise CheckFailed(what, where=self.name)
        if not 0 <= place <= self.size - count:
            self._outside(place if place < 0 else max(place, self.size))
        return self.array[place : place + count]

    def _outside(self, at: int) -> None:
        raise CheckFailed(
            f"a thread leaves {self.name}: element {at} of {self.size}", where=self.name
        )


class Shared:
    """The shared memory of a block: each thread asks for the same arrays in the same order."""

    def __init__(self, dynamic_bytes: int) -> None:
        self.room = _poison(dynamic_bytes, np.dtype(np.uint8))
        self.named: list[Memory] = []
        self.asked = 0

    def array(self, size: int, dtype: Any, alignment: int = 0) -> Memory:
        """The next array of a thread; of size 0: all that the launch asked for."""
        kind = dtype.dtype if isinstance(dtype, Type) else np.dtype(dtype)
        if size == 0:
            return Memory(self.room.view(kind), "shared memory")
        if self.asked == len(self.named):
            self.named.append(Memory(_poison(size, kind), "shared memory"))
        self.asked += 1
        return self.named[self.asked - 1]


def _poison(size: int, dtype: np.dtype[Any]) -> np.ndarray:
    """NaN, as a float of any width."""
    return np.full(size * dtype.itemsize, 0xFF, np.uint8).view(dtype)


class Type:
    """A type of Numba's, which converts numbers as it does. What a whole number becomes is kept:
    threads convert the same few addresses, millions of times, and NumPy is slow at one number.
    """

    def __init__(self, name: str) -> None:
        self.name, self.dtype = name, numpy_dtype(name)
        self.made, self.float = self.dtype.type, is_float(name)
        self.known: dict[int, Any] = {}

    def __call__(self, x: Any) -> Any:
        kind = type(x)
        if kind is self.made:
            return x
        if self.float:
            return self.made(x)
        if kind not in INTEGERS:
            return self._wrapped(x)
        number = int(x)
        found = self.known.get(number)
        if found is None:
            found = self._wrapped(x)
            if len(self.known) < KNOWN:
                self.known[number] = found
        return found

    def _wrapped(self, x: Any) -> Any:
        return np.asarray(x).astype(self.dtype)[()]


TYPES = {"boolean": Type("bool"), **{name: Type(name) for name in (*WHOLE, *FLOATS)}}
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
    """All blocks of a launch; flat arrays by the name of the parameter, written in place.

    Raises CheckFailed where a thread leaves an array, or threads do not come to the same Syncs.
    """
    cuda = _Cuda(grid)
    kernel = _names(_compiled(source), cuda)["kernel"]
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
    """The blocks of a launch that are resident together, and wait for each other: some are quick,
    some slow or held back, and they take turns in an order drawn anew each time. The timer counts
    how often it was read.

    Raises what `run_block_source` raises, and CheckFailed where all that are left wait: a deadlock;
    not `watched`, they are left to end it themselves.
    """
    cuda = _Cuda(units)
    kernel = _names(_compiled(source), cuda)["program"]
    order = np.random.default_rng(seed)
    every = [_Block(kernel, cuda, n, threads, dynamic_bytes, arrays, order) for n in range(units)]
    speeds = order.random(units) * (order.random(units) > HELD_BACK)
    with np.errstate(all="ignore"):
        while left := [b for b in every if b.left]:
            quick = [b for b in left if order.random() < speeds[b.number]]
            able = [b for b in left if speeds[b.number] > 0]
            moved = any(any(_turns(some, order)) for some in (quick, able, left))
            if watched and not moved:
                names = ", ".join(str(b.number) for b in left)
                raise CheckFailed(f"units {names} wait for what never comes: a deadlock")


def _turns(blocks: Sequence[_Block], order: np.random.Generator) -> list[bool]:
    """Each once; which of them did more than look."""
    return [blocks[n].turn() for n in order.permutation(len(blocks))]


class Or:
    """A thread is at a Sync, at which all learn whether any brought a truth."""

    __slots__ = ("truth",)

    def __init__(self, truth: Any) -> None:
        self.truth = bool(truth)


# Rows and columns of what the lanes of a warp bring to mma.m16n8k16, and of its sums: the figures
# of section 9.7.15.5.8 of PTX ISA. Of each word of an operand, both elements.
_LANES = np.arange(WARP)[:, None, None]
_GROUP, _PLACE = _LANES // 4, _LANES % 4
_WORD, _HALF = np.arange(4)[:, None], np.arange(2)
LEFT = np.broadcast_arrays(_GROUP + 8 * (_WORD % 2), 2 * _PLACE + 8 * (_WORD // 2) + _HALF)
RIGHT = np.broadcast_arrays(2 * _PLACE + 8 * _WORD[:2] + _HALF, _GROUP)
SUMS = _GROUP[:, 0] + 8 * (_WORD.T // 2), 2 * _PLACE[:, 0] + _WORD.T % 2


class Multiply:
    """A lane is at an instruction that its warp does together: it brings words of both operands,
    pairs of elements of a dtype, and sums.
    """

    __slots__ = ("dtype", "sums", "words")

    def __init__(self, dtype: str, *given: Any) -> None:
        self.dtype, self.words, self.sums = dtype, given[:6], given[6:]

    def others(self, lanes: Mapping[int, Multiply]) -> dict[int, tuple[Any, ...]]:
        """The sums of each lane behind it."""
        at = np.array([n % WARP for n in lanes])
        words = np.array([one.words for one in lanes.values()], np.uint32)
        pairs = words.view(numpy_dtype(self.dtype)).astype(np.float32).reshape(-1, 6, 2)
        left, right = np.zeros((16, 16), np.float32), np.zeros((16, 8), np.float32)
        total = np.zeros((16, 8), np.float32)
        left[LEFT[0][at], LEFT[1][at]] = pairs[:, :4]
        right[RIGHT[0][at], RIGHT[1][at]] = pairs[:, 4:]
        sums = SUMS[0][at], SUMS[1][at]
        total[sums] = [one.sums for one in lanes.values()]
        total += left @ right
        return dict(zip(lanes, map(tuple, total[sums]), strict=True))


class Exchange:
    """A lane is at a shuffle, with a value, and learns that of the lane so many places away."""

    __slots__ = ("away", "value")

    def __init__(self, value: Any, away: int) -> None:
        self.value, self.away = value, away

    def others(self, lanes: Mapping[int, Exchange]) -> dict[int, Any]:
        """What each lane learns."""
        return {n: lanes[n ^ one.away].value for n, one in lanes.items()}


PAUSE = object()  # a thread looks again later


class _Cuda(SimpleNamespace):
    """What `numba.cuda` is to the thread whose turn it is; `shown` is how often others were shown
    a value that they may wait for.
    """

    def __init__(self, grid: int) -> None:
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
        """How often it was read."""
        self.ticks += 1
        return self.ticks

    def add(self, memory: Memory, at: int, more: Any) -> Any:
        """What was there before."""
        before = memory[at]
        if more:
            self.exchange(memory, at, before + more)
        return before

    def exchange(self, memory: Memory, at: int, value: Any) -> Any:
        """What was there before; others may have waited for the new value."""
        self.shown += 1
        before, memory[at] = memory[at], value
        return before

    def exchange_if(self, memory: Memory, at: int, known: Any, value: Any) -> Any:
        """What was there before."""
        return self.exchange(memory, at, value) if memory[at] == known else memory[at]


def _local(size: int, dtype: Any) -> Memory:
    return Memory(_poison(size, dtype.dtype), "registers")


class _Block:
    """A block: `ready` are its threads that may go on, `came` those at a Sync, with what they
    brought, and `warps` those at a shuffle; `left` have not ended, of those that were `there` at
    the last Sync.
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
        given = [Memory(a, n) for n, a in arrays.items()]
        self.cuda, self.number, self.order = cuda, number, order
        self.shared = Shared(dynamic_bytes)
        self.running = [kernel(*given) for _ in range(threads)]
        self.sent: list[Any] = [None] * threads
        self.ready = list(range(threads))
        self.left = self.there = threads
        self.came: dict[int, Any] = {}
        self.warps: dict[int, dict[int, Any]] = {}

    def turn(self) -> bool:
        """Every thread that may goes on, to where it waits; whether one did more than look."""
        self.cuda.blockIdx.x, self.cuda.shared = self.number, self.shared
        shown, moved = self.cuda.shown, False
        turns, self.ready = self.order.permutation(self.ready).tolist(), []
        while turns:
            n = turns.pop()
            self.cuda.threadIdx.x, self.shared.asked = n, 0
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
                self.came[n] = step
            else:
                turns += self._shuffled(n, step)
        if not self.ready:
            self._meet()
        return moved or self.cuda.shown > shown

    def _shuffled(self, n: int, step: Any) -> list[int]:
        """A thread at what its warp does together; the lanes of that, once all are there."""
        number = n // WARP
        warp = self.warps.setdefault(number, {})
        warp[n] = step
        if len(warp) < min(WARP, len(self.running) - number * WARP):
            return []
        if len({type(one) for one in warp.values()}) > 1:
            raise CheckFailed("lanes of a warp are at different instructions")
        for k, value in step.others(warp).items():
            self.sent[k] = value
        return [int(k) for k in self.order.permutation(list(self.warps.pop(number)))]

    def _meet(self) -> None:
        """Those at a Sync go on, for all are there."""
        if self.warps:
            raise CheckFailed("some threads of a warp never come to a shuffle")
        if self.came and len(self.came) < self.there:
            raise CheckFailed(f"{self.there - len(self.came)} threads never come to a Sync")
        told = any(step.truth for step in self.came.values() if step is not None)
        for n, step in self.came.items():
            self.sent[n] = None if step is None else told
        self.ready, self.there, self.came = list(self.came), len(self.came), {}


@lru_cache(maxsize=256)
def _compiled(source: str) -> CodeType:
    tree = ast.parse(source)
    made: list[ast.stmt] = [s for s in tree.body if isinstance(s, ast.Assign)]
    functions = [s for s in tree.body if isinstance(s, ast.FunctionDef) and _is_of_threads(s)]
    yielding = _Yielding({f.name for f in functions})
    for function in functions:
        function.decorator_list = []
        function.body.append(ast.parse("if False: yield").body[0])  # also without a Sync
        made.append(yielding.visit(function))
    return compile(ast.fix_missing_locations(ast.Module(made, [])), "<thread block>", "exec")


def _is_of_threads(function: ast.FunctionDef) -> bool:
    """Not what makes code itself, such as the timer, which stands in `_names`."""
    return not any(ast.unparse(d) == "intrinsic" for d in function.decorator_list)


class _Yielding(ast.NodeTransformer):
    """A thread stops where it waits for others, in a function that it calls, too."""

    def __init__(self, functions: set[str]) -> None:
        self.functions = functions

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`cuda.syncthreads()` -> `(yield None)`, and the like of whatever else waits:
        `cuda.shfl_xor_sync(lanes, x, away)` -> `(yield _Exchange(x, away))`, which is the other's
        x.
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
                made = ast.Call(ast.Name("_Multiply", ast.Load()), [dtype, *args], [])
                return ast.Yield(made)
            case ast.Call(ast.Name(name)) if name in self.functions:
                return ast.YieldFrom(node)
        return node


def _names(code: CodeType, cuda: _Cuda) -> dict[str, Any]:
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
