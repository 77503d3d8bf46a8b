"""Right and wrong answers to the warm-ups of chapter 12."""

SHEET = """\
def own_sheet(units, mhz, launch_ns):
    source = 'source = "its document"'
    return (
        'name = "mine"\\ntitle = "mine"\\nlike = "v100"\\n'
        f'units = {{ value = {units}, unit = "streaming multiprocessors", {source} }}\\n'
        f'clock_ghz = {{ value = {CLOCK}, unit = "GHz", {source} }}\\n'
        f'launch_us = {{ value = {LAUNCH}, unit = "us", {source} }}\\n'
    )
"""
INNER = """\
def inner_products(body, outputs):
    found = []
    for name, op, _ in body:
        readers = [o for _, o, args in body for arg in args if arg == name]
        if {condition}:
            found.append(name)
    return found
"""


def sheet(clock: str, launch: str) -> str:
    """Return the text of `own_sheet` with these expressions for the clock and the launch."""
    return SHEET.replace("CLOCK", clock).replace("LAUNCH", launch)


def table(*words: str) -> str:
    """Return the text of `rewrites` with these words."""
    return f'rewrites = dict(zip(("factor", "reorder", "exp", "sum"), {words}))\n'


RIGHT: dict[str, dict[str, str]] = {
    "own_sheet": {
        "by products": sheet("mhz * 0.001", "launch_ns * 0.001"),
    },
    "chain_points": {
        "factored": "def chain_points(m, n, k, p):\n    return m * k * (n + p)\n",
    },
    "points_after": {
        "written out": table("fewer", "more", "same", "fewer"),
    },
    "inner_products": {
        "lists of readers": INNER.format(
            condition="op == 'MatMul' and readers == ['MatMul'] and name not in outputs"
        ),
    },
}
WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "own_sheet": {
        "the clock in MHz": (
            sheet("mhz", "launch_ns / 1000"),
            "the compiler refuses the sheet|the device has clock_ghz",
        ),
        "milliseconds": (
            sheet("mhz / 1000", "launch_ns / 1000000"),
            "launches of .* ns: the device has launch_us = .*, and .* is right",
        ),
    },
    "chain_points": {
        "the other order": (
            "def chain_points(m, n, k, p):\n    return n * k * p + m * n * p\n",
            "the compiler counts .* points, and the answer is",
        ),
        "elements of the result": (
            "def chain_points(m, n, k, p):\n    return m * n * k + m * p\n",
            "the compiler counts .* points, and the answer is",
        ),
    },
    "points_after": {
        "an exp costs a point": (
            table("fewer", "more", "fewer", "fewer"),
            "exp: the compiler counts .* points before and .* after, which is 'same'",
        ),
        "two products are two products": (
            table("fewer", "same", "same", "fewer"),
            "reorder: the compiler counts .* points before and .* after, which is 'more'",
        ),
    },
    "inner_products": {
        "outputs are forgotten": (
            INNER.format(condition="op == 'MatMul' and readers == ['MatMul']"),
            "t0 is a MatMul, read by MatMul, and an output, so it is not among the answer",
        ),
        "read twice by one product": (
            INNER.format(
                condition="op == 'MatMul' and set(readers) == {'MatMul'} and name not in outputs"
            ),
            "t0 is a MatMul, read by MatMul, MatMul, so it is not among the answer",
        ),
        "read by anything": (
            INNER.format(condition="op == 'MatMul' and len(readers) == 1 and name not in outputs"),
            "t0 is a MatMul, read by Exp, so it is not among the answer",
        ),
    },
}
