"""Softmaxes of rows that no kernel keeps: the maximum and the sum are found in one pass."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.launching import check_segments, random_inputs
from warpsmith import DataType, FusionDefinition, fuse, ops
from warpsmith.ir.fusion import Fusion
from warpsmith.ops.evaluate import evaluate
from warpsmith.planner.plan import cut
from warpsmith.planner.segment import Unfit
from warpsmith.schedulers.table import PERSISTENT
from warpsmith.targets.hopper import H200

TOO_LONG = tuple(Unfit(name, "rows are too long") for name in (*PERSISTENT, "outer_grid"))

Body = Callable[[FusionDefinition, Any], Any]


def softmax(fd: FusionDefinition, x: Any, dim: int = 1) -> Any:
    power = fd.ops.exp(fd.ops.sub(x, fd.ops.max(x, [dim], keepdim=True)))
    return fd.ops.div(power, fd.ops.sum(power, [dim], keepdim=True))


def log_softmax(fd: FusionDefinition, x: Any) -> Any:
    low = fd.ops.sub(x, fd.ops.max(x, [1], keepdim=True))
    return fd.ops.sub(low, fd.ops.log(fd.ops.sum(fd.ops.exp(low), [1], keepdim=True)))


def of_columns(fd: FusionDefinition, x: Any) -> Any:
    return softmax(fd, x, 0)


def halved(fd: FusionDefinition, x: Any) -> Any:
    """Sums along other dimensions than the maximum: two passes, as before."""
    power = fd.ops.exp(fd.ops.sub(x, fd.ops.max(x, [1], keepdim=True)))
    return fd.ops.sum(power, [0]), power


def defined(body: Body) -> Fusion:
    with FusionDefinition() as fd:
        found = body(fd, fd.define_tensor([-1, -1], True, DataType.Float))
        for result in found if isinstance(found, tuple) else (found,):
            fd.add_output(result)
    return fd.fusion


@pytest.mark.parametrize("body", [softmax, log_softmax, of_columns], ids=lambda b: b.__name__)
def test_a_row_is_read_twice(body: Body) -> None:
    fusion = defined(body)
    first, second = cut(fusion, TOO_LONG, target=H200)
    assert first.taken_by("reduction")
    assert second.taken_by("pointwise")
    inputs = random_inputs(fusion, {"T0": (37, 300)})
    assert check_segments(fusion, inputs, terms=300, without=TOO_LONG) == 2


def test_what_is_infinite_stays_nan() -> None:
    """As exponentials of the difference of two infinities are, in every element of the row."""
    x = np.random.default_rng(0).normal(0, 1, (4, 70)).astype(np.float32)
    x[0, 3], x[1, :], x[2, 5] = np.inf, -np.inf, -np.inf
    known = {"T0": x}
    for part in cut(defined(softmax), TOO_LONG, target=H200):
        found = evaluate(part.fusion, [known[name] for name in part.inputs])
        known |= dict(zip(part.outputs, found, strict=True))
    wanted = torch.softmax(torch.from_numpy(x), 1).numpy()
    np.testing.assert_allclose(known[part.outputs[0]], wanted, rtol=1e-5)
    assert np.isnan(wanted).all(1).tolist() == [True, True, False, False]


def test_where_a_kernel_keeps_rows_nothing_changes() -> None:
    assert [s.taken_by("inner_persistent") for s in cut(defined(softmax), target=H200)] == [True]


def test_other_sums_of_exponentials_stay() -> None:
    names = [
        op.carry.name
        for s in cut(defined(halved), TOO_LONG, target=H200)
        for op in s.fusion.operations
        if hasattr(op, "carry")
    ]
    assert sorted(names) == ["max", "sum"]


def test_what_no_row_needs_again_is_one_pass_whatever_its_length() -> None:
    def both(x: Any) -> Any:
        most = ops.max(x, [1], keepdim=True)
        return most, ops.log(ops.sum(ops.exp(x - most), [1], keepdim=True))

    x = torch.randn(5, 96, generator=torch.manual_seed(0))
    f = fuse(both)
    compiled = f.lower(x).compile()
    assert [kernel.asm["cuda"].count("ws_load<float, 4") > 0 for kernel in compiled.kernels] == [
        True
    ]
    assert "scheduler   reduction" in compiled.explain()
    most, total = f(x)
    assert torch.equal(most, x.amax(1, keepdim=True))
    torch.testing.assert_close(most + total, x.logsumexp(1, keepdim=True))
