"""The rewrites of one kernel's tile program: the plain program, then the change of each rewrite.

The last one is the program that is printed as code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from textwrap import wrap

from explorer.cost.bind_kernel import bind_kernel
from explorer.devices.target import target_of
from explorer.errors import BadOption, BadTarget, CheckFailed
from explorer.ir.stage import Stage
from explorer.ir.text.tile_printer import print_tile_program
from explorer.ir.tile_program import TileProgram
from explorer.plain_text import counted
from explorer.roller.blocks.candidates import why_no_blocks
from explorer.roller.blocks.thread_block import bound_normal, constructed_block
from explorer.tile.gpu.rewrites import REWRITES as BLOCKS
from explorer.tile.rewrites import REWRITES
from explorer.views.matches import Rule, rule_of
from explorer.views.program import prediction
from widgets.draw.slide import BOLD, LINE, NARROW, PX, cut_to, list_row, scrub_mark, step_only
from widgets.draw.svg import Svg, label, rect, step_group, text_width, wrap_text
from widgets.draw.table import Mark, Sentence, Table, lit_by
from widgets.model.picture import Drawn, OnShow, Picture, placeholder
from widgets.roller import view
from widgets.roller.tiled_kernel import TiledKernel
from widgets.roller.view import TILES

LISTED, GUTTER = 260.0, 24.0  # maximum width of the list; gap to the lines
PITCH, LEAST = 30.0, 20.0  # maximum and minimum pitch of the list
CODE, INDENT = 18.0, 22.0  # height of a program line; its left margin
ROOMY = 330.0  # pixels of height needed for descriptions
AROUND = (1000, 12, 6, 3, 2, 1)  # context lines around a change, tried in order
MOST_DESCRIPTION = 4  # lines of a rewrite's description
Lines = tuple[tuple[str, str], ...]
FURTHER = " " * 8  # extra indent of a continuation line


@dataclass(frozen=True, slots=True)
class RewriteRows:
    """Each step by name with its lines: " " is unchanged, "+" added, "-" removed.

    `reason` tells why there are no steps; `predicted` names the device if it is not this one.
    """

    kernel: str
    steps: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    ops: tuple[str, ...]
    reason: str = ""
    predicted: str = ""


def data(rolled: TiledKernel) -> RewriteRows:
    """Return the steps of the current tile."""
    device = rolled.device
    predicted = "" if target_of(device).is_emitted else prediction(device)
    try:
        programs = steps_of(rolled)
    except (BadOption, BadTarget, CheckFailed) as problem:
        return RewriteRows(rolled.title, (), rolled.ops, problem.sentence, predicted)
    before: tuple[str, ...] = ()
    rows = []
    for name, program in programs:
        after = print_tile_program(program)
        rows.append((name, tuple(_difference(before, after))))
        before = after
    return RewriteRows(rolled.title, tuple(rows), rolled.ops, predicted=predicted)


def steps_of(rolled: TiledKernel) -> tuple[tuple[str, TileProgram], ...]:
    """Return the rewrite steps of the current tiling, or of the current thread block on a GPU.

    A construction's result is first turned into a thread block.
    """
    kernel, chosen, d = rolled.kernel, rolled.chosen, rolled.device
    if target_of(d).uses_thread_blocks:
        if chosen is None:
            why = why_no_blocks(kernel, d, rolled.sizes) or "no tile of it fits"
            raise BadOption(f"{kernel.name} has no thread blocks on {d.name}: {why}")
        if chosen.block is not None:
            bound = bound_normal(kernel, rolled.sizes)
            return target_of(d).steps(bound, chosen.block, rolled.env, {}, d)
        # a constructed tile has the axes of the kernel before normalisation
        bound, number = bind_kernel(kernel, rolled.sizes), rolled.rank - rolled.blocks
        block = constructed_block(bound, d, rolled.construction, number)
        return target_of(d).steps(bound, block, rolled.env, {}, d)
    if chosen is None or chosen.tiling is None:
        raise BadOption(f"no code is generated for {d.name}: it is not the device compiled for")
    return target_of(d).steps(kernel, chosen.tiling, rolled.env, {}, d)


def _difference(old: tuple[str, ...], new: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the new lines, with removed old lines between them.

    The plain program, which has no predecessor, is unchanged.
    """
    if not old:
        return [(" ", line) for line in new]
    lines: list[tuple[str, str]] = []
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            lines += [("-", line) for line in old[a0:a1]]
        lines += [(" " if tag == "equal" else "+", line) for line in new[b0:b1]]
    return lines


def has_changes(lines: tuple[tuple[str, str], ...]) -> bool:
    """Return True if a rewrite changed anything."""
    return any(mark != " " for mark, _ in lines)


