"""A small compilation made by hand: conv → relu → flatten → matmul → softmax, on two workers, with
every decision filled in.

The numbers are chosen for the tests; nothing here is ever shown to a user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from explorer.devices.listing import Listing, Listings
from explorer.devices.model import Device, MemoryLevel
from explorer.ir.affine import affine, var
from explorer.ir.calls import KernelCall, OpCall, Var, View
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import TaskTree
from explorer.ir.decisions.decided import Decisions
from explorer.ir.decisions.memory_plan import BufferPlacement, MemoryPlan
from explorer.ir.decisions.tile_graph import FusionGroup, TileEdge, TileGraph
from explorer.ir.decisions.tiling import Micro, Tiling, TilingDecision
from explorer.ir.decisions.wall import Brick, Gap, Wall
from explorer.ir.dims import ShapeEnv, SymbolBound, symbol
from explorer.ir.kernel import Apply, Axis, Compute, Const, Kernel, Read, TensorSpec
from explorer.ir.program import Binding, Constant, Function, Program, SourceOp
from explorer.ir.stage import Stage
from explorer.ir.types import Tensor
from explorer.measure.compare import Comparison, Measurement
from explorer.runtime.planning.control_costs import AssumedCosts
from explorer.runtime.planning.schedule_times import Crossing

BATCH = symbol("batch")
SOURCES = (
    SourceOp("conv", "Conv"),
    SourceOp("relu", "Relu"),
    SourceOp("flatten", "Flatten"),
    SourceOp("shape", "Shape"),
    SourceOp("fc", "Gemm"),
    SourceOp("softmax", "Softmax"),
)


def tensor(*dims: Any) -> Tensor:
    return Tensor(tuple(dims), "float32")


IMAGE = Var("image", tensor(BATCH, 3, 8, 8))
CONV = Var("conv_out", tensor(BATCH, 16, 6, 6))
RELU = Var("relu_out", tensor(BATCH, 16, 6, 6))
FLAT = Var("flat", tensor(BATCH, 576))
SHAPE = Var("shape_out", Tensor((2,), "int64"))
FC = Var("fc_out", tensor(BATCH, 10))
OUT = Var("probabilities", tensor(BATCH, 10))
W, B = Var("w", tensor(16, 3, 3, 3)), Var("fc_w", tensor(10, 576))


def one(name: str) -> frozenset[str]:
    return frozenset({name})


def conv_kernel(*, with_relu: bool) -> Kernel:
    n, o, h, w = Axis("n", BATCH), Axis("o", 16), Axis("h", 6), Axis("w", 6)
    c, kh, kw = Axis("c", 3), Axis("kh", 3), Axis("kw", 3)
    x = Read("x", (var("n"), var("c"), affine({"h": 1, "kh": 1}), affine({"w": 1, "kw": 1})))
    k = Read("k", (var("o"), var("c"), var("kh"), var("kw")))
    computes = [
        Compute("y", (n, o, h, w), Apply("mul", (x, k)), (c, kh, kw), "sum", origin=one("conv"))
    ]
    specs = [
        TensorSpec("x", IMAGE.type.dims),
        TensorSpec("k", W.type.dims),
        TensorSpec("y", CONV.type.dims),
    ]  # type: ignore[union-attr]
    if with_relu:
        computes.append(relu_compute("y", "z"))
        specs.append(TensorSpec("z", CONV.type.dims))  # type: ignore[union-attr]
    name = "conv_relu" if with_relu else "conv"
    return Kernel(name, tuple(specs), tuple(computes), ("x", "k"), (specs[-1].name,), one("k"))


def relu_compute(source: str, target: str) -> Compute:
    axes = (Axis("n", BATCH), Axis("o", 16), Axis("h", 6), Axis("w", 6))
    read = Read(source, tuple(var(a.name) for a in axes))
    return Compute(target, axes, Apply("max", (read, Const(0.0))), origin=one("relu"))


def relu_kernel() -> Kernel:
    specs = (TensorSpec("y", CONV.type.dims), TensorSpec("z", CONV.type.dims))  # type: ignore[union-attr]
    return Kernel("relu", specs, (relu_compute("y", "z"),), ("y",), ("z",))


def matmul_kernel() -> Kernel:
    n, o, k = Axis("n", BATCH), Axis("o", 10), Axis("k", 576)
    product = Apply("mul", (Read("x", (var("n"), var("k"))), Read("w", (var("o"), var("k")))))
    specs = (
        TensorSpec("x", (BATCH, 576)),
        TensorSpec("w", (10, 576)),
        TensorSpec("y", (BATCH, 10)),
    )
    compute = Compute("y", (n, o), product, (k,), "sum", origin=one("fc"))
    return Kernel("matmul", specs, (compute,), ("x", "w"), ("y",), one("w"))


def softmax_kernel() -> Kernel:
    n, o = Axis("n", BATCH), Axis("o", 10)
    at = (var("n"), var("o"))
    specs = tuple(
        TensorSpec(t, (BATCH, 10) if t in "xep" else (BATCH,)) for t in ("x", "m", "e", "s", "p")
    )
    computes = (
        Compute("m", (n,), Read("x", at), (o,), "max"),
        Compute(
            "e", (n, o), Apply("exp", (Apply("sub", (Read("x", at), Read("m", (var("n"),)))),))
        ),
        Compute("s", (n,), Read("e", at), (o,), "sum"),
        Compute("p", (n, o), Apply("div", (Read("e", at), Read("s", (var("n"),))))),
    )
    computes = tuple(replace(c, origin=one("softmax")) for c in computes)
    return Kernel("softmax", specs, computes, ("x",), ("p",))


def bind(var_: Var, expr: Any, *origin: str) -> Binding:
    return Binding((var_,), expr, frozenset(origin))


def program(body: tuple[Binding, ...], stage: Stage, decisions: Decisions = Decisions()) -> Program:
    main = Function("main", (IMAGE,), body, (OUT,), ("probabilities",))
    rng = np.random.default_rng(0)
    constants = {
        "w": Constant(rng.standard_normal((16, 3, 3, 3), np.float32)),
        "fc_w": Constant(rng.standard_normal((10, 576), np.float32)),
    }
    env = ShapeEnv((SymbolBound("batch", 1, 64, 2),))
    dropped = (("shape", "folded into the dims"),) if stage > Stage.IMPORTED else ()
    return Program((main,), constants, env, SOURCES, dropped, stage, decisions, "hand.onnx")


IMPORTED = program(
    (
        bind(CONV, OpCall("Conv", (IMAGE, W)), "conv"),
        bind(RELU, OpCall("Relu", (CONV,)), "relu"),
        bind(SHAPE, OpCall("Shape", (RELU,)), "shape"),
        bind(FLAT, OpCall("Reshape", (RELU, SHAPE)), "flatten"),
        bind(FC, OpCall("Gemm", (FLAT, B)), "fc"),
        bind(OUT, OpCall("Softmax", (FC,)), "softmax"),
    ),
    Stage.IMPORTED,
)
TAIL = (
    bind(FLAT, View(RELU), "flatten"),
    bind(FC, KernelCall(matmul_kernel(), (FLAT, B)), "fc"),
    bind(OUT, KernelCall(softmax_kernel(), (FC,)), "softmax"),
)
TYPED = replace(IMPORTED, stage=Stage.TYPED, dropped=(("shape", "folded into the dims"),))
LEGALIZED = program(
    (
        bind(CONV, KernelCall(conv_kernel(with_relu=False), (IMAGE, W)), "conv"),
        bind(RELU, KernelCall(relu_kernel(), (CONV,)), "relu"),
        *TAIL,
    ),
    Stage.LEGALIZED,
)
TREE = TaskTree(
    "sequence",
    "main",
    "device",
    tuple(
        TaskTree("operator", n, "device", (), n, origin=one(o))
        for n, o in (("relu_out", "conv"), ("fc_out", "fc"), ("probabilities", "softmax"))
    ),
)
TASKED = replace(LEGALIZED, stage=Stage.TASKED, decisions=Decisions(tasks=TREE))
GRAPH = TileGraph(
    (
        FusionGroup(
            "relu_out",
            ("conv_out", "relu_out"),
            ("conv", "elementwise"),
            12_000,
            7_400,
            (
                Candidate("conv_out → relu_out", True, (("DRAM", 4.0),)),
                Candidate("relu_out → fc_out", False, (), "a view that changes dims lies between"),
            ),
            frozenset({"conv", "relu"}),
        ),
        FusionGroup("fc_out", ("fc_out",), ("matmul",), 27_600, 27_600, (), one("fc")),
        FusionGroup(
            "probabilities", ("probabilities",), ("reduction",), 160, 160, (), one("softmax")
        ),
    ),
    (TileEdge("conv_out", "relu_out", "conv_out", BATCH * 2304, "register", (1, 16, 6, 6)),),
    "gain",
)
WELDED = program(
    (
        bind(RELU, KernelCall(conv_kernel(with_relu=True), (IMAGE, W)), "conv", "relu"),
        *TAIL,
    ),
    Stage.WELDED,
    Decisions(TREE, GRAPH),
)
CONV_TILE = Tiling((("n", 1), ("h", 1)), Micro(6, 1, 16))
CANDIDATES = (
    Candidate("n=1 h=1", CONV_TILE, (("compute", 6.0), ("L1", 1.0), ("DRAM", 0.5))),
    Candidate(
        "n=1 h=2",
        Tiling((("n", 1), ("h", 2)), Micro(6, 1, 16)),
        (("compute", 6.5), ("L1", 1.5), ("DRAM", 0.5)),
    ),
    Candidate("n=1 h=64", Tiling((("n", 1), ("h", 64))), (), "80 KiB in L1, has 48"),
)


def rolled() -> Program:
    decisions = replace(
        WELDED.decisions,
        tilings=(
            TilingDecision("relu_out", CONV_TILE, CANDIDATES),
            TilingDecision(
                "fc_out",
                Tiling((("n", 1),)),
                (Candidate("n=1", Tiling((("n", 1),)), (("compute", 3.0),)),),
            ),
        ),
    )
    tiles = {d.binding: d.chosen for d in decisions.tilings}
    body = tuple(
        replace(b, expr=replace(b.expr, tiling=tiles.get(b.var.name, Tiling((("n", 1),)))))
        if isinstance(b.expr, KernelCall)
        else b
        for b in WELDED.main.body
    )
    return replace(WELDED.with_body(body), stage=Stage.ROLLED, decisions=decisions)


ROLLED = rolled()


@dataclass(frozen=True)
class Rammer:
    policy: str = "wavefront"
    threads: int = 2


@dataclass(frozen=True)
class Switch:
    enabled: bool = True
    policy: str = "gain"
    connect: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Roller:
    pinned: tuple[tuple[str, Tiling], ...] = ()
    blocks: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Options:
    rammer: Rammer = Rammer()
    welder: Switch = Switch()
    roller: Roller = Roller()


@dataclass(frozen=True)
class Snapshot:
    name: str
    stage: Stage
    before: Program
    after: Program
    seconds: float
    cached: bool = False
    checked: None | bool | str = True

    @property
    def decisions(self) -> Decisions:
        return self.after.decisions


@dataclass(frozen=True)
class Kernel_:
    name: str
    source: str
    origins: frozenset[str]

    @property
    def listings(self) -> Listings:
        llvm = f"define void @{self.name}() {{\n  ret void\n}}\n"
        twice = "\tvfmadd231ps %zmm0, %zmm1, %zmm2\n" * 2
        assembly = Listing(f"{self.name}:\n{twice}\tretq\n", (0, 3, 3, 0))
        return Listings(Listing(llvm, (1, 0, 0)), assembly, "Made by hand.")


@dataclass(frozen=True)
class Times:
    median_us: float
    low_us: float
    high_us: float
    n: int


@dataclass(frozen=True)
class Model:
    program: Program
    name: str = "hand.onnx"
    path: str = "hand.onnx"
    digest: str = "a41f9c02"
    inputs: Mapping[str, Tensor] = field(default_factory=lambda: {"image": IMAGE.type})  # type: ignore[dict-item]


DEVICE = Device(
    "this-cpu",
    "cpu",
    2,
    16,
    32,
    2.0,
    3.7,
    (
        MemoryLevel("L1", 48 << 10, 400.0, 64, ways=12),
        MemoryLevel("L2", 1 << 20, 200.0, 64, ways=16),
        MemoryLevel("L3", 32 << 20, 100.0, 64, shared=True),
        MemoryLevel("DRAM", None, 40.0, 64, shared=True),
    ),
)


CALLS = (
    ("relu_out", frozenset({"conv", "relu"}), 12, 9.0),
    ("fc_out", one("fc"), 2, 3.0),
    ("probabilities", one("softmax"), 2, 1.5),
)


def wall(kind: str, threads: int, slack: float = 1.0) -> Wall:
    """Each call's tasks dealt over the units, a barrier after each call."""
    bricks, gaps, now = [], [], 0.0
    for name, origin, tasks, us in CALLS:
        ends = [now] * threads
        for t in range(tasks):
            unit = t % threads
            bricks.append(Brick(unit, ends[unit], ends[unit] + us * slack, name, t, t + 1, origin))
            ends[unit] += us * slack
        now = max(ends)
        gaps += [Gap(u, e, now, "imbalance") for u, e in enumerate(ends) if e < now]
        gaps += [Gap(u, now, now + 1.2 * slack, "barrier") for u in range(threads)]
        now += 1.2 * slack
    return Wall(kind, tuple(bricks), tuple(gaps), threads, now, "wavefront", "this-cpu")


