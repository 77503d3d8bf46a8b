"""Weights of few bits: bytes and error of each layer, its block and scale, and the perplexity."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

import numpy as np

from explorer.compiler.pipeline import compile
from explorer.errors import BadOption
from explorer.frontends.decoders.language_model import LanguageModel
from explorer.generation.perplexity import LENGTH, ROWS, perplexity
from explorer.ir.calls import OpCall
from explorer.ir.kernels.forms import ELEMENTS_OF_BYTE
from explorer.ir.program import Binding, Program
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.quantization.constant_products import ConstantProduct, constant_products
from explorer.quantization.low_bit_matrix import LowBitFormat, quantized, weight_error
from explorer.quantization.quantize import quantize
from explorer.tile.lowering.lower import tensor_contraction
from explorer.training.manual_model import manual_text
from widgets.draw.slide import NARROW, PX, cut_to, label_width
from widgets.draw.svg import Svg, label, path, rect, wrap_text
from widgets.draw.table import Cell, Mark, Sentence, Table, lit_by, size_text
from widgets.model.compiled import Arrays
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.model.picture import Clock, Drawn, Family, OnShow, Picture, controls, placeholder

NAME = "low_bit"
MOST_ELEMENTS = 1 << 16  # of a matrix whose error is computed: rows at even distances; chosen
SCALE_BITS = 32
NO_PRODUCT = "no product of this program has a constant matrix of floats or of few bits"
IN_REGISTERS = "in registers, inside of the product"
OWN_KERNEL = "by a kernel of its own, into memory"
CELLS = 32  # elements of a block that are drawn at most
ROW, TALLEST_ROW, HEAD = 24.0, 32.0, 42.0
PRODUCT = "/matmul"  # the end of an operator's name that says no more than the column's head
LEAST_ERROR, MOST_ERROR = 1e-3, 1.0  # ends of the axis of errors


@dataclass(frozen=True, slots=True)
class Form:
    """Bits of a weight and elements of a block; float32 has no block."""

    bits: int
    block: int = 0

    @property
    def name(self) -> str:
        """The form as a control's value: `int4/32`."""
        return f"int{self.bits}/{self.block}" if self.block else f"float{self.bits}"

    @property
    def words(self) -> str:
        """The form in words."""
        kind, _, block = self.name.partition("/")
        return f"{kind} in blocks of {block}" if block else kind

    @property
    def bits_a_weight(self) -> float:
        """The bits of a weight with its share of the block's scale."""
        return self.bits + (SCALE_BITS / self.block if self.block else 0.0)


FLOAT = Form(32)
FORMS = (FLOAT, Form(8, 32), Form(8, 128), Form(4, 32), Form(4, 128), Form(2, 32), Form(2, 128))


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes of a product's weights in the compiled program, and where they become numbers."""

    bytes: int
    decoded: str


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A product with a constant matrix [inputs, outputs], read by the operator `ops[0]`.

    `stored` is its state in the program on show. `bytes` and `error` are of the form on show: the
    Frobenius norm of the weights' error over that of the weights, None if the float weights are
    not known.
    """

    label: str
    ops: tuple[str, ...]
    inputs: int
    outputs: int
    stored: Stored
    bytes: float
    error: float | None


@dataclass(frozen=True, slots=True)
class Tried:
    """A model in a form: its perplexity, and its products' weights in the compiled program."""

    perplexity: float
    bytes: int
    decoded: str


