"""Inside a kernel: the time of each part of its tasks, from a copy with time stamps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.compiler.compilation import Compilation
from explorer.devices.cpus import runs_on
from explorer.ir.stage import Stage
from explorer.measure.this_cpu import this_cpu
from explorer.plain_text import counted
from explorer.tuning.kernel_parts import REST, TracedKernel, kernel_parts
from widgets.draw.slide import LINE, NARROW, PX, cut_to
from widgets.draw.svg import Svg, label, path, rect, wrap_text
from widgets.draw.table import Cell, Mark, Sentence, Table, lit_by, time_text
from widgets.model.compiled import Arrays
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.model.picture import Clock, Drawn, OnShow, Picture, placeholder
from widgets.program.generated_source import kernel_of

NAME = "inside"
LEAST, HIGHEST, FOOT = 40.0, 110.0, 26.0  # of a part, and what stands below all
NAMED, NUMBERS = 320.0, 130.0  # left and right of the bars
GAP = 2.0


def table(rows: TracedKernel, title: str, ops: tuple[str, ...]) -> Table:
    """Return one row per part of a task, with its share of that task."""
    names = (REST, *(p.words for p in rows.parts))
    rows_of_parts: list[tuple[Cell, ...]] = []
    for task, us in zip(rows.tasks, rows.us, strict=True):
        task_us = sum(us) or 1.0
        rows_of_parts += [
            (task, name, round(x, 3), f"{x / task_us:.1%}")
            for name, x in zip(names, us, strict=True)
        ]
    columns = ("task", "part", "µs, median", "share of the task")
    return Table(
        columns,
        tuple(rows_of_parts),
        tuple(ops for _ in rows_of_parts),
        caption(rows, title),
        see(rows, title),
    )


def caption(rows: TracedKernel, title: str) -> str:
    """Return where most of the time goes, and the overhead of the stamps."""
    shares = rows.shares[1:]
    if not shares:
        return f"{title}: a task is a few instructions, without parts; {cost(rows)}"
    at = max(range(len(shares)), key=lambda n: shares[n])
    some = f"{len(rows.tasks)} of " if len(rows.tasks) < rows.of else ""
    return (
        f"{title}: {shares[at]:.0%} of the time of its {some}{counted(rows.of, 'task')} goes "
        f"to: {rows.parts[at].words}; {cost(rows)}"
    )


def cost(rows: TracedKernel) -> str:
    """Return that the times are those of a copy, and its slowdown."""
    return (
        f"of an instrumented copy, whose stamps make it {rows.slower:.2f} times as long "
        f"({rows.low:.2f} to {rows.high:.2f}) on one thread"
    )


def see(rows: TracedKernel, title: str) -> tuple[Sentence, ...]:
    """Return the sentences: the longest part, the time between parts, the stamps' overhead."""
    sentences: list[Sentence] = []
    shares = rows.shares[1:]
    if shares:
        at = max(range(len(shares)), key=lambda n: shares[n])
        share = Mark(f"{shares[at]:.0%}", f"part{at + 1}")
        sentences.append((share, f" of the time of {title} goes to: {rows.parts[at].words}."))
        sentences.append((Mark(f"{rows.shares[0]:.1%}", "part0"), " lies between the parts."))
    else:
        sentences.append((f"{title}: a task is a few instructions, without parts.",))
    slower = f"{rows.slower:.2f} times as long, {rows.low:.2f} to {rows.high:.2f}"
    return (*sentences, (f"The stamps of this copy make it {slower}.",))


def figure(rows: TracedKernel, size: tuple[int, int], title: str) -> Svg:
    """Draw a row per part: a bar per task, and at the right its time and share of all tasks."""
    width, height = size
    names = (REST, *(p.words for p in rows.parts))
    order = sorted(range(1, len(names)), key=lambda n: -rows.shares[n])
    most = max(1, int((height - FOOT) / LEAST) - 1)
    shown_numbers = {*order[:most], 0}
    shown = [n for n in (*range(1, len(names)), 0) if n in shown_numbers]
    pitch = min(HIGHEST, (height - FOOT) / len(shown))
    above = width < NARROW
    left = 0.0 if above else min(NAMED, width * 0.36)
    plan = BarLayout(width, left, width - left - NUMBERS, pitch, above)
    marks = [
        lit_by("".join(_part(rows, n, names[n], i * pitch, plan)), f"part{n}")
        for i, n in enumerate(shown)
    ]
    longest = max(max(us) for us in rows.us)
    tasks = (
        f"tasks {rows.tasks[0]} to {rows.tasks[-1]}, a bar each"
        if len(rows.tasks) > 1
        else f"task {rows.tasks[0]}"
    )
    less = f"; {len(names) - len(shown)} shorter parts in the table" * (len(shown) < len(names))
    words = f"{tasks}; the highest {_us(longest)}{less}"
    marks.append(label(0, height - 6, cut_to(words, width), title=words))
    title_text = f"Inside a kernel: {caption(rows, title)}"
    return Svg(width, height, "".join(marks), title_text, px=PX)


