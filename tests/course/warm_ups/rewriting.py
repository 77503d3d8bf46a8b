"""Right and wrong answers to the warm-ups of chapter 02."""

_LIVE = "def live_bindings(bindings, outputs):\n"
_ROUNDS = "def relu_rounds(relus):\n"
_RULE = """\
from explorer.ir.calls import OpCall


def maximum_rule(binding, program):
    if not isinstance(binding.expr, OpCall) or binding.expr.op != "Max":
        return None
    x, limit = binding.expr.args
    constant = program.constants.get(limit.name)
    if %s:
        return OpCall("Relu", (x,), ())
    return None
"""
_NUMBERS = "def value_numbers(bindings):\n"

RIGHT: dict[str, dict[str, str]] = {
    "live_bindings": {
        "to a fixpoint": _LIVE
        + """\
    needed, before = set(outputs), None
    while needed != before:
        before = set(needed)
        needed |= {r for name, _, reads in bindings if name in before for r in reads}
    return [b for b in bindings if b[0] in needed]
""",
    },
    "relu_rounds": {
        "halves": _ROUNDS
        + """\
    count = 0
    while relus > 1:
        relus = relus - relus // 2
        count += 1
    return count
""",
        "a logarithm": "from math import ceil, log2\n\n\n"
        + _ROUNDS
        + "    return ceil(log2(relus))\n",
    },
    "maximum_rule": {
        "not any": _RULE
        % "constant is not None and constant.array.shape == () and not constant.array.any()",
    },
    "value_numbers": {
        "pairs": _NUMBERS
        + """\
    numbers = {}
    for n, (name, op, reads) in enumerate(bindings):
        mine = [numbers.get(r, r) for r in reads]
        for earlier, other, others in bindings[:n]:
            if op == other and mine == [numbers.get(r, r) for r in others]:
                numbers[name] = earlier
                break
        else:
            numbers[name] = name
    return numbers
""",
    },
}
WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "live_bindings": {
        "what an output reads": (
            _LIVE + "    return [b for b in bindings if b[0] in outputs]\n",
            "the outputs .* need the \\d bindings .*, not the \\d bindings",
        ),
        "all that is read": (
            _LIVE
            + """\
    read = {r for _, _, reads in bindings for r in reads} | set(outputs)
    return [b for b in bindings if b[0] in read]
""",
            "need the \\d bindings .*, not the \\d bindings",
        ),
    },
    "relu_rounds": {
        "one relu a round": (_ROUNDS + "    return relus - 1\n", "2 rounds change a chain of"),
        "halves, once": (_ROUNDS + "    return relus // 2\n", "rounds change a chain of"),
        "rounded down": (
            _ROUNDS + "    return relus.bit_length() - 1\n",
            "rounds change a chain of",
        ),
        "the last round, too": (
            _ROUNDS + "    return (relus - 1).bit_length() + 1\n",
            "0 rounds change a chain of 1 relus, not 1",
        ),
    },
    "maximum_rule": {
        "zeros of any shape": (
            _RULE % "constant is not None and not constant.array.any()",
            "must have shape \\[1, 4, 5\\] and has \\[4, 5\\]",
        ),
        "every constant": (
            _RULE % "constant is not None",
            "maxima with -2: the value is not what it was",
        ),
        "never": (
            _RULE % "constant is not None and constant.array < 0 < constant.array",
            "maxima with 0: 1 maxima are left, and 0 need be",
        ),
        "the limits above": (
            _RULE % "constant is not None and constant.array >= 0",
            "maxima with 1: the value is not what it was",
        ),
    },
    "value_numbers": {
        "operands as they are written": (
            _NUMBERS
            + """\
    first = {}
    return {name: first.setdefault((op, *reads), name) for name, op, reads in bindings}
""",
            "the first value equal to d is c, not 'd'",
        ),
        "operands in any order": (
            _NUMBERS
            + """\
    first, seen = {}, {}
    for name, op, reads in bindings:
        key = (op, *sorted(first.get(read, read) for read in reads))
        first[name] = seen.setdefault(key, name)
    return first
""",
            "the first value equal to e is e, not 'c'",
        ),
        "without the operator": (
            _NUMBERS
            + """\
    first, seen = {}, {}
    for name, _, reads in bindings:
        key = tuple(first.get(read, read) for read in reads)
        first[name] = seen.setdefault(key, name)
    return first
""",
            "the first value equal to f is f, not 'a'",
        ),
    },
}
