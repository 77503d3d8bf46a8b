"""`ironworks explain`: the decisions of a system, and the alternatives."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from explorer.cli.arguments import Parser, model_flags, parse_flags, run_flags
from explorer.cli.compile_model import compile_model, input_arrays, load_model, options, sizes
from explorer.cli.terminal import print_answer
from explorer.devices.catalogue import HERE
from explorer.errors import BadOption
from explorer.ir.stage import SYSTEMS, Stage
from explorer.views import grinder, memory, program, rammer, roller, welder
from explorer.views.answer import Answer
from explorer.views.labels import resolve_name

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation

DECISIONS: dict[Stage, Callable[[Compilation, str | None], Answer]] = {
    Stage.TASKED: grinder.tasks,
    Stage.WELDED: welder.groups,
    Stage.ROLLED: roller.tiles,
    Stage.EMITTED: program.code,
}


def main(argv: Sequence[str]) -> int:
    """Compile a model as far as needed and print the decisions of that stage."""
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
    flags = parse_flags(parser, argv)
    if flags.stage is None and flags.op is None:
        systems = ", ".join(SYSTEMS)
        raise BadOption(f"say what to explain: --stage {systems}; or --op NAME", where="explain")
    return print_answer(answer(flags), flags.json)


def system(text: str) -> Stage:
    """Return the stage of that name, or the stage that a system of that name produces."""
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
    """Return the decisions of one stage; without a stage, the tiles and merges of one operator."""
    chosen = options(flags)
    model = load_model(flags)
    bound = sizes(model, flags)
    stage = Stage.ROLLED if flags.stage is None else flags.stage
    if flags.rewrites and stage != Stage.ROLLED:
        raise BadOption("tile programs are of the stage rolled", where="--rewrites")
    needed = (
        stage if stage <= Stage.ROLLED else Stage.EMITTED
    )  # walls need tasks, and tasks need code
    if stage == Stage.TASKED:
        needed = Stage.RAMMED  # loop schedules are compared by their walls
    inputs = input_arrays(model, flags, bound)
    c = compile_model(model, flags, chosen, needed.name)
    op = resolve_name(c, flags.op)
    if flags.rewrites:
        return program.rewrites(c, op)
    if stage == Stage.ROLLED and c.target.uses_thread_blocks:
        c = c.with_options(until=Stage.PLANNED)  # its walls select the thread blocks
    if stage == Stage.RAMMED:
        return rammer.wall(c, op, bound, inputs if flags.target in HERE else None)
    if stage == Stage.PLANNED:
        return memory.memory(c, op, bound)
    if flags.stage is None:
        return _merges_and_tiles(welder.groups(c, op), roller.tiles(c, op))
    return DECISIONS.get(stage, program.program)(c, op)


def _merges_and_tiles(merges: Answer, tiles: Answer) -> Answer:
    """Join the merges and the tiles of one operator."""
    return Answer({"welder": merges.data, "roller": tiles.data}, f"{merges.text}\n\n{tiles.text}")
