"""Jail for code of strangers: a process that sees a few folders, and can change nothing.

A supervisor process forks the jailed one. Linux namespaces give it its own process numbers, no
network, and a file system of the `Jail`'s folders, read-only, with one small folder to write in. It
has no privileges and cannot gain any. Its limits are hard ones. When the work ends, or its time is
over, the supervisor kills every process that it started.

Without namespaces (a container may forbid them) the limits and the supervisor remain, and files are
not protected: `is_available` says which.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from explorer.process.sandbox import MIB, Limits, end_with_parent, set_hard_limits

WORK_FOLDER = "/work"  # inside of the jail: the only folder to write in
WORK_MIB = 16  # of files in it; chosen
MOST_PROCESSES = 64  # of processes and threads; chosen
MOST_FILES = 256  # open at once; chosen
LOOK_SECONDS = 0.05  # between two looks at the memory of all processes; chosen
NOBODY = 65534  # the user of a jailed process of root, where root may take no other number
FIRST_USER = 1 << 28  # of jailed processes of root, which share no limits; beyond real users
DEVICES = ("null", "zero", "full", "random", "urandom")

# From the headers of Linux: sched.h, sys/mount.h, sys/prctl.h, unistd.h, linux/capability.h.
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x20000, 0x8000000, 0x10000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
MS_RDONLY, MS_NOSUID, MS_NODEV = 1, 2, 4
MNT_DETACH = 2
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, AT_RECURSIVE, AT_FDCWD = 1, 2, 0x8000, -100
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 4, 36, 38
SYS_MOUNT_SETATTR = 442  # the same on every architecture
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
CAPABILITY_VERSION = 0x20080522


@dataclass(frozen=True, slots=True)
class Jail:
    """Files of a jail.

    `visible` are files and folders that the work reads, `hidden` are folders below them that are
    empty in the jail. The others do not exist in it.
    """

    visible: tuple[str, ...]
    hidden: tuple[str, ...] = ()


def protect_memory() -> None:
    """Forbid other processes of this user to read the memory of this process."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def erase_arguments() -> None:
    """Overwrite the command line that /proc shows to every user; `sys.argv` keeps it."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end of proc(5)
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)


def is_available(jail: Jail) -> bool:
    """Return True if a process can be jailed here and read its folders; a process tries it."""
    visible = _outermost(jail.visible)
    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException):
            _unshare()
            inner = os.fork()
            if inner == 0:
                code = 1
                with suppress(BaseException):
                    _enter(jail, NOBODY)
                    code = 0 if all(os.access(path, os.R_OK) for path in visible) else 1
                os._exit(code)
            code = os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1])
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def supervise(
    work: Callable[[], None], limits: Limits, jail: Jail | None, control: socket.socket, data: int
) -> NoReturn:
    """Run `work` in a process of its own, say on `control` how it ended, and exit.

    The work ends at the latest when `control` is closed at its other end, or its time or memory is
    used up. It has the descriptor `data`, and no other one.
    """
    code = 1
    try:
        _supervise(work, limits, jail, control, data)
        code = 0
    finally:
        os._exit(code)


def _supervise(
    work: Callable[[], None], limits: Limits, jail: Jail | None, control: socket.socket, data: int
) -> None:
    end_with_parent()
    os.setsid()
    _libc().prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _close_others(control.fileno(), data)
    folder, user = None, FIRST_USER + os.getpid()
    if jail is None:
        folder = _private_folder()
    else:
        _unshare()
    child = os.fork()
    if child == 0:
        control.close()
        _run_jailed(work, limits, jail, folder, user)
    os.close(data)
    try:
        why = _watch(child, limits, control)
    finally:
        _kill_all(child)
        if folder is not None:
            _remove(folder)
    with suppress(OSError):
        control.sendall(why.encode())


def _run_jailed(
    work: Callable[[], None], limits: Limits, jail: Jail | None, folder: str | None, user: int
) -> NoReturn:
    """Confine this process, then run the work."""
    import resource

    code = 1
    try:
        os.setsid()
        if jail is not None:
            _enter(jail, user)
        elif folder is not None:
            os.chdir(folder)
            _drop_privileges(user)
        end_with_parent()  # again: a change of user forgets it
        os.environ["HOME"] = os.environ["TMPDIR"] = os.getcwd()
        set_hard_limits(limits)
        for kind, most in (
            (resource.RLIMIT_FSIZE, WORK_MIB * MIB),
            (resource.RLIMIT_NOFILE, MOST_FILES),
            (resource.RLIMIT_NPROC, MOST_PROCESSES),
            (resource.RLIMIT_MEMLOCK, 0),
            (resource.RLIMIT_MSGQUEUE, 0),
        ):
            resource.setrlimit(kind, (most, most))
        work()
        code = 0
    finally:
        os._exit(code)


def _watch(child: int, limits: Limits, control: socket.socket) -> str:
    """Wait for the end of the work, its time or its memory; return the rest of a sentence."""
    end = time.monotonic() + limits.most_wall_seconds
    ended = os.pidfd_open(child)
    baseline = _resident_bytes(child)
    most = limits.mib * MIB
    while True:
        ready, _, _ = select.select([ended, control.fileno()], [], [], LOOK_SECONDS)
        if ended in ready:
            return _status_words(os.waitpid(child, 0)[1])
        if ready:
            return ""
        if time.monotonic() > end:
            return f"took more than {limits.most_wall_seconds:g} s"
        used = sum(max(0, _resident_bytes(n) - baseline) for n in (child, *descendants(child)))
        if used > most:
            return f"took more than {limits.mib:,} MiB of memory"


def _status_words(status: int) -> str:
    if not os.WIFSIGNALED(status):
        return f"ended its process with {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    if number == signal.SIGKILL:  # by the kernel: nothing else can send it
        return "used up its seconds of computing, or the memory of the machine"
    return f"crashed its process ({signal.Signals(number).name})"


def _resident_bytes(process: int) -> int:
    try:
        words = Path(f"/proc/{process}/statm").read_text().split()
    except OSError:
        return 0
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") if len(words) > 1 else 0


def descendants(process: int) -> Iterator[int]:
    """Yield the processes that a process started, and those that these started."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with suppress(OSError, IndexError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(entry))
    pending = parents.get(process, [])
    while pending:
        yield (child := pending.pop())
        pending += parents.get(child, [])


