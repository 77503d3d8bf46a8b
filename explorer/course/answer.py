"""A student's answer as checks see it: functions run on it, and plain values come back.

A check never touches the answer itself. `answer.run(function, *values)` calls
`function(answer, *values)` where the answer lives, with copies of the values, and returns a copy of
the result. In a notebook the answer lives in the process that checks it; when work is graded it
lives in a jailed helper process (`fork_server`). A check judges what has come back: it replays
decisions and programs in a compiler of its own.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, Protocol

from explorer.course.exercise import Wrong
from explorer.course.plain_values import MOST_BYTES, NotPlain, decode, encode
from explorer.errors import IronworksError, printable
from explorer.process.sandbox import Ended, at_line

LONGEST_CHARACTERS = 400  # limit of an error's text; chosen
Outcome = Literal["passed", "wrong", "not attempted", "not run"]
Request = tuple[str, str, list[Any]]
HEAD = struct.Struct(">I")
PATIENCE_SECONDS = 0.5  # for a helper that has closed its connection to end; chosen
CLOSE_SECONDS = 5.0  # for a supervisor to kill what a helper started; chosen


class Answer(Protocol):
    """An answer that functions can be run on."""

    def run(self, function: Callable[..., Any], *values: Any) -> Any:
        """Return `function(answer, *values)`, a plain value.

        Raises:
            NotImplementedError: The answer is still the stub.
            Wrong: It failed, or returned something else.
            Ended: Its process has ended.
        """

    def __call__(self, *values: Any) -> Any:
        """Call an answer that takes and returns plain values."""


def _call(answer: Any, *values: Any) -> Any:
    return answer(*values)


class LocalAnswer:
    """An answer in this process."""

    def __init__(self, answer: Any) -> None:
        """Take the answer as it is."""
        self.answer = answer

    def run(self, function: Callable[..., Any], *values: Any) -> Any:
        """Run a function on the answer."""
        copies = decode(encode(values))
        try:
            result = encode(function(self.answer, *copies))
        except NotPlain as problem:
            raise Wrong(f"a value of the answer {problem}") from problem
        return decode(result)

    def __call__(self, *values: Any) -> Any:
        """Call the answer."""
        return self.run(_call, *values)


class RemoteAnswer:
    """An answer in another process, which may send anything."""

    def __init__(self, data: socket.socket, control: socket.socket, wall_seconds: float) -> None:
        """Take the two connections of a helper, and the seconds after which nothing is read."""
        self.data, self.control = data, control
        self.end = time.monotonic() + wall_seconds

    def load(self, name: str, source: str) -> None:
        """Run the cell of an answer; errors are those of `run`."""
        self._request(("load", name, [source]))

    def run(self, function: Callable[..., Any], *values: Any) -> Any:
        """Run a function of a module on the answer, in its process."""
        return self._request(("run", function_name(function), list(values)))

    def __call__(self, *values: Any) -> Any:
        """Call the answer."""
        return self.run(_call, *values)

    def _request(self, request: Request) -> Any:
        try:
            self.data.settimeout(max(PATIENCE_SECONDS, self.end - time.monotonic()))
            send(self.data, request)
            reply = receive(self.data, self.end)
        except TimeoutError:
            raise self._ended("took too long") from None
        except (OSError, EOFError):
            raise self._ended("ended its process") from None
        except NotPlain as problem:
            raise Wrong(f"a value of the answer {problem}") from problem
        match reply:
            case ["result", value]:
                return value
            case ["not attempted", _]:
                raise NotImplementedError
            case ["wrong", str(message)]:
                raise Wrong(printable(message, LONGEST_CHARACTERS))
            case ["ended", str(why)]:
                raise Ended(printable(why, LONGEST_CHARACTERS))
        raise Wrong("the answer's process sent something that is no reply")

    def _ended(self, otherwise: str) -> Ended:
        """Return the reason that the supervisor of the helper states."""
        return Ended(self.close(PATIENCE_SECONDS) or otherwise)

    def close(self, patience_seconds: float = 0.0) -> str:
        """End the helper, wait until its processes are gone, and return how it ended.

        For `patience_seconds` the helper may end by itself, if it has not done so.
        """
        why = b""
        with suppress(OSError):
            self.data.close()
            if patience_seconds:
                self.control.settimeout(patience_seconds)
                with suppress(TimeoutError):
                    why = self.control.recv(LONGEST_CHARACTERS)
            self.control.shutdown(socket.SHUT_WR)
            self.control.settimeout(CLOSE_SECONDS)
            while part := self.control.recv(LONGEST_CHARACTERS):
                why += part
        self.control.close()
        return why.decode("utf-8", "replace")


def function_name(function: Callable[..., Any]) -> str:
    """Return the module and the name of a function, by which a helper finds it."""
    return f"{function.__module__}:{function.__qualname__}"


def send(connection: socket.socket, value: object) -> None:
    """Send a plain value."""
    text = encode(value)
    connection.sendall(HEAD.pack(len(text)) + text)


def receive(connection: socket.socket, end: float) -> Any:
    """Receive a plain value until `end` of the monotonic clock.

    Raises:
        TimeoutError, EOFError, OSError: Nothing more comes.
        NotPlain: It is no plain value.
    """
    (size,) = HEAD.unpack(_receive_bytes(connection, HEAD.size, end))
    if size > MOST_BYTES:
        raise NotPlain(f"is larger than {MOST_BYTES >> 20} MiB")
    return decode(_receive_bytes(connection, size, end))


def _receive_bytes(connection: socket.socket, size: int, end: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        part = connection.recv(min(size - len(data), 1 << 16))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def outcome_of(problem: BaseException) -> tuple[Outcome, str]:
    """Return the outcome of an answer or a check that raised, with a sentence."""
    if isinstance(problem, NotImplementedError) or isinstance(
        problem.__cause__,
        NotImplementedError,  # raised in a pass or a policy
    ):
        return "not attempted", ""
    if isinstance(problem, TypeError) and "ellipsis" in str(problem).lower():
        return "not attempted", ""  # a blank of the stub
    if isinstance(problem, Wrong):
        return "wrong", str(problem)
    sentence = (
        problem.sentence
        if isinstance(problem, IronworksError)
        else f"{type(problem).__name__}: {problem}{at_line(problem)}"
    )
    return "wrong", " ".join(sentence.split())[:LONGEST_CHARACTERS]
