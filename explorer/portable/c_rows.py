"""The rows of one unit of a launch as statements of C; a row that others jump to has a label.

RUN 3 0 8          kernel_5d1e(0, 8, (intptr_t)(args + 24));  /* conv_1 */
LOOP 0 2 17 0      if (r[0] + 0 >= *(const int64_t *)slot[2]) goto row_17;
WAIT 1 7           if (!reached(w, own, 1, epoch * 90 + 7)) { own->row = 12; ... return 0; }
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from explorer.portable.c_text import comment
from explorer.portable.portable_program import PortableLaunch, PortablePointer, Row
from explorer.runtime.device_program import instructions as isa

WAITS = (isa.WAIT, isa.BARRIER)


@dataclass(frozen=True, slots=True)
class UnitScope:
    """One unit's part of a launch: the unit is the `place`-th of those that take part.

    `faults` is the number of faults of launches before; `text` prints a number; `parallel`: other
    threads run other units.
    """

    launch: PortableLaunch
    kernels: Sequence[str]
    faults: int
    text: Callable[[int], str]
    place: int = 0
    parallel: bool = False

    @property
    def rows(self) -> tuple[Row, ...]:
        """The unit's rows."""
        return self.launch.other_rows[self.place - 1] if self.place else self.launch.rows

    @property
    def units(self) -> int:
        """The number of units that take part."""
        return len(self.launch.units)

    @property
    def stride(self) -> int:
        """The steps of an epoch, which no unit's steps exceed."""
        rows = (self.launch.rows, *self.launch.other_rows)
        return 1 + max(len(of_unit) for of_unit in rows)


def statements(scope: UnitScope) -> Iterator[str]:
    """Yield a statement for each row, with labels where others jump to."""
    rows = scope.rows
    returns = [n + 1 for n, row in enumerate(rows) if row[0] == isa.CALL]
    labels = {target for row in rows for target in _targets(row)} | {*returns}
    waits = [n for n, row in enumerate(rows) if scope.parallel and row[0] in WAITS]
    labels |= {*waits}
    if waits:
        cases = " ".join(f"case {n}: goto row_{n};" for n in waits)
        yield f"    switch (own->row) {{ {cases} }}"
    for n, row in enumerate(rows):
        if n in labels:
            yield f"row_{n}:"
        for line in _statement(row, n, scope, returns):
            yield f"    {line}"
    if len(rows) in labels:
        yield f"row_{len(rows)}:"


def _targets(row: Row) -> tuple[int, ...]:
    """Return the rows that a row may jump to."""
    op, a, b, c, d = row
    places = {isa.BRANCH: b, isa.LOOP: c, isa.JUMP: a, isa.CALL: b, isa.DEEPEST: d}
    return (places[op],) if op in places else ()


def _statement(row: Row, at: int, scope: UnitScope, returns: Sequence[int]) -> Sequence[str]:
    """Return the C statements of one row."""
    op, a, b, c, d = row
    text, launch = scope.text, scope.launch
    match op:
        case isa.RUN:
            call = launch.calls[a]
            kernel, block = scope.kernels[call.kernel], f"(intptr_t)(args + {call.arguments})"
            run = f"{kernel}({text(b)}, {text(c)}, {block}); /* {comment(call.name)} */"
            return (run, *_publish(scope, d))
        case isa.WAIT | isa.BARRIER:
            return _wait(row, at, scope)
        case isa.LOOK:
            kind = "const unsigned char" if c == 1 else "const int64_t"
            return (f"r[{a}] = *({kind} *)slot[{b}];",)
        case isa.BRANCH:
            return (f"if (r[{a}] == 0) goto row_{b};",)
        case isa.LOOP:
            return (f"if (r[{a}] + {d} >= *(const int64_t *)slot[{b}]) goto row_{c};",)
        case isa.LET:
            return (f"r[{a}] = {b};",)
        case isa.NEXT:
            return (f"r[{a}] += {1 + b};",)
        case isa.STORE if scope.place == 0 or d:
            return (f"*(int64_t *)slot[{a}] = r[{b}] + {c};",)
        case isa.COPY:
            places = f"(void *)slot[{a}], (const void *)slot[{b}], {text(c)}"
            if d or scope.units == 1:
                return (f"memmove({places if not _is_formula(text(c)) else _sized(places)});",)
            return (f"copy_part({places}, {scope.place}, {scope.units});",)
        case isa.FILL if scope.place == 0 or d:
            kind = "unsigned char" if b == 1 else "int64_t"
            return (f"*({kind} *)slot[{a}] = {c};",)
        case isa.JUMP:
            return (f"goto row_{a};",)
        case isa.POINT:
            return tuple(_point(p, c, scope) for p in launch.pointers[a:b])
        case isa.CALL | isa.RETURN | isa.DEEPEST:
            return _call(row, at, scope, returns)
        case isa.QUIT:
            return (
                "if (has_fault(w)) return 1;" if scope.parallel else "if (fault) return fault;",
            )
        case isa.END:
            return ("return 1;" if scope.parallel else "return fault;",)
    return ()


