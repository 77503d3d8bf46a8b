"""The shell's commands that draw: `ironworks report` and `ironworks lab`."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile

from explorer.cli.answer import Answer, tell
from explorer.cli.arguments import Parser, model_flags, parsed, run_flags
from explorer.cli.compiled import arrays, compiled, loaded, options, sizes
from explorer.cli.progress import doing
from explorer.errors import BadOption
from explorer.frontends.files.shipped import is_checkout
from widgets.page import jupyter
from widgets.page.course import TOUR, copied, notebooks

__all__ = ["lab", "report"]

FOLDER = "ironworks-notebooks"  # where copies go


def report(given: Sequence[str]) -> int:
    """Write one offline file about a compiled model."""
    parser = Parser("report", "One offline file: every stage, its pictures, the timings.")
    model_flags(parser)
    run_flags(parser)
    add = parser.add_argument
    add("-o", "--output", default="report.html", metavar="FILE", help="(default: report.html)")
    add("--no-code", action="store_true", help="leave out the sources, LLVM IR and assembly")
    add("--check", action="store_true", help="validate every step on random inputs")
    add("--recorded", metavar="FILE", help="a recorded run beside the plan: a file, or h200")
    flags = parsed(parser, given)
    return tell(_report(flags), flags.json)


def _report(flags: Namespace) -> Answer:
    _there("plotly", "anywidget")
    from widgets.page.report import page
    from widgets.session import recorded
    from widgets.session.session import Session

    path = Path(flags.output)
    _writable(path)
    chosen = options(flags)
    model = loaded(flags)
    bound = sizes(model, flags)
    c = compiled(model, flags, chosen, check=flags.check)
    shown, run = recorded.opened(c, flags.recorded, bound)
    session = Session(shown, sizes=bound, inputs=arrays(c, flags, bound), recorded=run)
    if session.runs:
        with doing("measuring"):
            session.measure()
    with doing("drawing"):
        text = page(session, code=not flags.no_code)
    _write(path, text)
    size = path.stat().st_size
    words = f"{path}: {size / 1e6:.1f} MB, {session.verdict()['big']}"
    return Answer({"report": str(path), "bytes": size, **session.verdict()}, words)


def _there(*packages: str) -> None:
    """Raise BadOption where what draws is not installed, as on a machine of a cluster."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise BadOption(
            f"this needs {' and '.join(missing)}, which the compiler alone does not",
            try_="pip install 'ironworks[notebook]'",
        )


def _writable(path: Path) -> None:
    """Raise BadOption before anything is compiled that could not be kept."""
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise BadOption(f"{path} cannot be written", where="--output", found=str(path))


def _write(path: Path, text: str) -> None:
    """The file is whole or as it was before."""
    with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        try:
            file.write(text)
            file.close()
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:  # a Ctrl-C too: no half of a file stays
            Path(file.name).unlink(missing_ok=True)
            raise


def lab(given: Sequence[str]) -> int:
    """Open JupyterLab, on the tour unless another notebook is named."""
    parser = Parser("lab", "JupyterLab, opened on the tour. What follows -- goes to JupyterLab.")
    add = parser.add_argument
    add("notebook", nargs="?", metavar="NOTEBOOK", help="(default: the tour)")
    add(
        "--copy",
        nargs="?",
        const=FOLDER,
        metavar="FOLDER",
        help=f"copy the notebooks there first, and open the copy (default: {FOLDER})",
    )
    add("--no-open", action="store_true", help="with --copy: copy them, and no more")
    own, more = _split(list(given))
    flags = parsed(parser, own)
    if not flags.no_open:
        _there("jupyterlab", "anywidget", "ipywidgets", "plotly")
    if flags.no_open and flags.copy is None:
        raise BadOption("--no-open without --copy does nothing", where="--no-open", try_="--copy")
    if flags.copy is not None:
        path = _copy(Path(flags.copy), flags.notebook or TOUR)
        if flags.no_open:
            return 0
    else:
        path = _notebook(flags.notebook)
    command = [*jupyter.command("jupyterlab"), *_for_root(), str(path), *more]
    measuring = subprocess.Popen(
        [sys.executable, "-m", "explorer.measure.this_machine.in_background"]
    )
    try:
        return subprocess.call(command)
    except KeyboardInterrupt:
        return 0
    finally:
        measuring.terminate()
        measuring.wait()


def _for_root() -> list[str]:
    """Jupyter asks a root user, as in most containers, to say so."""
    return ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []


def _split(given: list[str]) -> tuple[list[str], list[str]]:
    at = given.index("--") if "--" in given else len(given)
    return given[:at], given[at + 1 :]


def _copy(folder: Path, name: str) -> Path:
    """The notebook of that name in a copy of all; says what was copied."""
    new, old = copied(folder)
    stayed = f"; {len(old)} were there and stay as they are" if old else ""
    print(f"{folder}: {len(new)} notebooks copied{stayed}", flush=True)
    path = folder / Path(name).name
    if path not in (*new, *old):
        raise BadOption(f"there is no notebook {name}", where="NOTEBOOK", found=name)
    return path


def _notebook(name: str | None) -> Path:
    """The notebook to open: in a checkout the tour, if none is named."""
    if name is not None:
        if not Path(name).exists():
            raise BadOption(f"there is no notebook {name}", where="NOTEBOOK", found=name)
        return Path(name)
    tour = next((n for n in notebooks() if n.name == TOUR), None)
    if tour is None or not is_checkout():
        raise BadOption(
            "the notebooks of an installation are copied before they are worked in",
            where="NOTEBOOK",
            try_="ironworks lab --copy",
        )
    return tour
