"""Steps that move a level, as online softmax moves its maximum, do so together."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from warpsmith import CarryRule, fuse, knobs, ops
from warpsmith.ir.carry import moments, simple
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.levels import levels_of
from warpsmith.ir.scalar import Apply, Const
from warpsmith.nn.loss_programs import LossForm, rows_with_gradient
from warpsmith.ops.carries import ARGMAX, LOGSUMEXP

FLOAT = DataType.Float
TWO = (FLOAT, FLOAT)


def top(a, b):
    return ops.maximum(ops.maximum(a.scale, b.scale), 1e-30)


def square(x):
    return x * x


SCALED = CarryRule(
    name="scaled",
    identity={"scale": 0.0, "squares": 0.0},
    lift=lambda x: (ops.abs(x), ops.where(ops.ne(x, 0), 1.0, 0.0)),
    join=lambda a, b: (
        ops.maximum(a.scale, b.scale),
        a.squares * square(a.scale / top(a, b)) + b.squares * square(b.scale / top(a, b)),
    ),
    finish=lambda state: state.scale * ops.sqrt(state.squares),
)


def test_a_level_is_an_extreme_to_which_the_other_values_are_scaled() -> None:
    levels = levels_of(LOGSUMEXP.typed((FLOAT,), TWO))
    assert levels is not None
    assert (levels.place, levels.extreme) == (0, "max")
    assert levels_of(SCALED.typed((FLOAT,), TWO)) is not None
    for rule in (ARGMAX.typed(TWO, TWO), moments(FLOAT), simple("max", FLOAT)):
        assert levels_of(rule) is None


def test_sides_that_are_scaled_differently_have_no_level() -> None:
    carry = LOGSUMEXP.typed((FLOAT,), TWO)
    level, total = carry.join
    of_a, of_b = total.args
    twice = Apply("mul", (carry.symbols("b")[1], Const(2.0, FLOAT)), FLOAT)
    for terms in ((of_a, twice), (of_a, of_a), (of_b, of_b)):
        join = (level, Apply("add", terms, FLOAT))
        assert levels_of(replace(carry, join=join)) is None
    assert levels_of(replace(carry, commutative=False)) is None


@fuse
def logsumexp(x):
    return ops.logsumexp(x, [1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_an_element_takes_one_exponential(dtype: torch.dtype) -> None:
    """Of two instructions, and each batch one more."""
    with knobs.scope(device="sim", target="h200"):
        compiled = logsumexp.lower(torch.empty(64, 32768, dtype=dtype)).compile()
    (kernel,) = compiled.kernels
    loop = kernel.asm["cuda"].split("#pragma unroll 1")[1]
    assert loop.count("ws_exp_near(") == 2
    assert "ws_join0::combine" not in loop
    assert "expf" not in loop


def test_a_row_in_registers_is_one_batch() -> None:
    """Its elements are widened for the level and again for the sums, and lanes join as nearly."""
    form = LossForm("mean", -100, 0.0, 0.0, "bfloat16")
    x, target = torch.empty(64, 16000, dtype=torch.bfloat16), torch.empty(64, dtype=torch.int64)
    with knobs.scope(device="sim", target="h200"):
        lowered = rows_with_gradient.lower(x, target, None, torch.empty(()), form)
        (kernel,) = lowered.compile().kernels
    assert kernel.n_spills == 0
    text, cuda = kernel.asm["kernel"], kernel.asm["cuda"]
    assert "logsumexp=" not in text
    assert "widen_again(" in text
    assert "expf" not in cuda[cuda.index("struct ws_join0") :]


HOSTILE = (
    torch.full((2000,), -torch.inf),
    torch.cat([torch.full((1999,), -torch.inf), torch.tensor([3.0])]),
    torch.cat([torch.tensor([3.0]), torch.full((1999,), -torch.inf)]),
    torch.linspace(-200, 200, 2000),
    torch.linspace(200, -200, 2000),
    torch.cat([torch.zeros(1999), torch.tensor([torch.inf])]),
    torch.cat([torch.tensor([torch.inf]), torch.zeros(1999)]),
    torch.cat([torch.zeros(1000), torch.tensor([torch.nan]), torch.zeros(999)]),
    torch.full((2000,), 3e38),
    torch.full((2000,), -3e38),
)


@pytest.mark.few(3)
@pytest.mark.parametrize("columns", [2000, 1999, 8, 7, 1])
def test_log_sum_exp_of_hostile_rows(columns: int) -> None:
    x = torch.stack(HOSTILE)[:, 2000 - columns :].contiguous()
    found = logsumexp(x)
    torch.testing.assert_close(found, torch.logsumexp(x.double(), 1).float(), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_levels_of_16_bits_are_found_among_these(dtype: torch.dtype) -> None:
    x = torch.stack(HOSTILE).to(dtype).repeat(1, 16)
    with knobs.scope(device="sim"):
        found = logsumexp(x)
    text = logsumexp.lower(x).compile().kernels[0].asm["kernel"]
    assert "_narrow0[0] max= T" in text
    wide = torch.logsumexp(x.double(), 1).to(dtype)
    torch.testing.assert_close(found, wide, equal_nan=True)


def test_what_one_loop_widens_and_another_compares_is_left() -> None:
    """Of columns that a grid keeps: the bits are named by the index of the loop that widens."""

    def softmax(x):
        wide = x.to(FLOAT)
        away = ops.exp(wide - ops.max(wide, [0], keepdim=True))
        return (away / ops.sum(away, [0], keepdim=True)).to(x.dtype)

    with knobs.scope(device="sim", target="h200"):
        compiled = fuse(softmax).lower(torch.empty(20000, 256, dtype=torch.bfloat16)).compile()
    assert "scheduler   outer_grid" in compiled.explain()


def test_rules_of_users_have_levels_too() -> None:
    norms = fuse(lambda x: ops.reduce(x, SCALED, [1]))
    x = torch.randn(3, 4100) * 1e25
    x[1] = 0
    found = norms(x)
    torch.testing.assert_close(found, x.double().norm(dim=1).float())
    cuda = norms.lower(x).compile().kernels[0].asm["cuda"]
    assert "ws_max::combine" in cuda.split("#pragma unroll 1")[1]


def test_along_columns_each_lane_has_a_level() -> None:
    x = np.random.default_rng(0).normal(0, 30, (300, 40)).astype(np.float32)
    found = fuse(lambda x: ops.logsumexp(x, [0]))(x)
    torch.testing.assert_close(
        torch.from_numpy(found), torch.logsumexp(torch.from_numpy(x).double(), 0).float()
    )


@pytest.mark.parametrize("columns", [32000, 31999])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_long_rows_keep_many_threads_and_spill_nothing(dtype: torch.dtype, columns: int) -> None:
    with knobs.scope(device="sim", target="h200"):
        compiled = logsumexp.lower(torch.empty(4096, columns, dtype=dtype)).compile()
    (kernel,) = compiled.kernels
    assert kernel.n_spills == 0
    assert kernel.n_regs <= (64 if dtype is torch.float64 else 40)
