"""`ironworks zoo`: the built-in models."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.cli.answer import Answer, print_answer
from explorer.cli.arguments import Parser, parse_flags
from explorer.frontends import zoo
from explorer.frontends.zoo import nasbench
from explorer.plain_text import size, table

FLOAT_BYTES = 4


def main(argv: Sequence[str]) -> int:
    """List the models."""
    flags = parse_flags(
        Parser(
            "zoo", "The models that are here by name: give zoo:NAME wherever a MODEL is asked for."
        ),
        argv,
    )
    return print_answer(answer(), flags.json)


def answer() -> Answer:
    """Return every model with its paper and the size of its weights."""
    models = [
        {
            "name": f"{zoo.PREFIX}{entry.name}",
            "paper": entry.paper,
            "weights": entry.weights,
            "weight_bytes": entry.weights * FLOAT_BYTES,
        }
        for entry in zoo.ENTRIES.values()
    ]
    rows = [
        (f"{zoo.PREFIX}{e.name}", f"{e.weights:,}", size(e.weights * FLOAT_BYTES), e.paper)
        for e in zoo.ENTRIES.values()
    ]
    text = table(("model", ">weights", ">size", "paper"), rows)
    note = (
        "Real graphs. The weights are random, from one seed: for tests and timing.\n"
        f"  {zoo.PREFIX}{nasbench.PREFIX}17 is a random module of the seed 17 (Ying et al. 2019)."
    )
    return Answer({"models": models}, f"{text}\n\n  {note}")
