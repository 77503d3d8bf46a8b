"""A fork server for the kernels of notebooks: it has imported what all of them import, and each is
a fork of it, as new as any but for the seconds of that.

What it imports is what a compilation and a house do, and no more: a notebook that forgets an import
of its own fails here as it does for a reader.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

IMPORTED = (
    "explorer.compiler.pipeline",
    "widgets.page.shell",
    "plotly.graph_objects",
    "ipykernel.kernelapp",
)
LOOK_SECONDS = 0.05


class ForkServer:
    """The process, asked by one line and answering with one."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **question: Any) -> int | None:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        answer: int | None = json.loads(self._process.stdout.readline())
        return answer

    def kernel(self, command: list[str], **given: Any) -> Kernel:
        """In the place of `jupyter_client.launcher.launch_kernel`."""
        arguments = command[command.index("ipykernel_launcher") + 1 :]
        env = {**given["env"], "JPY_PARENT_PID": str(self._process.pid)}
        pid = self.ask(arguments=arguments, env=env, folder=str(given["cwd"]))
        assert pid is not None
        return Kernel(self, pid)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(timeout=60) == 0


class Kernel:
    """What a client asks of a process, of one that is a child of the fork server."""

    stdin = stdout = stderr = None

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.ask(ended=self.pid)
        return self.returncode

    def wait(self) -> int:
        while (code := self.poll()) is None:
            time.sleep(LOOK_SECONDS)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def _ended(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _born(arguments: list[str], env: dict[str, str], folder: str) -> int:
    pid = os.fork()
    if pid:
        os.setpgid(pid, pid)  # a client ends it by its group
        return pid
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # the fork server answers by the first
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    del sys.path[0]  # where the fork server was begun
    sys.argv[:] = ["ipykernel_launcher.py", *arguments]
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance()
    os._exit(0)


def main() -> None:
    import gc
    from importlib import import_module

    for name in IMPORTED:
        import_module(name)
    gc.freeze()  # what all have is looked through by none
    for line in sys.stdin:
        question = json.loads(line)
        answer = _ended(question["ended"]) if "ended" in question else _born(**question)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
