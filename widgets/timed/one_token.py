"""One token of a language model: each layer's time against its floor, and speed over the context.

The floor is the time to read the weights and the cache once, at the bandwidth of their size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2, log10
from time import perf_counter
from typing import Any

import numpy as np

from explorer.frontends.decoders.language_model import LanguageModel
from explorer.generation.generate import DECODE, plan_for
from explorer.ir.calls import Var
from explorer.ir.dims import Sizes, evaluate_dim
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.measure.compare import Measurement
from explorer.measure.this_cpu import code_of
from explorer.plain_text import counted
from widgets.draw.slide import NARROW, PX, label_width, legend
from widgets.draw.svg import Svg, label, path, rect
from widgets.draw.table import Cell, Mark, Sentence, Table, lit_by, size_text, time_text
from widgets.model import brick_wall
from widgets.model.compiled import COLUMNS, Arrays, cells, measured_text
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.model.picture import Clock, Drawn, OnShow, Picture, placeholder
from widgets.timed.kernel_table import busiest_us, measurements, nearest_level, tasks_of

NAME = "one_token"
CONTEXT = 256  # tokens in the cache where layers are timed
CONTEXTS = (64, 128, 256, 512, 1024, 2048, 4096)
RUNS, SECONDS, LEAST = 40, 2.0, 8  # of the walls: at most, and at least
SECONDS_EACH = 0.15  # of a context
MOST_SPAN = 256 << 20  # bytes that are read for the bandwidth; no cache holds more
READS = {"weights": "reads weights", "cache": "reads the cache", "": "reads neither"}
FILLS = {"weights": "matmul", "cache": "reduction", "": "elementwise"}  # hatches, by `READS`
ROW, TALLEST_ROW, HEAD = 26.0, 48.0, 26.0
LEAST_US = 0.05  # a shorter floor is not written
NOT_HERE = "this is no language model, or not compiled through its code"


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel call of a decoding step: its part of the model, and the bytes that it reads."""

    name: str
    part: str
    ops: tuple[str, ...]
    weights: int
    cache: int

    @property
    def reads(self) -> str:
        """The larger kind of its reads, a key of `READS`."""
        if max(self.weights, self.cache) == 0:
            return ""
        return "weights" if self.weights >= self.cache else "cache"


@dataclass(frozen=True, slots=True)
class Times:
    """Measured times of a step.

    `gb_per_s` is the bandwidth at which all units read as many bytes as the weights have. `parts`
    and `kinds` are times of kernels, by part and by part and what they read; `contexts` are times
    of a step.
    """

    gb_per_s: float
    parts: Mapping[str, Measurement]
    kinds: Mapping[tuple[str, str], float]
    contexts: tuple[tuple[int, Measurement], ...]


@dataclass(frozen=True, slots=True)
class PartRow:
    """A layer, or another part of the model: bytes it reads, its floor, predicted and measured."""

    name: str
    ops: tuple[str, ...]
    weights: int
    cache: int
    floor_us: float
    planned: Mapping[str, float]
    kinds: Mapping[str, float]
    measured: Measurement | None

    @property
    def planned_us(self) -> float:
        """The predicted time."""
        return sum(self.planned.values())

    @property
    def us(self) -> float:
        """The measured time, else the predicted one."""
        return self.measured.median_us if self.measured else self.planned_us


@dataclass(frozen=True, slots=True)
class ContextPoint:
    """A context length: bytes of cache that a token reads, the floor, predicted and measured."""

    tokens: int
    cache: int
    floor_us: float
    planned_us: float
    measured: Measurement | None


@dataclass(frozen=True, slots=True)
class OneTokenRows:
    """The parts in the order of the program, and the contexts; `source` is the bandwidth's."""

    model: str
    device: str
    units: int
    gb_per_s: float
    source: str
    parts: tuple[PartRow, ...]
    contexts: tuple[ContextPoint, ...]

    @property
    def weights(self) -> int:
        """The bytes of weights that a token reads."""
        return sum(p.weights for p in self.parts)

    @property
    def at(self) -> ContextPoint:
        """The context at which layers are timed."""
        return next(c for c in self.contexts if c.tokens == CONTEXT)