@dataclass(frozen=True, slots=True)
class BarLayout:
    """The layout of bars: from `left` on within `room` pixels, a part every `pitch` pixels.

    With `above`, names stand over the bars.
    """

    width: float
    left: float
    room: float
    pitch: float
    above: bool


def _part(rows: TracedKernel, n: int, name: str, y: float, plan: BarLayout) -> Iterator[str]:
    base, quiet = y + plan.pitch - 6, n == 0
    if y:
        yield path(f"M0 {y + 0.5:g}H{plan.width:g}", "var(--line)")
    room = (plan.width - NUMBERS if plan.above else plan.left) - 12
    lines = [*wrap_words(name, room, 2)] if not plan.above and plan.pitch >= 44 else [name]
    lines = lines if lines and len(lines) * LINE < plan.pitch else [name]
    middle = y + 15 if plan.above else y + plan.pitch / 2 + 5 - LINE * (len(lines) - 1) / 2
    for i, words in enumerate(lines):
        yield label(0, middle + LINE * i, cut_to(words, room), "" if quiet else "i", title=name)
    longest = max(max(us) for us in rows.us) or 1.0
    tall = plan.pitch - (26 if plan.above else 12)
    wide = min(60.0, plan.room / len(rows.tasks))
    fill = "url(#p-g-dependency)" if quiet else "var(--t2)"
    for at, (task, us) in enumerate(zip(rows.tasks, rows.us, strict=True)):
        high = max(0.8, us[n] / longest * tall)
        hover_text = f"task {task}, {name}: {_us(us[n])}, {us[n] / (sum(us) or 1.0):.1%} of it"
        box = (plan.left + at * wide, base - high, max(1.0, wide - GAP), high)
        yield rect(*box, fill, 'stroke="var(--edge)" stroke-width="0.6"', title=hover_text)
    mean = sum(us[n] for us in rows.us) / len(rows.us)
    text = f"{rows.shares[n]:.1%}, {_us(mean)}"
    at_y = y + 15 if plan.above else y + plan.pitch / 2 + 5
    yield label(plan.width, at_y, text, "" if quiet else "i", anchor="end")


def wrap_words(text: str, room: float, most: int) -> list[str]:
    """Return a part's words in lines; empty if there are more than `most`."""
    lines = wrap_text(text, room, PX)
    return lines if len(lines) <= most else []


def _us(us: float) -> str:
    """Return a time in nanoseconds or a larger unit."""
    return f"{1e3 * us:,.0f} ns" if us < 1 else time_text(us)


def _about(s: OnShow, op: str) -> str | None:
    c = s.now.compiled
    if not isinstance(c, Compilation) or not runs_on(c.device, this_cpu()):
        return None
    return kernel_of(s, op).name if c.kernels else None


def _run(
    now: Setting, house: House, about: str, inputs: Arrays
) -> Iterator[tuple[int, int, TracedKernel | None]]:
    yield 0, 1, None
    if isinstance(now.compiled, Compilation):
        yield 1, 1, kernel_parts(now.compiled, about, dict(now.sizes))


def _draw(s: OnShow, op: str) -> Drawn:
    about = _about(s, op)
    if about is None:
        return _empty("no kernel runs here: compile for this-cpu, through to code")
    traced: TracedKernel | None = s.clocked(NAME, about)
    ops = tuple(sorted(kernel_of(s, op).origins))
    title = s.house.label(about, ops)
    if traced is None:
        return _empty(f"{title} is not profiled yet")
    return traced, figure(traced, s.view.size, title), table(traced, title, ops)


def _empty(reason: str) -> Drawn:
    _, drawn, words = placeholder(reason)
    return (), drawn, Table(("part",), ((reason,),), ((),), words.caption)


PICTURE = Picture(
    name=NAME,
    title="Inside",
    words="The time of each part of a kernel's tasks: a copy of its source with time stamps, run "
    "in a separate process.",
    stage=Stage.EMITTED,
    about="kernel",
    draw=_draw,
    clock=Clock("Look inside", _about, _run, lambda traced: caption(traced, traced.kernel)),
)