def _kill_all(child: int) -> None:
    """Kill the work and all that it started; orphans have become children of this process."""
    with suppress(OSError):
        os.kill(child, signal.SIGKILL)
    while True:
        for process in descendants(os.getpid()):
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _close_others(*descriptors: int) -> None:
    """Close every descriptor but these and the standard ones."""
    for entry in os.listdir("/proc/self/fd"):
        if int(entry) > 2 and int(entry) not in descriptors:
            with suppress(OSError):
                os.close(int(entry))


def _private_folder() -> str:
    from tempfile import mkdtemp

    folder = mkdtemp(prefix="ironworks-")
    if os.geteuid() == 0:
        os.chmod(folder, 0o777)  # its user is another one
    return folder


def _remove(folder: str) -> None:
    from shutil import rmtree

    rmtree(folder, ignore_errors=True)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, action: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{action}: {os.strerror(number)}")


def _unshare() -> None:
    """Give the next child namespaces of its own; root needs no user namespace for that.

    The file system stays that of the supervisor, which reads /proc: the child takes its own.
    """
    flags = CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        _check(_libc().unshare(flags), "unshare")
        return
    _check(_libc().unshare(flags | CLONE_NEWUSER), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _enter(jail: Jail, user: int) -> None:
    """Make the jail's files the file system of this process, and drop its privileges."""
    root = "/sys"  # a folder that every system has, and that no jail shows
    _check(_libc().unshare(CLONE_NEWNS), "unshare")
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    visible = [_pin(path) for path in _outermost(jail.visible)]
    devices = [_pin(f"/dev/{name}") for name in DEVICES]
    _mount("tmpfs", root, "tmpfs", MS_NOSUID, "size=1m,mode=755")
    for path, descriptor in (*visible, *devices):
        _bind(descriptor, path, root)
    for folder in (WORK_FOLDER, "/proc", *jail.hidden):
        if folder not in jail.hidden or os.path.isdir(root + folder):
            os.makedirs(root + folder, exist_ok=True)
    for path, target in _links():
        with suppress(FileExistsError):
            os.symlink(target, root + path)
    for folder in jail.hidden:
        if os.path.isdir(root + folder):
            _mount("tmpfs", root + folder, "tmpfs", MS_RDONLY | MS_NOSUID, "size=4k")
    attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, 0, 0)
    _check(
        _libc().syscall(
            SYS_MOUNT_SETATTR, AT_FDCWD, root.encode(), AT_RECURSIVE, attributes, len(attributes)
        ),
        "mount_setattr",
    )
    with suppress(OSError):  # a container may hide parts of /proc, and then it cannot be mounted
        _mount("proc", root + "/proc", "proc", MS_NOSUID | MS_NODEV)
    size = f"size={WORK_MIB}m,nr_inodes=1000,mode=777"
    _mount("tmpfs", root + WORK_FOLDER, "tmpfs", MS_NOSUID | MS_NODEV, size)
    os.chdir(root)
    _check(_libc().syscall(SYS_PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    _check(_libc().umount2(b".", MNT_DETACH), "umount")
    os.chdir(WORK_FOLDER)
    _drop_privileges(user)


def _pin(path: str) -> tuple[str, int]:
    """Open a path, which stays reachable after its folder is covered."""
    return path, os.open(path, os.O_PATH)


def _bind(descriptor: int, path: str, root: str) -> None:
    """Show an open file or folder at its own path below the new root."""
    source, target = f"/proc/self/fd/{descriptor}", root + path
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    _mount(source, target, None, MS_BIND | MS_REC)
    os.close(descriptor)


def _outermost(paths: tuple[str, ...]) -> list[str]:
    """Return the existing ones of absolute paths, without those below another."""
    real = sorted({os.path.realpath(p) for p in paths if os.path.exists(p)})
    return [p for p in real if not any(p.startswith(f"{other}/") for other in real)]


def _links() -> Iterator[tuple[str, str]]:
    """Yield the links of the file system's root, such as /lib to usr/lib, and their targets."""
    for name in os.listdir("/"):
        if os.path.islink(f"/{name}"):
            yield f"/{name}", os.readlink(f"/{name}")


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, data: str | None = None
) -> None:
    words = [None if w is None else w.encode() for w in (source, target, kind)]
    text = None if data is None else data.encode()
    _check(_libc().mount(*words, ctypes.c_ulong(flags), text), f"mount {target}")


def _drop_privileges(user: int) -> None:
    """Become an ordinary user without capabilities, who cannot gain any; root becomes `user`."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        try:
            os.setresuid(user, user, user)
        except OSError:  # a container may have fewer users
            os.setresuid(NOBODY, NOBODY, NOBODY)
    header = struct.pack("Ii", CAPABILITY_VERSION, 0)
    _check(_libc().capset(header, bytes(24)), "capset")
    _check(_libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
