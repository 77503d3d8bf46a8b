"""Right and wrong answers to the warm-ups of chapter 11."""

_STEP = "import numpy as np\n\n\ndef guarded_step(parameter, momentum, gradient):\n"
_STRIDED = (
    "import numpy as np\n\n\ndef strided_vjp(w, g, n, stride):\n    d_x = np.zeros(n)\n"
    "    for h in range(len(g)):\n        for k in range(len(w)):\n"
)

RIGHT: dict[str, dict[str, str]] = {
    "centred_vjp": {
        "by the Jacobian": (
            "import numpy as np\n\n\ndef centred_vjp(x, g):\n"
            "    return (np.eye(len(x)) - np.ones((len(x), len(x))) / len(x)) @ g\n"
        ),
    },
    "gradient_products": {
        "counted": (
            "def product_count(layers, also_input):\n    count = 0\n    for n in range(layers):\n"
            "        count += 2 + (n > 0 or also_input)\n    return count\n"
        ),
    },
    "checkpoint_distance": {
        "simulated": (
            "def live(values, d):\n    stored = list(range(0, values, d))\n"
            "    return max(len(stored[: n + 1]) + d - 1 for n in range(len(stored)))\n\n\n"
            "def stored_every(values):\n"
            "    return min((live(values, d), -d) for d in range(1, values + 1) if values % d == 0)"
            "[1] * -1\n"
        ),
    },
    "skipped_step": {
        "with an if": _STEP
        + "    if not np.isfinite(gradient.sum()):\n        return parameter, momentum\n"
        + "    momentum = momentum * 0.9 + gradient\n"
        + "    return parameter - momentum / 10, momentum\n",
    },
    "strided_vjp": {
        "by the elements of x": (
            "import numpy as np\n\n\ndef strided_vjp(w, g, n, stride):\n"
            "    def of(t):\n"
            "        at = [(t - k, k) for k in range(len(w)) if (t - k) % stride == 0]\n"
            "        at = [(h // stride, k) for h, k in at if 0 <= h // stride < len(g)]\n"
            "        return sum(w[k] * g[h] for h, k in at)\n"
            "\n    return [float(of(t)) for t in range(n)]\n"
        ),
    },
}
WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "centred_vjp": {
        "the mean of x": (
            "def centred_vjp(x, g):\n    return g - x.mean()\n",
            "elements: the gradient of x\\[.\\] is .*, not",
        ),
        "the mean is a constant": (
            "def centred_vjp(x, g):\n    return g - 0\n",
            "elements: the gradient of x\\[.\\] is .*, not",
        ),
        "the sum": (
            "def centred_vjp(x, g):\n    return g - g.sum()\n",
            "elements: the gradient of x\\[.\\] is .*, not",
        ),
    },
    "gradient_products": {
        "two for each layer": (
            "def product_count(layers, also_input):\n    return 2 * layers + also_input\n",
            "layers, gradient of the weights: .* products, not",
        ),
        "the first x as well": (
            "def product_count(layers, also_input):\n    return 3 * layers\n",
            "layers, gradient of the weights: .* products, not",
        ),
    },
    "checkpoint_distance": {
        "the root, whether it divides or not": (
            "def stored_every(values):\n    return round(values**0.5)\n",
            "values: .* is not one of the distances",
        ),
        "as few as possible are stored": (
            "def stored_every(values):\n    return values\n",
            "values, of which every 12th is stored: 12 are live at once, and 6 are possible",
        ),
    },
    "skipped_step": {
        "bad elements alone are skipped": (
            _STEP
            + "    ok = np.isfinite(gradient)\n    new = 0.9 * momentum + gradient\n"
            + "    moved = parameter - 0.1 * new\n"
            + "    return np.where(ok, moved, parameter), np.where(ok, new, momentum)\n",
            "the gradient is .*(nan|inf).* and the .*: it becomes",
        ),
        "multiplied by the flag": (
            _STEP
            + "    ok = float(np.isfinite(gradient).all())\n"
            + "    new = 0.9 * momentum + gradient\n"
            + "    momentum = ok * new + (1 - ok) * momentum\n"
            + "    return parameter - 0.1 * ok * momentum, momentum\n",
            "it becomes .*nan",
        ),
        "the momentum continues": (
            _STEP
            + "    ok = np.isfinite(gradient).all()\n"
            + "    momentum = 0.9 * momentum + np.where(ok, gradient, 0)\n"
            + "    return np.where(ok, parameter - 0.1 * momentum, parameter), momentum\n",
            "the gradient is .* and the momentum .*: it becomes",
        ),
    },
    "strided_vjp": {
        "the last output wins": (
            _STRIDED + "            d_x[stride * h + k] = w[k] * g[h]\n    return d_x\n",
            "the gradient of x\\[.*\\] is .*, not",
        ),
        "weights in reverse": (
            _STRIDED + "            d_x[stride * h + k] += w[-1 - k] * g[h]\n    return d_x\n",
            "the gradient of x\\[.*\\] is .*, not",
        ),
        "no stride": (
            _STRIDED + "            d_x[h + k] += w[k] * g[h]\n    return d_x\n",
            "the gradient of x\\[.*\\] is .*, not",
        ),
    },
}
