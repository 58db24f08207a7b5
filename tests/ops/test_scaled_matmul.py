"""Products of scaled operands: what each kind of scale means, on the simulator too; refusals."""

from typing import Any

import pytest
import torch

from tests.support.scaled import E4, E5, KINDS, operands, program, scale
from warpsmith import DataType, fuse, knobs, ops
from warpsmith.errors import ArgumentError, DefinitionError


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(70, 136, 304), (129, 257, 64), (1, 5, 130), (3, 4, 0)])
def test_meaning(kind: str, size: tuple[int, int, int]) -> None:
    given, wanted = operands(*size, kind)
    with knobs.scope(device="reference"):
        got = program(kind, "exact", told=size[2] <= 128)(*given)
    torch.testing.assert_close(got.double(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("types", [(E4, E4), (E4, E5)])
@pytest.mark.parametrize("dtype", [DataType.BFloat16, DataType.Float])
def test_tensor_cores_multiply_what_has_8_bits(
    kind: str, types: tuple[torch.dtype, torch.dtype], dtype: DataType
) -> None:
    """Rows and columns that fill no tile, and k that ends within a block."""
    given, _ = operands(70, 137 if dtype is DataType.Float else 136, 304, kind, types)
    with knobs.scope(device="sim"):
        compiled = program(kind, dtype=dtype).lower(*given).compile()
        verification = compiled.verify(schedules=2)
    text = compiled.explain()
    assert text.startswith("1 kernel")
    assert "scheduler   matmul\n" in text
    assert verification.verdict == "clean", str(verification)


@pytest.mark.parametrize("size", [(20, 30, 200), (65, 3, 1)])
@pytest.mark.parametrize("kind", ["blocks", "squares"])
def test_threads_multiply_what_tensor_cores_may_not(kind: str, size: tuple[int, int, int]) -> None:
    given, wanted = operands(*size, kind)
    with knobs.scope(device="sim"):
        got = program(kind, "exact", told=size[2] <= 128)(*given)
    torch.testing.assert_close(got.double(), wanted, rtol=1e-4, atol=1e-4)


def test_what_a_program_quantizes_and_what_it_adds() -> None:
    """Operands and scales that kernels before store; a bias and an activation behind."""

    def program(x: Any, w: Any, of_w: Any, bias: Any) -> Any:
        rows = ops.reshape(x, [x.shape()[0], 2, 128])
        top = ops.max(ops.abs(rows), [2], keepdim=True)
        a = ops.cast(ops.reshape(rows / top, [x.shape()[0], 256]), DataType.Float8_e4m3fn)
        of_a = ops.squeeze(top, [2])
        made = ops.scaled_matmul(a, ops.transpose(w), of_a, of_w, precision="fast")
        return ops.cast(ops.relu(made + bias), DataType.BFloat16)

    x, w, bias = torch.randn(72, 256), torch.randn(136, 256).to(E4), torch.randn(136)
    of_w, wide = scale(w.T, (128, 128))
    with knobs.scope(device="sim"):
        made = fuse(program)
        got = made(x, w, of_w, bias)
        text = made.lower(x, w, of_w, bias).compile().explain()
    top = x.reshape(72, 2, 128).abs().amax(2, keepdim=True)
    a = (x.reshape(72, 2, 128) / top).to(E4).double() * top
    wanted = (a.reshape(72, 256) @ (w.double().T * wide) + bias).relu()
    torch.testing.assert_close(got.double(), wanted, rtol=2e-2, atol=5e-1)
    assert "scheduler   matmul\n" in text


def refused(**changes: Any) -> pytest.ExceptionInfo[Exception]:
    a, b = torch.randn(8, 256).to(E4), torch.randn(256, 16).to(E4)
    given = {"scale_a": torch.ones(8, 2), "scale_b": torch.ones(2, 1)} | changes
    scales = [given.pop(name) for name in ("scale_a", "scale_b")]
    with (
        knobs.scope(device="reference"),
        pytest.raises((DefinitionError, ArgumentError)) as error,
    ):
        fuse(lambda a, b, s, t: ops.scaled_matmul(a, b, s, t, **given))(a, b, *scales)
    return error


def test_scales_that_do_not_fit() -> None:
    error = refused(scale_a=torch.ones(8))
    assert error.match(r"WS0163.*scale_a of 1 dimensions.*\[m\] to \[m, 1\]")
    assert refused(scale_a=torch.ones(8, 2, dtype=torch.int32)).match("WS0163.*type Int32.*cast")
    assert refused(block_a=(0, 128)).match("WS0163.*blocks of .0, 128..*1 or more")
    assert refused(scale_a=torch.ones(8, 3)).match("WS0312.*is 3.*repeat_interleave")
    assert refused(scale_b=torch.ones(2, 5)).match("WS0312.*is 5.*repeat_interleave")
    assert refused(precision="tf32").match("WS0147.*tf32")
