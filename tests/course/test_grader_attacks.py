"""Attacks on the grader: each ends in a line of the report, with the points that the answer earns.

An attack is the cell of an answer. None changes a file, leaves a process, or takes longer than its
exercise's limit and five seconds.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.course import grading
from explorer.course.assignment import code, notebook
from explorer.course.exercise import Exercise
from explorer.course.exercises import EXERCISES
from explorer.course.fork_server import HelperServer
from explorer.process.sandbox import CAN_FORK, Limits
from explorer.process.sandbox_jail import descendants

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="there is no fork here")
QUICK = Limits(seconds=2.0, mib=1024, wall_seconds=4.0)
COMPILING = Limits(seconds=20.0, mib=2048, wall_seconds=40.0)
SEED = 0x5EED_0F_7E575  # unlikely to be anywhere by chance
MARK = "ironworks-attack"  # the name of files that attacks try to write
WRONG = "\ndef verdict(a, b):\n    return 'nothing'\n"


def solved(name: str) -> str:
    return EXERCISES[name].solution


RIGHT = solved("measuring")


def inside(attack: str) -> str:
    """An answer that attacks when it is called."""
    body = "".join(f"    {line}\n" for line in attack.splitlines())
    return f"import ctypes, os, re, resource, signal, sys, time\ndef verdict(a, b):\n{body}"


@dataclass(frozen=True)
class Attack:
    """The cell, and what the report says of it. Points are none, or all if it is `right`."""

    cell: str
    why: str = ""
    exercise: str = "measuring"
    right: bool = False
    points: int = 0  # of another check than the attacked one
    limits: Limits = QUICK
    jailed: bool = False  # whether it takes namespaces to stop it


def forged(name: str, function: str, body: str) -> str:
    """A cell whose helper records something else than what the answer does."""
    module = EXERCISES[name].checks[0].judge.__module__
    return f"""
import explorer, sys
from explorer.course import replay
module = sys.modules[{module!r}]
def {function}(answer, *values):
{body}
vars(module)[{function!r}] = {function}
{EXERCISES[name].stub.replace("raise NotImplementedError", "pass")}
"""


SEND = """
import os, socket, struct
def write(text, size=None):
    data = text.encode()
    for fd in range(3, 64):
        try:
            os.write(fd, struct.pack('>I', len(data) if size is None else size) + data)
        except OSError:
            pass
"""
SEARCH = f"""
import gc, sys
def holds(values):
    return any(type(v) is int and v ^ 1 == {SEED ^ 1} for v in list(values))
def search():
    # in every integer that a container or a frame of this process refers to
    for each in gc.get_objects():
        if type(each) is dict and holds(each.values()):
            return True
        if type(each) in (list, tuple, set) and holds(each):
            return True
    frame = sys._getframe()
    while frame:
        if holds(frame.f_locals.values()):
            return True
        frame = frame.f_back
    return False