@dataclass(frozen=True, slots=True)
class LowBitRows:
    """The matrices in the form on show, one of `forms`, and the measured forms by name.

    `forms` has one entry if the model came with weights of few bits. `text` says what the
    perplexity is measured on, "" if it cannot be.
    """

    model: str
    forms: tuple[Form, ...]
    form: Form
    matrices: tuple[MatrixRow, ...]
    tried: Mapping[str, Tried]
    text: str

    @property
    def can_choose(self) -> bool:
        """True if there are several forms: the model has float weights."""
        return len(self.forms) > 1

    @property
    def bytes(self) -> float:
        """The bytes of all matrices in the form on show."""
        return sum(m.bytes for m in self.matrices)

    @property
    def stored(self) -> int:
        """The bytes of all matrices in the program on show."""
        return sum(m.stored.bytes for m in self.matrices)

    @property
    def weights(self) -> int:
        """The number of weights."""
        return sum(m.inputs * m.outputs for m in self.matrices)

    @property
    def decoded(self) -> str:
        """Where weights of the form on show become numbers, "" if no compiled program says it."""
        if self.form == FLOAT:
            return "nowhere: the product reads the numbers"
        if self.form.name in self.tried:
            return self.tried[self.form.name].decoded
        return "" if self.can_choose else self.matrices[0].stored.decoded


def data(s: OnShow) -> LowBitRows | None:
    """Return the matrices in the form on show; None without a product with a constant matrix."""
    c, house = s.now.compiled, s.house
    products = constant_products(c.model.program)
    tried: Mapping[str, Tried] = s.clocked(NAME, "") or {}
    stored = house.cached("stored weights", (), lambda: stored_weights(c.model.program, c.program))
    labels = {o.name: o.label for o in house.operators}
    if not products:
        return _as_stored(s, stored, labels)
    form = form_of(s.view.bits)
    errors = house.cached(f"errors of {form.name}", (), lambda: errors_of(c.model, products, form))
    rows = []
    for p, error in zip(products, errors, strict=True):
        outputs, inputs = p.matrix(c.model.program.constants).shape
        ops = tuple(sorted(p.origin, key=lambda o: o != p.operator))
        size = outputs * inputs * form.bits_a_weight / 8
        name = labels.get(p.operator, p.operator)
        rows.append(MatrixRow(name, ops, inputs, outputs, stored[p.operator], size, error))
    text = measured_text_of(c.model)
    return LowBitRows(c.model.name, FORMS, form, tuple(rows), tried, text)


def _as_stored(
    s: OnShow, stored: Mapping[str, Stored], labels: Mapping[str, str]
) -> LowBitRows | None:
    """Return the matrices of a model that came with weights of few bits."""
    model = s.now.compiled.model
    layers = model.quantization.layers if model.quantization else ()
    errors = {layer.operator: layer.weight_error for layer in layers}
    rows, forms = [], set[Form]()
    for b, call in _low_bit_products(model.program):
        inputs, outputs, form = _sizes(call)
        op = min(b.origin, default=b.name)
        size = inputs * outputs * form.bits_a_weight / 8
        ops = tuple(sorted(b.origin))
        rows.append(
            MatrixRow(labels.get(op, op), ops, inputs, outputs, stored[op], size, errors.get(op))
        )
        forms.add(form)
    if not rows:
        return None
    form = max(forms, key=lambda f: f.bits_a_weight)
    return LowBitRows(model.name, (form,), form, tuple(rows), {}, "")


def _low_bit_products(program: Program) -> Iterator[tuple[Any, OpCall]]:
    for _, b in program.bindings():
        match b.expr:
            case OpCall("MatMulNBits", (_, w, *_)) as call if w and w.name in program.constants:
                yield b, call


def _sizes(call: OpCall) -> tuple[int, int, Form]:
    """Return inputs, outputs and form of a MatMulNBits."""
    attrs: dict[str, Any] = dict(call.attrs)
    return attrs["K"], attrs["N"], Form(attrs.get("bits", 4), attrs["block_size"])


