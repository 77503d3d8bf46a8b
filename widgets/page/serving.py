"""`ironworks serve MODEL`: the explorer of a model as a web page, by Voila.

A page has no code cells. Each visitor has a kernel, which ends when it is idle. A saved page,
`ironworks serve report.html`, needs neither: it is served as it is, isolated, so that its programs
may use threads.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import webbrowser
from argparse import Namespace
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from explorer.cli.arguments import Parser, model_flags, parse_flags, run_flags
from explorer.cli.compile_model import compile_model, input_arrays, load_model, options, sizes
from explorer.errors import BadOption
from widgets.draw.theme import SCHEMES
from widgets.page import jupyter

REQUEST = "IRONWORKS_SERVED"  # the variable that tells a kernel which model it shows
NO_CODE = "a served page runs no code of its visitors: an edit is tried in a notebook"
CELL = "from widgets.page.serving import house\nhouse()"  # all that a page runs
IDLE_MINUTES, MOST_IDLE_MINUTES = 20, 1440
LOOK_SECONDS = 30  # between two checks for idle kernels
PORT = 8866
ISOLATED = {  # of a page that may share memory among threads (HTML, cross-origin isolation)
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}
FRAME = "ironworks"  # Voila's template; ours loads nothing from other servers
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
    """Return the parser of the command's flags."""
    flag_parser = Parser(
        "serve", "The explorer of a model as a web page. What follows -- goes to Voila."
    )
    model_flags(flag_parser)
    run_flags(flag_parser)
    add = flag_parser.add_argument
    add("--port", type=int, default=PORT, metavar="N", help=f"(default: {PORT})")
    add(
        "--idle",
        type=int,
        default=IDLE_MINUTES,
        metavar="MINUTES",
        help=f"a visitor's kernel ends after so long without a question (default: {IDLE_MINUTES})",
    )
    add("--no-browser", action="store_true", help="open no browser")
    return flag_parser


def serve(arguments: Sequence[str]) -> int:
    """Serve the explorer of a model on this machine alone, until it is stopped."""
    at = list(arguments).index("--") if "--" in arguments else len(arguments)
    own, more = list(arguments)[:at], list(arguments)[at + 1 :]
    flags = parse_flags(parser(), own)
    _checked_port(flags.port)
    if flags.model.endswith(".html"):
        return _serve_page(Path(flags.model), flags)
    _checked(flags)
    with TemporaryDirectory(prefix="ironworks-serve-") as folder:
        page = Path(folder) / "house.ipynb"
        page.write_text(json.dumps(notebook()), encoding="utf-8")
        variables = {
            REQUEST: json.dumps({"arguments": own, "folder": os.getcwd()}),
            "JUPYTER_PATH": _with_frame(Path(folder)),
        }
        return _until_stopped(command(page, flags, more), {**os.environ, **variables})


def _with_frame(folder: Path) -> str:
    """Write the page's template and return Jupyter's search path with it first."""
    frame = folder / "voila" / "templates" / FRAME
    frame.mkdir(parents=True)
    (frame / "index.html.j2").write_text(TEMPLATE, encoding="utf-8")
    (frame / "conf.json").write_text(json.dumps({"base_template": "lab"}), encoding="utf-8")
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("JUPYTER_PATH", ""))))


def _until_stopped(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a server and return its exit code; on SIGTERM the server ends too, with success."""
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


def _serve_page(path: Path, flags: Namespace) -> int:
    """Serve a saved page, and nothing else, on this machine alone, until it is stopped."""
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise BadOption(
            f"{path} cannot be read: {problem.strerror}",
            where=str(path),
            expected="a page that ironworks report wrote",
        ) from problem

    class OnePage(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_page = self.path == "/"
            self.send_response(200 if is_page else 404)
            for name, value in ISOLATED.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(content if is_page else b"There is one page here: /")

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing for a request."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", flags.port), OnePage)
    except OSError as problem:
        raise BadOption(
            f"port {flags.port} is not free: {problem.strerror}",
            where="--port",
            try_="another --port",
        ) from problem
    address = f"http://127.0.0.1:{flags.port}/"
    print(f"{path.name} at {address}, until Ctrl-C", flush=True)
    if not flags.no_browser:
        webbrowser.open(address)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGTERM, before)
        server.server_close()
    return 0


def _checked_port(port: int) -> None:
    """Raise BadOption unless a port can be listened at."""
    if not 0 < port < 1 << 16:
        raise BadOption(f"--port takes 1 to 65535, not {port}", where="--port")


def _checked(flags: Namespace) -> None:
    """Raise errors of the flags and the model before the server starts.

    Visitors could not mend them.
    """
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
    chosen = options(flags)
    model = load_model(flags)
    compile_model(model, flags, chosen, until="TYPED")  # hardware figures need a device
    input_arrays(model, flags, sizes(model, flags))


def command(page: Path, flags: Namespace, more: Sequence[str] = ()) -> list[str]:
    """Return Voila's command line for one notebook, on this machine alone unless `more` differs."""
    kernels = "--MappingKernelManager"
    ours = {
        "--port": flags.port,
        "--strip_sources": True,
        "--template": FRAME,
        "--Voila.tornado_settings": {"headers": ISOLATED},
        f"{kernels}.cull_idle_timeout": flags.idle * 60,
        f"{kernels}.cull_interval": LOOK_SECONDS,
        f"{kernels}.cull_connected": True,
    }
    theirs = {text.partition("=")[0] for text in more}
    flag_texts = [f"{name}={value}" for name, value in ours.items() if name not in theirs]
    browser = ["--no-browser"] if flags.no_browser else []
    return [*jupyter.command("voila"), str(page), *flag_texts, *browser, *more]


def notebook() -> dict[str, Any]:
    """Return a notebook of one cell, which shows the explorer."""
    cell: dict[str, Any] = {
        "cell_type": "code", "execution_count": None, "id": "house", "metadata": {}, "outputs": [],
        "source": CELL,
    }  # fmt: skip
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "title": "Ironworks"}
    return {"cells": [cell], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def house() -> Any:
    """Return the explorer that this kernel serves: planned at once, its code generated afterwards.

    Edits of kernels are stored and never run.
    """
    from widgets.page.shell import explore
    from widgets.session.edits import EditTrials

    request = json.loads(os.environ[REQUEST])
    os.chdir(request["folder"])
    flags = parse_flags(parser(), request["arguments"])
    chosen = options(flags)
    model = load_model(flags)
    bound = sizes(model, flags)
    inputs = input_arrays(model, flags, bound) if flags.inputs else None
    served_house = explore(model, target=flags.target, options=chosen, sizes=bound, inputs=inputs)
    served_house.session.trials = EditTrials(NO_CODE)
    served_house.session.alone = False
    served_house._send_changes()
    return served_house
