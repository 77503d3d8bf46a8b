"""Fork server of jailed helpers: a process with the compiler loaded that runs no student's code.

The grader (`HelperServer`) starts it with an empty environment, and asks it for a helper for each
answer: a fork in a jail (`explorer.process.sandbox_jail`) that runs the answer's cell and replies
to the checks. Neither process has the seed of the hidden checks, and solutions are removed from
both. A helper reads the package, Python and the system's libraries, and nothing else.
"""

from __future__ import annotations

import json
import linecache
import os
import signal
import site
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any, NoReturn

import explorer
from explorer.course import exercises
from explorer.course.answer import RemoteAnswer, outcome_of, receive, send
from explorer.course.exercise import Exercise, Wrong
from explorer.course.exercises import EXERCISES
from explorer.course.plain_values import NotPlain
from explorer.errors import BadOption
from explorer.frontends.shipped import is_checkout, shipped_folder
from explorer.process import sandbox
from explorer.process.sandbox import Limits, at_line, end_with_parent, silence, watch_time
from explorer.process.sandbox_jail import Jail, is_available, supervise
from explorer.process.user_code import shown

PACKAGE = Path(explorer.__file__).parent
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime")
START_SECONDS = 60.0  # for the server to load the compiler; chosen
GRACE_SECONDS = 2.0  # for a supervisor to say how its helper ended; chosen
CELL = "<cell answer-"  # the file name of a cell begins so
IDLE_SECONDS = 1e6  # for the next request: the supervisor ends a helper earlier


def course_jail() -> Jail:
    """Return the files that answers see: the package without solutions, Python, and libraries."""
    root = PACKAGE.parent
    others = [p for p in sys.path if p and os.path.isdir(p) and Path(p).resolve() != root]
    python = (sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), *others)
    own = (PACKAGE, root / "widgets", shipped_folder("models"))
    tests = root / "tests" if is_checkout() else PACKAGE / "none"
    hidden = (PACKAGE / "course", tests / "course")
    return Jail((*python, *map(str, own), *SYSTEM), tuple(map(str, hidden)))


class HelperServer:
    """The fork server, as the grader sees it; `is_jailed` is False without Linux namespaces."""

    def __init__(self) -> None:
        """Start the server and wait until it has loaded the compiler.

        Raises:
            BadOption: This is not Linux.
        """
        if not sandbox.CAN_FORK:
            raise BadOption(
                "notebooks are graded on Linux, where answers can be jailed",
                where="grade",
                try_="a container or a virtual machine with Linux",
            )
        self.requests, remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = "from explorer.course.fork_server import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", command, str(remote.fileno())],
            pass_fds=(remote.fileno(),),
            env=_environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        remote.close()
        self.requests.settimeout(START_SECONDS)
        self.is_jailed = self.requests.recv(16) == b"jailed"
        self.requests.settimeout(None)

    def __enter__(self) -> HelperServer:
        """Return the server."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the server, and with it all helpers."""
        self.requests.close()
        self.process.kill()
        self.process.wait()

    def open(self, e: Exercise) -> RemoteAnswer:
        """Return the answer of a new helper, which has run nothing yet."""
        data, remote_data = socket.socketpair()
        control, remote_control = socket.socketpair()
        limits = e.limits
        request = {
            "exercise": e.name,
            "limits": [limits.seconds, limits.mib, limits.most_wall_seconds],
        }
        with remote_data, remote_control:
            descriptors = [remote_data.fileno(), remote_control.fileno()]
            socket.send_fds(self.requests, [json.dumps(request).encode()], descriptors)
        return RemoteAnswer(data, control, limits.most_wall_seconds + GRACE_SECONDS)


def _environment() -> Mapping[str, str]:
    """Return the environment of the server: the paths of Python's modules, and nothing of ours."""
    path = os.pathsep.join((str(PACKAGE.parent), *_module_folders()))
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "IRONWORKS_COURSE_LOG": "",
        "IRONWORKS_CACHE": "/work/cache",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }


def _module_folders() -> Iterator[str]:
    """Yield the folders of `sys.path` that installations and $PYTHONPATH name.

    The folder of the grader's command is another one: it may hold the work of all students.
    """
    stated = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    installed = (*site.getsitepackages(), site.getusersitepackages())
    prefixes = (f"{sys.prefix}/", f"{sys.base_prefix}/")
    for path in sys.path:
        if path and (path in stated or path in installed or path.startswith(prefixes)):
            yield path


