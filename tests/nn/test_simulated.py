"""The kernels behind the training doors, on the simulator."""

from typing import Any

import pytest
import torch

import warpsmith
from tests.support.gradients import assert_right, drawn
from warpsmith import knobs
from warpsmith.nn import calls, functional, programs
from warpsmith.nn.programs import GradientForm, NormForm

torch_functional = torch.nn.functional


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "dtype", [pytest.param(torch.float32, marks=SLOW), torch.bfloat16], ids=str
)
def test_norms(dtype: torch.dtype) -> None:
    x, residual = ((drawn((5, 40), torch.float32, k) * 8).round().to(dtype) / 8 for k in (0, 1))
    weight, bias = drawn((40,), dtype, 2), drawn((40,), dtype, 3)

    def layer(module: Any) -> Any:
        return lambda x, w, b: module.layer_norm(x, (40,), w, b)

    def summed(x: Any, residual: Any, weight: Any) -> Any:
        total = x + residual
        return torch_functional.rms_norm(total, (40,), weight, 1e-6), total

    def added(x: Any, residual: Any, weight: Any) -> Any:
        return functional.add_rms_norm(x, residual, (40,), weight, 1e-6)

    with knobs.scope(device="sim"):
        assert_right(layer(functional), layer(torch_functional), x, weight, bias)
        assert_right(added, summed, x, residual, weight)


@pytest.mark.parametrize("dim", [pytest.param(0, marks=SLOW), 1])
def test_softmaxes(dim: int) -> None:
    x = drawn((5, 24), torch.bfloat16)
    for name in ("softmax", "log_softmax"):
        ours, theirs = (getattr(m, name) for m in (functional, torch_functional))
        with knobs.scope(device="sim"):
            assert_right(lambda t, f=ours: f(t, dim), lambda t, f=theirs: f(t, dim), x, ulps=8)


def explained(program: Any, *inputs: Any) -> str:
    return str(program.explain(*inputs))


@pytest.mark.parametrize(
    ("centered", "residual"),
    [
        pytest.param(False, False, marks=SLOW, id="rms_norm"),
        pytest.param(True, False, marks=SLOW, id="layer_norm"),
        pytest.param(False, True, marks=SLOW, id="add_rms_norm"),
        pytest.param(True, True, id="add_layer_norm"),
    ],
)
@pytest.mark.parametrize("dropped", [0.0, 0.1])
def test_each_is_one_kernel_that_reads_rows_once(
    centered: bool, residual: bool, dropped: float
) -> None:
    """And a small one that sums the columns of the gradient's blocks; none spills."""
    x, row = torch.zeros(8, 4096, dtype=torch.bfloat16), torch.zeros(4096, dtype=torch.bfloat16)
    saved = torch.zeros(8, 1)
    total, other = ("bfloat16", x) if residual else ("", None)
    seed = torch.zeros(1, dtype=torch.int64) if dropped else None
    form = NormForm(centered, 1e-5, "float", "bfloat16", total, True, dropped)
    bias = row if centered else None
    forward = programs.norm.lower(x, other, row, bias, seed, form).compile()
    assert forward.explain().startswith("1 kernel\n")
    assert "inner_persistent" in forward.explain()
    assert forward.n_spills == 0
    of_bias = "bfloat16" if centered else ""
    of_x = "bfloat16" if dropped else ""
    wanted = GradientForm("float", ("bfloat16",), "bfloat16", of_bias, of_x, dropped)
    mean = saved if centered else None
    backward = programs.norm_gradient.lower(x, other, x, mean, saved, row, seed, wanted).compile()
    assert backward.explain().startswith("2 kernels\n")
    assert "scheduler   inner_outer" in backward.explain()
    assert backward.n_spills == 0


def test_what_is_verified_is_clean() -> None:
    x, weight = drawn((5, 40), torch.bfloat16), drawn((40,), torch.bfloat16, 1)
    form = NormForm(True, 1e-5, "float", "bfloat16", "bfloat16", True)
    found = warpsmith.verify(programs.norm, [x, x, weight, weight, None, form], schedules=3)
    assert found.verdict == "clean"
    assert calls.NAMES[x.dtype] == form.out
    wanted = GradientForm("float", ("bfloat16",), "bfloat16", "", eps=1e-5, centered=True)
    given = [x, None, x, None, None, weight, None, wanted]
    assert warpsmith.verify(programs.norm_gradient, given, schedules=3).verdict == "clean"
