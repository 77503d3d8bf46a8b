"""Right and wrong answers to the warm-ups of chapter 00."""

_COUNT = "def operator_count(sources, kind):\n"
_ERROR = "import numpy as np\n\n\ndef largest_error(outputs, reference):\n"
_KERNELS = """\
fused_kernels = {
    "enp.exp(x)": (1, 1),
    "enp.tanh(enp.exp(x) + 1.0)": %s,
    "enp.exp(x @ w)": (2, 1),
    "(x @ w) @ w": %s,
}
"""
_FOLDED = "def folded_away(operators, origins):\n"
_IDLE = "def idle_of_cores(tasks, cores):\n"

RIGHT: dict[str, dict[str, str]] = {
    "operator_count": {
        "a list": _COUNT + "    return [op for _, op in sources].count(kind)\n",
    },
    "largest_error": {
        "the largest of two": _ERROR
        + "    off = outputs - reference\n"
        + "    return max(off.max(), -off.min()) / max(reference.max(), -reference.min())\n",
    },
    "fused_kernels": {"lists": _KERNELS % ("[3, 1]", "[2, 2]")},
    "folded_away": {
        "any": _FOLDED
        + "    return [n for n in operators if not any(n in origin for origin in origins)]\n",
    },
    "idle_of_cores": {
        "gap by gap": _IDLE
        + """\
    end_of_wall = max(end for _, _, end in tasks)
    idle = []
    for core in range(cores):
        now = total = 0
        for _, start, end in sorted(t for t in tasks if t[0] == core):
            total += start - now
            now = end
        idle.append(total + end_of_wall - now)
    return tuple(idle)
""",
    },
}
WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "operator_count": {
        "all of them": (
            _COUNT + "    return sum(1 for name, op in sources)\n",
            "of \\[.*\\] \\d+ are of the kind '.*', not",
        ),
        "the kinds": (
            _COUNT + "    return len({op for name, op in sources})\n",
            "are of the kind",
        ),
    },
    "largest_error": {
        "relative to each element": (
            _ERROR + "    return float((np.abs(outputs - reference) / np.abs(reference)).max())\n",
            "the largest error is .* of .*, which is",
        ),
        "the absolute value at the end": (
            _ERROR + "    return float(abs((outputs - reference).max() / reference.max()))\n",
            "an output lies .* below its reference",
        ),
        "the mean": (
            _ERROR
            + "    return float(np.abs(outputs - reference).mean() / np.abs(reference).max())\n",
            "an output lies .* below its reference",
        ),
    },
    "fused_kernels": {
        "one kernel for everything": (
            _KERNELS % ("(3, 1)", "(2, 1)"),
            "the number of kernels is 2 without fusion and 2 with it, not \\(2, 1\\)",
        ),
        "the addition is no operator": (
            _KERNELS % ("(2, 1)", "(2, 2)"),
            "the number of kernels is 3 without fusion and 1 with it, not \\(2, 1\\)",
        ),
    },
    "folded_away": {
        "those of a kernel": (
            _FOLDED + "    return [n for n in operators if any(n in o for o in origins)]\n",
            "were folded away: .*, not",
        ),
        "those that some kernel lacks": (
            _FOLDED + "    return [n for n in operators if any(n not in o for o in origins)]\n",
            "were folded away: .*, not",
        ),
        "by name": (
            _FOLDED + "    return sorted(set(operators) - {n for o in origins for n in o})\n",
            "were folded away: .*, not",
        ),
    },
    "idle_of_cores": {
        "until the last task of each core": (
            _IDLE
            + """\
    ends = [max((e for k, _, e in tasks if k == core), default=0) for core in range(cores)]
    busy = [sum(e - s for k, s, e in tasks if k == core) for core in range(cores)]
    return [end - time for end, time in zip(ends, busy)]
""",
            "2 cores with the tasks .* are idle for \\[3, 5\\] us, not",
        ),
        "the gaps between tasks": (
            _IDLE
            + """\
    idle = [0] * cores
    for core in range(cores):
        row = sorted(t for t in tasks if t[0] == core)
        for (_, _, end), (_, start, _) in zip(row, row[1:]):
            idle[core] += start - end
    return idle
""",
            "are idle for \\[3, 5\\] us, not \\[2, 0\\]",
        ),
        "no core without a task": (
            _IDLE
            + """\
    idle = {core: max(end for _, _, end in tasks) for core, _, _ in tasks}
    for core, start, end in tasks:
        idle[core] -= end - start
    return [idle[core] for core in sorted(idle)]
""",
            "3 cores with the tasks .* are idle for \\[0, 4, 3\\] us, not \\[0, 3\\]",
        ),
    },
}
