"""Several processes compile what one would, whatever becomes of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.codegen.build import build
from explorer.codegen.cpu import compile_processes
from explorer.codegen.cpu.compile_processes import Helpers, Job, compile_jobs
from explorer.codegen.cpu.object_code import MachineCode, key_of, loaded
from explorer.codegen.cpu.print import DECORATOR, HEADER
from explorer.errors import Cancelled, KernelCompileError
from explorer.ir.calls import efficient_binding
from explorer.ir.program import Program
from tests.tile.programs import TARGET

MODEL = Path(__file__).parent.parent / "data" / "tiny_skip.onnx"


def source_of(line: str) -> str:
    return "\n".join((*HEADER, DECORATOR, "def kernel(first, last, args):", f"    {line}")) + "\n"


def jobs_of(count: int, tag: str) -> list[Job]:
    """Kernels that no other test compiles."""
    texts = [
        source_of(f"st_int64(argument(args, 0), 0, {n} + {len(tag)})  # {tag}")
        for n in range(count)
    ]
    return [Job(key_of(t, TARGET), t, f"call{n}", TARGET) for n, t in enumerate(texts)]


def children() -> set[int]:
    """The processes that this one started and that are not gone."""
    task = Path(f"/proc/{os.getpid()}/task")
    found = (t / "children" for t in task.iterdir())
    return {int(n) for f in found if f.exists() for n in f.read_text().split()}


@pytest.fixture(autouse=True)
def nothing_is_left_behind(own_cache: Path) -> Iterator[None]:
    processes = children()
    yield
    assert children() == processes
    assert not [t for t in threading.enumerate() if t.name == compile_processes.THREAD]


def compiled_by(jobs: list[Job], count: int) -> dict[str, MachineCode]:
    made: dict[str, MachineCode] = {}
    compile_jobs(jobs, Helpers(count), lambda job, code: made.update({job.name: code}))
    return made


def test_helpers_and_this_process_together_compile_every_job_once() -> None:
    jobs = jobs_of(40, "together")
    with explorer.counters.delta() as did:
        made = compiled_by(jobs, 2)
    assert did.kernel_compiles == len(jobs)
    assert set(made) == {j.name for j in jobs}
    assert all(loaded(j.key) is made[j.name] for j in jobs)


def test_what_a_helper_compiled_is_what_this_process_would_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = jobs_of(3, "the same")
    alone = [compile_processes._compile_job(j).code for j in jobs]
    monkeypatch.setattr(compile_processes._Team, "_next", lambda team: team.done.get())
    helped = compiled_by(jobs, 1)
    assert [helped[j.name].object_bytes for j in jobs] == [c.code for c in alone if c is not None]


@pytest.mark.parametrize(
    "boot",
    [
        "raise SystemExit(3)",
        "import no_such_module",
        "import sys; sys.stdout.write('nonsense' * 99)",
        "from explorer.codegen.cpu.compile_processes import *\n"
        "from explorer.codegen.cpu.compile_processes import _receive, _send\n"
        "_send(sys.stdout.buffer, READY); _receive(sys.stdin.buffer); raise SystemExit",
        "from explorer.codegen.cpu.compile_processes import *\n"
        "from explorer.codegen.cpu.compile_processes import _receive, _send\n"
        "_send(sys.stdout.buffer, READY); _receive(sys.stdin.buffer)\n"
        "for text in (b'{}', b''): _send(sys.stdout.buffer, text)\n"
        "_receive(sys.stdin.buffer)",
    ],
    ids=["ends", "cannot import", "prints", "dies at work", "answers nonsense"],
)
def test_a_helper_that_fails_leaves_its_work_to_others(
    boot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "import sys, json; sys.path[:] = json.loads(sys.argv[1])\n"
    monkeypatch.setattr(compile_processes, "BOOT", head + boot)
    jobs = jobs_of(12, f"fails {len(boot)}")
    assert len(compiled_by(jobs, 1)) == len(jobs)


def test_a_helper_that_is_killed_at_any_time_costs_nothing_but_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = compile_processes._start_helper

    def doomed(after: float) -> subprocess.Popen[bytes] | None:
        process = start()
        assert process is not None
        threading.Timer(after, process.kill).start()
        return process

    for after in (0.0, 0.6, 0.9):
        monkeypatch.setattr(compile_processes, "_start_helper", lambda after=after: doomed(after))
        jobs = jobs_of(30, f"killed {after}")
        assert len(compiled_by(jobs, 1)) == len(jobs)


@pytest.mark.parametrize("executable", ["", "/no/such/python", "/bin/false"])
def test_without_an_interpreter_to_start_this_process_does_all(
    executable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    jobs = jobs_of(4, f"no interpreter {executable}")
    assert len(compiled_by(jobs, 2)) == len(jobs)


def test_an_error_of_a_compilation_names_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(jobs: Sequence[Job], *_: object) -> None:
        raise KernelCompileError(f"{jobs[0].name}: no such name", where=jobs[0].name)

    program = explorer.compile(MODEL, until="planned").program
    monkeypatch.setattr("explorer.codegen.build.loaded", lambda key: None)
    monkeypatch.setattr("explorer.codegen.build.compile_jobs", fail)
    with pytest.raises(KernelCompileError, match="no such name") as problem:
        build(program, explorer.device("this-cpu"))
    operators = {", ".join(sorted(b.origin)) for b in program.kernel_calls}
    assert problem.value.where in operators
    assert problem.value.sentence.startswith(f"{problem.value.where}: ")


def test_an_error_names_the_kernel_call_wherever_it_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = source_of("st_int64(args)")
    for here in (True, False):
        if not here:
            monkeypatch.setattr(compile_processes._Team, "_next", lambda team: team.done.get())
        with pytest.raises(KernelCompileError, match=r"^conv_7: kernel \w{8} does not compile"):
            compile_jobs(
                [Job(key_of(text, TARGET), text, "conv_7", TARGET)],
                Helpers(int(not here)),
                lambda *_: None,
            )


def test_work_that_is_cancelled_stops_and_keeps_what_was_done() -> None:
    jobs, seen = jobs_of(30, "cancelled"), []

    def told(job: Job, code: MachineCode) -> None:
        seen.append(job.key)
        if len(seen) == 3:
            raise Cancelled("enough")

    with pytest.raises(Cancelled):
        compile_jobs(jobs, Helpers(1), told)
    assert len(seen) == 3 and all(loaded(key) for key in seen)


def test_a_model_compiled_with_helpers_answers_as_one_compiled_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("explorer.codegen.build.helpers_for", lambda kernels: 1)
    made = explorer.compile(MODEL)
    inputs = made.random_inputs()
    for name, wanted in explorer.evaluate(made.model.program, inputs).items():
        np.testing.assert_allclose(made.run(inputs)[name], wanted, rtol=1e-4, atol=1e-5)


def test_helpers_that_nothing_was_left_for_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_jobs([], Helpers(1), lambda *_: None)
    with pytest.raises(ZeroDivisionError), Helpers(2) as team:
        team.grow(3)
        assert len(team.processes) == 3 and len(children()) >= 3
        raise ZeroDivisionError


def test_a_model_has_helpers_ahead_when_it_is_compiled_for_the_first_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compile_processes, "helpers_for", lambda kernels: int(kernels > 8))
    with compile_processes.HelpersAhead("a model", 100) as ahead:
        assert len(ahead.processes) == 1
        ahead.remember()
    with (
        compile_processes.HelpersAhead("a model", 100) as again,
        compile_processes.HelpersAhead("small", 9) as small,
    ):
        assert not again.processes and not small.processes


def policy(monkeypatch: pytest.MonkeyPatch, idle: int, free: int) -> None:
    monkeypatch.setattr(compile_processes, "idle_cores", lambda: idle)
    monkeypatch.setattr(compile_processes, "free_bytes", lambda: free)


def test_no_idle_core_few_kernels_and_little_memory_get_no_helper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy(monkeypatch, idle=0, free=1 << 40)
    assert compile_processes.helpers_for(1000) == 0
    policy(monkeypatch, idle=7, free=compile_processes.KEPT_FREE_BYTES)
    assert compile_processes.helpers_for(1000) == 0
    policy(monkeypatch, idle=7, free=0)
    assert compile_processes.helpers_for(1000) == 0
    policy(monkeypatch, idle=7, free=1 << 40)
    assert [
        compile_processes.helpers_for(n) for n in (0, 1, 2 * compile_processes.KERNELS_A_HELPER - 1)
    ] == [
        0,
        0,
        0,
    ]


def test_helpers_are_as_many_as_idle_cores_and_work_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    policy(monkeypatch, idle=3, free=1 << 40)
    assert [
        compile_processes.helpers_for(n * compile_processes.KERNELS_A_HELPER)
        for n in (2, 3, 4, 100)
    ] == [1, 2, 3, 3]
    policy(monkeypatch, idle=63, free=1 << 40)
    assert compile_processes.helpers_for(1000) == compile_processes.MOST_HELPERS
    policy(
        monkeypatch,
        idle=63,
        free=compile_processes.KEPT_FREE_BYTES + 2 * compile_processes.HELPER_BYTES,
    )
    assert compile_processes.helpers_for(1000) == 2


def _with_a_second_code() -> Program:
    """A model whose first call has two tilings, as on machines where they differ."""
    path = Path(__file__).parents[1] / "data" / "tiny_mobilenetv2.onnx"
    rolled = explorer.compile(path, until="rolled").program
    (main, *others), call = rolled.functions, rolled.kernel_calls[0]
    both = replace(call.kernel_call, efficient=call.kernel_call.tiling)
    body = tuple(replace(b, expr=both) if b == call else b for b in main.body)
    return replace(rolled, functions=(replace(main, body=body), *others))


def test_progress_tells_of_every_kernel_in_words_that_can_be_shown() -> None:
    rolled = _with_a_second_code()
    both = [b.name for b in rolled.kernel_calls if b.kernel_call.efficient is not None]
    told: list[tuple[str, int, int]] = []
    build(rolled, explorer.device("this-cpu"), lambda *words: told.append(words))
    names, done, of = zip(*told, strict=True)
    assert both and all(name.isprintable() for name in names)
    assert len(set(names)) == len(names) == len(rolled.kernel_calls) + len(both)
    assert done == tuple(range(len(names))) and set(of) == {len(names)}


def test_an_error_in_the_second_code_of_a_call_names_its_operators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rolled = _with_a_second_code()
    call = next(b for b in rolled.kernel_calls if b.kernel_call.efficient is not None)
    name = efficient_binding(call.name)

    def fails(*_: object) -> None:
        raise KernelCompileError("it does not compile", where=name)

    monkeypatch.setattr("explorer.codegen.build.compile_jobs", fails)
    with pytest.raises(KernelCompileError, match=r"it does not compile") as found:
        build(rolled, explorer.device("this-cpu"))
    assert found.value.where == ", ".join(sorted(call.origin))
