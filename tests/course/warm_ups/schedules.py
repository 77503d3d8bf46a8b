"""Right and wrong answers to the warm-ups of chapter 06."""

PARTS = """\
from explorer.rammer import Placement, Share


def in_parts(facts):
    shares = []
    for number, o in enumerate(facts.operators):
        at, cores = 0, facts.device.units
        for core in range(cores):
            count = {count}
            if count:
                shares.append(Share(number, core, at, at + count))
            at += count
    return Placement((tuple(shares),))
"""
CAUSES = 'idle_causes = dict(zip(("first", "second", "third", "fourth"), {}))\n'
RIGHT: dict[str, dict[str, str]] = {
    "idle_time": {
        "by a loop": (
            "def idle_time(cores, total_us, operators):\n"
            "    left = cores * total_us\n"
            "    for tasks, task_us in operators:\n"
            "        left -= tasks * task_us\n"
            "    return left\n"
        ),
    },
    "idle_causes": {
        "written out": CAUSES.format(
            ["load imbalance", "launch overhead", "dependency stall", "Wave tail"]
        ),
    },
    "wave_numbers": {
        "repeated until nothing changes": (
            "def wave_numbers(reads):\n"
            "    waves = [0] * len(reads)\n"
            "    for _ in reads:\n"
            "        waves = [max([0] + [waves[r] + 1 for r in rs]) for rs in reads]\n"
            "    return waves\n"
        ),
    },
    "in_parts": {
        "one task more for the first cores": PARTS.format(
            count="o.tasks // cores + (core < o.tasks % cores)"
        ),
    },
}
WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "idle_time": {
        "one task of each operator": (
            "def idle_time(cores, total_us, operators):\n"
            "    return cores * total_us - sum(us for _, us in operators)\n",
            "the cores are idle for .* us, all together, and not",
        ),
        "each operator on every core": (
            "def idle_time(cores, total_us, operators):\n"
            "    return cores * (total_us - sum(-(-n // cores) * us for n, us in operators))\n",
            "the cores are idle for .* us, all together, and not",
        ),
    },
    "idle_causes": {
        "the barrier": (
            CAUSES.format(["load imbalance", "launch overhead", "wave tail", "wave tail"]),
            "the third wall is idle for 18 core-us because of 'dependency stall'",
        ),
        "B waits for A": (
            CAUSES.format(["load imbalance", "dependency stall", "dependency stall", "wave tail"]),
            "the second wall is idle for 36 core-us because of 'launch overhead'",
        ),
    },
    "wave_numbers": {
        "after the first operand": (
            "def wave_numbers(reads):\n"
            "    waves = []\n"
            "    for rs in reads:\n"
            "        waves.append(min((waves[r] + 1 for r in rs), default=0))\n"
            "    return waves\n",
            "operator .* reads .*, which are in the waves .*: it is in wave",
        ),
        "the number of operands": (
            "def wave_numbers(reads):\n    return [len(rs) for rs in reads]\n",
            "operator .* reads .*, which are in the waves .*: it is in wave",
        ),
    },
    "in_parts": {
        "the last core takes what is left": (
            PARTS.format(count="o.tasks // cores if core < cores - 1 else o.tasks - at"),
            "7 tasks on 4 cores: a core runs 4 of them, and 2 would do",
        ),
        "all on one core": (
            PARTS.format(count="o.tasks if core == 0 else 0"),
            "8 tasks on 4 cores: a core runs 8 of them, and 2 would do",
        ),
        "rounded up": (
            PARTS.format(count="-(-o.tasks // cores)"),
            "7 tasks on 4 cores: 8 of them are placed",
        ),
    },
}
