"""`repr` of a definition is Python that defines the same program."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support.against_torch import random
from tests.support.rebuilding import rebuilt
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.rules import CarryRule
from warpsmith.runtime import arrays

Body = Callable[[FusionDefinition], Any]
HALF, FLOAT, INT, BOOL = DataType.Half, DataType.Float, DataType.Int, DataType.Bool


def pointwise(fd: FusionDefinition) -> Any:
    x = fd.define_tensor([-1, 1, 4], contiguity=[True, None, True], dtype=HALF)
    y = fd.define_tensor([-1, -1], stride_order=[0, 1], contiguity=[False, True], dtype=HALF)
    s = fd.define_scalar(DataType.Double)
    total = fd.ops.silu(x) + y * s - 0.1
    return fd.ops.where(total > 0, total, float("inf")), fd.ops.where(total != s, 1.0, 0.0)


def moves(fd: FusionDefinition) -> Any:
    x = fd.define_tensor([-1, 1, 4], dtype=HALF)
    y = fd.define_tensor([-1, 5], dtype=HALF)
    a = fd.ops.permute(fd.ops.expand(x, [-1, 5, 4]), [2, 0, 1])
    b = fd.ops.broadcast(fd.ops.reshape(y, [5, -1]), [False, True, False])
    return a, b, fd.ops.squeeze(x, [1]), fd.ops.stride_order(y, [0, 1])


def reductions(fd: FusionDefinition) -> Any:
    x = fd.define_tensor([-1, 1, 4], dtype=HALF)
    y = fd.define_tensor([-1, 5], dtype=HALF)
    variance, mean = fd.ops.var_mean(x, [0, 1], keepdim=True)
    sums = fd.ops.sum(y > 0, [1]), fd.ops.prod(x, 0), fd.ops.max(y), fd.ops.min(y > 0, [0])
    return variance, mean, *sums, *fd.ops.welford(y, [0])


def rules(fd: FusionDefinition) -> Any:
    """Reductions by rules: of one value, of several, of numbers beside tensors, with constants."""
    y = fd.define_tensor([-1, 5], dtype=HALF)
    rule = CarryRule(
        name="spread",
        identity={"low": math.inf, "high": -math.inf, "count": 0},
        lift=lambda x: (x, x, 1),
        join=lambda a, b: (
            fd.ops.minimum(a.low, b.low),
            fd.ops.where(a.high < b.high, b.high, a.high * 2.0 - a.high),
            a.count + b.count,
        ),
    )
    made = fd.ops.logsumexp(y, [0]), fd.ops.argmin(y), fd.ops.any(y > 9, [1])
    scans = fd.ops.cumsum(y, 0, exclusive=True), fd.ops.cumsum(y > 0, 1, reverse=True)
    return *made, *fd.ops.reduce(y, rule), *scans, *fd.ops.cummax(y, 1)


def scalars(fd: FusionDefinition) -> Any:
    x = fd.define_tensor([-1, 1, 4], dtype=HALF)
    y = fd.define_tensor([-1, 5], dtype=HALF)
    n, flag = fd.define_scalar(INT), fd.define_scalar(BOOL)
    size = fd.ops.size(y, 0)
    filled = fd.ops.full([size * 2 // 3 + 1, n], fd.ops.where(flag, n, size), FLOAT)
    made = fd.ops.iota(size % 4 + 3, n, -1), fd.ops.full([2], float("nan"), HALF)
    grown = fd.ops.reshape(x, [-1, 2]) + fd.ops.minimum(size, 7)
    wide = fd.ops.full([fd.ops.size(grown, 0), fd.ops.maximum(size, n)], True, BOOL)
    return filled, *made, grown, wide, y + fd.define_scalar(0.1, FLOAT) * n


PROGRAMS: dict[str, tuple[Body, list[Any]]] = {
    "pointwise": (pointwise, [random((5, 1, 4), HALF), random((4, 6), HALF).T[:5], 2.5]),
    "moves": (moves, [random((3, 1, 4), HALF), random((3, 5), HALF)]),
    "reductions": (reductions, [random((3, 1, 4), HALF), random((3, 5), HALF)]),
    "rules": (rules, [random((3, 5), HALF)]),
    "scalars": (scalars, [random((3, 1, 4), HALF), random((6, 5), HALF), 3, True]),
}


def renumbered(text: str) -> str:
    """The text with tensors named in the order in which they come."""
    order: dict[str, str] = {}
    return re.sub(r"\btv\d+\b", lambda m: order.setdefault(m[0], f"tv{len(order)}"), text)


def defined(body: Body) -> FusionDefinition:
    with FusionDefinition() as fd:
        for result in body(fd):
            fd.add_output(result)
    return fd


@pytest.mark.few(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_round_trip(name: str) -> None:
    body, inputs = PROGRAMS[name]
    first = defined(body)
    second = rebuilt(repr(first))
    assert renumbered(repr(first)) == renumbered(repr(second))
    for a, b in zip(first.execute(inputs), second.execute(inputs), strict=True):
        assert a.dtype == b.dtype
        assert a.stride() == b.stride()
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def test_text() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 8], contiguity=True, dtype=DataType.BFloat16)
        fd.ops.exp(x)
        fd.add_output(fd.ops.relu(x), alias_input=x)
    assert repr(fd) == (
        "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
        "    tv0 = fd.define_tensor(shape=[-1, 8], contiguity=[True, True], "
        "dtype=DataType.BFloat16, is_cpu=False)\n"
        "    tv4 = fd.ops.cast(tv0, dtype=DataType.Float)\n"
        "    tv5 = fd.ops.relu(tv4)\n"
        "    tv6 = fd.ops.cast(tv5, dtype=DataType.BFloat16)\n"
        "    fd.add_output(tv6, tv0)\n"
    )


def test_an_empty_definition() -> None:
    assert repr(FusionDefinition()).endswith("None :\n    pass\n")


def test_a_schedule_does_not_change_what_is_defined() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        y, (variance, _) = fd.ops.sum(x, [1]), fd.ops.var_mean(x, [1])
        fd.add_output(y)
        fd.add_output(variance)
    before = repr(fd)
    y.split(1, 8).rfactor([-1])
    mean = variance.definition.inputs[0].definition.output
    mean.split(1, 8).rfactor([-1])
    assert repr(fd) == before


@pytest.mark.parametrize("numpy", [True, False])
@pytest.mark.parametrize("dtype", [HALF, DataType.Int8, DataType.Float8_e5m2], ids=str)
def test_repro_script(dtype: DataType, numpy: bool) -> None:
    with FusionDefinition() as fd:
        x, n = fd.define_tensor([-1, -1], dtype=dtype), fd.define_scalar(INT)
        fd.add_output(x * n + fd.ops.cast(fd.define_tensor([-1], dtype=INT), dtype))
    inputs = [random((4, 6), dtype)[:, ::2], 3, random((3,), INT)]
    if numpy:
        inputs = [arrays.to_numpy(i) if isinstance(i, torch.Tensor) else i for i in inputs]
    fd.execute(inputs, save_repro_inputs=True)
    script = fd.last_repro_script()
    assert script == fd.repro_script_for() == fd.repro_script_for(inputs)
    names: dict[str, Any] = {}
    exec(script, names)
    for made, given in zip(names["inputs"], inputs, strict=True):
        if isinstance(given, int):
            assert made == given
            continue
        layouts = [array.strides if numpy else array.stride() for array in (made, given)]
        assert (made.dtype, made.shape) == (given.dtype, given.shape)
        assert layouts[0] == layouts[1]
