"""`python -m widgets.page.jupyter jupyterlab ...`: a Jupyter server that starts sooner.

The checker of Jupyter's events imports a package that builds 39 grammars for addresses in scripts
other than Latin. No schema of Jupyter has them, and they take two to three seconds. The checker
works without the package if it is not installed.
"""

from __future__ import annotations

import runpy
import sys

GRAMMARS = "rfc3987_syntax"


def command(server: str) -> list[str]:
    """Return the beginning of a command line of JupyterLab or Voila."""
    return [sys.executable, "-m", __name__, server]


if __name__ == "__main__":
    sys.modules[GRAMMARS] = None  # type: ignore[assignment]
    del sys.argv[0]  # it becomes the server's own
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
