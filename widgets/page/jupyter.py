"""`python -m widgets.page.jupyter jupyterlab ...`: a server of Jupyter that is there sooner.

Behind the checker of its events lies a package that makes 39 grammars as it is imported, of
addresses in other scripts than Latin, which no schema of Jupyter has: two to three seconds. Where
it is not installed the checker does without.
"""

from __future__ import annotations

import runpy
import sys

GRAMMARS = "rfc3987_syntax"


def command(server: str) -> list[str]:
    """What begins a command line of JupyterLab, or of Voila."""
    return [sys.executable, "-m", __name__, server]


if __name__ == "__main__":
    sys.modules[GRAMMARS] = None  # type: ignore[assignment]
    del sys.argv[0]  # it becomes the server's own
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