def main() -> None:
    """Serve requests for helpers on the socket that the first argument numbers."""
    end_with_parent()
    requests = socket.socket(fileno=int(sys.argv[1]))
    jail = course_jail()
    usable = jail if is_available(jail) else None
    _forget_solutions()
    requests.send(b"jailed" if usable else b"open")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, 1 << 12, 2)
        if not message:
            return
        data, control = descriptors
        if os.fork() == 0:
            _supervise(json.loads(message), usable, data, control)
        os.close(data)
        os.close(control)


def _supervise(request: Mapping[str, Any], jail: Jail | None, data: int, control: int) -> NoReturn:
    """Supervise a helper for an exercise."""
    seconds, mib, wall_seconds = request["limits"]
    limits = Limits(seconds, mib, wall_seconds)
    own_answers = EXERCISES[request["exercise"]].own_answers

    def work() -> None:
        _serve(socket.socket(fileno=data), limits, own_answers)

    supervise(work, limits, jail, socket.socket(fileno=control), data)


def _forget_solutions() -> None:
    """Remove solutions, hints and checks from this process and so from its helpers."""
    for e in EXERCISES.values():
        for part, empty in (("solution", ""), ("hints", ()), ("checks", ())):
            object.__setattr__(e, part, empty)
    linecache.clearcache()


def _serve(connection: socket.socket, limits: Limits, own_answers: tuple[str, ...]) -> None:
    """Reply to the requests of checks until the connection is closed."""
    sandbox.become_helper()
    silence()
    watch_time(limits, lambda kind, text: send(connection, [kind, text]))
    for module, function in (*_functions(own_answers), *_functions_of_exercises()):
        _refuse_to_students(module, function)
    answer: Any = None
    while True:
        try:
            kind, name, values = receive(connection, time.monotonic() + IDLE_SECONDS)
        except (EOFError, OSError):
            return
        try:
            if kind == "load":
                answer = _load(name, *values)
                reply: list[Any] = ["result", None]
            else:
                reply = ["result", _function(name)(answer, *values)]
            send(connection, reply)
        except NotPlain as problem:
            send(connection, ["wrong", f"a value of the answer {problem}"])
        except MemoryError:
            send(connection, ["ended", f"took more than {limits.mib:,} MiB of memory"])
        except (Exception, SystemExit) as problem:  # an answer may raise anything
            send(connection, list(outcome_of(problem)))


def _function(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    function = vars(import_module(module))[attribute]
    assert isinstance(function, FunctionType)
    return function


def _load(name: str, source: str) -> Any:
    """Run the cell of an answer and return the answer."""
    e = EXERCISES[name]
    space: dict[str, Any] = {"__name__": "__main__"}
    file = f"{CELL}{name}>"
    lines = source.splitlines(keepends=True)
    linecache.cache[file] = (len(source), None, lines, file)  # for tracebacks
    try:
        before = set(space)
        exec(compile(source, file, "exec"), space)
    except (NotImplementedError, MemoryError):
        raise
    except (Exception, SystemExit) as problem:  # a student's cell may raise anything
        raise Wrong(f"the cell fails: {shown(problem)}{at_line(problem)}") from None
    if e.answer not in space:
        defined = ", ".join(n for n in space if n not in before and n[:1] != "_") or "nothing"
        raise Wrong(f"the cell defines no {e.answer!r}, the name in the stub; it defines {defined}")
    answer = space[e.answer]
    if e.is_function and not callable(answer):
        raise Wrong(f"{e.answer} is {shown(answer)}, and must be a function")
    return answer


def _functions(names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield the names and the functions of "module:name"."""
    for name in names:
        module, _, attribute = name.partition(":")
        yield attribute, getattr(import_module(module), attribute)


def _functions_of_exercises() -> Iterator[tuple[str, Any]]:
    """Yield the names and the functions of the modules of exercises."""
    prefix = f"{exercises.__name__}."
    for module in [m for name, m in list(sys.modules.items()) if name.startswith(prefix)]:
        for name, value in list(vars(module).items()):
            if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                yield name, value


def _refuse_to_students(name: str, function: Any) -> None:
    """Have a function of the library refuse calls from a student's cell, by all of its names."""

    def refusing(*args: Any, **kwargs: Any) -> Any:
        """Call the library's function unless the caller is a student's cell."""
        if sys._getframe(1).f_code.co_filename.startswith(CELL):
            raise Wrong(f"the answer calls {name}, which is the library's own: write yours")
        return function(*args, **kwargs)

    for other in [m for n, m in list(sys.modules.items()) if n.startswith("explorer")]:
        for alias, value in list(vars(other).items()):
            if value is function:
                setattr(other, alias, refusing)