@dataclass(frozen=True)
class HandMade:
    """What `explorer.compile` would have returned."""

    options: Options = Options()
    model: Model = Model(IMPORTED)
    device: Device = DEVICE

    @property
    def program(self) -> Program:
        return replace(ROLLED, stage=Stage.EMITTED)

    @property
    def planned_sizes(self) -> tuple[dict[str, int], ...]:
        return (dict(self.program.env.hints),)

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        chain = [IMPORTED, TYPED, LEGALIZED, TASKED, WELDED, ROLLED]
        chain += [replace(ROLLED, stage=s) for s in (Stage.RAMMED, Stage.PLANNED, Stage.EMITTED)]
        before = [IMPORTED, *chain[:-1]]
        return tuple(
            Snapshot(a.stage.name.lower(), a.stage, b, a, 0.01 * (i + 1), cached=i < 5)
            for i, (b, a) in enumerate(zip(before, chain))
        )

    @property
    def kernels(self) -> tuple[Kernel_, ...]:
        return tuple(
            Kernel_(
                name,
                f"def {name}(first, last, args):\n    for task in range(first, last):\n"
                "        st_float32(y, task, F(0.0))\n",
                origin,
            )
            for name, origin, _, _ in CALLS
        )

    @property
    def blocks(self) -> tuple[Kernel_, ...]:
        return ()

    def chosen_blocks(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        return {}

    def weighed_blocks(self, binding: str, sizes: Mapping[str, int]) -> tuple[Any, ...]:
        return ()

    def taken_blocks(self, binding: str, sizes: Mapping[str, int]) -> tuple[Any, ...]:
        return ()

    def planned_wall(self, sizes: Mapping[str, int]) -> Wall:
        return wall("planned", self.options.rammer.threads)

    def schedules(self, sizes: Mapping[str, int]) -> tuple[Any, ...]:
        return ()

    def measured_wall(self, inputs: Mapping[str, np.ndarray]) -> Wall:
        return wall("measured", self.options.rammer.threads, 1.07)

    def memory(self, sizes: Mapping[str, int]) -> MemoryPlan:
        buffers = (
            BufferPlacement(
                "relu_out", 4608, 0, 0, 1, "2304*batch", "", frozenset({"conv", "relu"})
            ),
            BufferPlacement("flat", 4608, 0, 0, 1, "2304*batch", "relu_out", one("flatten")),
            BufferPlacement("fc_out", 80, 4608, 1, 2, "40*batch", "", one("fc")),
        )
        return MemoryPlan(buffers, 4736, 9296)

    def time(self, inputs: Mapping[str, np.ndarray], seconds: float = 1.0) -> Times:
        return Times(70.0 * 2 / self.options.rammer.threads, 68.0, 72.0, 60)

    def crossings(self, sizes: Mapping[str, int], supposed: AssumedCosts) -> tuple[Crossing, ...]:
        """It has no loop."""
        return ()

    def with_options(self, *, until: Stage | None = None, **changes: Any) -> HandMade:
        return replace(self, options=replace(self.options, **changes))


def compare(first: HandMade, second: HandMade, inputs: object, seconds: float = 1.0) -> Comparison:
    """As `explorer.compare`, from the times made by hand."""
    a, b = (
        Measurement(t.median_us, t.low_us, t.high_us, t.n)
        for t in (first.time({}), second.time({}))
    )
    ratio = b.median_us / a.median_us
    verdict = "faster" if ratio > 1.01 else "slower" if ratio < 0.99 else "not distinguishable"
    return Comparison(ratio, ratio * 0.98, ratio * 1.02, 30, verdict, a, b)
