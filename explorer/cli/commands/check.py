"""`ironworks check`: what would happen to a model, before anything does."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer, tell
from explorer.cli.arguments import Parser, bounds_flag, parsed, plugin_flag
from explorer.cli.compiled import loaded
from explorer.cli.progress import doing
from explorer.plain_text import size, table

if TYPE_CHECKING:
    from explorer.tuning.forecast import Forecast


def main(given: Sequence[str]) -> int:
    """Say what compiling would do; the answer is no where an operator is not supported."""
    parser = Parser("check", "What would happen to a model, before anything does.")
    parser.add_argument("model", metavar="MODEL", help="an ONNX file, or zoo:NAME")
    bounds_flag(parser)
    plugin_flag(parser)
    flags = parsed(parser, given)
    return tell(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """What becomes of each operator, and how much memory it takes."""
    import explorer

    model = loaded(flags)
    with doing("looking at each operator"):
        found = explorer.check(model)
    data = {
        "model": found.model,
        "supported": found.supported,
        "operators": found.operators,
        "symbols": found.symbols,
        "hints": found.hints,
        "weight_bytes": found.weight_bytes,
        "intermediate_bytes": found.intermediate_bytes,
    }
    return Answer(data, _text(found), yes=found.supported)


def _text(found: Forecast) -> str:
    from explorer.tuning.forecast import verdict

    rows = [(o.op, f"{o.count:,}", o.becomes, o.reason) for o in found.operators]
    total = sum(o.count for o in found.operators)
    lines = [
        f"{found.model}: {verdict(found)}",
        "",
        table(("operator", ">count", "becomes", "because"), [*rows, ("all", f"{total:,}", "", "")]),
        "",
        *(
            f"  {name}: {low} to {_high(high)}, planned as {found.hints[name]}"
            for name, (low, high) in found.symbols.items()
        ),
        f"  {size(found.weight_bytes)} of weights",
    ]
    if found.intermediate_bytes is not None:
        lines.append(f"  {size(found.intermediate_bytes)} of intermediates, one buffer each")
    return "\n".join(lines)


def _high(high: int | None) -> str:
    return "any" if high is None else str(high)
