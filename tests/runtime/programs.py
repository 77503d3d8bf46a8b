"""Small programs whose kernels are made by~worker: no generated code, so they bind in a moment.

Every kernel reads its operands backwards, so that each unit reads what the others wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import cfunc, njit

from explorer.codegen.build import Argument
from explorer.devices.model import Device, MemoryLevel
from explorer.ir.affine import affine, var
from explorer.ir.calls import (
    Branch,
    FunctionCall,
    KernelCall,
    LibraryCall,
    Loop,
    ShapeOf,
    Var,
    View,
)
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import evaluate_dim, product
from explorer.ir.kernel import Apply, Axis, Compute, Const, Kernel, Read, TensorSpec
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.types import Tensor
from explorer.runtime.device_program.intrinsics import load, store, store_byte

CHUNK = 4  # elements of one task
MODULUS = 1_000_003
DEVICE = Device(
    "test", "cpu", 2, 16, 32, 2.0, 3.0, (MemoryLevel("DRAM", None, 20.0, 64, True),), 1.0, 0.2, 10.0
)


@njit("int64(int64)")
def extent(word):
    """n: the number itself, or the first word of a table."""
    return word if word < 1 << 20 else load(word)


@cfunc("void(int64, int64, int64)")
def flip_code(first, last, args):
    """args: a, out, n. out[i] = (a[n-1-i] * 5 + 7) % MODULUS."""
    n = extent(load(args + 16))
    for i in range(first * CHUNK, min(n, last * CHUNK)):
        store(load(args + 8) + 8 * i, (load(load(args) + 8 * (n - 1 - i)) * 5 + 7) % MODULUS)


@cfunc("void(int64, int64, int64)")
def mix_code(first, last, args):
    """args: a, b, out, n. out[i] = (a[n-1-i] * 3 + b[i]) % MODULUS."""
    n = extent(load(args + 24))
    for i in range(first * CHUNK, min(n, last * CHUNK)):
        value = load(load(args) + 8 * (n - 1 - i)) * 3 + load(load(args + 8) + 8 * i)
        store(load(args + 16) + 8 * i, value % MODULUS)


@cfunc("void(int64, int64, int64)")
def test_code(first, last, args):
    """args: a, out. out = a[0] % 4 != 0, a bool scalar."""
    store_byte(load(args + 8), 1 if load(load(args)) % 4 != 0 else 0)


@cfunc("void(int64, int64, int64)")
def less_code(first, last, args):
    """args: a, out. out = a[0] - 1, an int64 scalar."""
    store(load(args + 8), load(load(args)) - 1)


@cfunc("void(int64, int64, int64)")
def row_code(first, last, args):
    """args: index, a, out, n, m. out[i] = a[index, i], of m rows."""
    n, m = extent(load(args + 24)), extent(load(args + 32))
    row = load(load(args))
    row = min(max(row + m if row < 0 else row, 0), m - 1)
    for i in range(first * CHUNK, min(n, last * CHUNK)):
        store(load(args + 16) + 8 * i, load(load(args + 8) + 8 * (row * n + i)))


ADDRESSES = {
    "flip": flip_code.address,
    "mix": mix_code.address,
    "test": test_code.address,
    "less": less_code.address,
    "row": row_code.address,
}


@dataclass(frozen=True)
class HandCode:
    """What the runtime needs of a kernel's code."""

    key: str
    address: int
    arguments: tuple[Argument, ...]
    extent: object  # a dim; None: one task

    def tasks(self, sizes):
        return 1 if self.extent is None else -(-evaluate_dim(self.extent, sizes) // CHUNK)


def vector(n, dtype="int64"):
    return Tensor((n,), dtype)


def kernel_of(kind, n, inputs):
    """The loop-level meaning of a hand-made kernel."""
    scalar = kind == "test"
    i = Axis("i", n)
    backwards = affine({"i": -1}, n - 1)
    number = {k: Const(k, "int64") for k in (0, 3, 4, 5, 7, MODULUS)}
    match kind:
        case "flip":
            scaled = Apply("mul", (Read("a", (backwards,)), number[5]))
            expr = Apply("mod", (Apply("add", (scaled, number[7])), number[MODULUS]))
        case "mix":
            scaled = Apply("mul", (Read("a", (backwards,)), number[3]))
            expr = Apply("mod", (Apply("add", (scaled, Read("b", (var("i"),)))), number[MODULUS]))
        case _:
            first = Read("a", (affine({}, 0),))
            expr = Apply("ne", (Apply("mod", (first, number[4])), number[0]))
    names = ("a", "b")[: len(inputs)]
    out = TensorSpec("out", () if scalar else (n,), "bool" if scalar else "int64")
    specs = (*(TensorSpec(name, (n,), "int64") for name in names), out)
    compute = Compute("out", () if scalar else (i,), expr)
    return Kernel(kind, specs, (compute,), names, ("out",))


def less_of():
    """A number and one less."""
    specs = TensorSpec("a", (1,), "int64"), TensorSpec("out", (), "int64")
    first = Read("a", (affine({}, 0),))
    compute = Compute("out", (), Apply("sub", (first, Const(1, "int64"))))
    return Kernel("less", specs, (compute,), ("a",), ("out",))


def row_of(m, n):
    """A row of a table of m rows of n: Gather's kernel."""
    index = Read("index", ())
    wrapped = Apply("add", (index, Const(m, "int64")))
    at = Apply("where", (Apply("lt", (index, Const(0, "int64"))), wrapped, index))
    specs = TensorSpec("index", (), "int64"), TensorSpec("a", (m, n), "int64")
    compute = Compute("out", (Axis("i", n),), Read("a", (at, var("i"))))
    out = TensorSpec("out", (n,), "int64")
    return Kernel("row", (*specs, out), (compute,), ("index", "a"), ("out",))


@dataclass
class Body:
    """Writes one function."""

    model: Model
    name: str
    bindings: list = field(default_factory=list)

    def bind(self, expr, *types):
        out = tuple(Var(self.model.name(), t) for t in types)
        self.bindings.append(
            Binding(out, expr, frozenset({f"op_{out[0].name}"}) if out else frozenset())
        )
        return out[0] if len(out) == 1 else out

    def kernel(self, kind, *args):
        n = product(args[0].type.dims)
        args = tuple(self.flat(a, n) for a in args)
        kernel = kernel_of(kind, n, args)
        result = Tensor((), "bool") if kind == "test" else vector(n)
        out = self.bind(KernelCall(kernel, args, Tiling()), result)
        arguments = [Argument("tensor", name, name) for name in (*kernel.inputs, "out")]
        if kind != "test":
            arguments.append(
                Argument("dim", "n", "n", n)
                if not isinstance(n, int)
                else Argument("table", "t", "t", values=(n,))
            )
        extent = None if kind == "test" else n
        self.model.codes[out.name] = HandCode(kind, ADDRESSES[kind], tuple(arguments), extent)
        return out

    def flat(self, x, n):
        return x if len(x.type.dims) == 1 else self.view(x, (n,))

    def flip(self, a):
        return self.kernel("flip", a)

    def mix(self, a, b):
        return self.kernel("mix", a, b)

    def test(self, a):
        return self.kernel("test", a)

    def less(self, a):
        """An int64 scalar less one."""
        flat = self.view(a, (1,))
        out = self.bind(KernelCall(less_of(), (flat,), Tiling()), Tensor((), "int64"))
        arguments = tuple(Argument("tensor", name, name) for name in ("a", "out"))
        self.model.codes[out.name] = HandCode("less", ADDRESSES["less"], arguments, None)
        return out

    def row(self, table, index):
        """A row of a table, by an int64 scalar."""
        m, n = table.type.dims
        out = self.bind(KernelCall(row_of(m, n), (index, table), Tiling()), vector(n))
        arguments = [Argument("tensor", name, name) for name in ("index", "a", "out")]
        for name, dim in (("n", n), ("m", m)):
            arguments.append(
                Argument("table", name, name, values=(dim,))
                if isinstance(dim, int)
                else Argument("dim", dim.name, name, dim)
            )
        self.model.codes[out.name] = HandCode("row", ADDRESSES["row"], tuple(arguments), n)
        return out

    def view(self, a, shape, offset=0):
        return self.bind(View(a, offset), Tensor(tuple(shape), a.type.element))

    def shape_of(self, *dims):
        return self.bind(ShapeOf(tuple(dims)), vector(len(dims)))

    def library(self, function, *args, type):
        return self.bind(LibraryCall("onnx", function, args), type)

    def branch(self, cond, then, orelse, args, *types):
        return self.bind(Branch(cond, then, orelse, tuple(args)), *types)

    def loop(self, body, trip, cond, state, args=(), trips=None):
        """The state, then with `trips`, its extent, what else the body gives, stacked."""
        made = next(f for f in self.model.functions if f.name == body).outputs
        rows = [v.type for v in made[1 + len(state) :]]
        stacked = [Tensor((trips, *row.dims), row.element) for row in rows]
        expr = Loop(body, trip, cond, tuple(state), tuple(args), len(rows))
        return self.bind(expr, *(s.type for s in state), *stacked)

    def call(self, function, args, *types):
        return self.bind(FunctionCall(function, tuple(args)), *types)


class Model:
    """A program that grows, and the codes of its kernels."""

    def __init__(self):
        self.codes = {}
        self.constants = {}
        self.functions = []
        self.count = 0

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def constant(self, value):
        constant = Constant(np.asarray(value))
        name = f"c{len(self.constants)}"
        self.constants[name] = constant
        return Var(name, constant.type)

    def var(self, type):
        return Var(self.name(), type)

    def function(self, name, params, write):
        """`write(body, *params)` gives the outputs."""
        body = Body(self, name)
        outputs = write(body, *params)
        self.functions.append(Function(name, tuple(params), tuple(body.bindings), tuple(outputs)))
        return name

    def program(self, params, write, decisions=None):
        body = Body(self, "main")
        outputs = tuple(write(body, *params))
        names = tuple(f"y{n}" for n in range(len(outputs)))
        main = Function("main", tuple(params), tuple(body.bindings), outputs, names)
        made = Program((main, *self.functions), self.constants)
        return (
            made
            if decisions is None
            else Program(made.functions, made.constants, decisions=decisions)
        )


def inputs_of(program, n, seed=0):
    rng = np.random.default_rng(seed)
    out = {}
    for p in program.main.params:
        shape = tuple(evaluate_dim(d, {"n": n}) for d in p.type.dims)
        if p.type.element == "bool":
            out[p.name] = rng.integers(0, 2, shape).astype(bool)
        else:
            out[p.name] = rng.integers(0, MODULUS, shape)
    return out