"""

# What ends a process, or does not end.
ENDINGS = {
    "exit of the process": Attack("import os\nos._exit(0)", "the cell ended its process with 0"),
    "exit in a check": Attack(inside("os._exit(0)"), "it ended its process with 0"),
    "SystemExit": Attack("raise SystemExit(0)", r"the cell fails: SystemExit\(0\)"),
    "SystemExit in a check": Attack(inside("sys.exit(0)"), "SystemExit"),
    "KeyboardInterrupt": Attack(inside("raise KeyboardInterrupt"), "ended its process"),
    "kill itself": Attack(inside("os.kill(os.getpid(), 9)\nos._exit(1)"), "it "),
    "abort": Attack(inside("os.abort()"), "crashed its process"),
    "segmentation fault": Attack(inside("ctypes.string_at(0)"), r"crashed .* \(SIGSEGV\)"),
    "kill the parent": Attack("import os\nos.kill(os.getppid(), 9)" + WRONG, "", jailed=True),
    "kill all processes": Attack("import os\nos.kill(-1, 9)" + WRONG, "", jailed=True),
    "stop itself": Attack(inside("os.kill(os.getpid(), 19)\ntime.sleep(99)"), "took more than 4"),
    "deep recursion": Attack(
        inside("sys.setrecursionlimit(1 << 30)\ndef f(n): return f(n + 1) + 1\nf(0)"), "it "
    ),
    "endless cell": Attack("while True: pass", "the cell took more than 2 s"),
    "endless check": Attack(inside("while True: pass"), "it took more than 2 s"),
    "endless in C": Attack(inside("re.match(r'(a+)+$', 'a' * 40 + 'b')"), "it "),
    "endless and deaf": Attack(
        inside(
            "for n in range(1, 65):\n"
            "    try: signal.signal(n, signal.SIG_IGN)\n"
            "    except (OSError, ValueError): pass\n"
            "while True: pass"
        ),
        "it took more than 2 s",
    ),
    "sleeping cell": Attack("import time\ntime.sleep(10_000)", "the cell took more than 4 s"),
    "sleeping check": Attack(inside("time.sleep(10_000)"), "it took more than 4 s"),
    "without its watchdog": Attack(
        "import os, threading, time\n"
        "os._exit = lambda code: None\ntime.process_time = lambda: 0\n" + inside("while 1: pass"),
        "it (took|used)",
    ),
}
# What takes memory, processes or limits.
RESOURCES = {
    "memory": Attack(inside("x = [bytearray(1 << 24) for _ in iter(int, 1)]"), "1,024 MiB"),
    "memory of many processes": Attack(
        inside(
            "for _ in range(8):\n"
            "    if os.fork() == 0:\n"
            "        x = b'x' * (300 << 20)\n        time.sleep(99)\n"
            "time.sleep(99)"
        ),
        "1,024 MiB",
    ),
    "limits set to infinity": Attack(
        "import resource as r\n"
        "for kind in (r.RLIMIT_AS, r.RLIMIT_CPU, r.RLIMIT_FSIZE, r.RLIMIT_NPROC):\n"
        "    r.setrlimit(kind, (r.RLIM_INFINITY, r.RLIM_INFINITY))" + WRONG,
        "the cell fails: ValueError.*not allowed to raise maximum limit",
    ),
    "fork bomb": Attack(
        inside("while True: os.fork()"),
        "Resource temporarily unavailable|took more",
        jailed=True,
    ),
    "thread bomb": Attack(
        inside(
            "import threading\nwhile True: threading.Thread(target=time.sleep, args=(99,)).start()"
        ),
        "can't start new thread|took more",
        jailed=True,
    ),
    "a daemon that stays": Attack(
        "import os, signal, time\n"
        "if os.fork() == 0:\n    os.setsid()\n"
        "    signal.signal(1, signal.SIG_IGN)\n"
        "    if os.fork() == 0: time.sleep(1000)\n"
        "    os._exit(0)\n" + RIGHT,
        right=True,
    ),
    "a full disk": Attack(
        inside("with open('big', 'wb') as f:\n    while True: f.write(bytes(1 << 20))"),
        "File too large|No space left|crashed its process",
    ),
}
# Forged grades.
FORGERIES = {
    "another judge": Attack(
        "from explorer.course.exercises import EXERCISES\n"
        "for e in EXERCISES.values():\n    for check in e.checks:\n"
        "        object.__setattr__(check, 'judge', lambda answer, seed: None)\n" + WRONG,
        "'nothing' is none of",
    ),
    "another check function": Attack(
        "from explorer.course import answer, checking\n"
        "checking._run_check = lambda *_: ('passed', '')\n"
        "checking.report_checks = lambda *_: None\n"
        "answer.outcome_of = lambda problem: ('passed', '')" + WRONG,
        "'nothing' is none of",
    ),
    "course.expect": Attack(
        "from explorer import course\ncourse.expect = course.grade = course.check = "
        "lambda *a, **k: None" + WRONG,
        "'nothing' is none of",
    ),
    "frames to the verdict": Attack(
        "import sys\n"
        "frame = sys._getframe()\n"
        "while frame:\n"
        "    for value in list(frame.f_locals.values()):\n"
        "        for name in ('points', 'of'):\n"
        "            try: object.__setattr__(value, name, 1000)\n"
        "            except Exception: pass\n"
        "    frame = frame.f_back" + WRONG,
        "",
    ),
    "points of every object": Attack(
        "import gc\n"
        "for value in gc.get_objects():\n"
        "    if type(value).__name__ in ('Check', 'Result', 'Verdict'):\n"
        "        object.__setattr__(value, 'points', 1000)" + WRONG,
        "'nothing' is none of",
    ),
    "builtins": Attack(
        "import builtins\nbuiltins.isinstance = builtins.all = lambda *_: True" + WRONG, ""
    ),
    "a word that equals every other": Attack(
        "class Word(str):\n"
        "    __hash__ = str.__hash__\n    def __eq__(self, other): return True\n"
        "def verdict(a, b): return Word('faster')",
        "a value of the answer is a Word",
    ),
    "an object that equals every other": Attack(
        "class Any:\n    def __eq__(self, other): return True\n    __hash__ = object.__hash__\n"
        "def verdict(a, b): return Any()",
        "a value of the answer is an Any",
    ),
    "an object to unpickle": Attack(
        "import numpy as np\nclass Bomb:\n"
        "    def __reduce__(self):\n        import os\n        return os.system, ('true',)\n"
        "def verdict(a, b): return np.array([Bomb()])",
        "a value of the answer is an array of object",
    ),
    "forged replies": Attack(
        SEND + 'for _ in range(9): write(\'["passed",""]\')' + WRONG,
        "sent something that is no reply",
    ),
    "a reply without end": Attack(SEND + "write('[', 0xffffffff)" + WRONG, "larger than 16 MiB"),
    "a reply that is cut": Attack(SEND + "write('[', 999)\nos._exit(0)", "ended its process"),
    "a deep reply": Attack(SEND + "write('[' * 100_000)" + WRONG, "cannot be read"),
    "a closed connection": Attack("import os\nos.closerange(0, 4096)" + WRONG, ""),
    "no check at all": Attack("def verdict(a, b): raise NotImplementedError", "", limits=QUICK),
    "a line of another student": Attack(
        "raise ValueError('\\nada.ipynb: 5 of 5 points\\x1b[2K\\r')", r"the cell fails: ValueError"
    ),
    "decisions about nothing": Attack(
        forged("large_values", "_record_decisions", "    return []"),
        "a merge has no decision",
        "large_values",
        limits=COMPILING,
    ),
    "tiles without number": Attack(
        forged("pareto", "_record_tiles", "    return [True, 10**9]"),
        "a tile that breaks a rule",
        "pareto",
        limits=COMPILING,
    ),
    "tasks that nobody runs": Attack(
        forged("wall", "_record_placement", "    return []"), "policy", "wall", limits=COMPILING
    ),
    "counters and values of another program": Attack(
        forged("loop_inside", "_record_model", "    return {'text': 'program x', 'constants': {}}"),
        "the answer's program cannot be read",
        "loop_inside",
        limits=COMPILING,
    ),
    "a program of constants": Attack(
        forged(
            "vjp",
            "_record_model",
            "    text = '''program softmax_vjp at IMPORTED\n"
            "symbol rows: 1 .. any hint 1\nsymbol n: 1 .. any hint 128\n\n"
            "def main(x: float32[rows, n], g: float32[rows, n]):\n"
            '  y: float32[rows, n] = Mul(x, g)  # "source 0"\n'
            '  output y as output\n\nsource "source 0" mul "x * g"\n\'\'\'\n'
            "    return {'text': text, 'constants': {}}",
        ),
        "off by",
        "vjp",
        limits=COMPILING,
    ),
    "a pass that is not the pass": Attack(
        forged("double_negation", "_record_negated", "    return {'text': '', 'constants': {}}"),
        "cannot be read",
        "double_negation",
        points=EXERCISES["double_negation"].points - 3,  # a pass may change nothing there
        limits=COMPILING,
    ),
}
# What the helper should not see or call.
SECRETS = {
    "the library's own policy": Attack(
        "from explorer.rammer.policy import POLICIES\n"
        "def earliest(facts): return POLICIES['critical-path'](facts)",
        "the answer calls critical_path, which is the library's own",
        "wall",
        limits=COMPILING,
    ),
    "the library's own gradient": Attack(
        solved("vjp").partition("    e = ")[0]
        + "    def softmax(x):\n        e = enp.exp(x - x.max(axis=-1, keepdims=True))\n"
        "        return e / e.sum(axis=-1, keepdims=True)\n"
        "    return explorer.gradients.vjp(softmax)(x, g)\n",
        "the answer calls vjp, which is the library's own",
        "vjp",
        limits=COMPILING,
    ),
    "the course's own function": Attack(
        "from explorer.course.exercises.bits_of_layers import least_bytes\n"
        "def choose_bits(layers, budget): return least_bytes(layers, budget)",
        "the answer calls least_bytes, which is the library's own",
        "bits",
    ),
    "the worked solution": Attack(
        "from explorer import course\nexec(course.solution('measuring'))", "defines no 'verdict'"
    ),
    "the file of the solution": Attack(
        "import explorer, pathlib\n"
        "folder = pathlib.Path(explorer.__file__).parent / 'course'\n"
        "text = (folder / 'exercises' / 'times.py').read_text()",
        "the cell fails: FileNotFoundError",
        jailed=True,
    ),
    "the seed in memory": Attack(
        SEARCH + f"assert not search() and holds([int('{SEED ^ 1}') ^ 1])\n" + RIGHT,
        right=True,
        limits=COMPILING,
    ),
    "the seed on a command line": Attack(
        "import glob\n"
        "texts = [open(p, 'rb').read() for p in glob.glob('/proc/[0-9]*/cmdline')]\n"
        f"assert not any(str({SEED ^ 1} ^ 1).encode() in text for text in texts)\n"
        "assert len(texts) == 1\n" + RIGHT,
        right=True,
        jailed=True,
    ),
    "secrets of the environment": Attack(
        "import os\nassert 'GRADER_TOKEN' not in os.environ\n" + RIGHT, right=True
    ),
    "memory of the judge": Attack(
        "import os\n"
        "for n in os.listdir('/proc'):\n"
        "    if n.isdigit() and int(n) != os.getpid(): open(f'/proc/{n}/mem', 'rb').read(1)\n"
        + RIGHT,
        right=True,
        jailed=True,
    ),
    "the network": Attack(
        "import socket\n"
        "try: socket.create_connection(('1.1.1.1', 53), 1)\n"
        "except OSError: pass\n"
        "else: raise ValueError('connected')\n" + RIGHT,
        right=True,
        jailed=True,
    ),
    "work of another student": Attack(
        "import os\nassert not os.path.exists('{folder}')\n" + RIGHT,
        right=True,
        jailed=True,
    ),
    "the package": Attack(
        f"import explorer\nopen(explorer.__file__ + '{MARK}', 'w').write('x')",
        "the cell fails: OSError.*Read-only file system",
        jailed=True,
    ),
    "files everywhere": Attack(
        "import os\n"
        f"for folder in ('/', '/tmp', '/var/tmp', '/dev/shm', '/root', '/usr', '{{folder}}'):\n"
        f"    try: open(os.path.join(folder, '{MARK}'), 'w').write('x')\n"
        "    except OSError: pass\n"
        "    else: raise ValueError(folder)\n" + RIGHT,
        right=True,
        jailed=True,
    ),
    "mounts and users": Attack(
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None)\n"
        "assert libc.mount(None, b'/', None, 32 | 4096, None) < 0\n"
        "assert libc.umount2(b'/', 2) < 0\n"
        "try: os.setuid(0)\n"
        "except OSError: pass\n"
        "else: raise ValueError('root')\n" + RIGHT,
        right=True,
        jailed=True,
    ),
    "a null character": Attack("x = '\0'" + WRONG, "the cell fails"),
    "half a character": Attack("x = '\ud800'" + WRONG, "the cell fails"),
    "a shell": Attack("!rm -rf /", "the cell fails: SyntaxError"),
}
ATTACKS = {**ENDINGS, **RESOURCES, **FORGERIES, **SECRETS}


@pytest.fixture(scope="module")
def server() -> Iterator[HelperServer]:
    os.environ["GRADER_TOKEN"] = "secret"
    with HelperServer() as server:
        yield server
    del os.environ["GRADER_TOKEN"]


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """The sizes and times of the files of a folder."""
    every = {str(p): p.stat() for p in folder.rglob("*") if "__pycache__" not in p.parts}
    return {path: (s.st_size, s.st_mtime_ns) for path, s in every.items()}


def submission(folder: Path, name: str, cell: str) -> Path:
    path = folder / "bob.ipynb"
    made = notebook([code(f"answer-{name}", cell)])
    path.write_text(json.dumps(made))
    return path


def limited(name: str, limits: Limits) -> dict[str, Exercise]:
    return {name: replace(EXERCISES[name], limits=limits)}


def test_there_are_forty_attacks_or_more() -> None:
    assert len(ATTACKS) >= 60


@pytest.mark.few(8)
@pytest.mark.parametrize("what", ATTACKS)
def test_an_attack_is_a_line_of_the_report(
    what: str, server: HelperServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attack = ATTACKS[what]
    if attack.jailed and not server.is_jailed:
        pytest.skip("this machine has no Linux namespaces")
    monkeypatch.setattr(grading, "EXERCISES", limited(attack.exercise, attack.limits))
    cell = attack.cell.replace("{folder}", str(tmp_path))
    path = submission(tmp_path, attack.exercise, cell)
    package = Path(explorer.__file__).parent
    before, start = (files(package), files(tmp_path)), time.monotonic()
    (found,) = grading.grade_notebooks_by(server, [path], SEED)
    seconds = time.monotonic() - start
    line, *_ = grading.table([found], SEED).splitlines()[1:]
    of = EXERCISES[attack.exercise].points
    assert not found["problem"] and found["of"] == of
    assert found["points"] == (of if attack.right else attack.points), found
    assert line == f"{path}: {found['points']} of {of} points"
    messages = [c["message"] for e in found["exercises"] for c in e["checks"]]
    assert attack.right or re.search(attack.why, "\n".join(messages), re.S), messages
    assert seconds <= attack.limits.most_wall_seconds + 5
    while time.monotonic() < start + seconds + 2 and list(descendants(server.process.pid)):
        time.sleep(0.02)  # the supervisor exits
    assert not list(descendants(server.process.pid))
    assert (files(package), files(tmp_path)) == before


def test_a_line_holds_no_line_of_another_student(server: HelperServer, tmp_path: Path) -> None:
    path = submission(tmp_path, "measuring", FORGERIES["a line of another student"].cell)
    text = grading.table(grading.grade_notebooks_by(server, [path], SEED), SEED)
    assert not re.search(r"^\s*ada", text, re.M) and "\x1b" not in text and "\r" not in text


@pytest.mark.exhaustive
def test_a_class_of_three_hundred_is_graded_in_one_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[Any]
) -> None:
    """Ten of them attack; seconds and memory are printed."""
    import resource

    hostile = {n * 30 + 7: what for n, what in enumerate([*ENDINGS][:2] + [*RESOURCES][:5])}
    hostile |= {n * 30 + 11: what for n, what in enumerate([*FORGERIES][:3])}
    assert len(hostile) == 10
    names = ("measuring", "wall", "bits")
    paths = []
    for n in range(300):
        name = "measuring" if n in hostile else names[n % len(names)]
        text = ATTACKS[hostile[n]].cell if n in hostile else solved(name)
        folder = tmp_path / f"student{n:03}"
        folder.mkdir()
        paths.append(submission(folder, name, text))
    start = time.monotonic()
    grades = grading.grade_notebooks(grading.notebooks_in([tmp_path]), SEED)
    seconds = time.monotonic() - start
    mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    with capsys.disabled():
        print(f"\n300 submissions in {seconds:.0f} s, largest process {mib:,.0f} MiB")
    assert [g["submission"] for g in grades] == [str(p) for p in paths]
    for n, grade in enumerate(grades):
        right = n not in hostile or ATTACKS[hostile[n]].right
        (row,) = (e for e in grade["exercises"] if e["outcome"] != "not attempted")
        assert row["points"] == (row["of"] if right else 0), grade
