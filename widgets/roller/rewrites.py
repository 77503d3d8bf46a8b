"""The rewrites of one kernel's tile program: the plain program, then what each rewrite changed, up
to the program that is printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from textwrap import wrap

from explorer.cost.bound import bind_kernel
from explorer.errors import BadOption, CheckFailed
from explorer.ir.kernels.normal import normalise
from explorer.ir.stage import Stage
from explorer.ir.text.tile_printer import print_tile_program
from explorer.ir.tile_programs.program import TileProgram
from explorer.roller.blocks.candidates import why_no_blocks
from explorer.roller.blocks.thread_block import (
    PREDICTED,
    bound_normal,
    constructed_block,
    thread_block_steps,
)
from explorer.stepping.rule import Rule, rule_of
from explorer.tile.gpu.rewrites import REWRITES as BLOCKS
from explorer.tile.rewrites import REWRITES, steps
from widgets.draw.svg import Svg, label, rect, stepped, text_width
from widgets.draw.table import Table
from widgets.model.picture import Picture
from widgets.roller.rolled import Rolled
from widgets.roller.view import TILES, of_tile

WIDTH, LINE, HEAD = 780.0, 16.0, 24.0
MOST = 40  # lines of a step that are drawn
ROOM = 44.0  # left of a line
FURTHER = " " * 8  # what stands before the rest of a long line


@dataclass(frozen=True, slots=True)
class RewriteRows:
    """Each step by name with its lines: " " stays, "+" is new, "-" went. `said` is why there are
    none; `predicted` says of which device's blocks they are.
    """

    kernel: str
    steps: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    ops: tuple[str, ...]
    said: str = ""
    predicted: str = ""


def data(rolled: Rolled) -> RewriteRows:
    """The steps of the tile on show."""
    device = rolled.device
    predicted = PREDICTED.format(device.name) if device.kind != "cpu" else ""
    try:
        found = steps_of(rolled)
    except (BadOption, CheckFailed) as problem:
        return RewriteRows(rolled.title, (), rolled.ops, problem.sentence, predicted)
    before: tuple[str, ...] = ()
    rows = []
    for name, program in found:
        after = print_tile_program(program)
        rows.append((name, tuple(_difference(before, after))))
        before = after
    return RewriteRows(rolled.title, tuple(rows), rolled.ops, predicted=predicted)


def steps_of(rolled: Rolled) -> tuple[tuple[str, TileProgram], ...]:
    """Of the tiling on show; of a GPU, of the thread block, or of one made of a result of the
    construction as it stands.
    """
    kernel, chosen, d = rolled.kernel, rolled.chosen, rolled.device
    if d.kind != "cpu":
        if chosen is None:
            why = why_no_blocks(kernel, d, rolled.sizes) or "no tile of it fits"
            raise BadOption(f"no thread blocks are made of {kernel.name} on {d.name}: {why}")
        if chosen.block is not None:
            bound = bound_normal(kernel, rolled.sizes)
            return thread_block_steps(bound, d, rolled.env, {}, chosen.block)
        # a tile of a construction has the axes of the kernel as it stands
        bound, number = bind_kernel(kernel, rolled.sizes), rolled.rank - rolled.blocks
        block = constructed_block(bound, d, rolled.construction, number)
        return thread_block_steps(bound, d, rolled.env, {}, block)
    if chosen is None or chosen.tiling is None:
        raise BadOption(f"{d.name}: no code is printed for a machine that is not here")
    return steps(normalise(kernel), chosen.tiling, rolled.env, d)


def _difference(old: tuple[str, ...], new: tuple[str, ...]) -> list[tuple[str, str]]:
    """The new lines, and between them the old ones that went; all stay in the plain program."""
    if not old:
        return [(" ", line) for line in new]
    found: list[tuple[str, str]] = []
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            found += [("-", line) for line in old[a0:a1]]
        found += [(" " if tag == "equal" else "+", line) for line in new[b0:b1]]
    return found


def changed(lines: tuple[tuple[str, str], ...]) -> bool:
    """Whether a rewrite did anything."""
    return any(mark != " " for mark, _ in lines)


def table(rows: RewriteRows) -> Table:
    """One row a line; of rewrites that changed something, and of the plain program."""
    found = tuple(
        (name, mark.strip(), line, rule.place if (rule := rule_of_step(name)) else "")
        for n, (name, lines) in enumerate(rows.steps)
        for mark, line in lines
        if n == 0 or mark != " "
    )
    return Table(
        ("step", "", "line", "written at"), found, tuple(rows.ops for _ in found), caption(rows)
    )


def caption(rows: RewriteRows) -> str:
    """Which rewrites changed the program."""
    if not rows.steps:
        return f"{rows.kernel}: {rows.said}"
    did = [name for name, lines in rows.steps[1:] if changed(lines)]
    told = f"{rows.kernel}: {len(rows.steps) - 1} rewrites, changed by {', '.join(did) or 'none'}"
    return f"{told}; {rows.predicted}" if rows.predicted else told


def figure(rows: RewriteRows) -> Svg:
    """The plain program, then the lines that each rewrite took away and made; a rewrite that
    changed nothing is one line.
    """
    marks: list[str] = []
    y = 8.0
    if rows.predicted and rows.steps:
        marks.append(label(12, y + 15, rows.predicted, "q"))
        y += HEAD
    for number, (name, lines) in enumerate(rows.steps):
        plain = number == 0
        shown = [x for x in lines if plain or x[0] != " "]
        said = name if plain else f"{name}: {'nothing to do' if not shown else _counts(shown)}"
        part = [label(12, y + 15, said, "i w" if plain or shown else "q")]
        if (rule := rule_of_step(name)) is not None:
            beside = 24 + 1.1 * text_width(said)  # the name is bold
            part.append(label(beside, y + 15, rule.place, "q", title=rule.says))
        y += HEAD
        for mark, line in shown[:MOST]:
            for n, piece in enumerate(_pieces(line)):
                if mark != " ":
                    colour = "var(--add)" if mark == "+" else "var(--del)"
                    part.append(rect(0, y, WIDTH, LINE, colour))
                if n == 0:
                    part.append(label(28, y + 12, mark.strip(), "i"))
                part.append(label(ROOM, y + 12, piece, "mono i"))
                y += LINE
        if len(shown) > MOST:
            part.append(label(ROOM, y + 12, f"… {len(shown) - MOST} more lines", "q"))
            y += LINE
        marks.append(stepped("".join(part), number, said))
    if not rows.steps:
        return Svg(WIDTH, 40, label(12, 24, rows.said, "i"), caption(rows))
    return Svg(WIDTH, y + 8, "".join(marks), caption(rows))


def rule_of_step(name: str) -> Rule | None:
    """Where the rewrite of that name is written, of a CPU's programs or of a thread block's."""
    known = {**dict(BLOCKS), **dict(REWRITES)}
    return rule_of(known[name]) if name in known else None


def _counts(shown: list[tuple[str, str]]) -> str:
    new = sum(mark == "+" for mark, _ in shown)
    return f"{new} lines new, {len(shown) - new} gone"


def _pieces(line: str) -> list[str]:
    """A long line as a few that fit, broken at spaces; those behind the first stand further in."""
    indent = line[: len(line) - len(line.lstrip())]
    columns = int((WIDTH - ROOM - 8) / (text_width("m" * 100, mono=True) / 100))
    found = wrap(line, columns, subsequent_indent=indent + FURTHER, drop_whitespace=False)
    return [piece.replace(" ", "\u00a0") for piece in found]


PICTURE = Picture(
    name="tile_program",
    title="Tile program",
    words="The plain tile program, then what each rewrite changed, up to the one that is printed; "
    "of a GPU, for a thread block.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=of_tile(data, figure, table),
)