def is_decoder(s: OnShow) -> bool:
    """Return True for a compiled language model."""
    return isinstance(s.now.compiled.model, LanguageModel) and s.runs


def sizes_of(context: int) -> dict[str, int]:
    """Return the sizes of a step after so many tokens."""
    return {"batch": 1, "n": 1, "room": context}


def calls_of(program: Program, caches: Sequence[str]) -> tuple[Call, ...]:
    """Return the kernel calls of a step with the bytes that they read at `CONTEXT`.

    A kernel without a sum reads no more of a constant than its result has, such as one row of the
    embedding.
    """
    sizes: Sizes = {**program.env.hints, **sizes_of(CONTEXT)}
    shapes = {v.tensor.shape for v in program.main.params if v.name in caches}
    calls = []
    for b in program.kernel_calls:
        has_sum = any(c.reduce for c in b.kernel_call.kernel.computes)
        most = sum(_bytes(v, sizes) for v in b.vars)
        constants = [v for v in b.reads if v.name in program.constants]
        weights = [program.constants[v.name].nbytes for v in constants]
        read = sum(w if has_sum else min(w, most) for w in weights)
        cached = [v for v in b.reads if v not in constants and v.tensor.shape in shapes]
        cache = sum(_bytes(v, sizes) for v in cached) if has_sum else 0
        calls.append(Call(b.name, part_of(b.origin), tuple(sorted(b.origin)), read, cache))
    return tuple(calls)


def _bytes(v: Var, sizes: Sizes) -> int:
    return evaluate_dim(v.tensor.bytes, sizes)


def part_of(origin: Collection[str]) -> str:
    """Return the part of the model that a kernel is in: its last product with weights decides."""

    def rank(op: str) -> tuple[bool, str]:
        return op.count("/") > 1 or op.startswith("scores/matmul"), op

    return max(origin, key=rank).partition("/")[0] if origin else ""


def data(now: Setting, house: House, times: Times | None) -> OneTokenRows:
    """Return the parts of a step and the contexts, with their measurements."""
    c: Any = now.compiled
    plan = plan_for(c, DECODE, 1, 1, CONTEXT)
    calls = calls_of(plan.program, c.model.caches)
    wall = brick_wall.data(plan.planned_wall(sizes_of(CONTEXT)), ())
    planned = busiest_us(wall)
    weights = sum(call.weights for call in calls)
    cache = sum(call.cache for call in calls)
    units = min(wall.units, c.device.units)
    level, rate = nearest_level(c.device, units, weights)
    source = f"{level}, {getattr(c.device, 'figures', '') or 'data sheet'} figures"
    if times is not None:
        rate, source = times.gb_per_s, "measured"
    parts = []
    for name in dict.fromkeys(call.part for call in calls):
        mine = [call for call in calls if call.part == name]
        read, cached = sum(x.weights for x in mine), sum(x.cache for x in mine)
        by_kind = dict.fromkeys(READS, 0.0)
        for x in mine:
            by_kind[x.reads] += planned.get(x.name, 0.0)
        took = {k: times.kinds.get((name, k), 0.0) for k in READS} if times else {}
        ops = tuple(dict.fromkeys(op for x in mine for op in x.ops))
        us = (read + cached) / rate / 1e3
        measured = times.parts.get(name) if times else None
        parts.append(PartRow(name, ops, read, cached, us, by_kind, took, measured))
    runs = dict(times.contexts) if times else {}
    points = []
    for n in CONTEXTS:
        size = cache * n // CONTEXT
        us = plan.planned_wall(sizes_of(n)).total_us
        points.append(ContextPoint(n, size, (weights + size) / rate / 1e3, us, runs.get(n)))
    return OneTokenRows(
        c.model.name, c.device.name, units, rate, source, tuple(parts), tuple(points)
    )


