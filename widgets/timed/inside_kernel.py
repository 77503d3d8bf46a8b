"""Inside a kernel: which parts of its tasks take how long, in a copy with stamps around them."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.compilation import Compilation
from explorer.devices.cpus import runs_on
from explorer.ir.stage import Stage
from explorer.measure.this_machine.this_cpu import this_cpu
from explorer.tuning.inside.parts import REST
from explorer.tuning.inside.traced import Traced, kernel_parts
from widgets.draw.svg import Svg, fit, label, path, rect, wrapped
from widgets.draw.table import Cell, Table, count_text, time_text
from widgets.model.compiled import Arrays
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.model.on_show import OnShow
from widgets.model.picture import Clock, Drawn, Picture, nothing
from widgets.program.generated_source import kernel_of

NAME = "inside"
WIDTH, LEFT, BARS, ROW, HIGH = 640.0, 12.0, 236.0, 44.0, 30.0
NUMBERS = 116.0  # at the right
GAP = 2.0


def table(rows: Traced, title: str, ops: tuple[str, ...]) -> Table:
    """One row a part of a task, with its share of that task."""
    names = (REST, *(p.words for p in rows.parts))
    found: list[tuple[Cell, ...]] = []
    for task, us in zip(rows.tasks, rows.us, strict=True):
        whole = sum(us) or 1.0
        found += [
            (task, name, round(x, 3), f"{x / whole:.1%}") for name, x in zip(names, us, strict=True)
        ]
    columns = ("task", "part", "µs, median", "share of the task")
    return Table(columns, tuple(found), tuple(ops for _ in found), caption(rows, title))


def caption(rows: Traced, title: str) -> str:
    """Where most of the time goes, and what the stamps cost."""
    shares = rows.shares[1:]
    if not shares:
        return f"{title}: a task is a few instructions, without parts; {cost(rows)}"
    at = max(range(len(shares)), key=lambda n: shares[n])
    some = f"{len(rows.tasks)} of " if len(rows.tasks) < rows.of else ""
    return (
        f"{title}: {shares[at]:.0%} of the time of its {some}{count_text(rows.of, 'task')} goes "
        f"to: {rows.parts[at].words}; {cost(rows)}"
    )


def cost(rows: Traced) -> str:
    """That it is a copy, and how much slower."""
    return (
        f"of a marked copy, whose stamps make it {rows.slower:.2f} times as long "
        f"({rows.low:.2f} to {rows.high:.2f}) on one thread"
    )


def figure(rows: Traced, title: str) -> Svg:
    """A row a part: a bar a task, from left to right, and at the right its time and share of all
    tasks.
    """
    said = caption(rows, title)
    marks, y = [], 22.0
    for line in wrapped(said, WIDTH - 2 * LEFT - 30):
        marks.append(label(LEFT, y, line, "i w"))
        y += 15
    room = WIDTH - BARS - NUMBERS
    longest = max(max(us) for us in rows.us) or 1.0
    wide = min(40.0, room / len(rows.tasks))
    names = (REST, *(p.words for p in rows.parts))
    order = [*range(1, len(names)), 0]
    y += 4
    for n in order:
        marks += _part(rows, n, names[n], y, wide, longest)
        y += ROW
    marks.append(path(f"M{LEFT} {y + 0.5:g}H{WIDTH - LEFT}", "var(--line2)"))
    tasks = (
        f"tasks {rows.tasks[0]} to {rows.tasks[-1]}, a bar each"
        if len(rows.tasks) > 1
        else (f"task {rows.tasks[0]}")
    )
    marks.append(label(BARS, y + 16, f"{tasks}; the highest {_us(longest)}", "q"))
    return Svg(WIDTH, y + 28, "".join(marks), f"Inside a kernel: {said}")


def _part(rows: Traced, n: int, name: str, y: float, wide: float, longest: float) -> Iterator[str]:
    base = y + ROW - 8
    quiet = n == 0
    yield path(f"M{LEFT} {y + 0.5:g}H{WIDTH - LEFT}", "var(--line)")
    yield label(LEFT, base - 10, fit(name, BARS - LEFT - 12), "q" if quiet else "i", title=name)
    fill = "url(#p-g-dependency)" if quiet else "var(--t2)"
    for at, (task, us) in enumerate(zip(rows.tasks, rows.us, strict=True)):
        high = max(0.8, us[n] / longest * HIGH)
        said = f"task {task}, {name}: {_us(us[n])}, {us[n] / (sum(us) or 1.0):.1%} of it"
        x = BARS + at * wide
        box = (x, base - high, max(1.0, wide - GAP), high)
        yield rect(*box, fill, 'stroke="var(--edge)" stroke-width="0.6"', title=said)
    mean = sum(us[n] for us in rows.us) / len(rows.us)
    text = f"{rows.shares[n]:.1%}, {_us(mean)}"
    yield label(WIDTH - LEFT, base - 10, text, "q" if quiet else "i", anchor="end")


def _us(us: float) -> str:
    """A part may take nanoseconds."""
    return f"{1e3 * us:,.0f} ns" if us < 1 else time_text(us)


def _about(s: OnShow, op: str) -> str | None:
    c = s.now.compiled
    if not isinstance(c, Compilation) or not runs_on(c.device, this_cpu()):
        return None
    return kernel_of(s, op).name if c.kernels else None


def _run(
    now: Setting, house: House, about: str, inputs: Arrays
) -> Iterator[tuple[int, int, Traced | None]]:
    yield 0, 1, None
    if isinstance(now.compiled, Compilation):
        yield 1, 1, kernel_parts(now.compiled, about, dict(now.sizes))


def _draw(s: OnShow, op: str) -> Drawn:
    about = _about(s, op)
    if about is None:
        return _empty("no kernel runs here: compile for this-cpu, through to code")
    found: Traced | None = s.clocked(NAME, about)
    ops = tuple(sorted(kernel_of(s, op).origins))
    title = s.house.label(about, ops)
    if found is None:
        return _empty(f"nobody has looked into {title} yet")
    return found, figure(found, title), table(found, title, ops)


def _empty(said: str) -> Drawn:
    _, drawn, found = nothing(said)
    return (), drawn, Table(("part",), ((said,),), ((),), found.caption)


PICTURE = Picture(
    name=NAME,
    title="Inside",
    words="Which parts of a kernel's tasks take how long: a copy of its source with stamps around "
    "its parts, run beside it in a process of its own.",
    stage=Stage.EMITTED,
    about="kernel",
    draw=_draw,
    clock=Clock("Look inside", _about, _run, lambda found: caption(found, found.kernel)),
)
