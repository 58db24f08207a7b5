"""Definitions with symbolic extents, called with extents of 0 and 1, against PyTorch."""

import random
from typing import Any

import pytest
import torch

from tests.support.small_sizes import CASES, Case, arguments, defined, drawn
from warpsmith import knobs
from warpsmith.errors import ArgumentError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.domains import ParallelType


def outcome(call: Any) -> Any:
    """Results as a tuple, or None where the call is refused, by PyTorch or by us."""
    try:
        found = call()
    except (ArgumentError, IndexError, RuntimeError):
        return None
    return tuple(found) if isinstance(found, tuple | list) else (found,)


def check(case: Case, fd: FusionDefinition, given: list[torch.Tensor]) -> None:
    wanted = outcome(lambda: case.peer(*given))
    found = outcome(lambda: fd.execute(given))
    what = [(tuple(x.shape), x.stride()) for x in given]
    assert (found is None) is (wanted is None), (case.name, what)
    for got, want in zip(found or (), wanted or (), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape), (case.name, what)
        torch.testing.assert_close(
            got,
            want,
            rtol=case.tolerance,
            atol=case.tolerance,
            equal_nan=True,
            msg=lambda m: f"{case.name} {what}: {m}",
        )


@pytest.mark.few(12)
@pytest.mark.filterwarnings("ignore:var.* degrees of freedom")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize(
    ("device", "calls"),
    [("reference", 25), ("sim", 1), pytest.param("sim", 5, marks=pytest.mark.slow)],
)
def test_any_sizes_give_what_torch_gives(case: Case, device: str, calls: int) -> None:
    choice = random.Random(case.name)
    with knobs.scope(device=device):
        for gaps in (False, True):
            fd, layouts = defined(case, choice, gaps=gaps)
            for _ in range(calls):
                check(case, fd, arguments(case, layouts, drawn(case, choice), choice))


@pytest.mark.parametrize("stride", [0, 5, 1000003])
def test_strides_that_nothing_walks_mean_nothing(stride: int) -> None:
    """The rows lie one behind the other across a dimension of one element with such a stride."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1, -1], contiguity=[True, False, True])
        fd.add_output(fd.ops.sum(x, [1, 2]))
    x = torch.arange(24.0)
    with knobs.scope(device="sim"):
        (total,) = fd.execute([x.as_strided((3, 1, 8), (8, stride, 1))])
    assert torch.equal(total, x.reshape(3, 8).sum(1))


def test_a_schedule_by_hand_takes_rows_whose_stride_means_nothing() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=[False, True])
        y = x * 2
        fd.add_output(y)
        loaded, made = x.cache_after(), y.cache_before()
        for tensor in (loaded, made, y):
            tensor.split(1, 4)
            tensor.axis(0).parallelize(ParallelType.grid_x)
        for tensor in (loaded, y):
            tensor.axis(2).parallelize(ParallelType.vectorize)
        fd.sched.inline_most()
    calls = (((4, 8), (8, 1)), ((1, 8), (5, 1)), ((1, 8), (1000003, 1)), ((4, 0), (1, 1)))
    with knobs.scope(device="sim"):
        for shape, strides in calls:
            x = torch.arange(32.0).as_strided(shape, strides)
            (result,) = fd.manual_execute([x])
            assert torch.equal(result, x * 2), (shape, strides)
        with pytest.raises(ArgumentError, match="T0_stride0 is 9.*multiples of 4"):
            fd.manual_execute([torch.zeros(18).as_strided((2, 8), (9, 1))])