def caption(rows: OneTokenRows) -> str:
    """Return the times of a token after `CONTEXT` others, and its floor, in one line."""
    at = rows.at
    took = f"measured {time_text(at.measured.median_us)}" if at.measured else "none measured yet"
    return (
        f"a token of {rows.model} after {CONTEXT} others on {rows.device}: floor "
        f"{time_text(at.floor_us)}, predicted {time_text(at.planned_us)}, {took}"
    )


def see(rows: OneTokenRows) -> tuple[Sentence, ...]:
    """Return the sentences: the floor, the time over it, and what the cache adds."""
    at = rows.at
    read = Mark(size_text(rows.weights), "floor")
    least = Mark(time_text(at.floor_us), "floor")
    sentences: list[Sentence] = [
        ("A token reads ", read, f" of weights: at {rows.gb_per_s:.0f} GB/s (", rows.source,
         ") that takes ", least, "."),
    ]  # fmt: skip
    us, word = at.planned_us, "predicted"
    if at.measured is not None:
        us, word = at.measured.median_us, "measured"
    speed = Mark(f"{1e6 / us:,.0f} tokens/s", f"{word} context:{CONTEXT}")
    sentences.append((speed, f" are {word}: the floor is {at.floor_us / us:.0%} of the time."))
    last = rows.contexts[-1]
    share = Mark(f"{last.cache / rows.weights:.1f} times", f"context:{last.tokens}")
    sentences.append((f"After {last.tokens:,} tokens the cache is ", share, " the weights."))
    return tuple(sentences)


def table(rows: OneTokenRows) -> Table:
    """Return one row per part, then one per context."""
    columns = (
        "part or context", "bytes of weights", "bytes of cache", "floor µs", "predicted µs",
        *COLUMNS, "floor ÷ time", "tokens/s",
    )  # fmt: skip
    lines: list[tuple[Cell, ...]] = []
    for p in rows.parts:
        share = f"{p.floor_us / p.us:.1%}" if p.us else ""
        read = (p.name, p.weights, p.cache, round(p.floor_us, 3))
        lines.append((*read, round(p.planned_us, 3), *cells(p.measured), share, ""))
    for c in rows.contexts:
        us = c.measured.median_us if c.measured else c.planned_us
        read = (f"{c.tokens} tokens", rows.weights, c.cache, round(c.floor_us, 3))
        more = (f"{c.floor_us / us:.1%}", round(1e6 / us))
        lines.append((*read, round(c.planned_us, 3), *cells(c.measured), *more))
    ops = (*(p.ops for p in rows.parts), *((),) * len(rows.contexts))
    return Table(columns, tuple(lines), ops, caption(rows), see(rows))


def figure(rows: OneTokenRows, size: tuple[int, int], selected: str = "") -> Svg:
    """Draw each part's time and floor; beside them tokens a second over the context."""
    width, height = size
    if width < NARROW:
        high = round(0.5 * height)
        marks = [
            *_parts(rows, (0.0, 0.0, width, high - 10.0)),
            *_curve(rows, (0.0, float(high), width, float(height - high))),
        ]
    else:
        left = round(0.54 * width)
        marks = [
            *_parts(rows, (0.0, 0.0, left, height)),
            *_curve(rows, (left + 36.0, 0.0, width - left - 36.0, height)),
        ]
    return Svg(width, height, "".join(marks), f"One token: {caption(rows)}", selected, PX)


Box = tuple[float, float, float, float]  # left, top, width, height


