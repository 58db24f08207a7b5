"""Every block with the arguments of its forward, at small sizes and at real ones."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tests.programs.models import blocks
from warpsmith import FusionDefinition
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.evaluate import evaluate
from warpsmith.runtime.arrays import NUMPY_DTYPES
from warpsmith.testing import Tolerance, assert_close

Kinds = tuple[tuple[str, tuple[int, ...]], ...]
"""For each argument: what it is (`drawn`, `near one`, `mask`, `cos`, `sin`), and its shape."""

_FIXED = ("mask", "cos", "sin")


@dataclass(frozen=True, slots=True)
class Block:
    """A block at some sizes.

    Attributes:
        arguments: of the forward; those that are `drawn` or `near one` have gradients.
        result: shape of the result, and of its gradient.
    """

    name: str
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    arguments: Kinds
    result: tuple[int, ...]

    @property
    def with_gradients(self) -> tuple[int, ...]:
        return tuple(k for k, (kind, _) in enumerate(self.arguments) if kind not in _FIXED)

    def drawn(self, dtype: DataType, seed: int = 0) -> list[np.ndarray]:
        """Arguments of the forward."""
        random = np.random.default_rng(seed)
        return [_array(kind, shape, dtype, random) for kind, shape in self.arguments]

    def gradient(self, dtype: DataType, seed: int = 1) -> np.ndarray:
        """The result's."""
        return _array("drawn", self.result, dtype, np.random.default_rng(seed))


def _array(
    kind: str, shape: tuple[int, ...], dtype: DataType, random: np.random.Generator
) -> np.ndarray:
    held = NUMPY_DTYPES[dtype.value]
    if kind == "mask":
        mask = random.random(shape) < 0.8
        mask[..., 0] = True
        return mask
    if kind in ("cos", "sin"):
        places, features = shape
        speeds = np.exp(np.arange(features // 2) * (-2 * np.log(1e4) / features))
        turns = np.arange(places)[:, None] * np.concatenate((speeds, speeds))
        return np.asarray(getattr(np, kind)(turns).astype(held))
    fan = shape[-1] if len(shape) == 2 else 1
    values = random.standard_normal(shape) / np.sqrt(fan)
    return np.asarray((values * 0.1 + 1 if kind == "near one" else values).astype(held))


def assert_means(fd: FusionDefinition, arrays: list[np.ndarray], results: Any) -> None:
    """Results are those of float64, by the size of the largest: the gradient of keys' bias is 0.

    What passes between operations is rounded to 16 bits where arguments are.
    """
    meant = evaluate(fd.fusion, arrays, precise=True)
    size = max(float(np.abs(each).max()) for each in meant)
    for number, (got, expected) in enumerate(zip(results, meant, strict=True)):
        rounded = Tolerance(0.0, 4 * 2**-8 * size) if got.dtype.itemsize == 2 else None
        assert_close(
            got,
            expected,
            reduction_length=32,
            scale=size,
            within=rounded,
            name=f"result {number}",
        )


def defined(
    function: Callable[..., Any], arrays: list[np.ndarray], *, static: bool = False
) -> FusionDefinition:
    """The fusion of a function of arrays like these; sizes are symbolic unless `static`."""
    with FusionDefinition() as fd:
        results = function(*(fd.from_pytorch(array, static_sizes=static) for array in arrays))
        for result in results if isinstance(results, tuple) else (results,):
            fd.add_output(result)
    return fd


def gpt2(b: int, s: int, heads: int, d: int) -> Block:
    forward, backward = blocks.gpt2(heads, d)
    each: Kinds = (("drawn", (d, d)), ("drawn", (d,)))
    norm: Kinds = (("near one", (d,)), ("drawn", (d,)))
    mlp: Kinds = (("drawn", (d, 4 * d)), ("drawn", (4 * d,)), ("drawn", (4 * d, d)))
    rest: Kinds = (*norm, *each * 4, *norm, *mlp, ("drawn", (d,)))
    return Block("gpt2", forward, backward, (("drawn", (b, s, d)), *rest), (b, s, d))


def llama(
    b: int, s: int, heads: int, groups: int, d: int, hidden: int, *, normed: bool = False
) -> Block:
    forward, backward = blocks.llama(heads, groups, d, normed)
    f, kv = d // heads, d // groups
    shapes = [(d, d), (kv, d), (kv, d), (d, d)], [(hidden, d), (hidden, d), (d, hidden)]
    weights: list[tuple[str, tuple[int, ...]]] = []
    for group in shapes:
        weights += [("near one", (d,)), *(("drawn", shape) for shape in group)]
    if normed:
        weights += [("near one", (f,)), ("near one", (f,))]
    given: Kinds = (("drawn", (b, s, d)), ("cos", (s, f)), ("sin", (s, f)), *weights)
    return Block("qwen" if normed else "llama", forward, backward, given, (b, s, d))


def encoder(b: int, s: int, heads: int, d: int, *, first: bool) -> Block:
    forward, backward = blocks.encoder(heads, d, first)
    each: Kinds = (("drawn", (d, d)), ("drawn", (d,)))
    norm: Kinds = (("near one", (d,)), ("drawn", (d,)))
    mlp: Kinds = (("drawn", (4 * d, d)), ("drawn", (4 * d,)), ("drawn", (d, 4 * d)))
    rest: Kinds = (*each * 4, *norm, *mlp, ("drawn", (d,)), *norm)
    mask: Kinds = () if first else (("mask", (b, 1, 1, s)),)
    given: Kinds = (("drawn", (b, s, d)), *mask, *rest)
    return Block("vit" if first else "bert", forward, backward, given, (b, s, d))


def t5(b: int, s: int, heads: int, d: int, hidden: int) -> Block:
    forward, backward = blocks.t5(heads)
    given: Kinds = (
        ("drawn", (b, s, d)),
        ("drawn", (1, heads, s, s)),
        ("near one", (d,)),
        *((("drawn", (d, d)),) * 4),
        ("near one", (d,)),
        ("drawn", (hidden, d)),
        ("drawn", (hidden, d)),
        ("drawn", (d, hidden)),
    )
    return Block("t5", forward, backward, given, (b, s, d))


def dlrm(b: int, dense: int, tables: int, d: int, hidden: int) -> Block:
    forward, backward = blocks.dlrm()
    shapes = [(b, dense), (b, tables, d), (hidden, dense), (hidden,), (d, hidden), (d,)]
    shapes += [(hidden, d), (hidden, tables), (hidden, tables * tables), (hidden,)]
    shapes += [(1, hidden), (1,)]
    given: Kinds = tuple(("drawn", shape) for shape in shapes)
    return Block("dlrm", forward, backward, given, (b, 1))


SMALL: dict[str, Callable[[], Block]] = {
    "gpt2": partial(gpt2, 2, 6, 2, 16),
    "llama": partial(llama, 2, 6, 4, 2, 32, 24),
    "qwen": partial(llama, 2, 6, 4, 2, 32, 24, normed=True),
    "bert": partial(encoder, 2, 6, 2, 16, first=False),
    "vit": partial(encoder, 2, 5, 2, 16, first=True),
    "t5": partial(t5, 2, 6, 2, 16, 24),
    "dlrm": partial(dlrm, 5, 13, 4, 8, 16),
}
