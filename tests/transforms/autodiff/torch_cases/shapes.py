"""What moves elements: views, slices, joins, gathers and scatters."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer.np as enp
from tests.transforms.autodiff.torch_cases.case import Case, case, op, some, torch

F = torch.nn.functional
X, CUBE = some(4, 5), some(2, 3, 4)
TIES = "a tie of the element and the largest update gives half to each; in PyTorch all share alike"
AT = np.array([[0, 2], [3, 3], [1, 0]])
ALONG = np.array([[0, 1, 1, 4], [2, 0, 4, 4], [3, 1, 0, 0]])
UPDATES = some(3, 4, seed=1)


def theirs_at(*index: Any) -> Any:
    return lambda x: x[index]


def scatter(how: str, theirs: Any, updates: Any = UPDATES, x: Any = X, why: str = "") -> Case:
    """Along dim 1; some places are written twice."""
    places = ALONG if how != "none" else np.argsort(some(3, 5), axis=1)[:, :4]
    return case(
        lambda x, u: op("ScatterElements", axis=1, reduction=how)(x, places, u),
        lambda x, u: theirs(x, torch.tensor(places), u),
        x,
        updates,
        why=why,
    )


def reduced(how: str) -> Any:
    return lambda x, i, u: x.scatter_reduce(1, i, u, how, include_self=True)


def nd(x: Any, u: Any) -> Any:
    found = x.clone()
    found[AT[:, 0], AT[:, 1]] = u
    return found


def changed(x: Any, u: Any) -> Any:
    found = x.clone()
    found[1:3, ::2] = u
    return found


CASES: dict[str, Case] = {
    "reshape": case(lambda x: x.reshape(2, 10), lambda x: x.reshape(2, 10), X),
    "ravel": case(enp.ravel, torch.ravel, CUBE),
    "transpose": case(enp.transpose, lambda x: x.permute(2, 1, 0), CUBE),
    "permuted": case(lambda x: enp.transpose(x, (1, 2, 0)), lambda x: x.permute(1, 2, 0), CUBE),
    "swapaxes": case(lambda x: enp.swapaxes(x, 0, 2), lambda x: x.swapaxes(0, 2), CUBE),
    "moveaxis": case(lambda x: enp.moveaxis(x, 0, 2), lambda x: x.moveaxis(0, 2), CUBE),
    "squeeze": case(enp.squeeze, torch.squeeze, some(1, 3, 1)),
    "expand_dims": case(lambda x: enp.expand_dims(x, 1), lambda x: x.unsqueeze(1), X),
    "broadcast_to": case(lambda x: enp.broadcast_to(x, (2, 4, 5)), lambda x: x.expand(2, 4, 5), X),
    "tile": case(lambda x: enp.tile(x, (2, 1, 3)), lambda x: x.tile(2, 1, 3), X),
    "repeat": case(lambda x: enp.repeat(x, 3, axis=1), lambda x: x.repeat_interleave(3, 1), X),
    "flip": case(lambda x: enp.flip(x, 1), lambda x: x.flip(1), X),
    "roll": case(lambda x: enp.roll(x, 2, axis=1), lambda x: x.roll(2, 1), X),
    "tril": case(enp.tril, torch.tril, X),
    "triu": case(lambda x: enp.triu(x, 1), lambda x: x.triu(1), X),
    "diag, of a vector": case(enp.diag, torch.diag, some(4)),
    "a slice": case(lambda x: x[1:3, 2:], theirs_at(slice(1, 3), slice(2, None)), X),
    "steps": case(lambda x: x[::2, 1::3], theirs_at(slice(None, None, 2), slice(1, None, 3)), X),
    "backwards": case(lambda x: x[::-1], lambda x: x.flip(0), X),
    "backwards by twos": case(lambda x: x[::-2, 3::-3], lambda x: x[[3, 1]][:, [3, 0]], X),
    "an element": case(lambda x: x[1, -1], theirs_at(1, -1), X),
    "a row twice": case(lambda x: x[1] * x[1], lambda x: x[1] * x[1], X),
    "a new dim": case(lambda x: x[:, None, 1:], theirs_at(slice(None), None, slice(1, None)), X),
    "dots": case(lambda x: x[..., 1], theirs_at(..., 1), CUBE),
    "windows that overlap": case(lambda x: x[:-1] * x[1:], lambda x: x[:-1] * x[1:], X),
    "rows by number": case(lambda x: x[np.array([1, 0, 1, -1])], lambda x: x[[1, 0, 1, -1]], X),
    "columns by number": case(lambda x: x[:, np.array([1, 0, 1])], lambda x: x[:, [1, 0, 1]], X),
    "elements by number": case(lambda x: x[AT[:, 0], AT[:, 1]], lambda x: x[AT[:, 0], AT[:, 1]], X),
    "elements by a mask": case(
        lambda x, m: (x[m] ** 2).sum(), lambda x, m: (x[m] ** 2).sum(), X, X > 0
    ),
    "take": case(lambda x: enp.take(x, AT, axis=0), lambda x: x[torch.tensor(AT)], X),
    "take, of all": case(lambda x: enp.take(x, AT), lambda x: x.take(torch.tensor(AT)), X),
    "compress": case(
        lambda x: enp.compress(np.array([True, False, True, True]), x, axis=0),
        lambda x: x[[0, 2, 3]],
        X,
    ),
    "take_along_axis": case(
        lambda x: enp.take_along_axis(x, ALONG, axis=1),
        lambda x: x[:3].take_along_dim(torch.tensor(ALONG), 1),
        X[:3],
    ),
    "GatherElements": case(
        lambda x: op("GatherElements", axis=1)(x, ALONG),
        lambda x: x.gather(1, torch.tensor(ALONG)),
        X,
    ),
    "GatherND": case(
        lambda x: op("GatherND")(x, AT), lambda x: x[AT[:, 0], AT[:, 1]], some(4, 5, 2)
    ),
    "sort": case(lambda x: enp.sort(x, axis=1), lambda x: x.sort(1).values, X),
    "TopK": case(
        lambda x: op("TopK", results=2, axis=1)(x, np.array([3]))[0],
        lambda x: x.topk(3, 1).values,
        X,
    ),
    "by an order": case(
        lambda x: enp.take_along_axis(x, enp.argsort(x, axis=0), axis=0),
        lambda x: x.sort(0).values,
        X,
    ),
    "concatenate": case(
        lambda a, b: enp.concatenate([a, b, a], axis=1),
        lambda a, b: torch.cat([a, b, a], 1),
        X,
        some(4, 2),
    ),
    "stack": case(
        lambda a, b: enp.stack([a, b], axis=1),
        lambda a, b: torch.stack([a, b], 1),
        X,
        some(4, 5, seed=1),
    ),
    "vstack": case(lambda a, b: enp.vstack([a, b]), lambda a, b: torch.vstack([a, b]), X, some(5)),
    "hstack": case(lambda a, b: enp.hstack([a, b]), lambda a, b: torch.hstack([a, b]), X, X[:, :1]),
    "append": case(
        lambda a, b: enp.append(a, b, axis=0), lambda a, b: torch.cat([a, b]), X, some(1, 5)
    ),
    "atleast_2d": case(enp.atleast_2d, torch.atleast_2d, some(3)),
    "matrix_transpose": case(enp.matrix_transpose, lambda x: x.mT, CUBE),
    "Flatten": case(op("Flatten", axis=2), lambda x: x.reshape(6, 4), CUBE),
    "one of many rows": case(lambda x, n: x[n], lambda x, n: x[n], X, np.asarray(2)),
    "split": case(
        lambda x: tuple(enp.split(x, [1, 4], axis=1)), lambda x: x.tensor_split([1, 4], 1), X
    ),
    "split, a part of it": case(
        lambda x: enp.split(x, [1, 4], axis=1)[1], lambda x: x.tensor_split([1, 4], 1)[1], X
    ),
    "pad": case(lambda x: enp.pad(x, ((1, 2), (0, 1))), lambda x: F.pad(x, (0, 1, 1, 2)), X),
    "pad, reflected": case(
        lambda x: op("Pad", mode="reflect")(x, np.array([0, 0, 2, 1, 0, 0, 1, 2])),
        lambda x: F.pad(x, (1, 2, 2, 1), "reflect"),
        some(1, 2, 4, 5),
    ),
    "pad, edges": case(
        lambda x: op("Pad", mode="edge")(x, np.array([0, 0, 2, 1, 0, 0, 1, 2])),
        lambda x: F.pad(x, (1, 2, 2, 1), "replicate"),
        some(1, 2, 4, 5),
    ),
    "pad, wrapped": case(
        lambda x: op("Pad", mode="wrap")(x, np.array([0, 0, 2, 1, 0, 0, 1, 2])),
        lambda x: F.pad(x, (1, 2, 2, 1), "circular"),
        some(1, 2, 4, 5),
    ),
    "pad, less": case(
        lambda x: op("Pad")(x, np.array([-1, 1, 0, -2])), lambda x: F.pad(x, (1, -2, -1, 0)), X
    ),
    "pad, by a value": case(
        lambda x, v: op("Pad")(x, np.array([1, 1, 0, 2]), v),
        lambda x, v: torch.where(
            F.pad(torch.ones_like(x), (1, 2, 1, 0)) > 0, F.pad(x, (1, 2, 1, 0)), v
        ),
        X,
        some(),
    ),
    "ReverseSequence": case(
        lambda x: op("ReverseSequence", batch_axis=1, time_axis=0)(x, np.array([1, 2, 4, 3, 1])),
        lambda x: torch.stack(
            [torch.cat([c[:n].flip(0), c[n:]]) for c, n in zip(x.T, (1, 2, 4, 3, 1))], 1
        ),
        X,
    ),
    "a scatter": scatter("none", lambda x, i, u: x.scatter(1, i, u)),
    "a scatter that adds": scatter("add", lambda x, i, u: x.scatter_add(1, i, u)),
    "a scatter that multiplies": scatter("mul", reduced("prod")),
    "a scatter of the largest": scatter("max", reduced("amax")),
    "a scatter of the least": scatter("min", reduced("amin")),
    "a scatter of ties": scatter("max", reduced("amax"), np.round(UPDATES), np.round(X), TIES),
    "a scatter of products with zeros": scatter(
        "mul", reduced("prod"), np.round(UPDATES), np.round(X)
    ),
    "ScatterND": case(lambda x, u: op("ScatterND")(x, AT, u), nd, X, some(3)),
    "ScatterND that adds": case(
        lambda x, u: op("ScatterND", reduction="add")(x, AT[:, :1] * 0 + 1, u),
        lambda x, u: x.index_add(0, torch.tensor([1, 1, 1]), u),
        X,
        some(3, 5, seed=1),
    ),
    "setitem": case(
        lambda x, u: enp.setitem(x, (slice(1, 3), slice(None, None, 2)), u), changed, X, some(2, 3)
    ),
    "setitem, by a mask": case(
        lambda x, u: enp.setitem(x, X > 0, u),
        lambda x, u: x.masked_fill(torch.tensor(X > 0), u),
        X,
        some(),
    ),
    "setitem, by numbers": case(
        lambda x, u: enp.setitem(x, np.array([2, 0]), u),
        lambda x, u: torch.stack([u[1], x[1], u[0], x[3]]),
        X,
        some(2, 5),
    ),
    "nothing": case(lambda x: x * 2, lambda x: x * 2, some(0, 3)),
    "the sum of nothing": case(enp.sum, torch.sum, some(0, 3)),
}
