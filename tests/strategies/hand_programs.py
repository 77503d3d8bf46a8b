"""Programs of kernels with code by hand: views, match_cast, updates, branches, loops, calls."""

from __future__ import annotations

import numpy as np
from numba import cfunc

from explorer.codegen.build import Argument
from explorer.ir.affine import affine, var
from explorer.ir.calls import KernelCall, MatchCast, Var
from explorer.ir.decisions.decided import Decisions
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.types import Tensor
from explorer.memory.plan import Options as MemoryOptions
from explorer.rammer import POLICIES, Options
from explorer.runtime.device_program.intrinsics import load, store
from tests.runtime.programs import CHUNK, HandCode, Model, extent, vector
from tests.strategies.choices import generator

COUNT, TRUTH = Tensor((), "int64"), Tensor((), "bool")


@cfunc("void(int64, int64, int64)")
def put_code(first, last, args):
    """args: a, b, out, n, where out lies on a. out[i] = b[n-1-i] in the first half."""
    n = extent(load(args + 24))
    for i in range(first * CHUNK, min(n // 2, last * CHUNK)):
        store(load(args + 16) + 8 * i, load(load(args + 8) + 8 * (n - 1 - i)))


def put(body, a, b):
    """A kernel that takes over the memory of `a` and writes its first half."""
    (n,) = a.type.dims
    specs = tuple(TensorSpec(name, (n,), "int64") for name in ("a", "b", "out"))
    compute = Compute(
        "out", (Axis("i", n // 2),), Read("b", (affine({"i": -1}, n - 1),)), store=(var("i"),)
    )
    kernel = Kernel("put", specs, (compute,), ("a", "b"), ("out",), updates=(("out", "a"),))
    out = body.bind(KernelCall(kernel, (a, b), Tiling()), a.type)
    arguments = [Argument("tensor", name, name) for name in ("a", "b", "out")]
    arguments.append(Argument("table", "t", "t", values=(n,)))
    body.model.codes[out.name] = HandCode("put", put_code.address, tuple(arguments), n // 2)
    return out


class Writer:
    """Draws the bindings of functions; `n` is the extent of every whole vector."""

    def __init__(self, choices, model, n):
        self.choices, self.model, self.n = choices, model, n
        self.functions = 0

    def body(self, body, known, depth, most=7):
        """Bindings over the known vectors; what is known after them."""
        known = list(known)
        for _ in range(self.choices.number(1, most)):
            known.append(self.one(body, known, depth))
        return known

    def one(self, body, known, depth):
        """One more vector of n elements."""
        c, n = self.choices, self.n
        a, b = self.choices.one(known), self.choices.one(known)
        kinds = ["flip", "mix", "mix", "half", "fold", "cast", "put", "library"]
        if depth:
            kinds += ["branch", "branch", "loop", "loop", "call"]
        match c.one(kinds):
            case "flip":
                return body.flip(a)
            case "mix":
                return body.mix(a, b)
            case "half":
                half = body.view(body.flip(a), (n // 2,), c.one([0, n // 2]))
                low, high = body.flip(half), body.flip(body.mix(half, half))
                return self.joined(body, a, low, high)
            case "fold":
                return body.flip(body.view(body.mix(a, b), (2, n // 2)))
            case "cast":
                return body.bind(MatchCast(a), vector(n))
            case "put":
                return put(body, body.flip(a), b)
            case "library":
                return body.library("Identity", a, type=vector(n))
            case "branch":
                return self.branch(body, a, b, depth)
            case "loop":
                return self.loop(body, a, b, depth)
            case "call":
                f = self.function([vector(n)] * 2, 1, depth)
                return body.call(f, [a, b], vector(n))
        raise AssertionError

    def joined(self, body, a, low, high):
        """Halves that lived apart meet again."""
        return body.mix(body.flip(a), self.doubled(body, body.mix(low, high)))

    def doubled(self, body, half):
        return body.library("Tile", half, self.model.constant(np.array([2])), type=vector(self.n))

    def function(self, types, results, depth, own=()):
        """A function of these parameters, plus its `own` first ones that it does not use."""
        self.functions += 1
        name = f"f{self.functions}"
        params = tuple(self.model.var(t) for t in (*own, *types))

        def write(body, *given):
            known = self.body(body, given[len(own) :], depth - 1, 4)
            made = [self.choices.one(known) for _ in range(results)]
            return [*([given[1]] if own else []), *made]

        return self.model.function(name, params, write)

    def branch(self, body, a, b, depth):
        arms = [self.function([vector(self.n)] * 2, 2, depth) for _ in range(2)]
        one, other = body.branch(body.test(a), *arms, [a, b], vector(self.n), vector(self.n))
        return body.mix(one, other)

    def loop(self, body, a, b, depth):
        f = self.function([vector(self.n)] * 3, 2, depth, own=(COUNT, TRUTH))
        trip = self.model.constant(np.array(self.choices.number(0, 3)))
        state = [body.flip(a), b] if self.choices.chance() else [a, b]
        one, other = body.loop(f, trip, None, state, [b])
        return body.mix(one, other)


@generator
def programs(c, decisions, depth=2):
    """(model, program, extent) with several results, some of them inputs or views."""
    model = Model()
    n = c.one([4, 8, 16])
    writer = Writer(c, model, n)

    def write(body, x, y):
        return c.some(writer.body(body, [x, y], depth, 6), 1, 3)

    params = (Var("x", vector(n)), Var("y", vector(n)))
    return model, model.program(params, write, decisions(c)), n


@generator
def straight_programs(c, decisions):
    """(model, program, extent): kernels and views of vectors of several extents."""
    model = Model()
    extent = c.one([4, 16, 64])

    def write(body, x, y):
        known = [x, y, model.constant(np.arange(extent) * 7)]
        for _ in range(c.number(1, 14)):
            a, b = c.one(known), c.one(known)
            half = a.type.dims[0] // 2
            match c.one(["flip", "mix", "mix", "half", "fold"]):
                case "mix" if a.type == b.type:
                    known.append(body.mix(a, b))
                case "half" if half >= 2:
                    known.append(body.view(a, (half,), c.one([0, half])))
                case "fold" if half >= 2:
                    known.append(body.flip(body.view(a, (2, half))))
                case _:
                    known.append(body.flip(a))
        return c.some(known, 1, 3)

    params = (Var("x", vector(extent)), Var("y", vector(extent)))
    return model, model.program(params, write, decisions(c)), extent


# Decisions for them.


def schedule(c):
    policy, threads = c.one(sorted(POLICIES)), c.number(1, 3)
    return Options(policy=policy, threads=threads, brick_tasks=c.one([0, 1, 3]))


def arena(c):
    return Decisions(rammer=schedule(c), memory=MemoryOptions())


def storages(c):
    outputs, in_place, share = c.chance(), c.chance(), not c.chance(0.25)
    memory = MemoryOptions(policy="storages", outputs=outputs, in_place=in_place, share=share)
    return Decisions(rammer=schedule(c), memory=memory)


def either(c):
    """Either policy of memory, with any of the options that both have."""
    policy, share, outputs = c.one(["arena", "storages"]), c.chance(), c.chance()
    memory = MemoryOptions(policy=policy, share=share, outputs=outputs)
    return Decisions(rammer=schedule(c), memory=memory)
