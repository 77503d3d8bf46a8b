"""Warm-ups of chapter 05."""

from __future__ import annotations

from math import isfinite, prod
from random import Random
from typing import Any

from explorer.codegen.cuda.assemble import occupancy
from explorer.course.exercise import Check, Exercise, require
from explorer.devices.catalogue import device
from explorer.rammer import Facts, ROperator, VDevice, schedule
from explorer.rammer import Options as Rammer


def _value(answer: Any) -> Any:
    return answer


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)


def _check_load_imbalance(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for n in range(20):
        cores = draw.randint(2, 12)
        left = (0, draw.randint(1, cores - 1))[n % 2]  # tasks of the last, partial round
        tasks = draw.randint(1, 5) * cores + left
        task_us = draw.randint(1, 40) / 4
        facts = Facts((ROperator("kernel", tasks, task_us),), VDevice(units=cores))
        total_us = schedule(facts, Rammer(policy="op-by-op")).wall.total_us
        right, got = total_us - tasks * task_us / cores, answer(tasks, task_us, cores)
        require(
            _is_number(got) and abs(got - right) < 1e-9,
            f"{tasks} tasks of {task_us:g} us on {cores} cores: the wall of the compiler takes "
            f"{total_us:g} us, which is {right:.4g} us more than with an even load, not {got!r}"[
                :300
            ],
        )


IMBALANCE = Exercise(
    name="load_imbalance",
    chapter="05_cost_models",
    title="The term of an uneven load",
    activity="fill in",
    minutes=3,
    goal="A kernel has `tasks` equal tasks. With an even load each core would compute for "
    "`tasks * task_us / cores` microseconds, but no core runs a part of a task. Fill in the blank: "
    "how long does the busiest core compute? The difference is the term `load imbalance`.",
    answer="load_imbalance",
    stub="def load_imbalance(tasks, task_us, cores):\n    return ... - tasks * task_us / cores\n",
    solution="def load_imbalance(tasks, task_us, cores):\n"
    "    return -(-tasks // cores) * task_us - tasks * task_us / cores\n",
    hints=("How many tasks does the busiest core run, if 5 tasks are dealt to 4 cores?",),
    checks=(Check("random kernels, scheduled by the compiler", 1, _check_load_imbalance),),
)


def _check_reached(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for n in range(20):
        roofs = [
            (float(draw.randint(10, 3000)), 10 ** draw.uniform(-1, 2))
            for _ in range(draw.randint(2, 4))
        ]
        roofs.sort(key=prod, reverse=n % 4 == 1)
        # a kernel under the peak, and another one under a memory level
        peak = draw.uniform(0.2, 0.9) * min(map(prod, roofs))
        if n % 2:
            peak = draw.uniform(1.1, 5) * max(map(prod, roofs))
        seconds = [1 / peak, *(1 / (bandwidth * intensity) for bandwidth, intensity in roofs)]
        right, got = 1 / max(seconds), answer(peak, roofs)
        levels = ", ".join(f"{b:g} GB/s with {i:.2f} operations per byte" for b, i in roofs)
        require(
            _is_number(got) and abs(got - right) < 1e-6 * right,
            f"a peak of {peak:.4g} GFLOP/s, {levels}: at most {right:.4g} GFLOP/s can be reached, "
            f"and the answer is {got!r}"[:400],
        )


_REACHED = '''\
def reached(peak, roofs):
    """Return the GFLOP/s under all roofs: (GB/s, operations per byte) of each memory level."""
    return min(peak, max(bandwidth * intensity for bandwidth, intensity in roofs))
'''

REACHED = Exercise(
    name="reached",
    chapter="05_cost_models",
    title="One roof too high",
    activity="find the fault",
    minutes=6,
    goal="`reached(peak, roofs)` should return the speed that a kernel can reach at most, in "
    "GFLOP/s. `roofs` has a pair for each memory level: its bandwidth in GB/s, and the operations "
    "that the kernel executes per byte from this level. There is one fault: find it and correct "
    "it.",
    answer="reached",
    stub=_REACHED,
    solution=_REACHED.replace("min(peak, max(", "min(peak, min("),
    hints=(
        "A kernel waits for L2 at 200 GFLOP/s and for DRAM at 50 GFLOP/s. What is its speed?",
        "Each level limits the kernel by itself, and so does the peak.",
    ),
    checks=(Check("random kernels and machines", 2, _check_reached),),
)


BLOCKS = ((32, 32, 0), (128, 64, 8), (128, 32, 20), (512, 32, 16))


def _check_resident(answer: Any, seed: int) -> None:
    table = answer.run(_value)
    require(
        isinstance(table, dict) and set(table) == set(BLOCKS),
        "`resident` is a dict with a number for each block",
    )
    a100 = device("a100")
    for threads, registers, kib in BLOCKS:
        right = occupancy(a100, threads, registers, kib * 1024)
        got = table[threads, registers, kib]
        require(
            got == right.blocks,
            f"blocks of {threads} threads with {registers} registers each and {kib} KiB: an SM "
            f"holds {right.blocks}, limited by {right.limited_by}, and not {got!r}"[:300],
        )


_RESIDENT = """\
blocks = ((32, 32, 0), (128, 64, 8), (128, 32, 20), (512, 32, 16))
counts = (..., ..., ..., ...)
resident = dict(zip(blocks, counts))
"""

RESIDENT = Exercise(
    name="resident",
    chapter="05_cost_models",
    title="Blocks that an SM holds",
    activity="predict",
    minutes=8,
    goal="A multiprocessor (SM) of an A100 holds at most 2,048 threads, 65,536 registers, 32 "
    "blocks, and 164 KiB of shared memory, of which each block reserves 1 KiB beyond its own. How "
    "many blocks are resident? A block is written as (threads, registers of each thread, KiB of "
    "shared memory).",
    answer="resident",
    stub=_RESIDENT,
    solution=_RESIDENT.replace("(..., ..., ..., ...)", "(32, 8, 7, 4)"),
    hints=(
        "Compute the number of blocks that each of the four limits allows, and take the least.",
        "With 20 KiB of its own, a block takes 21 KiB.",
    ),
    checks=(Check("four blocks on an A100", 2, _check_resident),),
    own_answers=("explorer.codegen.cuda.assemble:occupancy",),
)


def _check_two_times(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for _ in range(20):
        launch_us, gb_per_s = draw.uniform(0.5, 20), 10 ** draw.uniform(1, 3.5)
        sizes = [10 ** draw.uniform(4, 6), 10 ** draw.uniform(6.3, 8)]
        draw.shuffle(sizes)
        first, second = ((size, launch_us + size / gb_per_s / 1000) for size in sizes)
        got = answer(first, second)
        is_pair = isinstance(got, (tuple, list)) and len(got) == 2 and all(map(_is_number, got))
        require(is_pair, f"the answer is two numbers, and not {got!r}"[:200])
        is_near = [abs(g / r - 1) < 1e-4 for g, r in zip(got, (launch_us, gb_per_s))]
        require(
            all(is_near),
            f"{first[0]:,.0f} bytes take {first[1]:.3f} us and {second[0]:,.0f} bytes "
            f"{second[1]:.3f} us: the launch takes {launch_us:.3f} us and memory delivers "
            f"{gb_per_s:.2f} GB/s, and the answer is {got[0]:.3f} us and {got[1]:.2f} GB/s",
        )


TWO_TIMES = Exercise(
    name="two_times",
    chapter="05_cost_models",
    title="A launch and a bandwidth from two times",
    activity="write",
    minutes=12,
    goal="Two kernels are memory-bound: each takes the time of a launch, and then its bytes "
    "divided by the bandwidth. Write `two_times(first, second)`, which takes a pair `(bytes, us)` "
    "for each kernel, and returns the launch in microseconds and the bandwidth in GB/s.",
    answer="two_times",
    stub='''\
def two_times(first, second):
    """Return (launch in us, GB/s) of two memory-bound kernels, each a pair (bytes, us)."""
    raise NotImplementedError
''',
    solution='''\
def two_times(first, second):
    """Return (launch in us, GB/s) of two memory-bound kernels, each a pair (bytes, us)."""
    (first_bytes, first_us), (second_bytes, second_us) = first, second
    us_per_byte = (second_us - first_us) / (second_bytes - first_bytes)
    return first_us - first_bytes * us_per_byte, 1 / us_per_byte / 1000
''',
    hints=(
        "Plot the time against the bytes: two points, and the line through them. What is its value "
        "at 0 bytes?",
        "1 GB/s is a thousand bytes per microsecond.",
    ),
    checks=(Check("random machines", 3, _check_two_times),),
)

WARM_UPS = (IMBALANCE, REACHED, RESIDENT, TWO_TIMES)
