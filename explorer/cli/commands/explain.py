"""`ironworks explain`: what a system decided, and why not otherwise."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer, tell
from explorer.cli.arguments import Parser, model_flags, parsed, run_flags
from explorer.cli.compiled import HERE, arrays, compiled, loaded, options, sizes
from explorer.cli.explained import (
    codegen,
    grinder,
    memory,
    program,
    rammer,
    rewrites,
    roller,
    welder,
)
from explorer.cli.explained.called import meant
from explorer.errors import BadOption
from explorer.ir.stage import SYSTEMS, Stage

if TYPE_CHECKING:
    from explorer.compilation import Compilation

DECISIONS: dict[Stage, Callable[[Compilation, str | None], Answer]] = {
    Stage.TASKED: grinder.tasks,
    Stage.WELDED: welder.groups,
    Stage.ROLLED: roller.tiles,
    Stage.EMITTED: codegen.code,
}


def main(given: Sequence[str]) -> int:
    """Compile a model as far as it is asked about, and say what was decided there."""
    parser = Parser("explain", "What a system decided, for a whole model or for one operator.")
    model_flags(parser)
    run_flags(parser)
    add = parser.add_argument
    add("--stage", type=system, metavar="STAGE", help=f"a stage, or {', '.join(SYSTEMS)}")
    add("--op", metavar="NAME", help="an operator or a kernel, as the file or a picture has it")
    add(
        "--rewrites",
        action="store_true",
        help="each rewrite of the kernels' tile programs; of a GPU, of its thread blocks",
    )
    flags = parsed(parser, given)
    if flags.stage is None and flags.op is None:
        known = ", ".join(SYSTEMS)
        raise BadOption(f"say what to explain: --stage {known}; or --op NAME", where="explain")
    return tell(answer(flags), flags.json)


def system(text: str) -> Stage:
    """The stage of that name, or the one that a system of that name leaves."""
    stages = {stage.name.lower(): stage for stage in Stage} | SYSTEMS
    if text.lower() in stages:
        return stages[text.lower()]
    raise BadOption(
        f"there is no stage or system {text!r}; there are {', '.join(stages)}",
        where="--stage",
        expected=", ".join(stages),
        actual=text,
    )


def answer(flags: Namespace) -> Answer:
    """The decisions of one stage; without a stage, the tiles and merges of one operator."""
    chosen = options(flags)
    model = loaded(flags)
    bound = sizes(model, flags)
    stage = Stage.ROLLED if flags.stage is None else flags.stage
    if flags.rewrites and stage != Stage.ROLLED:
        raise BadOption("tile programs are of the stage rolled", where="--rewrites")
    needed = stage if stage <= Stage.ROLLED else Stage.EMITTED  # walls need tasks, tasks code
    if stage == Stage.TASKED:
        needed = Stage.RAMMED  # the ways of loops are weighed by walls
    inputs = arrays(model, flags, bound)
    c = compiled(model, flags, chosen, needed.name)
    op = meant(c, flags.op)
    if flags.rewrites:
        return rewrites.rewrites(c, op)
    if stage == Stage.ROLLED and c.device.kind == "gpu":
        c = c.with_options(until=Stage.PLANNED)  # whose walls take thread blocks
    if stage == Stage.RAMMED:
        return rammer.wall(c, op, bound, inputs if flags.target in HERE else None)
    if stage == Stage.PLANNED:
        return memory.memory(c, op, bound)
    if flags.stage is None:
        return _both(welder.groups(c, op), roller.tiles(c, op))
    return DECISIONS.get(stage, program.program)(c, op)


def _both(merges: Answer, tiles: Answer) -> Answer:
    """What was decided about one operator: what it was welded with, and how it is tiled."""
    return Answer({"welder": merges.data, "roller": tiles.data}, f"{merges.text}\n\n{tiles.text}")
