"""`ironworks serve MODEL`: the house of a model as a web page of its own, by Voila: no code cells,
a kernel for each visitor, which ends when it is idle.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from argparse import Namespace
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from explorer.cli.arguments import Parser, model_flags, parsed, run_flags
from explorer.cli.compiled import arrays, compiled, loaded, options, sizes
from explorer.errors import BadOption
from widgets.draw.theme import SCHEMES
from widgets.page import jupyter

ASKED = "IRONWORKS_SERVED"  # the variable that tells a kernel which model it shows
NO_CODE = "a served page runs no code of its visitors: an edit is tried in a notebook"
CELL = "from widgets.page.serving import house\nhouse()"  # all that a page runs
IDLE_MINUTES, MOST_IDLE_MINUTES = 20, 1440
LOOK_SECONDS = 30  # between two looks at who is idle
PORT = 8866
FRAME = "ironworks"  # Voila's frame of a page, which of ours asks for nothing from outside
ICONS = "https://cdn.jsdelivr.net/npm/@fortawesome/fontawesome-free@^5/css/"
DARK = f"""@media (prefers-color-scheme:dark) {{ body:not([data-jp-theme-light]),
body:not([data-jp-theme-light]) #rendered_cells > div {{
background: {SCHEMES["dark"]["app"]} !important; color: {SCHEMES["dark"]["ink"]}; }} }}"""
TEMPLATE = f"""{{%- extends 'voila/templates/lab/index.html.j2' -%}}
{{%- block notebook_css -%}}
{{{{ super() | string | replace("{ICONS}all.min.css", "data:text/css,")
     | replace("{ICONS}v4-shims.min.css", "data:text/css,") | safe }}}}
<style>{DARK}</style>
{{%- endblock notebook_css -%}}
{{%- block body_header -%}}
{{{{ super() | string | replace(' data-jp-theme-light="true"', "") | safe }}}}
{{%- endblock body_header -%}}
"""


def parser() -> Parser:
    """The flags of the command."""
    found = Parser("serve", "The explorer of a model as a web page. What follows -- goes to Voila.")
    model_flags(found)
    run_flags(found)
    add = found.add_argument
    add("--port", type=int, default=PORT, metavar="N", help=f"(default: {PORT})")
    add(
        "--idle",
        type=int,
        default=IDLE_MINUTES,
        metavar="MINUTES",
        help=f"a visitor's kernel ends after so long without a question (default: {IDLE_MINUTES})",
    )
    add("--no-browser", action="store_true", help="open no browser")
    return found


def serve(given: Sequence[str]) -> int:
    """Serve the house of a model on this machine alone, until it is stopped."""
    at = list(given).index("--") if "--" in given else len(given)
    own, more = list(given)[:at], list(given)[at + 1 :]
    flags = parsed(parser(), own)
    _checked(flags)
    with TemporaryDirectory(prefix="ironworks-serve-") as folder:
        page = Path(folder) / "house.ipynb"
        page.write_text(json.dumps(notebook()), encoding="utf-8")
        told = {
            ASKED: json.dumps({"arguments": own, "folder": os.getcwd()}),
            "JUPYTER_PATH": _with_frame(Path(folder)),
        }
        return _until_stopped(command(page, flags, more), {**os.environ, **told})


def _with_frame(folder: Path) -> str:
    """Where Jupyter looks for frames: for ours first."""
    frame = folder / "voila" / "templates" / FRAME
    frame.mkdir(parents=True)
    (frame / "index.html.j2").write_text(TEMPLATE, encoding="utf-8")
    (frame / "conf.json").write_text(json.dumps({"base_template": "lab"}), encoding="utf-8")
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("JUPYTER_PATH", ""))))


def _until_stopped(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """The exit code of a server; where we are told to end, it ends too, and all is well."""
    server = subprocess.Popen(command, env=dict(variables))
    before = signal.signal(signal.SIGTERM, lambda number, frame: server.terminate())
    try:
        return max(0, server.wait())
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGTERM, before)
        server.terminate()
        server.wait()


def _checked(flags: Namespace) -> None:
    """Raise what is wrong before a server begins: a visitor could not mend it."""
    if find_spec("voila") is None:
        raise BadOption(
            "voila is not installed",
            where="voila",
            try_="make lab in a checkout, else pip install 'ironworks[notebook]'",
        )
    if not 1 <= flags.idle <= MOST_IDLE_MINUTES:
        raise BadOption(
            f"--idle takes 1 to {MOST_IDLE_MINUTES} minutes, not {flags.idle}", where="--idle"
        )
    if not 0 < flags.port < 1 << 16:
        raise BadOption(f"--port takes 1 to 65535, not {flags.port}", where="--port")
    chosen = options(flags)
    model = loaded(flags)
    compiled(model, flags, chosen, until="TYPED")  # figures of hardware are known of a device
    arrays(model, flags, sizes(model, flags))


def command(page: Path, flags: Namespace, more: Sequence[str] = ()) -> list[str]:
    """Voila over one notebook, on this machine alone unless `more` says otherwise."""
    kernels = "--MappingKernelManager"
    ours = {
        "--port": flags.port,
        "--strip_sources": True,
        "--template": FRAME,
        f"{kernels}.cull_idle_timeout": flags.idle * 60,
        f"{kernels}.cull_interval": LOOK_SECONDS,
        f"{kernels}.cull_connected": True,
    }
    theirs = {text.partition("=")[0] for text in more}
    told = [f"{name}={value}" for name, value in ours.items() if name not in theirs]
    browser = ["--no-browser"] if flags.no_browser else []
    return [*jupyter.command("voila"), str(page), *told, *browser, *more]


def notebook() -> dict[str, Any]:
    """One cell that shows the house."""
    cell: dict[str, Any] = {
        "cell_type": "code", "execution_count": None, "id": "house", "metadata": {}, "outputs": [],
        "source": CELL,
    }  # fmt: skip
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "title": "Ironworks"}
    return {"cells": [cell], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def house() -> Any:
    """The house that this kernel was begun for: planned at once, its code generated beside. Edits
    of kernels are kept, and never run.
    """
    from widgets.page.shell import explore
    from widgets.session.edits import Trials

    asked = json.loads(os.environ[ASKED])
    os.chdir(asked["folder"])
    flags = parsed(parser(), asked["arguments"])
    chosen = options(flags)
    model = loaded(flags)
    bound = sizes(model, flags)
    given = arrays(model, flags, bound) if flags.inputs else None
    found = explore(model, target=flags.target, options=chosen, sizes=bound, inputs=given)
    found.session.trials = Trials(NO_CODE)
    found.session.alone = False
    found._tell()
    return found
