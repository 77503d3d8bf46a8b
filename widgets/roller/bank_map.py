"""Shared-memory accesses of a thread block: banks hit by a warp, and the thread of each output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.codegen.cuda.bank_accesses import BlockAccesses, SharedAccess, accesses
from explorer.codegen.cuda.build import print_tile_program
from explorer.devices.target import target_of
from explorer.errors import BadOption, CheckFailed
from explorer.ir.dims import evaluate_shape
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.roller.blocks.thread_block import PREDICTED
from explorer.tile.gpu.bank_accesses import BANKS, WARP, request_parts
from widgets.draw.slide import BOLD, LINE, PX, cut_to, list_row, scrub_mark, step_only
from widgets.draw.svg import Svg, label, rect, step_group, text_width, wrap_text
from widgets.draw.table import Cell, Mark, Sentence, Table, lit_by
from widgets.model.picture import Drawn, OnShow, Picture, placeholder
from widgets.roller import view
from widgets.roller.rewrites import steps_of
from widgets.roller.tiled_kernel import TiledKernel
from widgets.roller.view import TILES

Bank: TypeAlias = tuple[
    int, tuple[tuple[int, tuple[int, ...]], ...]
]  # a bank's words, each with its threads
APART, LISTED, GUTTER, PITCH = 1100.0, 330.0, 28.0, 23.0  # the list of accesses
LANES, ROW, LEAST = 92.0, 22.0, 8.0  # label width; maximum and minimum word height
SHORT = 260.0  # lower pictures have no legend
OWNED = 140.0  # height of an output below the accesses
MOST_HIGH, MOST_CELL = 8, 22.0  # drawn words per bank, pixels per element
FREE, WAITS = "var(--tint)", "var(--ink)"
MINE, WARPS, OTHERS = "var(--ink)", "var(--t3)", "var(--tint)"


@dataclass(frozen=True, slots=True)
class BankAccess:
    """An access of a phase, or several with the same bank pattern.

    It is at `places` places of the source and executed `times` times in total. `cycles` and `least`
    are those of the warp that waits longest; `parts` are the threads served together: the first
    thread and the banks of each part.
    """

    phase: int
    array: str
    store: bool
    bits: int
    places: int
    times: int
    warp: int
    cycles: int
    least: int
    parts: tuple[tuple[int, tuple[Bank, ...]], ...]

    @property
    def conflict(self) -> bool:
        """True if words of one bank wait for each other."""
        return self.cycles > self.least


@dataclass(frozen=True, eq=False)
class OutputOwners:
    """The part of an output that a block computes, as rows of its last axis.

    `owner` is the thread that computes each element, -1 for none.
    """

    tensor: str
    owner: NDArray[np.int64]

    def points(self, thread: int) -> int:
        """Return the number of elements that a thread computes."""
        return int(np.count_nonzero(self.owner == thread))


@dataclass(frozen=True, eq=False)
class BankRows:
    """The accesses in program order; `reason` tells why there are none."""

    kernel: str
    device: str
    ops: tuple[str, ...]
    threads: int = 0
    accesses: tuple[BankAccess, ...] = ()
    outputs: tuple[OutputOwners, ...] = ()
    exact: bool = True
    unknown: int = 0
    reason: str = ""
    predicted: str = ""


def data(rolled: TiledKernel) -> BankRows:
    """Return the accesses of the current thread block."""
    device = rolled.device
    about = (rolled.title, device.name, rolled.ops)
    if not target_of(device).uses_thread_blocks:
        reason = f"{device.name} has no shared memory with banks: choose a GPU above"
        return BankRows(*about, reason=reason)
    try:
        code = print_tile_program(steps_of(rolled)[-1][1])
    except (BadOption, CheckFailed) as problem:
        return BankRows(*about, reason=problem.sentence)
    trace = accesses(code)
    return BankRows(
        *about,
        trace.threads,
        tuple(_merge_accesses(trace)),
        tuple(_output_owners(rolled, trace)),
        trace.exact,
        len(trace.unknown),
        predicted=PREDICTED.format(device.name),
    )


def _merge_accesses(trace: BlockAccesses) -> list[BankAccess]:
    """Merge accesses of one phase and array that differ only in their base address."""
    alike: dict[tuple[object, ...], list[SharedAccess]] = {}
    for a in trace.accesses:
        valid = a.words[a.words >= 0]
        moved = np.where(a.words >= 0, a.words - (valid.min() if len(valid) else 0), -1)
        key = (a.phase, a.array, a.store, a.lane_bytes, a.cycles, moved.tobytes())
        alike.setdefault(key, []).append(a)
    return [_merge_group(group) for group in alike.values()]


def _merge_group(group: list[SharedAccess]) -> BankAccess:
    a = group[0]
    warp = a.worst
    mine = np.full_like(a.words, -1)
    mine[warp * WARP : (warp + 1) * WARP] = a.words[warp * WARP : (warp + 1) * WARP]
    parts = tuple(
        (
            first,
            tuple(
                (bank, tuple((word, tuple(lanes)) for word, lanes in sorted(words.items())))
                for bank, words in sorted(banks.items())
            ),
        )
        for first, banks in request_parts(mine, a.lane_bytes)
    )
    times = sum(x.times for x in group)
    return BankAccess(
        a.phase, a.array, a.store, 8 * a.lane_bytes, len(group), times, warp, a.cycles[warp],
        a.least[warp], parts,
    )  # fmt: skip


def _output_owners(rolled: TiledKernel, trace: BlockAccesses) -> list[OutputOwners]:
    """Return each output's part, without rows and columns that the block does not compute."""
    parts = []
    for name, (index, owner) in trace.owners.items():
        columns = _columns(rolled, name)
        (rows, row), (across, column) = (
            np.unique(n, return_inverse=True) for n in (index // columns, index % columns)
        )
        grid = np.full((len(rows), len(across)), -1, np.int64)
        grid[row, column] = owner
        parts.append(OutputOwners(name, grid))
    return parts


def _columns(rolled: TiledKernel, output: str) -> int:
    """Return the extent of an output's last axis."""
    kernel = rolled.kernel
    name = output if output in kernel.outputs else kernel.output
    shape = evaluate_shape(kernel.shape(name), rolled.sizes)
    return max(1, shape[-1]) if shape else 1


Place: TypeAlias = tuple[float, float, float, float]


def table(rows: BankRows) -> Table:
    """Return one row per access or group of similar ones, then one per output, or the reason."""
    columns = (
        "phase", "access", "array", "bits per thread", "places", "times", "warp", "cycles",
        "without conflicts", "threads at once",
    )  # fmt: skip
    cells: list[tuple[Cell, ...]] = [
        (
            a.phase,
            "write" if a.store else "read",
            a.array,
            a.bits,
            a.places,
            a.times,
            a.warp,
            a.cycles,
            a.least,
            1024 // max(32, a.bits),
        )
        for a in rows.accesses
    ]
    cells += [
        ("", "thread 0 makes", o.tensor, "", o.points(0), "", 0, "", "", "") for o in rows.outputs
    ]
    cells = cells or [("", rows.reason or "none", *[""] * 8)]
    return Table(columns, tuple(cells), tuple(rows.ops for _ in cells), caption(rows), see(rows))


def caption(rows: BankRows) -> str:
    """Describe how many accesses have bank conflicts, and the worst one."""
    if rows.reason:
        return f"{rows.kernel}: {rows.reason}"
    waits = [a for a in rows.accesses if a.conflict]
    text = f"{rows.kernel} on {rows.device}: {counted(rows.threads, 'thread')} a block, "
    if not rows.accesses:
        return f"{text}which use no shared memory; {rows.predicted}"
    text += f"{len(rows.accesses)} access{'es' * (len(rows.accesses) != 1)}"
    if waits:
        worst = max(waits, key=lambda a: a.cycles / max(1, a.least))
        text += f", {len(waits)} of them with conflicts, at worst {worst.cycles} cycles instead of "
        text += f"{worst.least}"
    else:
        text += ", none with a conflict"
    if not rows.exact:
        text += "; of long loops the first iterations and the last were evaluated"
    if rows.unknown:
        text += f"; data decide the indices of {counted(rows.unknown, 'line')}"
    return f"{text}; {rows.predicted}"


def words(a: BankAccess) -> str:
    """Describe an access in one line."""
    does = "writes" if a.store else "reads"
    where = "" if a.places == 1 else f" at {a.places} places"
    often = f", {a.times} times" if a.times > 1 else ""
    took = f"{a.cycles} cycle{'s' * (a.cycles > 1)}"
    if a.conflict:
        took += f" instead of {a.least}: {_most(a)} words of one bank"
    elif a.cycles > 1:
        took += f", no conflict: {1024 // a.bits} threads at once"
    else:
        took += ", no conflict"
    who = f"phase {a.phase}: warp {a.warp} {does} {a.array}{where}"
    return f"{who}, {a.bits} bits per thread{often}: {took}"


def _most(a: BankAccess) -> int:
    return max(len(stacked_words) for _, banks in a.parts for _, stacked_words in banks)


def see(rows: BankRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the conflicts, the worst of them, and a thread's outputs."""
    if rows.reason:
        return ((f"{rows.reason[0].upper()}{rows.reason[1:]}.",),)
    sentences: list[Sentence] = []
    waits = [n for n, a in enumerate(rows.accesses) if a.conflict]
    if rows.accesses:
        count = counted(len(rows.accesses), "access", "accesses")
        some = Mark(f"{len(waits)}", "conflict") if waits else "none"
        verb = "waits" if len(waits) < 2 else "wait"
        sentences.append(
            (Mark(count, "access"), " to shared memory, ", some, f" {verb} for a bank.")
        )
    else:
        use = "uses" if rows.threads == 1 else "use"
        sentences.append((f"{counted(rows.threads, 'thread')} {use} no shared memory.",))
    if waits:
        worst = max(waits, key=lambda n: rows.accesses[n].cycles / max(1, rows.accesses[n].least))
        a = rows.accesses[worst]
        does = "writes" if a.store else "reads"
        cycles = Mark(counted(a.cycles, "cycle"), f"access{worst}")
        sentences.append(
            (f"At worst a warp {does} {a.array} in ", cycles, f" instead of {a.least}.")
        )
    for o in rows.outputs[:1]:
        mine = Mark(counted(o.points(0), "element"), "owned")
        sentences.append(("Thread 0 makes ", mine, f" of {o.owner.size:,}."))
    return tuple(sentences[:3])


def figure(rows: BankRows, size: tuple[int, int], at: int = -1) -> Svg:
    """Draw the banks next to each other with the accessed words, stacked where they conflict.

    Accesses are one below the other, then the outputs of each thread. Without room for all, a list
    is drawn, and the banks of the access at the scrubber: `at` is shown first, else the first
    conflict.
    """
    width, height = size
    title = f"Threads over banks: {caption(rows)}"
    if rows.reason:
        lines = wrap_text(caption(rows), width, PX)
        marks = [label(0, 16 + LINE * n, text, "i") for n, text in enumerate(lines)]
        return Svg(width, height, "".join(marks), title, px=PX)
    if at < 0 and (marks := _stacked(rows, width, height)):
        return Svg(width, height, "".join(marks), title, px=PX)
    count = len(rows.accesses) + len(rows.outputs)
    beside = width >= APART
    listed = count * PITCH <= (height if beside else height * 0.5)
    x = LISTED + GUTTER if beside and listed else 0.0
    y = count * PITCH + 12 if listed and not beside else 0.0
    wide_ = LISTED if beside else width
    waits = [n for n, a in enumerate(rows.accesses) if a.conflict]
    first = at if at >= 0 else waits[0] if waits else 0
    marks = [scrub_mark("access", first)]
    place = (x, y, width - x, height - y)
    for n in range(count):
        a = rows.accesses[n] if n < len(rows.accesses) else None
        o = rows.outputs[n - len(rows.accesses)] if a is None else None
        panel = _access(a, place, rows.threads) if a else _tile(o, place) if o else ()
        body = step_only("".join(panel), shown=n == first)
        row_text, end, style = _row_words(a, o)
        if listed:
            row = list_row(0, n * PITCH, (wide_, PITCH), row_text, end, on=n == first, style=style)
            body = row + body
        keys = f"access{n} access{' conflict' * a.conflict}" if a else "owned"
        marks.append(step_group(lit_by(body, keys), n, words(a) if a else row_text, row_text))
    return Svg(width, height, "".join(marks), title, px=PX)


def _stacked(rows: BankRows, width: float, height: float) -> list[str]:
    """Draw all accesses below one row of banks, and the outputs next to them or below.

    Return nothing if there is too little room.
    """
    beside = width >= APART and bool(rows.outputs)
    wide_ = width * 0.62 if beside else width
    if wide_ < BANKS * 16 + LANES:
        return []
    tall = [
        LINE + 10 + sum(ROW * min(MOST_HIGH, _high(banks)) + 4 for _, banks in a.parts)
        for a in rows.accesses
    ]
    below = len(rows.outputs) * OWNED if not beside else 0
    if sum(tall) + below + LINE + 32 > height:
        return []
    legend = (FREE, "a bank's first word, by lane"), (WAITS, "another word of it: a cycle more")
    cell, y = int((wide_ - LANES) / BANKS * 2) / 2, LINE + 4.0
    marks = [*_banks(LANES, 13.0, cell), label(0, 13, "bank")]
    for n, a in enumerate(rows.accesses):
        text = words(a)
        head = label(0, y + 16, cut_to(text, wide_, bold=True), "bad" if a.conflict else "i w",
                     title=text)  # fmt: skip
        bands = _bands(a, (0, y + LINE + 6, wide_, tall[n]), rows.threads, LANES, 0.0, ROW)
        body = lit_by(head + "".join(bands), f"access{n} access{' conflict' * a.conflict}")
        marks.append(step_group(body, n, text, _row_words(a, None)[0]))
        y += tall[n]
    floor = height - 24.0
    each = (floor - (0 if beside else y)) / max(1, len(rows.outputs))
    for n, o in enumerate(rows.outputs):
        x = wide_ + GUTTER if beside else 0.0
        place = (x, (0 if beside else y) + n * each, width - x, each)
        body = lit_by("".join(_tile(o, place)), "owned")
        marks.append(
            step_group(body, len(rows.accesses) + n, f"what the threads of {o.tensor} make")
        )
    return [*marks, *_legend(legend, 0, height - 6, wide_)]


def _high(banks: Sequence[tuple[int, Sequence[object]]]) -> int:
    """Return the maximum number of words in one bank."""
    return max(len(stacked_words) for _, stacked_words in banks)


def _row_words(a: BankAccess | None, o: OutputOwners | None) -> tuple[str, str, str]:
    """Return the text of a list row, the text at its end, and its style."""
    if a is not None:
        did = "write" if a.store else "read"
        cycles = counted(a.cycles, "cycle")
        least = f" instead of {a.least}" if a.conflict else ""
        return f"{did} {a.array}", f"{cycles}{least}", "bad" if a.conflict else "i"
    tensor = o.tensor if o else ""
    return f"threads of {tensor}", f"{o.points(0):,} each" if o else "", "i"


def _legend(items: Sequence[tuple[str, str]], x: float, y: float, room: float) -> Iterator[str]:
    end = x + room
    for ground, meaning in items:
        if x + 20 + text_width(meaning, PX) > end:
            return
        yield rect(x, y - 11, 14, 12, ground, 'stroke="var(--edge)"')
        yield label(x + 20, y, meaning)
        x += 20 + text_width(meaning, PX) + 20


def _head(text: str, place: Place, *, bad: bool = False) -> Iterator[str]:
    """Draw the heading of a panel in up to three lines."""
    x, y, wide_, _ = place
    lines = wrap_text(text, wide_ / BOLD, PX)
    lines = lines if len(lines) <= 3 else [*lines[:2], " ".join(lines[2:])]
    for n, line in enumerate(lines):
        style = "bad" if bad else "i w"
        yield label(x, y + 16 + LINE * n, cut_to(line, wide_, bold=True), style, title=text)


def _access(a: BankAccess, place: Place, threads: int) -> Iterator[str]:
    """Draw one access: its text, the banks, and its bands."""
    x, y, wide_, high = place
    head = [*_head(words(a), place, bad=a.conflict)]
    yield from head
    top = y + 16 + LINE * len(head) + 8
    left = LANES if wide_ >= BANKS * 16 + LANES else 0.0
    if left:
        yield label(x, top + 4, "bank")
    yield from _banks(x + left, top + 4, int((wide_ - left) / BANKS * 2) / 2)
    above = 0.0 if left else LINE
    low = high < SHORT  # too low for the legend
    floor = y + high - (4 if low else 26)
    rows = sum(min(_high(banks), MOST_HIGH) for _, banks in a.parts)
    room = floor - top - 12 - len(a.parts) * (4 + above)
    tall = max(LEAST, min(ROW, room / max(1, rows)))
    yield from _bands(a, (x, top + 12, wide_, floor - top - 12), threads, left, above, tall)
    legend = (FREE, "a bank's first word, by lane"), (WAITS, "another word of it: a cycle more")
    if not low:
        yield from _legend(legend, x, y + high - 6, wide_)


def _banks(x: float, y: float, cell: float) -> Iterator[str]:
    """Draw the numbers of the banks, as many as fit."""
    step = next(n for n in (1, 2, 4, 8) if n * cell >= 22)
    for bank in range(0, BANKS, step):
        yield label(x + (bank + 0.5) * cell, y, str(bank), anchor="middle")


def _bands(
    a: BankAccess, place: Place, threads: int, left: float, above: float, tall: float
) -> Iterator[str]:
    """Draw a band of banks with their words for each part of threads served together."""
    x, top, wide_, high = place
    cell, floor = int((wide_ - left) / BANKS * 2) / 2, top + high
    for n, (first, banks) in enumerate(a.parts):
        most = _high(banks)
        drawn = min(most, MOST_HIGH)
        room = floor - (0 if n == len(a.parts) - 1 else LINE)  # leaves room for the remainder
        if top + above + drawn * tall > room + 0.01:
            remainder = f"and {counted(len(a.parts) - n, 'more part')} of the warp"
            yield label(x, top + 13, cut_to(remainder, wide_), title=remainder)
            return
        last = min(first + 1024 // max(32, a.bits), threads, (a.warp + 1) * WARP) - 1
        lanes = f"lanes {first % WARP}–{last % WARP}"
        more = f", {most - drawn} more words" if most > drawn else ""
        middle = top + above - 4 if above else top + drawn * tall / 2 + 4.5
        yield label(x, middle, lanes + more if above else lanes, "i", title=lanes + more)
        top += above
        yield rect(x + left, top, BANKS * cell, drawn * tall, "var(--app)")
        yield f'<g text-anchor="middle" fill="{FREE}">'
        for bank, stacked_words in banks:
            for at, (word, asking) in enumerate(stacked_words[:drawn]):
                box = (x + left + bank * cell, top + at * tall, cell, tall)
                yield from _word(bank, at, word, asking, box)
        yield "</g>"
        top += drawn * tall + 4


def _word(
    bank: int, n: int, word: int, lanes: tuple[int, ...], box: tuple[float, float, float, float]
) -> Iterator[str]:
    x, y, w, h = box
    tip = f"bank {bank}, word {word}: {_threads(lanes)}"
    fill = f' fill="{WAITS}"' if n else ""
    yield f'<rect x="{x:g}" y="{y:g}" width="{w - 1:g}" height="{h - 1:g}"{fill}>'
    yield f"<title>{tip}</title></rect>"
    style, text = ("inv" if n else "i") + (" w" if len(lanes) > 1 else ""), str(lanes[0] % WARP)
    if h >= 16 and text_width(text, PX) * BOLD <= w - 1:
        yield label(x + w / 2, y + round(h / 2) + 4, text, style)


def _threads(lanes: tuple[int, ...]) -> str:
    if len(lanes) == 1:
        return f"thread {lanes[0]}"
    return f"threads {', '.join(map(str, lanes[:8]))}{' …' * (len(lanes) > 8)}"


def _tile(o: OutputOwners, place: Place) -> Iterator[str]:
    """Draw the part of an output that the block computes, with its first thread and warp."""
    x, y, room, space = place
    high, wide_ = o.owner.shape
    extent_text = f"{high} by {wide_}" if high > 1 else f"{wide_}"
    summary = (
        f"{o.tensor}: the block makes {extent_text} elements, thread 0 makes {o.points(0)} of them"
    )
    head = [*_head(summary, place)]
    yield from head
    top = y + 16 + LINE * len(head)
    tall = max(LEAST, y + space - 46 - top)
    cell = min(MOST_CELL, max(2.0, min(room / wide_, tall / high)))
    shown = o.owner[: int(tall / cell) or 1, : int(room / cell) or 1]
    for ground, mine in (
        (OTHERS, shown >= WARP),
        (WARPS, (shown > 0) & (shown < WARP)),
        (MINE, shown == 0),
    ):
        if mine.any():
            d = "".join(_runs(mine, x, top, cell))
            edge = ' stroke="var(--pane)" stroke-width="0.6"' if cell >= 5 else ""
            yield f'<path d="{d}" fill="{ground}"{edge}/>'
    if shown.shape != o.owner.shape:
        yield label(x, top + shown.shape[0] * cell + 14, "a corner of it is drawn")
    legend = ((MINE, "thread 0"), (WARPS, "its warp"), (OTHERS, "other threads"))
    yield from _legend(legend, x, y + space - 6, room)


def _runs(mine: np.ndarray, x: float, y: float, cell: float) -> Iterator[str]:
    """Yield cells as boxes, merging neighbours in a row and equal consecutive rows."""
    same = np.flatnonzero((mine[1:] != mine[:-1]).any(axis=1)) + 1
    for r, end in pairwise([0, *same.tolist(), len(mine)]):
        edges = np.flatnonzero(np.diff(np.r_[0, mine[r].astype(np.int8), 0]))
        for a, b in zip(edges[::2].tolist(), edges[1::2].tolist()):
            wide_, high = (b - a) * cell, (end - r) * cell
            yield f"M{x + a * cell:.1f} {y + r * cell:.1f}h{wide_:.1f}v{high:.1f}h-{wide_:.1f}z"


def _draw(s: OnShow, op: str) -> Drawn:
    kernel_tiles = view.tiled_kernel(s, op)
    if kernel_tiles is None:
        return placeholder("Roller has tiled nothing.")
    rows = data(kernel_tiles)
    return rows, figure(rows, s.view.size), table(rows)


PICTURE = Picture(
    name="banks",
    title="Banks",
    words="The shared-memory banks that each thread of a GPU's thread block accesses, the "
    "conflicts, and the outputs of each thread.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=_draw,
)
