"""`ironworks check`: a forecast of compiling a model, before any work is done."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from explorer.cli.arguments import Parser, bounds_flag, parse_flags, plugin_flag
from explorer.cli.compile_model import load_model
from explorer.cli.terminal import print_answer, progress_line
from explorer.plain_text import size, table
from explorer.views.answer import Answer

if TYPE_CHECKING:
    from explorer.tuning.forecast import Forecast


def main(argv: Sequence[str]) -> int:
    """Forecast a compilation; the answer is no if an operator is not supported."""
    parser = Parser("check", "What would happen to a model, before anything does.")
    parser.add_argument("model", metavar="MODEL", help="an ONNX file, or zoo:NAME")
    bounds_flag(parser)
    plugin_flag(parser)
    flags = parse_flags(parser, argv)
    return print_answer(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """Return the fate of each operator and the memory that the model takes."""
    import explorer

    model = load_model(flags)
    with progress_line("looking at each operator"):
        forecast = explorer.check(model)
    data = {
        "model": forecast.model,
        "supported": forecast.supported,
        "operators": forecast.operators,
        "symbols": forecast.symbols,
        "hints": forecast.hints,
        "weight_bytes": forecast.weight_bytes,
        "intermediate_bytes": forecast.intermediate_bytes,
    }
    return Answer(data, _text(forecast), yes=forecast.supported)


def _text(forecast: Forecast) -> str:
    from explorer.tuning.forecast import verdict

    rows = [(o.op, f"{o.count:,}", o.becomes, o.reason) for o in forecast.operators]
    total = sum(o.count for o in forecast.operators)
    lines = [
        f"{forecast.model}: {verdict(forecast)}",
        "",
        table(("operator", ">count", "becomes", "because"), [*rows, ("all", f"{total:,}", "", "")]),
        "",
        *(
            f"  {name}: {low} to {_high(high)}, planned as {forecast.hints[name]}"
            for name, (low, high) in forecast.symbols.items()
        ),
        f"  {size(forecast.weight_bytes)} of weights",
    ]
    if forecast.intermediate_bytes is not None:
        lines.append(f"  {size(forecast.intermediate_bytes)} of intermediates, one buffer each")
    return "\n".join(lines)


def _high(high: int | None) -> str:
    return "any" if high is None else str(high)
