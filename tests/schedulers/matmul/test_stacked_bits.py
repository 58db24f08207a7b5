"""Weights of 4 bits whose halves are stacked, as torch's users write them: one kernel."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.schedulers.matmul.test_packed import Array, grouped, packed, signed, spread
from tests.schedulers.matmul.test_prologues import BF16, check, run, whole
from tests.support.binaries import uncompiled
from warpsmith import DataType, fuse, knobs, ops
from warpsmith.engine.executable import Executable

INT8 = DataType.Int8


def rows(stacked: Any) -> Any:
    return ops.reshape(stacked, [stacked.size(0), -1])


def wide(tensor: Any, dtype: DataType = DataType.Int32) -> Any:
    return ops.cast(tensor, dtype)


FORMS: dict[str, tuple[Callable[[Any], list[Any]], Callable[[Array], Array]]] = {
    "masked": (lambda w: [w & 15, (w >> 4) & 15], lambda v: v),
    "of four bytes": (
        lambda w: [wide(w) & 15, (wide(w) >> 4) & 15],
        lambda v: v,
    ),
    "moved up": (lambda w: [(w << 4) >> 4, w >> 4], signed),
    "moved up far": (
        lambda w: [(wide(w) << 28) >> 28, wide(w) >> 4],
        signed,
    ),
    "floats": (
        lambda w: [ops.cast(w & 15, BF16), ops.cast((w >> 4) & 15, BF16)],
        lambda v: v,
    ),
    "the upper half first": (
        lambda w: [(w >> 4) & 15, w & 15],
        lambda v: v.reshape(len(v), -1, 2)[:, :, ::-1].reshape(v.shape),
    ),
}
WITHOUT_SIGN: dict[str, tuple[Callable[[Any], list[Any]], Callable[[Array], Array]]] = {
    "moved down": (lambda w: [w & 15, w >> 4], lambda v: v),
    "moved up": (lambda w: [(w << 4) >> 4, w >> 4], lambda v: v),
    "as others": (lambda w: [(wide(w, INT8) << 4) >> 4, wide(w, INT8) >> 4], signed),
}
"""Of bytes that have none."""


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("form", "kind"),
    [*((form, np.int8) for form in FORMS), *((form, np.uint8) for form in WITHOUT_SIGN)],
)
def test_halves_that_are_stacked(form: str, kind: Any) -> None:
    m, n, k = 8, 72, 256
    halves, meant = (WITHOUT_SIGN if kind is np.uint8 else FORMS)[form]
    x, (values, weight) = whole(m, k), packed(n, k)
    weight = weight.view(kind)
    scale, zero = whole(n, 2, dtype=np.float32, most=2), packed(n, 2, seed=2)[0].astype(np.int8)

    def program(x: Any, weight: Any, zero: Any, scale: Any) -> Any:
        whole_ones = rows(ops.stack(halves(weight), -1)) - grouped(zero, k)
        scaled = wide(whole_ones, DataType.Float) * grouped(scale, k)
        return ops.linear(x, wide(scaled, BF16))

    wanted = (meant(values) - spread(zero, k)) * spread(scale, k)
    check(run(program, x, weight, zero, scale), x, wanted)


@pytest.mark.parametrize(
    "halves",
    [
        lambda w: [w & 15, w >> 4],  # one of them has a sign
        lambda w: [w & 7, (w >> 4) & 7],
        lambda w: [w & 15, (w >> 3) & 15],
        lambda w: [w & 15, w & 15],
        lambda w: [w & 15, (w >> 4) & 15, w],
        lambda w: [(w << 4) & 15, w & 15],
        lambda w: [w >> 4, w << 4],
        lambda w: [(w & 15) << 4 >> 4, w >> 4],
        lambda w: [(w & 15) << 28 >> 28, (w & 15) >> 4],
        lambda w: [w & 15, ((w + 1) >> 4) & 15],
        lambda w: [wide(wide(w) << 4, DataType.Int8) >> 4, w >> 4],
        lambda w: [wide(wide(w) << 9, DataType.Int8) >> 9, w >> 4],
        lambda w: [wide(w, DataType.Int) >> 40, w >> 4],
    ],
)
def test_what_else_is_stacked(halves: Any) -> None:
    """Its values are what they are in NumPy, however it is computed."""
    check_stack(halves, np.arange(-128, 128, dtype=np.int8).reshape(4, 64))


@pytest.mark.parametrize(
    "halves",
    [
        lambda w: [w & 15, w >> 5],
        lambda w: [(w << 5) >> 4, w >> 4],
        lambda w: [w & 15, wide(w, INT8) >> 4],  # one of them has a sign
        lambda w: [(wide(w, INT8) << 4) >> 4, wide(wide(w, INT8) >> 4, DataType.UInt8)],
        lambda w: [wide((wide(w, INT8) << 4) >> 4, DataType.UInt8) >> 2, w >> 4],
    ],
)
def test_what_else_is_stacked_of_bytes_without_a_sign(halves: Any) -> None:
    check_stack(halves, np.arange(256, dtype=np.uint8).reshape(4, 64))


def check_stack(halves: Any, weight: Array) -> None:
    def program(weight: Any) -> Any:
        return ops.stack(halves(weight), -1)

    with knobs.scope(device="reference"):
        wanted = fuse(program)(weight)
    with knobs.scope(device="sim"):
        found = fuse(program)(weight)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def text_of(unpacked: Callable[[Any], Any], kind: Any = np.int8) -> str:
    """The CUDA of a product with such weights, its tensors and kernel named by their order."""

    def program(x: Any, weight: Any, scale: Any) -> Any:
        return ops.linear(x, wide(wide(unpacked(weight), DataType.Float) * scale, BF16))

    arrays = whole(8, 256), packed(72, 256)[1].view(kind), whole(72, 1, dtype=np.float32)
    with uncompiled() as found:
        lowered = fuse(program).lower(*arrays)
        Executable(lowered.fusion).plan_for(list(arrays))
    (text,) = found
    names: dict[str, str] = {}
    named = re.sub(r"T\d+", lambda name: names.setdefault(name[0], f"#{len(names)}"), text)
    return re.sub(r"matmul_\w+", "matmul", named)


def test_one_row_of_bytes() -> None:
    weight = np.arange(-64, 64, dtype=np.int8).reshape(1, 128)
    with knobs.scope(device="sim"):
        found = fuse(lambda w: ops.stack([w & 15, (w >> 4) & 15], 1))(weight)
    np.testing.assert_array_equal(found, np.stack([weight & 15, (weight >> 4) & 15], 1))


def test_the_kernel_is_that_of_unpacked_weights() -> None:
    def signed_halves(weight: Any) -> Any:
        return rows(ops.stack([(weight << 4) >> 4, weight >> 4], -1))

    assert text_of(signed_halves) == text_of(ops.unpack_int4)
    unsigned = text_of(lambda w: ops.unpack_int4(w, signed=False), np.uint8)
    stacked = text_of(lambda w: rows(ops.stack([w & 15, w >> 4], -1)), np.uint8)
    assert stacked.replace("unsigned", "signed") == unsigned.replace("unsigned", "signed")


def test_what_torch_compiles() -> None:
    import torch

    from warpsmith.torch_backend.report import report

    torch._dynamo.reset()
    m, n, k = 8, 72, 256
    x = torch.from_numpy(whole(m, k, dtype=np.float32)).bfloat16()
    values, weight = packed(n, k)
    scale = whole(n, 2, dtype=np.float32, most=2)

    def program(x: Any, weight: Any, scale: Any) -> Any:
        halves = torch.stack([weight & 15, weight >> 4], dim=-1).flatten(-2)
        scaled = (halves.float() - 8) * scale.repeat_interleave(128, 1)
        return torch.nn.functional.linear(x, scaled.bfloat16())

    compiled = torch.compile(program, backend="warpsmith", options={"device": "sim"})
    result = compiled(x, torch.from_numpy(weight.view(np.uint8)), torch.from_numpy(scale))
    check(result.float().numpy(), x.float().numpy(), (values - 8) * spread(scale, k))
    graph = next(g for g in report().graphs if "cat" in str(g.regions))
    (region,) = graph.regions
    assert [kernel.scheduler for kernel in region.kernels] == ["matmul"]
    assert not graph.reasons
