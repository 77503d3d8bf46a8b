"""A thread block's source in Python, where there is no GPU: what `numba.cuda` means of the few of
its names that are printed.

The threads of a block go one after the other from one `syncthreads` to the next, in an order drawn
anew each time, those of a warp from one shuffle to the next; blocks go in any order. Memory that
nobody has written is poison, and no address lies outside.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Generator, Mapping
from functools import lru_cache
from types import CodeType, SimpleNamespace
from typing import Any

import numpy as np

from explorer.errors import CheckFailed
from explorer.ir.dtypes import is_float, numpy_dtype
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS

WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
WARP = 32  # threads, on every GPU that CUDA knows
SYNCS = ("syncthreads", "syncwarp")
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

    __slots__ = ("array", "name")

    def __init__(self, array: np.ndarray, name: str) -> None:
        self.array, self.name = array, name

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return Memory(self.array[at], self.name)
        if not 0 <= at < self.array.size:
            self._outside(at)
        return self.array[at]

    def __setitem__(self, at: int, value: Any) -> None:
        if not 0 <= at < self.array.size:
            self._outside(at)
        self.array[at] = value

    def _outside(self, at: int) -> None:
        raise CheckFailed(
            f"a thread leaves {self.name}: element {at} of {self.array.size}", where=self.name
        )


class Shared:
    """The shared memory of a block: each thread asks for the same arrays in the same order."""

    def __init__(self, dynamic_bytes: int) -> None:
        self.room = _poison(dynamic_bytes, np.dtype(np.uint8))
        self.named: list[Memory] = []
        self.asked = 0

    def array(self, size: int, dtype: Any) -> Memory:
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
    """A type of Numba's, which converts numbers as it does."""

    def __init__(self, name: str) -> None:
        self.name, self.dtype = name, numpy_dtype(name)

    def __call__(self, x: Any) -> Any:
        return self.dtype.type(x) if is_float(self.name) else np.asarray(x).astype(self.dtype)[()]


Step = Generator[Any, Any, None]
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
    cuda = SimpleNamespace(blockIdx=SimpleNamespace(x=0), threadIdx=SimpleNamespace(x=0))
    kernel = _kernel(_compiled(source), cuda)
    given = [Memory(a, n) for n, a in arrays.items()]
    order = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        for block in order.permutation(grid):
            cuda.shared = Shared(dynamic_bytes)
            cuda.blockIdx.x = int(block)
            _run_block(kernel, cuda, threads, given, order)


def _run_block(
    kernel: Kernel, cuda: Any, threads: int, given: list[Memory], order: np.random.Generator
) -> None:
    running = [kernel(*given) for _ in range(threads)]
    there, sent = list(range(threads)), [None] * threads
    while there:
        came: list[int] = []
        turns, warps = order.permutation(there).tolist(), dict[int, dict[int, Any]]()
        while turns:
            n = turns.pop()
            cuda.threadIdx.x, cuda.shared.asked = n, 0
            try:
                step, sent[n] = running[n].send(sent[n]), None
            except StopIteration:
                continue
            if step is None:
                came.append(n)
                continue
            warp = warps.setdefault(n // WARP, {})
            warp[n] = step
            if len(warp) == min(WARP, threads - n // WARP * WARP):
                for k, (_, away) in warp.items():
                    sent[k] = warp[k ^ away][0]
                turns += order.permutation(list(warps.pop(n // WARP))).tolist()
        if warps:
            raise CheckFailed("some threads of a warp never come to a shuffle")
        if came and len(came) < len(there):
            raise CheckFailed(f"{len(there) - len(came)} threads never come to a Sync")
        there = came


@lru_cache(maxsize=256)
def _compiled(source: str) -> CodeType:
    tree = ast.parse(source)
    (function,) = (s for s in tree.body if isinstance(s, ast.FunctionDef))
    function.decorator_list = []
    function.body.append(ast.parse("if False: yield").body[0])  # also without a Sync
    made = ast.fix_missing_locations(_Yielding().visit(ast.Module([function], [])))
    return compile(made, "<thread block>", "exec")


class _Yielding(ast.NodeTransformer):
    """A thread stops where it waits for others."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """`cuda.syncthreads()` -> `yield`."""
        match node.value:
            case ast.Call(ast.Attribute(ast.Name("cuda"), name)) if name in SYNCS:
                return ast.Expr(ast.Yield(None))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`cuda.shfl_xor_sync(lanes, x, away)` -> `(yield (x, away))`, which is the other's x."""
        match node:
            case ast.Call(ast.Attribute(ast.Name("cuda"), "shfl_xor_sync"), [_, x, away]):
                return ast.Yield(ast.Tuple([x, away], ast.Load()))
        return self.generic_visit(node)


def _kernel(code: CodeType, cuda: Any) -> Kernel:
    names: dict[str, Any] = {
        "math": MATH,
        "cuda": cuda,
        "libdevice": SimpleNamespace(rint=np.rint, rintf=np.rint),
        "boolean": Type("bool"),
        **{name: Type(name) for name in (*WHOLE, *FLOATS)},
    }
    for name in ("float32", "float64"):
        names[name] = numpy_dtype(name).type
    exec(code, names)
    kernel: Kernel = names["kernel"]
    return kernel