def table(rows: RewriteRows) -> Table:
    """Return one row per line of the plain program, and per line that a rewrite changed."""
    cells = tuple(
        (name, mark.strip(), line, rule.place if (rule := rule_of_step(name)) else "")
        for n, (name, lines) in enumerate(rows.steps)
        for mark, line in lines
        if n == 0 or mark != " "
    )
    columns = ("step", "", "line", "written at")
    return Table(columns, cells, tuple(rows.ops for _ in cells), caption(rows), see(rows))


def caption(rows: RewriteRows) -> str:
    """Describe which rewrites changed the program."""
    if not rows.steps:
        return f"{rows.kernel}: {rows.reason}"
    did = [name for name, lines in rows.steps[1:] if has_changes(lines)]
    summary = (
        f"{rows.kernel}: {len(rows.steps) - 1} rewrites, changed by {', '.join(did) or 'none'}"
    )
    return f"{summary}; {rows.predicted}" if rows.predicted else summary


def see(rows: RewriteRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the rewrites that changed the program, and its length."""
    if not rows.steps:
        return ()
    sizes = [sum(mark != " " for mark, _ in lines) for _, lines in rows.steps]
    did = [n for n in range(1, len(sizes)) if sizes[n]]
    sentences: list[Sentence] = []
    if did:
        most = max(did, key=sizes.__getitem__)
        verb = "changes" if len(did) == 1 else "change"
        sentences.append(
            (
                Mark(f"{len(did)} of {counted(len(sizes) - 1, 'rewrite')}", "did"),
                f" {verb} this kernel's program; ",
                Mark(rows.steps[most][0], f"rewrite{most}"),
                f" changes most: {_counts(rows.steps[most][1])}.",
            )
        )
    else:
        sentences.append((f"None of {counted(len(sizes) - 1, 'rewrite')} changes this program.",))
    last = len(sizes) - 1
    lengths = [sum(mark != "-" for mark, _ in rows.steps[n][1]) for n in (0, last)]
    first = Mark(counted(lengths[0], "line"), "rewrite0")
    become = " becomes " if lengths[0] == 1 else " become "
    sentences.append((first, become, Mark(f"{lengths[1]:,}", f"rewrite{last}"), "."))
    if rows.predicted:
        sentences.append((f"{rows.predicted[0].upper()}{rows.predicted[1:]}.",))
    return tuple(sentences)


def figure(rows: RewriteRows, size: tuple[int, int], at: int = -1) -> Svg:
    """Draw the rewrites as a list, and the removed and added lines of the one at the scrubber.

    With little room, only the lines are drawn. `at` is shown first, else the last rewrite that
    changed anything.
    """
    width, height = size
    if not rows.steps:
        words = wrap_text(rows.reason, width, PX)
        marks = [label(0, 16 + LINE * n, text, "i") for n, text in enumerate(words)]
        return Svg(width, height, "".join(marks), caption(rows), px=PX)
    listed = width >= NARROW and len(rows.steps) * LEAST <= height
    x = (min(LISTED, width * 0.34) + GUTTER) if listed else 0.0
    changes = [n for n, (_, lines) in enumerate(rows.steps) if n and has_changes(lines)]
    first = at if at >= 0 else changes[-1] if changes else 0
    marks = [scrub_mark("rewrite", first)]
    for number, (name, lines) in enumerate(rows.steps):
        body = step_only(
            "".join(_program(rows, number, (x, width - x, height))), shown=number == first
        )
        if listed:
            body = _listed(rows, number, x - GUTTER, height, on=number == first) + body
        did = " did" if number and has_changes(lines) else ""
        spoken = f"{name}: {_describe_change(number, lines)}"
        marks.append(step_group(lit_by(body, f"rewrite{number}{did}"), number, spoken, name))
    return Svg(width, height, "".join(marks), caption(rows), px=PX)


def _describe_change(number: int, lines: Lines) -> str:
    if number == 0:
        return f"the plain program, {counted(len(lines), 'line')}"
    return _counts(lines) if has_changes(lines) else "nothing to do"


def _listed(rows: RewriteRows, number: int, wide: float, height: float, *, on: bool) -> str:
    """Draw a row of the list: the rewrite, and how many lines it added and removed."""
    name, lines = rows.steps[number]
    pitch = min(PITCH, height / len(rows.steps))
    new, gone = _changes(lines)
    many = f"{len(lines)}" if number == 0 else f"+{new} −{gone}" if new + gone else ""
    style = "i w" if many else ""
    return list_row(0, pitch * number, (wide, pitch), name, many, on=on, style=style)


def _program(rows: RewriteRows, number: int, place: tuple[float, float, float]) -> Iterator[str]:
    """Draw a rewrite's name, source location and description, then its lines."""
    x, wide, height = place
    name, lines = rows.steps[number]
    rule = rule_of_step(name)
    y = 16.0
    head = f"{name}: {_describe_change(number, lines)}"
    yield label(x, y, cut_to(head, wide, bold=True), "i w", title=head)
    if rule is not None and height >= ROOMY:
        room = wide - text_width(head, PX) * BOLD - 24
        if text_width(rule.place, PX) <= room:
            yield label(x + wide, y, rule.place, anchor="end")
        else:
            y += LINE
            yield label(x, y, cut_to(rule.place, wide), title=rule.place)
        says = wrap_text(rule.short, wide - 16, PX) if rule.short else []
        for n, words in enumerate(says[:MOST_DESCRIPTION]):
            y += LINE
            more = " …" if n == MOST_DESCRIPTION - 1 < len(says) - 1 else ""
            yield label(x, y, cut_to(words, wide - 16) + more, title=rule.says)
    y += 10
    room = int((height - y) / CODE)
    around = (len(lines),) if number == 0 else AROUND
    layouts = (_broken(_shown(lines, context), wide) for context in around)
    pieces: list[tuple[str, bool, str]] = []
    for pieces in layouts:
        if len(pieces) <= room:
            break
    for mark, begins, piece in pieces if len(pieces) <= room else pieces[: room - 1]:
        if mark in "+-":
            yield rect(x, y, wide, CODE, "var(--add)" if mark == "+" else "var(--del)")
            if begins:
                yield label(x + 6, y + 13, "−" if mark == "-" else mark, "i w")
        yield label(x + INDENT, y + 13, piece, "mono q" if mark == "…" else "mono i")
        y += CODE
    if len(pieces) > room:
        remaining = max(1, sum(begins for _, begins, _ in pieces[max(0, room - 1) :]))
        yield label(x + INDENT, y + 13, f"and {counted(remaining, 'more line')}", "")


def _broken(lines: Iterable[tuple[str, str]], wide: float) -> list[tuple[str, bool, str]]:
    """Break lines into pieces that fit: the mark, True for a line's first piece, and the text."""
    return [(mark, n == 0, p) for mark, line in lines for n, p in enumerate(_pieces(line, wide))]


def _shown(lines: Lines, context: int) -> Iterator[tuple[str, str]]:
    """Yield the changed lines with `context` lines around them; gaps are counted."""
    changes = [i for i, (mark, _) in enumerate(lines) if mark != " "]
    if not changes and context < len(lines):
        return
    near = {j for i in changes for j in range(i - context, i + context + 1)} or {*range(len(lines))}
    skipped = 0
    for i, row in enumerate(lines):
        if i in near:
            if skipped:
                yield "…", f"… {counted(skipped, 'line')} as before"
            skipped = 0
            yield row
        else:
            skipped += 1
    if skipped and near:
        yield "…", f"… {counted(skipped, 'line')} as before"


def rule_of_step(name: str) -> Rule | None:
    """Return the rewrite rule of that name, for CPUs or for thread blocks."""
    rules = {**dict(BLOCKS), **dict(REWRITES)}
    return rule_of(rules[name]) if name in rules else None


def _changes(lines: Lines) -> tuple[int, int]:
    return sum(mark == "+" for mark, _ in lines), sum(mark == "-" for mark, _ in lines)


def _counts(lines: Lines) -> str:
    new, gone = _changes(lines)
    return f"{counted(new, 'line')} new, {gone} gone"


def _pieces(line: str, wide: float) -> list[str]:
    """Break a long line at spaces into pieces that fit; continuation lines are indented."""
    indent = line[: len(line) - len(line.lstrip())]
    columns = max(16, int((wide - INDENT - 8) / (text_width("m" * 100, PX, mono=True) / 100)))
    further = (indent + FURTHER)[: columns // 2]
    pieces = wrap(line, columns, subsequent_indent=further, drop_whitespace=False)
    return [piece.replace(" ", "\u00a0") for piece in pieces]


def _draw(s: OnShow, op: str) -> Drawn:
    kernel_tiles = view.tiled_kernel(s, op)
    if kernel_tiles is None:
        return placeholder("Roller has tiled nothing.")
    rows = data(kernel_tiles)
    return rows, figure(rows, s.view.size), table(rows)


PICTURE = Picture(
    name="tile_program",
    title="Tile program",
    words="The plain tile program, then what each rewrite changed, up to the one that is printed; "
    "of a GPU, for a thread block.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=_draw,
)