def stored_weights(source: Program, final: Program) -> dict[str, Stored]:
    """Return by operator the bytes of its weights in the compiled program.

    A kernel of several products shares its constants among them by their numbers of weights.
    """
    sizes = {p.operator: p.matrix(source.constants).size for p in constant_products(source)}
    for b, call in _low_bit_products(source):
        inputs, outputs, _ = _sizes(call)
        sizes[min(b.origin, default=b.name)] = inputs * outputs
    total = dict.fromkeys(sizes, 0.0)
    decoded = dict.fromkeys(sizes, "")
    for b in final.kernel_calls:
        mine = [op for op in b.origin if op in sizes]
        constants = {v.name: final.constants[v.name] for v in b.reads if v.name in final.constants}
        arrays = {n: c for n, c in constants.items() if len(c.shape) > 1}  # no biases and norms
        stored = {n: c.nbytes / _elements_of_byte(b, n) for n, c in arrays.items()}
        every = sum(sizes[op] for op in mine)
        has_codes = any("int" in (c.type.dtype or "") for c in arrays.values())
        has_sum = any(c.reduce for c in b.kernel_call.kernel.computes)
        for op in mine:
            total[op] += sum(stored.values()) * sizes[op] / every
            if has_codes:
                decoded[op] = IN_REGISTERS if has_sum else OWN_KERNEL
    return {op: Stored(round(total[op]), decoded[op]) for op in sizes}


def _elements_of_byte(b: Binding, name: str) -> int:
    """Return how many elements of a constant share a byte in the panels of a kernel's product."""
    call = b.kernel_call
    for c in call.kernel.computes:
        product = tensor_contraction(call.kernel, c)
        if product is not None and product.b.tensor in call.kernel.inputs:
            argument = call.args[call.kernel.inputs.index(product.b.tensor)]
            if argument.name == name:
                return ELEMENTS_OF_BYTE.get(call.kernel.dtype(product.b.tensor), 1)
    return 1