def _parts(rows: OneTokenRows, box: Box) -> Iterator[str]:
    x, y, wide, high = box
    foot = y + high - 50
    names = max(label_width(p.name) for p in rows.parts)
    left, room = x + names + 14, wide - names - 14
    yield label(x, y + 14, "part", "w")
    yield label(left, y + 14, "time of its kernels, and its floor", "w")
    most = max(1, int((foot - y - HEAD) / ROW))
    count = most if most >= len(rows.parts) else most - 1
    longest = sorted(range(len(rows.parts)), key=lambda n: -rows.parts[n].us)[:count]
    shown = [(n, rows.parts[n]) for n in sorted(longest)]
    lines = min(len(rows.parts), most)  # the last one may say how many more there are
    step = min(TALLEST_ROW, max(ROW, (foot - y - HEAD) / lines))
    texts = [_part_text(p) for _, p in shown]
    most_us = max((max(p.us, p.planned_us, p.floor_us) for _, p in shown), default=1.0) or 1.0
    scale = (room - max(map(label_width, texts), default=0) - 14) / most_us
    for at_line, ((n, p), text) in enumerate(zip(shown, texts, strict=True)):
        line = (left, y + HEAD + step * at_line, scale, step)
        size = (wide, step - 2)
        ground = rect(x, line[1], *size, "var(--pane)", 'class="ground"', ops=p.ops)
        yield lit_by(ground + "".join(_part(p, text, x, line)), f"part part:{n}")
    if len(shown) < len(rows.parts):
        more = f"and {len(rows.parts) - len(shown)} more, in the table"
        yield label(x, y + HEAD + step * len(shown) + 16, more, "q")
    kinds = [("part", FILLS[k], words) for k, words in READS.items()]
    yield from legend(kinds, y + high - 26, x + wide, x)
    tick = path(f"M{x + 12:g} {y + high - 17:g}v14", "var(--bad)", 'stroke-width="2.5"')
    yield lit_by(tick + label(x + 30, y + high - 5, "floor"), "floor")
    at = x + 52 + label_width("floor")
    yield _outline(at + 1, y + high - 15, 22, 12) + label(at + 30, y + high - 5, "predicted")


def _part_text(p: PartRow) -> str:
    least = f", floor {time_text(p.floor_us)}" if p.floor_us >= LEAST_US else ""
    return f"{time_text(p.us)}{least}"


def _part(
    p: PartRow, text: str, x: float, line: tuple[float, float, float, float]
) -> Iterator[str]:
    """Draw a part on a line, given by its left end, top, pixels a microsecond, and height."""
    left, top, scale, high = line
    middle = top + high / 2
    tip = f"{p.name}: {size_text(p.weights)} of weights, {size_text(p.cache)} of cache"
    yield label(x, middle + 5, p.name, "i", ops=p.ops, title=p.name)
    at = left
    for kind, us in p.kinds.items() if p.measured else ():
        edge = 'stroke="var(--edge)" stroke-width="0.6"'
        words = f"{READS[kind]}: measured {time_text(us)}"
        yield rect(at, middle - 9, us * scale, 12, f"url(#p-f-{FILLS[kind]})", edge, title=words)
        at += us * scale
    y, thick = (middle + 5, 5.0) if p.measured else (middle - 9, 16.0)
    words = f"predicted {time_text(p.planned_us)}"
    if p.measured:
        words = f"{words}; {measured_text(p.measured)}"
    yield _outline(left, y, p.planned_us * scale, thick, f"{tip}; {words}")
    spot = left + p.floor_us * scale
    tick = path(f"M{spot:.1f} {middle - 12:.1f}v24", "var(--bad)", 'stroke-width="2.5"')
    yield lit_by(tick, "floor")
    end = max(left + max(p.us, p.planned_us) * scale, spot)
    yield label(end + 8, middle + 5, text, "i", title=f"{tip}; {words}")


def _outline(x: float, y: float, w: float, h: float, title: str = "") -> str:
    edge = 'stroke="var(--ink2)" stroke-dasharray="4 3"'
    return rect(x, y, max(1.0, w), h, "none", edge, title=title)


