"""Right and wrong answers to the warm-ups of chapter 05."""

RIGHT: dict[str, dict[str, str]] = {
    "load_imbalance": {
        "rounded up by math": (
            "from math import ceil\n"
            "def load_imbalance(tasks, task_us, cores):\n"
            "    return task_us * (ceil(tasks / cores) - tasks / cores)\n"
        ),
    },
    "reached": {
        "the longest time": (
            "def reached(peak, roofs):\n"
            "    return 1 / max(1 / peak, *(1 / (b * i) for b, i in roofs))\n"
        ),
    },
    "resident": {
        "by the limits": (
            "def least(threads, registers, kib):\n"
            "    by_size = 164 // (kib + 1)\n"
            "    return min(2048 // threads, 65536 // (threads * registers), by_size, 32)\n"
            "blocks = ((32, 32, 0), (128, 64, 8), (128, 32, 20), (512, 32, 16))\n"
            "resident = {block: least(*block) for block in blocks}\n"
        ),
    },
    "two_times": {
        "by NumPy": (
            "import numpy as np\n"
            "def two_times(first, second):\n"
            "    (a, s), (b, t) = first, second\n"
            "    launch, slope = np.linalg.solve([[1, a / 1e6], [1, b / 1e6]], [s, t])\n"
            "    return launch, 1e3 / slope\n"
        ),
    },
}
WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "load_imbalance": {
        "rounded down": (
            "def load_imbalance(tasks, task_us, cores):\n"
            "    return tasks // cores * task_us - tasks * task_us / cores\n",
            "the wall of the compiler takes .* us more than with an even load, not",
        ),
        "always one task more": (
            "def load_imbalance(tasks, task_us, cores):\n"
            "    return (tasks // cores + 1) * task_us - tasks * task_us / cores\n",
            "the wall of the compiler takes .* us more than with an even load, not",
        ),
    },
    "reached": {
        "the last level": (
            "def reached(peak, roofs):\n    return min(peak, roofs[-1][0] * roofs[-1][1])\n",
            "GFLOP/s can be reached, and the answer is",
        ),
        "no peak": (
            "def reached(peak, roofs):\n    return min(b * i for b, i in roofs)\n",
            "GFLOP/s can be reached, and the answer is",
        ),
    },
    "resident": {
        "no reserve": (
            "resident = dict(zip(((32, 32, 0), (128, 64, 8), (128, 32, 20), (512, 32, 16)), "
            "(32, 8, 8, 4)))\n",
            "20 KiB: an SM holds 7, limited by shared memory, and not 8",
        ),
        "threads alone": (
            "resident = dict(zip(((32, 32, 0), (128, 64, 8), (128, 32, 20), (512, 32, 16)), "
            "(64, 16, 16, 4)))\n",
            "0 KiB: an SM holds 32, limited by .*, and not 64",
        ),
    },
    "two_times": {
        "no launch": (
            "def two_times(first, second):\n"
            "    return 0.0, max(first[0] / first[1], second[0] / second[1]) / 1000\n",
            "and the answer is 0.000 us and",
        ),
        "bytes per microsecond": (
            "def two_times(first, second):\n"
            "    (a, s), (b, t) = first, second\n"
            "    speed = (b - a) / (t - s)\n"
            "    return s - a / speed, speed\n",
            "us and memory delivers .* GB/s, and the answer is",
        ),
    },
}