def errors_of(
    model: Any, products: Sequence[ConstantProduct], form: Form
) -> tuple[float | None, ...]:
    """Return the error of each matrix in a form, of rows at even distances if it is large."""
    if not form.block:
        return (0.0,) * len(products)
    low = LowBitFormat(f"int{form.bits}", form.block, symmetric=True)
    errors = []
    for p in products:
        matrix = p.matrix(model.program.constants)
        rows = np.ascontiguousarray(matrix[:: max(1, matrix.size // MOST_ELEMENTS)])
        is_finite = bool(np.isfinite(rows.sum(dtype=np.float64)))
        errors.append(weight_error(rows, quantized(rows, low)) if is_finite else None)
    return tuple(errors)


def form_of(name: str) -> Form:
    """Return the form of a control's value; the first is that of "".

    Raises BadOption if there is none of that name.
    """
    if not name:
        return FLOAT
    form = next((f for f in FORMS if f.name == name), None)
    if form is None:
        names = ", ".join(f.name for f in FORMS)
        raise BadOption(f"there are no weights of {name[:20]!r}", expected=names)
    return form


def measured_text_of(model: Any) -> str:
    """Return what the perplexity of a model is measured on, "" if it cannot be."""
    is_text = isinstance(model, LanguageModel) and model.vocabulary is not None
    return f"{ROWS * LENGTH:,} tokens of Python's manual" if is_text else ""


def caption(rows: LowBitRows) -> str:
    """Describe the form on show and its bytes in one line."""
    before = size_text(rows.stored)
    text = f"{counted(len(rows.matrices), 'matrix')} of {rows.model}: {before} in this program"
    text = text.replace("matrixs", "matrices")
    if rows.can_choose:
        text += f"; as {rows.form.words} {size_text(round(rows.bytes))}"
    if rows.form.name in rows.tried:
        text += f", perplexity {rows.tried[rows.form.name].perplexity:.3f}"
    return text


def see(rows: LowBitRows) -> tuple[Sentence, ...]:
    """Return the sentences: bytes a weight, the largest error, and the perplexity."""
    ratio = 32 * rows.weights / (8 * rows.bytes)
    bits = Mark(f"{rows.form.bits_a_weight:g} bits", "block")
    sentences: list[Sentence] = [
        ("A weight of ", f"{rows.form.words} takes ", bits, f": {ratio:.1f} times less than 32.")
    ]
    if rows.form == FLOAT:
        sentences = [("A weight takes ", bits, ", and a token reads every one of them once.")]
    errors = [(m.error, n) for n, m in enumerate(rows.matrices) if m.error is not None]
    if errors and rows.form != FLOAT:
        worst, n = max(errors)
        name = Mark(f"{worst:.2%}", f"matrix:{n}")
        sentences.append(("The largest error is ", name, f", of {rows.matrices[n].label}."))
    mine, exact = rows.tried.get(rows.form.name), rows.tried.get(FLOAT.name)
    if mine is not None and exact is not None and rows.form != FLOAT:
        value = Mark(f"{mine.perplexity:.3f}", "current")
        sentences.append(("The perplexity is ", value, f", {exact.perplexity:.3f} in float32."))
    elif mine is not None:
        value = Mark(f"{mine.perplexity:.3f}", "current")
        sentences.append(("The perplexity is ", value, f" on {rows.text}."))
    elif rows.text:
        sentences.append(("The perplexity is not measured yet.",))
    return tuple(sentences)


def table(rows: LowBitRows) -> Table:
    """Return one row per matrix, then one per form that was measured."""
    columns = (
        "matrix", "inputs", "outputs", "bytes in this program", "decoded", "form", "bytes",
        "bits a weight", "error", "perplexity",
    )  # fmt: skip
    lines: list[tuple[Cell, ...]] = [
        (
            m.label, m.inputs, m.outputs, m.stored.bytes, m.stored.decoded, rows.form.words,
            round(m.bytes), rows.form.bits_a_weight, "" if m.error is None else round(m.error, 6),
            "",
        )
        for m in rows.matrices
    ]  # fmt: skip
    ops = [m.ops for m in rows.matrices]
    for form in rows.forms:
        if form.name in rows.tried:
            t = rows.tried[form.name]
            bits = form.bits_a_weight
            line = ("all", "", "", t.bytes, t.decoded, form.words, "", bits, "")
            lines.append((*line, round(t.perplexity, 4)))
            ops.append(())
    return Table(columns, tuple(lines), tuple(ops), caption(rows), see(rows))


@dataclass(frozen=True, slots=True)
class _Places:
    """Horizontal positions of the matrices' columns, and the panel of form and perplexity."""

    width: float
    height: float
    narrow: bool

    @property
    def panel(self) -> tuple[float, float, float, float]:
        """The left end, top, width and height of the panel."""
        if self.narrow:
            return 0.0, 0.0, self.width, min(320.0, 0.62 * self.height)
        left = round(0.6 * self.width)
        return left, 0.0, self.width - left, self.height

    @property
    def top(self) -> float:
        """The top of the matrices."""
        return self.panel[3] + 12 if self.narrow else 0.0

    @property
    def right(self) -> float:
        """The right end of the matrices."""
        return self.width if self.narrow else self.panel[0] - 28

    @property
    def bars(self) -> tuple[float, float]:
        """The left end and the width of the bars."""
        left = (0.28 if self.narrow else 0.2) * self.right
        return left, 0.28 * self.right

    @property
    def errors(self) -> tuple[float, float]:
        """The left end and the width of the axis of errors."""
        left = 0.72 * self.right
        return left, self.right - left - 18


def figure(rows: LowBitRows, size: tuple[int, int], selected: str = "") -> Svg:
    """Draw bytes and error of each matrix; beside them a block, and perplexity over bits."""
    at = _Places(*size, narrow=size[0] < NARROW)
    marks = [*_matrices(rows, at), *_panel(rows, at)]
    return Svg(*size, "".join(marks), f"Low bit: {caption(rows)}", selected, PX)


def _matrices(rows: LowBitRows, at: _Places) -> Iterator[str]:
    left, (axis, room) = at.bars[0], at.errors
    yield label(0, at.top + 14, "matrix", "w")
    yield label(left, at.top + 14, "bytes", "w")
    yield label(axis, at.top + 14, "error", "w")
    room_for = at.height - 24 - at.top - HEAD
    most = max(1, int(room_for / ROW))
    shown = rows.matrices[: most if most >= len(rows.matrices) else most - 1]
    lines = min(len(rows.matrices), most)  # the last one may say how many more there are
    step = min(TALLEST_ROW, max(ROW, room_for / lines))
    tops = [at.top + HEAD + step * n for n in range(len(shown) + 1)]
    for m, y in zip(shown, tops, strict=False):
        tip = f"{m.label}: {m.inputs:,} inputs, {m.outputs:,} outputs"
        ground = 'class="ground"'
        yield rect(0, y, at.right, step - 2, "var(--pane)", ground, title=tip, ops=m.ops)
    decades = range(ceil(log10(LEAST_ERROR)), floor(log10(MOST_ERROR)) + 1)
    every = ceil(label_width("100 % ") * (len(decades) - 1) / room)
    for n in decades:
        x = axis + room * _share(10.0**n)
        yield path(f"M{x:.1f} {at.top + HEAD - 4:g}V{tops[-1]:g}", "var(--line2)")
        if n % every == 0:
            yield label(x, at.top + 32, f"{10.0**n * 100:g} %", "q", anchor="middle")
    scale = max(max(m.stored.bytes, m.bytes) for m in rows.matrices)
    for n, (m, y) in enumerate(zip(shown, tops, strict=False)):
        marks = "".join(_matrix(m, y + (step - ROW) / 2, rows, at, scale))
        yield lit_by(marks, f"matrix matrix:{n}")
    if len(shown) < len(rows.matrices):
        more = f"and {len(rows.matrices) - len(shown)} more, in the table"
        yield label(0, tops[-1] + 16, more, "q")
    y = at.height - 8
    yield rect(left, y - 10, 22, 7, "var(--t2)") + label(left + 30, y, "in this program")
    if rows.form != FLOAT:
        x = left + 46 + label_width("in this program")
        words = f"as {rows.form.name}" if rows.can_choose else "in the model"
        if x + 30 + label_width(words) <= at.right:
            yield _dashed(x, y - 10, 22) + label(x + 30, y, words)


def _matrix(m: MatrixRow, y: float, rows: LowBitRows, at: _Places, scale: float) -> Iterator[str]:
    """Draw a matrix's name, bytes and error on a line whose top is `y`."""
    (left, wide), (axis, room) = at.bars, at.errors
    name = m.label.removesuffix(PRODUCT)
    yield label(0, y + 15, cut_to(name, left - 10), "i", ops=m.ops, title=name)
    stored, form = wide * m.stored.bytes / scale, wide * m.bytes / scale
    yield rect(left, y + 3, max(1, stored), 7, "var(--t2)", title=f"{m.stored.bytes:,} bytes")
    text, other = size_text(m.stored.bytes), size_text(round(m.bytes))
    if rows.form != FLOAT:
        yield _dashed(left, y + 12, form, f"{round(m.bytes):,} bytes as {rows.form.words}")
        text = f"{text} → {other}" if rows.can_choose else f"{text} from {other}"
    end = left + max(stored, form) + 6
    for words in (text, other, ""):
        if end + label_width(words) < axis - 16:
            yield label(end, y + 15, words, "i", title=text)
            break
    if m.error is None or m.error == 0:
        return
    x = axis + room * _share(m.error)
    if x - axis > 60:
        text = f"{m.error:.2%}"
        yield _over_lines(x - 9 - label_width(text), y + 15, text, "i", m.ops)
    yield f'<circle cx="{x:.1f}" cy="{y + 11:.1f}" r="4" fill="var(--ink)">'
    yield f"<title>{m.error:.3%}</title></circle>"


def _over_lines(x: float, y: float, text: str, style: str, ops: Collection[str] = ()) -> str:
    """Write a text on a ground that hides the lines under it."""
    w = label_width(text, bold=style == "a") + 4
    return rect(x - 2, y - 13, w, 17, "var(--pane)", 'class="ground"', ops=ops) + label(
        x, y, text, style
    )


def _dashed(x: float, y: float, w: float, title: str = "") -> str:
    edge = 'stroke="var(--ink2)" stroke-dasharray="3 2"'
    return rect(x + 0.5, y + 0.5, max(2, w), 6, "none", edge, title=title)


def _share(error: float) -> float:
    """Return the place of an error on its axis, 0 to 1."""
    low, high = log10(LEAST_ERROR), log10(MOST_ERROR)
    return min(1.0, max(0.0, (log10(max(error, 1e-12)) - low) / (high - low)))


def _panel(rows: LowBitRows, at: _Places) -> Iterator[str]:
    x, y, wide, high = at.panel
    yield label(x, y + 14, rows.form.words, "i w")
    yield lit_by("".join(_block(rows.form, x, y + 26, wide)), "block")
    line = y + 84
    if rows.decoded:
        for text in wrap_text(f"decoded {rows.decoded}", wide, PX)[:2]:
            yield label(x, line, text)
            line += 17
    top = line + 14
    yield from _curve(rows, (x + 44, top + 20), (wide - 60, high - (top - y) - 70))


def _block(form: Form, x: float, y: float, wide: float) -> Iterator[str]:
    """Draw a block: a cell per element, and its scale, as wide as their bits."""
    block = form.block or CELLS
    cells = min(block, CELLS)
    total = block * form.bits + (SCALE_BITS if form.block else 0)
    each = wide * form.bits / total * block / cells
    for n in range(cells):
        yield rect(x + n * each, y, each - 1, 20, "url(#p-f-matmul)", 'stroke="var(--edge)"')
    if not form.block:
        yield label(x, y + 38, "32 bits each, no scale")
        return
    scale = wide * SCALE_BITS / total
    edge = 'stroke="var(--ink)" stroke-width="1.5"'
    yield rect(x + wide - scale, y, scale - 1, 20, "var(--t3)", edge, title="the block's scale")
    words = f"{block} codes of {form.bits} bits, and a scale of {SCALE_BITS}"
    for text in wrap_text(words, wide, PX)[:1]:
        yield label(x, y + 38, text)


def _curve(
    rows: LowBitRows, origin: tuple[float, float], size: tuple[float, float]
) -> Iterator[str]:
    """Draw perplexity over bits a weight: a point for each form that was measured."""
    (x, y), (w, h) = origin, size
    forms = [f for f in rows.forms if f.name in rows.tried]
    yield label(x - 44, y - 14, "perplexity", "w")
    if h < 40:
        return
    if not (rows.can_choose and rows.text):
        reason = "not measured: " + (
            "the model came with weights of few bits"
            if not rows.can_choose
            else "this is no language model with a vocabulary"
        )
        for n, text in enumerate(wrap_text(reason, w + 44, PX)[:3]):
            yield label(x - 44, y + 14 + 17 * n, text, "q")
        return
    values = [rows.tried[f.name].perplexity for f in forms]
    low, high = (min(values), max(values)) if values else (1.0, 2.0)
    low, high = log10(low * 0.95), log10(high * 1.1)
    bits = [log10(f.bits_a_weight) for f in (FORMS[-1], FORMS[0])]

    def place(f: Form) -> float:
        return x + w * (log10(f.bits_a_weight) - bits[0]) / (bits[1] - bits[0])

    def up(value: float) -> float:
        return y + h * (1 - (log10(value) - low) / (high - low))

    yield path(f"M{x:g} {y:g}V{y + h:g}H{x + w:g}", "var(--line2)")
    for n in (2, 4, 8, 16, 32):
        spot = x + w * (log10(n) - bits[0]) / (bits[1] - bits[0])
        if x <= spot <= x + w + 1:
            yield label(spot, y + h + 16, str(n), "q", anchor="middle")
    yield label(x + w, y + h + 34, "bits a weight", anchor="end")
    spot = place(rows.form)
    yield path(f"M{spot:.1f} {y:g}V{y + h:g}", "var(--accent)", 'stroke-dasharray="2 3"')
    if not forms:
        yield _over_lines(x + 10, y + h / 2, "not measured yet", "q")
        return
    points = [(place(f), up(rows.tried[f.name].perplexity)) for f in forms]
    yield path("M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in points), "var(--ink2)")
    ends: list[float] = []
    for f, (a, b) in zip(forms, points, strict=True):
        value = rows.tried[f.name].perplexity
        is_current = f == rows.form
        ink = "accent" if is_current else "ink"
        dot = f'<circle cx="{a:.1f}" cy="{b:.1f}" r="5" fill="var(--{ink})">'
        dot += f"<title>{f.words}: {value:.3f}</title></circle>"
        yield lit_by(dot, f"form:{f.name}{' current' if is_current else ''}")
        if is_current or all(abs(b - other) > 18 for other in ends):
            ends.append(b)
            text, is_right = f"{value:.2f}", a + 50 > x + w
            style = "a" if is_current else "i"
            left = a - 9 - label_width(text, bold=is_current) if is_right else a + 9
            yield _over_lines(left, b - 6, text, style)


def _draw(s: OnShow, op: str) -> Drawn:
    rows = data(s)
    if rows is None:
        none, svg, _ = placeholder(NO_PRODUCT)
        return none, svg, Table(("matrix",), ((NO_PRODUCT,),), ((),), NO_PRODUCT)
    return rows, figure(rows, s.view.size, op), table(rows)


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """Return the bits of a weight; the scrubber plays through them."""
    if not constant_products(s.now.compiled.model.program):
        return controls(s)
    names = [f.name for f in FORMS]
    texts = [f.words for f in FORMS]
    at = names.index(form_of(s.view.bits).name)
    return {**controls(s, ("bits", "weights as", names, at, texts)), "play": "bits"}


def _about(s: OnShow, op: str) -> str | None:
    model = s.now.compiled.model
    can_measure = measured_text_of(model) and constant_products(model.program)
    return "" if can_measure else None


def measure_forms(
    now: Setting, house: House, about: str, inputs: Arrays
) -> Iterator[tuple[int, int, Any]]:
    """Compile the model in each form, and measure the perplexity on the text that is held out."""
    c: Any = now.compiled
    _, text = manual_text()
    tried: dict[str, Tried] = {}
    for n, form in enumerate(FORMS):
        model, compiled = c.model, c
        if form.block:
            model = quantize(c.model, f"int{form.bits}", form.block)
            compiled = compile(model, c.device, c.options, donate=c.model.caches)
        weights = stored_weights(model.program, compiled.program).values()
        places = sorted({w.decoded for w in weights if w.decoded})
        size = sum(w.bytes for w in weights)
        tried[form.name] = Tried(perplexity(compiled, text), size, ", ".join(places))
        yield n + 1, len(FORMS), dict(tried)


def has_matrices(s: OnShow) -> bool:
    """Return True if a product has a constant matrix of floats, or of few bits."""
    program = s.now.compiled.model.program
    return bool(constant_products(program)) or any(_low_bit_products(program))


def describe(tried: Mapping[str, Tried]) -> str:
    """Return the perplexities in words."""
    return ", ".join(f"{name} {t.perplexity:.3f}" for name, t in tried.items())


PICTURE = Picture(
    name=NAME,
    title="Low bit",
    words="Bytes and error of each matrix with weights of few bits, and the perplexity they give.",
    stage=Stage.PLANNED,
    family=Family("bits", _controls),
    draw=_draw,
    clock=Clock("Measure perplexity", _about, measure_forms, describe),
)
