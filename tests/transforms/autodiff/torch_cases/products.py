"""Products of matrices, convolutions, transforms and recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer.np as enp
from tests.transforms.autodiff.torch_cases.case import Case, case, op, some, torch

F = torch.nn.functional


def of_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> Case:
    return case(enp.matmul, torch.matmul, some(*a), some(*b, seed=1))


def of_einsum(rule: str, *shapes: tuple[int, ...]) -> Case:
    args = [some(*s, seed=n) for n, s in enumerate(shapes)]
    return case(lambda *v: enp.einsum(rule, *v), lambda *v: torch.einsum(rule, *v), *args)


def of_conv(
    x: tuple[int, ...],
    w: tuple[int, ...],
    strides: Any = 1,
    padding: Any = 0,
    dilations: Any = 1,
    groups: int = 1,
) -> Case:
    theirs = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(x)]
    return case(
        lambda x, w, b: enp.conv(
            x, w, b, strides=strides, padding=padding, dilations=dilations, groups=groups
        ),
        lambda x, w, b: theirs(x, w, b, strides, padding, dilations, groups),
        some(*x),
        some(*w, seed=1),
        some(w[0], seed=2),
    )


def of_transpose(
    x: tuple[int, ...],
    w: tuple[int, ...],
    strides: int = 1,
    padding: int = 0,
    more: int = 0,
    dilations: int = 1,
    groups: int = 1,
) -> Case:
    rank = len(x) - 2
    theirs = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[rank]
    ours = op(
        "ConvTranspose",
        strides=(strides,) * rank,
        pads=(padding,) * (2 * rank),
        output_padding=(more,) * rank,
        dilations=(dilations,) * rank,
        group=groups,
        kernel_shape=w[2:],
    )
    return case(
        ours,
        lambda x, w, b: theirs(x, w, b, strides, padding, more, groups, dilations),
        some(*x),
        some(*w, seed=1),
        some(w[1] * groups, seed=2),
    )


def recurrent(kind: str, layers: int, steps: int = 4) -> Case:
    """One layer of PyTorch, its weights in ONNX's order of gates; both biases are given."""
    size, hidden = 3, 2
    order = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2], "RNN": [0]}[kind]
    gates = len(order)

    def swapped(w: Any) -> Any:
        return torch.cat([w[g * hidden : (g + 1) * hidden] for g in np.argsort(order)])

    def theirs(x: Any, w: Any, r: Any, b: Any, *start: Any) -> Any:
        halves = b[0].reshape(2, -1)
        flat = [swapped(w[0]), swapped(r[0]), swapped(halves[0]), swapped(halves[1])]
        state = (start[0], start[1]) if kind == "LSTM" else start[0]
        run = {"LSTM": torch._VF.lstm, "GRU": torch._VF.gru, "RNN": torch._VF.rnn_tanh}[kind]
        y, *last = run(x, state, flat, True, 1, 0.0, True, False, False)
        return (y[:, None], *last)

    more = {"linear_before_reset": 1} if kind == "GRU" else {}
    run = op(kind, results=3 if kind == "LSTM" else 2, hidden_size=hidden, **more)
    starts = [some(1, 2, hidden, seed=n + 5) for n in range(2 if kind == "LSTM" else 1)]
    return case(
        lambda x, w, r, b, *start: run(x, w, r, b, None, *start),
        theirs,
        some(steps, 2, size),
        some(1, gates * hidden, size, seed=1) * 0.5,
        some(1, gates * hidden, hidden, seed=2) * 0.5,
        some(1, 2 * gates * hidden, seed=3) * 0.5,
        *starts,
    )


def pair(z: Any) -> Any:
    return torch.view_as_real(z)


