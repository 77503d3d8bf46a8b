"""Shell commands that draw: `ironworks report` and `ironworks lab`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile

from explorer.cli.arguments import Parser, model_flags, parse_flags, run_flags
from explorer.cli.compile_model import compile_model, input_arrays, load_model, options, sizes
from explorer.cli.terminal import print_answer, progress_line
from explorer.errors import BadOption
from explorer.frontends.shipped import is_checkout, shipped_folder
from explorer.views.answer import Answer
from widgets.page import jupyter

__all__ = ["lab", "report"]

FOLDER = "ironworks-notebooks"  # where copies go
TOUR = "00_tour.ipynb"


def report(arguments: Sequence[str]) -> int:
    """Write one offline file about a compiled model."""
    parser = Parser("report", "One offline file: every stage, its pictures, the timings.")
    model_flags(parser)
    run_flags(parser)
    add = parser.add_argument
    add("-o", "--output", default="report.html", metavar="FILE", help="(default: report.html)")
    add("--no-code", action="store_true", help="leave out the sources, LLVM IR and assembly")
    add("--check", action="store_true", help="validate every step on random inputs")
    add("--recorded", metavar="FILE", help="a recorded run beside the plan: a file, or h200")
    add("--live", action="store_true", help="the file also runs the model in the reader's browser")
    add(
        "--variants",
        metavar="NAMES",
        help="with --live: what it is compared with there, such as fusion,tiles (default: all)",
    )
    flags = parse_flags(parser, arguments)
    return print_answer(_report(flags), flags.json)


def _report(flags: Namespace) -> Answer:
    _require_packages("plotly", "anywidget")
    from widgets.live.data import live_page
    from widgets.page.report import page
    from widgets.session.session import Session
    from widgets.session.shown import open_recording

    path = Path(flags.output)
    _require_writable(path)
    names = _variants(flags)
    chosen = options(flags)
    model = load_model(flags)
    bound = sizes(model, flags)
    c = compile_model(model, flags, chosen, check=flags.check)
    shown, run = open_recording(c, flags.recorded, bound)
    session = Session(shown, sizes=bound, inputs=input_arrays(c, flags, bound), recorded=run)
    if session.runs:
        with progress_line("measuring"):
            session.measure()
    live = None
    if names is not None:
        with progress_line() as say:
            inputs = session.given_inputs if flags.inputs else None
            live = live_page(c, bound, inputs, names, lambda what: say(f"compiling {what}"))
    with progress_line("drawing"):
        text = page(session, code=not flags.no_code, live=live)
    _write(path, text)
    size = path.stat().st_size
    words = f"{path}: {size / 1e6:.1f} MB, {session.verdict()['big']}"
    data = {"report": str(path), "bytes": size, **session.verdict()}
    if live is None:
        return Answer(data, words)
    left_out = [live.refusal] if live.refusal else live.left_out
    runs = f"; in a browser: {', '.join(live.variants)}" if live.variants else ""
    notes = "".join(f"\n  {sentence}" for sentence in left_out)
    return Answer(
        {**data, "live": list(live.variants), "not live": list(left_out)}, f"{words}{runs}{notes}"
    )


def _variants(flags: Namespace) -> Sequence[str] | None:
    """Return the variants of `--live`, None without it; raises BadOption for unknown ones."""
    from widgets.live.variants import DEFAULT, check_knobs

    if not flags.live and flags.variants is not None:
        raise BadOption(
            "--variants says what a live page compares, and this one is not live",
            where="--variants",
            try_="--live",
        )
    if not flags.live:
        return None
    if flags.variants is None:
        return DEFAULT
    return check_knobs([name for name in flags.variants.split(",") if name])


def _require_packages(*packages: str) -> None:
    """Raise BadOption if a package for drawing is not installed, as on a cluster's machine."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise BadOption(
            f"this needs {' and '.join(missing)}, which the compiler alone does not",
            try_="pip install 'ironworks[notebook]'",
        )


def _require_writable(path: Path) -> None:
    """Raise BadOption for a path that cannot be written, before anything is compiled."""
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise BadOption(f"{path} cannot be written", where="--output", actual=str(path))


def _write(path: Path, text: str) -> None:
    """Write a file atomically."""
    with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        try:
            file.write(text)
            file.close()
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:  # Ctrl-C included: no partial file stays
            Path(file.name).unlink(missing_ok=True)
            raise


def lab(arguments: Sequence[str]) -> int:
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
    own, more = _split(list(arguments))
    flags = parse_flags(parser, own)
    if not flags.no_open:
        _require_packages("jupyterlab", "anywidget", "ipywidgets", "plotly")
    if flags.no_open and flags.copy is None:
        raise BadOption("--no-open without --copy does nothing", where="--no-open", try_="--copy")
    if flags.copy is not None:
        path = _copy(Path(flags.copy), flags.notebook or TOUR)
        if flags.no_open:
            return 0
    else:
        path = _notebook(flags.notebook)
    command = [*jupyter.command("jupyterlab"), *_for_root(), str(path), *more]
    measuring = subprocess.Popen([sys.executable, "-m", "explorer.measure.in_background"])
    try:
        return subprocess.call(command)
    except KeyboardInterrupt:
        return 0
    finally:
        measuring.terminate()
        measuring.wait()


def _for_root() -> list[str]:
    """Return the flag that Jupyter needs for a root user, as in most containers."""
    return ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at + 1 :]


def _copy(folder: Path, name: str) -> Path:
    """Copy all notebooks, print what was copied, and return the one of that name."""
    new, old = copy_notebooks(folder)
    stayed = f"; {len(old)} were there and stay as they are" if old else ""
    print(f"{folder}: {len(new)} notebooks copied{stayed}", flush=True)
    path = folder / Path(name).name
    if path not in (*new, *old):
        raise BadOption(f"there is no notebook {name}", where="NOTEBOOK", actual=name)
    return path


def _notebook(name: str | None) -> Path:
    """Return the notebook to open; in a checkout the tour, if none is named."""
    if name is not None:
        if not Path(name).exists():
            raise BadOption(f"there is no notebook {name}", where="NOTEBOOK", actual=name)
        return Path(name)
    tour = next((n for n in notebooks() if n.name == TOUR), None)
    if tour is None or not is_checkout():
        raise BadOption(
            "the notebooks of an installation are copied before they are worked in",
            where="NOTEBOOK",
            try_="ironworks lab --copy",
        )
    return tour


def notebooks() -> Sequence[Path]:
    """Return the notebooks in order; empty if the installation has none."""
    return sorted(shipped_folder("notebooks").glob("*.ipynb"))


def copy_notebooks(folder: Path) -> tuple[Sequence[Path], Sequence[Path]]:
    """Copy all notebooks to a folder; return the new ones and those that were there before.

    Existing files stay as they are. Raises BadOption if the folder cannot be written or if there
    are no notebooks.
    """
    originals = notebooks()
    if not originals:
        raise BadOption(
            "this installation holds no notebooks", where=str(shipped_folder("notebooks"))
        )
    old = [folder / n.name for n in originals if os.path.lexists(folder / n.name)]
    new = [folder / n.name for n in originals if folder / n.name not in old]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in new:
            shutil.copyfile(shipped_folder("notebooks") / path.name, path)
    except OSError as problem:
        raise BadOption(
            f"the notebooks cannot be copied to {folder}: {problem.strerror}", where="--copy"
        ) from problem
    return new, old
