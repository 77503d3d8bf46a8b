"""A jailed process sees a few folders, changes none of them, and ends with all that it started."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from explorer.process import sandbox
from explorer.process.sandbox import Limits
from explorer.process.sandbox_jail import (
    MOST_PROCESSES,
    WORK_FOLDER,
    Jail,
    descendants,
    is_available,
    supervise,
)

pytestmark = pytest.mark.skipif(not sandbox.CAN_FORK, reason="there is no fork here")
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", sys.prefix, sys.base_prefix)
SHORT = Limits(seconds=2.0, mib=256, wall_seconds=2.0)


def jailed(
    work: Callable[[], object], jail: Jail | None, limits: Limits = SHORT
) -> tuple[str, str]:
    """What the work returned or raised, and how it ended."""
    data, remote_data = socket.socketpair()
    control, remote_control = socket.socketpair()
    child = os.fork()
    if child == 0:

        def told() -> None:
            try:
                text = repr(work())
            except Exception as problem:
                text = repr(problem)
            os.write(remote_data.fileno(), text.encode())

        supervise(told, limits, jail, remote_control, remote_data.fileno())
    remote_data.close()
    remote_control.close()
    text = b""
    while part := data.recv(4096):
        text += part
    why = control.recv(4096).decode()
    os.waitpid(child, 0)
    return text.decode(), why


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seen")
    (folder / "hidden").mkdir()
    (folder / "hidden" / "solution").write_text("secret")
    (folder / "text").write_text("public")
    folder.chmod(0o755)  # the jailed process is another user's
    return folder


@pytest.fixture
def jail(folder: Path) -> Jail:
    jail = Jail((*SYSTEM, str(folder)), (str(folder / "hidden"),))
    if not is_available(jail):
        pytest.skip("this machine has no Linux namespaces")
    return jail


def test_it_sees_its_folders_alone(jail: Jail, folder: Path) -> None:
    def look() -> object:
        others = (
            os.path.exists(__file__),
            os.path.exists("/etc/passwd"),
            os.listdir("/proc/self/fd"),
        )
        return (folder / "text").read_text(), os.listdir(folder / "hidden"), others[:2], os.getcwd()

    told, why = jailed(look, jail)
    assert told == repr(("public", [], (False, False), WORK_FOLDER)), told
    assert why == "ended its process with 0"


def test_a_folder_that_it_may_not_read_is_no_jail(jail: Jail, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert is_available(Jail((*jail.visible, str(tmp_path)))) == (os.geteuid() != 0)


def test_it_writes_into_its_own_folder_alone(jail: Jail, folder: Path) -> None:
    def write() -> object:
        Path("own").write_text("x")
        refused = 0
        for path in (folder / "new", folder / "text", Path("/new"), Path("/usr/new")):
            try:
                path.write_text("x")
            except OSError:
                refused += 1
        return refused

    assert jailed(write, jail)[0] == "4"
    assert (folder / "text").read_text() == "public" and not (folder / "new").exists()
    assert not Path(WORK_FOLDER, "own").exists()


def test_it_is_nobody_and_alone(jail: Jail) -> None:
    told, _ = jailed(lambda: (os.getuid() != 0, os.getpid(), os.getppid()), jail)
    assert told == "(True, 1, 0)"
    told, _ = jailed(lambda: socket.create_connection(("127.0.0.1", 9), 1), jail)
    assert "OSError" in told and "Network is unreachable" in told


def test_it_forks_no_more_than_it_may(jail: Jail) -> None:
    def bomb() -> object:
        for count in range(10 * MOST_PROCESSES):
            try:
                os.posix_spawn("/bin/sleep", ["sleep", "100"], {})  # a fork copies page tables
            except OSError:
                return count <= MOST_PROCESSES
        return False

    assert jailed(bomb, jail)[0] == "True"


@pytest.mark.parametrize("is_jailed", [True, False])
def test_all_that_it_started_ends_with_it(is_jailed: bool, jail: Jail, tmp_path: Path) -> None:
    def stay() -> object:
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if os.fork() == 0:
                time.sleep(100)
            os._exit(0)
        return "left"

    before = set(descendants(os.getpid()))
    start = time.monotonic()
    assert jailed(stay, jail if is_jailed else None)[0] == "'left'"
    assert set(descendants(os.getpid())) <= before and time.monotonic() - start < 10


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (lambda: time.sleep(100), "took more than 2 s"),
        (lambda: os._exit(3), "ended its process with 3"),
        (lambda: os.abort(), r"crashed its process (SIG"),
    ],
    ids=["waiting", "leaving", "crashing"],
)
def test_how_it_ended_is_told(work: Callable[[], object], why: str) -> None:
    assert jailed(work, None)[1].startswith(why)


def test_a_private_folder_without_namespaces_is_removed(tmp_path: Path) -> None:
    def write() -> str:
        Path("own").write_text("x")
        return os.getcwd()

    told, _ = jailed(write, None)
    assert "ironworks-" in told and not Path(told.strip("'")).exists()