CASES: dict[str, Case] = {
    "matmul, vectors": of_matmul((4,), (4,)),
    "matmul, by a vector": of_matmul((3, 4), (4,)),
    "matmul, a vector by": of_matmul((3,), (3, 4)),
    "matmul": of_matmul((3, 4), (4, 5)),
    "matmul, batched": of_matmul((2, 3, 4), (2, 4, 5)),
    "matmul, broadcast": of_matmul((2, 1, 3, 4), (3, 4, 5)),
    "matmul, a matrix by a batch": of_matmul((3, 4), (2, 4, 5)),
    "matmul, a batch by a vector": of_matmul((2, 3, 4), (4,)),
    "matmul, a vector by a batch": of_matmul((3,), (2, 3, 4)),
    "matmul, one row": of_matmul((1, 4), (4, 1)),
    "matmul, of nothing": of_matmul((3, 0), (0, 4)),
    "matmul, larger": of_matmul((33, 40), (40, 17)),
    "with itself": case(lambda a: a @ a, lambda a: a @ a, some(4, 4)),
    "by its transpose": case(lambda a: a @ a.T, lambda a: a @ a.T, some(3, 4)),
    "dot": case(enp.dot, torch.matmul, some(3, 4), some(4, 2)),
    "vdot": case(enp.vdot, torch.dot, some(4), some(4, seed=1)),
    "vecdot": case(enp.vecdot, torch.linalg.vecdot, some(3, 4), some(3, 4, seed=1)),
    "inner": case(enp.inner, torch.inner, some(3, 4), some(2, 4)),
    "outer": case(enp.outer, torch.outer, some(3), some(4)),
    "tensordot": case(
        lambda a, b: enp.tensordot(a, b, axes=([1, 0], [0, 1])),
        lambda a, b: torch.tensordot(a, b, dims=([1, 0], [0, 1])),
        some(3, 4, 2),
        some(4, 3, 5),
    ),
    "Gemm": case(
        op("Gemm", alpha=0.5, beta=2.0, transA=1, transB=1),
        lambda a, b, c: 0.5 * a.T @ b.T + 2 * c,
        some(4, 3),
        some(5, 4),
        some(5),
    ),
    "Gemm, a scalar": case(op("Gemm"), lambda a, b, c: a @ b + c, some(3, 4), some(4, 5), some()),
    "einsum, attention": of_einsum("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
    "einsum, summed": of_einsum("ij->", (3, 4)),
    "einsum, diagonal": of_einsum("ii->i", (4, 4)),
    "einsum, trace": of_einsum("bii->b", (2, 4, 4)),
    "einsum, three": of_einsum("i,ij,j->", (3,), (3, 4), (4,)),
    "einsum, outer": of_einsum("i,j->ij", (3,), (4,)),
    "einsum, dots": of_einsum("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
    "einsum, implied": of_einsum("ij,kj", (3, 4), (2, 4)),
    "conv, 1-D": of_conv((2, 3, 9), (4, 3, 3)),
    "conv, 1-D, strides and padding": of_conv((2, 3, 10), (4, 3, 3), 2, 1),
    "conv": of_conv((2, 3, 6, 7), (4, 3, 3, 2)),
    "conv, padding": of_conv((1, 2, 5, 5), (3, 2, 3, 3), 1, 1),
    "conv, strides": of_conv((1, 2, 7, 8), (3, 2, 3, 3), (2, 3), (1, 0)),
    "conv, strides that leave a rest": of_conv((1, 2, 8, 8), (3, 2, 3, 3), 3),
    "conv, strides beyond the window": of_conv((1, 2, 9, 9), (3, 2, 2, 2), 4),
    "conv, dilations": of_conv((1, 2, 9, 9), (3, 2, 3, 3), 1, 2, 2),
    "conv, strides and dilations": of_conv((1, 2, 11, 10), (3, 2, 3, 3), 2, 1, (2, 3)),
    "conv, groups": of_conv((2, 4, 6, 6), (6, 2, 3, 3), 1, 1, 1, 2),
    "conv, depthwise": of_conv((2, 4, 6, 6), (4, 1, 3, 3), 2, 1, 1, 4),
    "conv, pointwise": of_conv((2, 4, 5, 5), (3, 4, 1, 1)),
    "conv, pointwise, strides": of_conv((2, 4, 5, 5), (3, 4, 1, 1), 2),
    "conv, 3-D": of_conv((1, 2, 5, 5, 6), (3, 2, 2, 3, 3), (1, 2, 1), 1),
    "conv transposed, 1-D": of_transpose((2, 3, 5), (3, 4, 3), 2, 1),
    "conv transposed": of_transpose((1, 3, 4, 5), (3, 2, 3, 3)),
    "conv transposed, strides": of_transpose((1, 3, 4, 5), (3, 2, 3, 3), 2, 1, 1),
    "conv transposed, groups": of_transpose((1, 4, 4, 4), (4, 2, 3, 3), 2, 0, 0, 1, 2),
    "conv transposed, strides and dilations": of_transpose((1, 2, 5), (2, 3, 3), 2, 1, 1, 3),
    "conv transposed, longer strides": of_transpose((1, 2, 4), (2, 3, 4), 3, 1, 0, 2),
    "conv transposed, dilations": of_transpose((1, 2, 4, 4), (2, 3, 3, 3), 1, 1, 0, 2),
    "conv transposed, 3-D": of_transpose((1, 2, 3, 3, 3), (2, 2, 2, 2, 2), 2),
    "LSTM": recurrent("LSTM", 1),
    "LSTM, of many steps": recurrent("LSTM", 1, 40),
    "GRU": recurrent("GRU", 1),
    "RNN": recurrent("RNN", 1),
    "Det": case(op("Det"), torch.linalg.det, some(3, 3)),
    "Det, a batch": case(op("Det"), torch.linalg.det, some(2, 4, 4)),
    "DFT": case(
        lambda x: op("DFT")(x, None, np.asarray(1)),
        lambda x: pair(torch.fft.fft(torch.complex(x[..., 0], x[..., 1]), dim=1)),
        some(2, 8, 2),
    ),
    "DFT, of real numbers": case(
        lambda x: op("DFT", onesided=1)(x, None, np.asarray(1)),
        lambda x: pair(torch.fft.rfft(x[..., 0], dim=1)),
        some(2, 7, 1),
    ),
    "DFT, inverse": case(
        lambda x: op("DFT", inverse=1)(x, None, np.asarray(1)),
        lambda x: pair(torch.fft.ifft(torch.complex(x[..., 0], x[..., 1]), dim=1)),
        some(2, 8, 2),
    ),
    "DFT, in two sums": case(
        lambda x: op("DFT", onesided=1)(x, None, np.asarray(1)),
        lambda x: pair(torch.fft.rfft(x[..., 0], dim=1)),
        some(2, 36, 1),
    ),
    "STFT": case(
        lambda x, w: op("STFT", onesided=1, frame_step=(4,), frame_length=(8,))(x, None, w),
        lambda x, w: pair(
            torch.stft(x[..., 0], 8, 4, 8, w, center=False, onesided=True, return_complex=True)
        ).transpose(1, 2),
        some(2, 32, 1),
        some(8),
    ),
}