def _curve(rows: OneTokenRows, box: Box) -> Iterator[str]:
    """Draw tokens a second over the tokens before: floor, predicted, and measured with interval."""
    x, y, wide, high = box
    top, h = y + 26, high - 26 - 62
    yield label(x, y + 14, "tokens a second over the context", "w")
    if h < 40:
        return
    first, last = (log2(c.tokens) for c in (rows.contexts[0], rows.contexts[-1]))
    speeds = [1e6 / c.floor_us for c in rows.contexts]
    speeds += [1e6 / c.planned_us for c in rows.contexts]
    speeds += [1e6 / c.measured.median_us for c in rows.contexts if c.measured]
    low, end = floor(log10(min(speeds))), ceil(log10(max(speeds)))
    left = x + label_width(f"{10**end:,}") + 10
    w = x + wide - 22 - left

    def place(c: ContextPoint, us: float) -> tuple[float, float]:
        share = (log10(1e6 / us) - low) / (end - low)
        return left + w * (log2(c.tokens) - first) / (last - first), top + h * (1 - share)

    for n in range(low, end + 1):
        level = top + h * (1 - (n - low) / (end - low))
        yield path(f"M{left:g} {level:.1f}h{w:g}", "var(--line2)" if n == low else "var(--line)")
        yield label(left - 6, level + 4, f"{10**n:,}", "q", anchor="end")
    apart = max(1, round(46 * len(rows.contexts) / w))
    for c in rows.contexts[::apart]:
        yield label(place(c, 1.0)[0], top + h + 18, f"{c.tokens:,}", "q", anchor="middle")
    yield label(left + w, top + h + 35, "tokens in the cache", anchor="end")
    floors = [place(c, c.floor_us) for c in rows.contexts]
    planned = [place(c, c.planned_us) for c in rows.contexts]
    yield lit_by(_line(floors, "bad", ""), "floor")
    yield lit_by(_line(planned, "ink2", "4 3"), "predicted")
    for c, (a, b) in zip(rows.contexts, planned, strict=True):
        words = f"{c.tokens:,} tokens: predicted {1e6 / c.planned_us:,.0f} a second"
        dot = f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="var(--pane)" stroke="var(--ink2)">'
        yield lit_by(f"{dot}<title>{words}</title></circle>", f"predicted context:{c.tokens}")
    timed = [(c, c.measured) for c in rows.contexts if c.measured]
    if timed:
        yield _line([place(c, m.median_us) for c, m in timed], "ink", "")
    for c, m in timed:
        (a, b), (_, foot), (_, head) = (place(c, us) for us in (m.median_us, m.high_us, m.low_us))
        foot, head = min(foot, top + h), max(head, top)  # a disturbed machine's ends leave the axis
        bar = path(f"M{a:.1f} {foot:.1f}V{head:.1f}", "var(--ink)", 'stroke-width="1.4"')
        words = f"{c.tokens:,} tokens: {1e6 / m.median_us:,.0f} a second, {measured_text(m)}"
        dot = f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4.5" fill="var(--ink)">'
        keys = f"measured context:{c.tokens}"
        yield lit_by(f"{bar}{dot}<title>{words}</title></circle>", keys)
    items = [("floor", "bad", "", "floor"), ("predicted", "ink2", "4 3", "predicted")]
    items += [("measured", "ink", "", "measured, 99 %")] if timed else []
    at = x
    for keys, ink, dash, words in items:
        mark = _line([(at, y + high - 9), (at + 22, y + high - 9)], ink, dash)
        yield lit_by(mark + label(at + 28, y + high - 5, words), keys)
        at += 46 + label_width(words)


def _line(points: Sequence[tuple[float, float]], ink: str, dash: str) -> str:
    d = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in points)
    extra = f' stroke-dasharray="{dash}"' if dash else ""
    return path(d, f"var(--{ink})", f'stroke-width="1.6"{extra}')


def _draw(s: OnShow, op: str) -> Drawn:
    if not is_decoder(s):
        rows, svg, _ = placeholder(NOT_HERE)
        return rows, svg, Table(("one token",), ((NOT_HERE,),), ((),), NOT_HERE)
    times: Times | None = s.clocked(NAME, "")
    rows = s.house.cached("one token", id(times), lambda: data(s.now, s.house, times))
    return rows, figure(rows, s.view.size, op), table(rows)


