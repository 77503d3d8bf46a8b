"""`ironworks sweep`: a model under every combination of some settings."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from explorer.cli import arguments
from explorer.cli.arguments import Parser, parse_flags, plugin_flag, seconds
from explorer.cli.terminal import print_answer, progress_line, step_progress
from explorer.errors import BadOption
from explorer.views.answer import Answer

CONNECT_SECONDS = 10  # timeout of a scheduler; chosen


def main(argv: Sequence[str]) -> int:
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
    plugin_flag(parser)
    flags = parse_flags(parser, argv)
    return print_answer(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """Return the rows, the fastest first among comparable ones; no if every point failed."""
    from explorer.tuning.sweep import sweep

    vary = parse_vary(flags.vary)
    bound = arguments.bind(flags.bind)
    with _executor(flags.on) as executor, progress_line() as say:
        result = sweep(
            flags.model,
            vary,
            target=flags.target,
            sizes=bound,
            executor=executor,
            store=flags.store,
            seconds=flags.seconds,
            plugins=flags.plugins or (),
            progress=step_progress(say),
        )
    rows = [row.to_json() for row in result.rows]
    return Answer(
        {"model": result.model, "vary": dict(result.vary), "rows": rows},
        str(result),
        yes=len(result.failures) < len(result.rows),
    )


def parse_vary(texts: Sequence[str]) -> dict[str, list[str]]:
    """Parse `name=a,b`, given once or more often, into values by name."""
    values_by_name: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        listed = [v.strip() for v in values.split("|" if "|" in values else ",") if v.strip()]
        if not (name and equals and listed) or name in values_by_name:
            repeated = name in values_by_name
            raise BadOption(
                f"--vary names {name!r} twice"
                if repeated
                else f"--vary takes name=a,b, not {text!r}",
                where="--vary",
                expected="roller.top_k=1,10",
                actual=text,
            )
        values_by_name[name] = listed
    return values_by_name


@contextmanager
def _executor(address: str | None) -> Iterator[Executor | None]:
    """Yield an executor of Dask if a scheduler was named, else None."""
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