def _is_formula(text: str) -> bool:
    return text.startswith("e[")


def _sized(places: str) -> str:
    head, _, count = places.rpartition(", ")
    return f"{head}, (size_t){count}"


def _publish(scope: UnitScope, step: int) -> Sequence[str]:
    """Return the statement that publishes a step, if another unit waits for it."""
    if step <= 0 or not scope.parallel:
        return ()
    return (f"publish(w, {scope.place}, epoch * {scope.stride} + {step});",)


def _wait(row: Row, at: int, scope: UnitScope) -> Sequence[str]:
    """Return the statements of WAIT or BARRIER, which may return to go on from here later.

    One unit alone waits for nothing.
    """
    op, a, b, _, _ = row
    if not scope.parallel:
        return ()
    later = f"{{ own->row = {at}; own->epoch = epoch; return 0; }}"
    if op == isa.WAIT:
        return (f"if (!reached(w, own, {a}, epoch * {scope.stride} + {b})) {later}",)
    value = f"(epoch + 1) * {scope.stride}"
    return (f"if (!met(w, own, {scope.place}, {scope.units}, {value})) {later}", "epoch++;")


def _call(row: Row, at: int, scope: UnitScope, returns: Sequence[int]) -> Sequence[str]:
    """Return the statements of a recursive call, its return, or the check of its depth."""
    op, a, b, c, d = row
    if op == isa.DEEPEST:
        fault = f"{scope.faults + c}"
        noted = f"set_fault(w, {fault});" if scope.parallel else f"fault = {fault};"
        return (f"if (r[{a}] >= {b}) {{ {noted} goto row_{d}; }}",)
    if op == isa.CALL:
        frame = f"stack[{c} + r[{a}] * {d}"
        saved = (f"{frame} + {n}] = r[{a + n}];" for n in range(1, d))
        return (f"r[{a}] += 1;", f"{frame}] = {at + 1};", *saved, f"goto row_{b};")
    frame = f"stack[{b} + r[{a}] * {c}"
    back = (f"r[{a + n}] = {frame} + {n}];" for n in range(1, c))
    cases = " ".join(f"case {n}: goto row_{n};" for n in returns)
    target = f"switch (stack[{b} + (r[{a}] + 1) * {c}]) {{ {cases} }}"
    return (*back, f"r[{a}] -= 1;", target)


def _point(p: PortablePointer, register: int, scope: UnitScope) -> str:
    """Return the statement that sets a pointer."""
    text, launch = scope.text, scope.launch
    target = f"slot[{p.at}]" if p.call < 0 else f"args[{launch.calls[p.call].arguments + p.at}]"
    begin = text(p.begin)
    if p.apart:
        begin += f" + {launch.units[scope.place]} * {text(p.apart)}"
    return f"{target} = slot[{p.source}] + r[{register}] * {text(p.step)} + {begin};"
