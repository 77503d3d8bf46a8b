"""`ironworks sweep`: a model under every combination of some settings."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from explorer.cli import arguments
from explorer.cli.answer import Answer, tell
from explorer.cli.arguments import Parser, parsed, seconds
from explorer.cli.progress import doing, steps
from explorer.errors import BadOption

CONNECT_SECONDS = 10  # to wait for a scheduler; chosen


def main(given: Sequence[str]) -> int:
    """Sweep a model."""
    parser = Parser(
        "sweep",
        "A model under every combination of what is varied: measured here or on the machines of a "
        "cluster, predicted on data sheets. Rows come with the card of their machine.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="an ONNX file, or zoo:NAME")
    add(
        "--vary",
        action="append",
        default=[],
        metavar="roller.top_k=1,10",
        help="values of an option, of bind.SYMBOL, or of target; between | where they hold commas; "
        "may be repeated",
    )
    add("--target", default="cpu", metavar="T", help="where it is not varied (default: cpu)")
    add("--bind", action="append", default=[], metavar="batch=1", help="sizes that do not vary")
    add("--seconds", type=seconds, default=0.2, metavar="S", help="for each point (default 0.2)")
    add("--store", metavar="FILE", help="a SQLite file that keeps rows as they come, to go on from")
    add(
        "--on",
        metavar="tcp://HOST:PORT",
        help="the scheduler of Dask's, in place of processes here",
    )
    flags = parsed(parser, given)
    return tell(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """The rows, fastest first of what may be compared; no where every point failed."""
    from explorer.tuning.sweep import sweep

    vary = varied(flags.vary)
    bound = arguments.bind(flags.bind)
    with _executor(flags.on) as executor, doing() as say:
        found = sweep(
            flags.model,
            vary,
            target=flags.target,
            sizes=bound,
            executor=executor,
            store=flags.store,
            seconds=flags.seconds,
            progress=steps(say),
        )
    rows = [row.to_json() for row in found.rows]
    return Answer(
        {"model": found.model, "vary": dict(found.vary), "rows": rows},
        str(found),
        yes=len(found.failures) < len(found.rows),
    )


def varied(texts: Sequence[str]) -> dict[str, list[str]]:
    """`name=a,b`, given once or more often, as values by name."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        listed = [v.strip() for v in values.split("|" if "|" in values else ",") if v.strip()]
        if not (name and equals and listed) or name in found:
            again = name in found
            raise BadOption(
                f"--vary names {name!r} twice" if again else f"--vary takes name=a,b, not {text!r}",
                where="--vary",
                expected="roller.top_k=1,10",
                actual=text,
            )
        found[name] = listed
    return found


@contextmanager
def _executor(address: str | None) -> Iterator[Executor | None]:
    """Dask's, where a scheduler was named."""
    if address is None:
        yield None
        return
    try:
        dask: Any = import_module("distributed")
    except ImportError:
        raise BadOption(
            "a cluster is reached through Dask, which is not installed",
            where="--on",
            try_="pip install 'ironworks[cluster]'",
        ) from None
    try:
        client = dask.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as problem:
        raise BadOption(
            f"no scheduler answers at {address} ({type(problem).__name__})",
            where="--on",
            try_="dask scheduler, and dask worker tcp://HOST:PORT on each machine",
        ) from problem
    with client:
        yield client.get_executor(pure=False)
