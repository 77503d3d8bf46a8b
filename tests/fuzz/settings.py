"""The ways to compile that are held against each other, on a machine that is fixed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.compiler.options import Options
from explorer.devices.catalogue import device_names
from explorer.devices.model import Device, MemoryLevel
from explorer.measure.this_cpu import lanes
from explorer.memory.plan import Options as MemoryOptions
from explorer.rammer import POLICIES as RAMMER
from explorer.rammer import Options as RammerOptions
from explorer.relax.options import Options as RelaxOptions
from explorer.roller import Options as RollerOptions
from explorer.roller.named_policies import POLICIES as ROLLER
from explorer.transforms.shared_products import Options as RecurrentOptions
from explorer.transforms.softmax import OnlineSoftmax
from explorer.transforms.winograd import Options as ConvolutionOptions
from explorer.welder import POLICIES as WELDER
from explorer.welder import Options as WelderOptions

LEVELS = (
    MemoryLevel("L1", 32 << 10, 90.0, 64),
    MemoryLevel("L2", 512 << 10, 75.0, 64),
    MemoryLevel("L3", 32 << 20, 45.0, 64, shared=True),
    MemoryLevel("DRAM", None, 12.0, 64, shared=True),
)


def cpu(width: int, units: int) -> Device:
    """A processor with vectors of that many float32 elements: 4 is portable, 8 AVX2, 16 AVX-512."""
    return Device(
        f"a CPU of {units} x {width}", "cpu", units, width, 32 if width == 16 else 16, 2.0, 3.0,
        LEVELS,
    )  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """A way to compile, and what it is called."""

    name: str
    device: Device | str
    options: Options = Options()
    until: str = "emitted"


PLAIN = Setting("plain", cpu(min(lanes(), 8), 2))


def options() -> dict[str, Options]:
    """One option moved at a time."""
    found = {f"welder.policy={p}": Options(welder=WelderOptions(policy=p)) for p in WELDER}
    found["welder.enabled=no"] = Options(welder=WelderOptions(enabled=False))
    found["relax.fuse"] = Options(relax=RelaxOptions(fuse=True))
    found["relax.lift"] = Options(relax=RelaxOptions(lift=True))
    for library in ("onnx", "blas"):
        found[f"relax.dispatch={library}"] = Options(relax=RelaxOptions(dispatch=(library,)))
    for way in ("direct", "f2", "f4", "row3", "row4"):
        chosen = ConvolutionOptions(algorithm=way)
        found[f"convolution.algorithm={way}"] = Options(convolution=chosen)
    for policy in ROLLER:
        found[f"roller.policy={policy}"] = Options(roller=RollerOptions(policy=policy))
    for n, policy in enumerate(RAMMER):
        threads = n % 4 + 1
        ram = RammerOptions(policy=policy, threads=threads)
        found[f"rammer.policy={policy} threads={threads}"] = Options(rammer=ram)
    found["rammer.brick_tasks=1 threads=4"] = Options(
        rammer=RammerOptions(brick_tasks=1, threads=4, bricks=64)
    )
    found["softmax off"] = Options(softmax=OnlineSoftmax(enabled=False))
    for block in (1, 3, 16):
        found[f"softmax.block={block}"] = Options(softmax=OnlineSoftmax(block=block))
    for hoist in ("on", "off"):
        found[f"recurrent.hoist={hoist}"] = Options(recurrent=RecurrentOptions(hoist=hoist))
    found["recurrent.split=on"] = Options(recurrent=RecurrentOptions(split="on"))
    found["recurrent.unroll=0"] = Options(recurrent=RecurrentOptions(unroll=0))
    found["recurrent.order=diagonal"] = Options(recurrent=RecurrentOptions(order="diagonal"))
    found["memory.share=no"] = Options(memory=MemoryOptions(share=False))
    for more in ({}, {"outputs": True}, {"ordered": True}, {"in_place": True}):
        memory = MemoryOptions(policy="storages", **more)
        found[f"memory.policy=storages {more or ''}"] = Options(memory=memory)
    return found


def everywhere() -> list[Setting]:
    """Every setting but the plain one: options, widths of vectors, units, data sheets, stages."""
    found = [Setting(name, PLAIN.device, chosen) for name, chosen in options().items()]
    for width in (4, 8, 16):
        for units in (1, 4):
            runs = width <= lanes()
            found.append(
                Setting(f"{width} lanes, {units} units", cpu(width, units),
                        until="emitted" if runs else "planned")
            )  # fmt: skip
    found += [
        Setting(f"target {name}", name, until="planned")
        for name in device_names()
        if name not in ("cpu", "this-cpu")
    ]
    found += [Setting("this cpu", "cpu"), Setting("thread blocks", "cuda-sim")]
    return found


def drawn(rng: np.random.Generator, count: int) -> list[Setting]:
    """Some of them."""
    every = everywhere()
    return [every[int(n)] for n in rng.choice(len(every), min(count, len(every)), replace=False)]