def measure_token(
    now: Setting, house: House, about: str, inputs: Arrays
) -> Iterator[tuple[int, int, Any]]:
    """Measure the bandwidth, then the kernels of a step, then a step after each context."""
    c: Any = now.compiled
    plan = plan_for(c, DECODE, 1, 1, CONTEXT)
    calls = {call.name: call for call in calls_of(plan.program, c.model.caches)}
    wall = brick_wall.data(plan.planned_wall(sizes_of(CONTEXT)), ())
    span = min(sum(call.weights for call in calls.values()), MOST_SPAN)
    steps = len(CONTEXTS) + 2
    rate = read_gb_per_s(span, min(wall.units, c.device.units))
    yield 1, steps, None
    parts, kinds = _kernel_times(plan, calls, step_inputs(c.model, CONTEXT))
    timed: list[tuple[int, Measurement]] = []
    yield 2, steps, Times(rate, parts, kinds, ())
    for n, context in enumerate(CONTEXTS):
        timed.append((context, plan.time(step_inputs(c.model, context), seconds=SECONDS_EACH)))
        yield n + 3, steps, Times(rate, parts, kinds, tuple(timed))


def read_gb_per_s(span: int, units: int) -> float:
    """Measure the bandwidth at which `units` together read `span` bytes, each its own share."""
    from explorer.measure.fit import COPY, READ, bandwidths  # it has symbols, which load slowly

    read, copy = code_of(READ), code_of(COPY)
    (rate,) = bandwidths(
        {"weights": span}, frozenset(("weights",)), units, read.address, copy.address
    )
    return rate.read_together * units


def _kernel_times(
    plan: Any, calls: Mapping[str, Call], inputs: Arrays
) -> tuple[dict[str, Measurement], dict[tuple[str, str], float]]:
    """Return the times of kernels by part, and their medians by part and what they read."""
    tasks = tasks_of(brick_wall.data(plan.planned_wall(sizes_of(CONTEXT)), ()))
    plan.measured_wall(inputs)  # warm-up
    by_part, by_kind = list[dict[str, float]](), list[dict[tuple[str, str], float]]()
    end = perf_counter() + SECONDS
    while len(by_part) < LEAST or (len(by_part) < RUNS and perf_counter() < end):
        part, kind = defaultdict[str, float](float), defaultdict[tuple[str, str], float](float)
        spent = busiest_us(brick_wall.data(plan.measured_wall(inputs), ()), tasks)
        for name, us in spent.items():
            if name in calls:
                part[calls[name].part] += us
                kind[calls[name].part, calls[name].reads] += us
        by_part.append(dict(part))
        by_kind.append(dict(kind))
    medians = {k: float(np.median([run.get(k, 0.0) for run in by_kind])) for k in by_kind[0]}
    return measurements(by_part), medians


def step_inputs(model: LanguageModel, context: int) -> dict[str, np.ndarray]:
    """Return the inputs of a step whose token is the last that its caches have room for."""
    config = model.config
    assert config is not None, "every language model has a description"
    shape = (1, config.groups, context, config.each)
    caches = {name: np.zeros(shape, np.float32) for name in model.caches}
    return {"ids": np.zeros((1, 1), np.int64), "at": np.array([context - 1]), **caches}


def describe(times: Times) -> str:
    """Return what was measured in words."""
    return f"{counted(len(times.parts), 'part')} and {counted(len(times.contexts), 'context')}"


PICTURE = Picture(
    name=NAME,
    title="One token",
    words="The time of each layer for one token against its floor, and tokens/s over the context.",
    stage=Stage.EMITTED,
    draw=_draw,
    clock=Clock(
        "Measure a token",
        lambda s, op: "" if is_decoder(s) else None,
        measure_token,
        lambda times: describe(times) if times else "",
    ),
)
