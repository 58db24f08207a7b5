"""Products of scaled 8-bit floats: operands, what they mean, and the programs."""

from dataclasses import replace
from typing import Any

import torch

from tests.support.lowering import lowered
from warpsmith import DataType, FusionDefinition, fuse, ops
from warpsmith.kernel.kernel import Kernel
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

E4, E5 = torch.float8_e4m3fn, torch.float8_e5m2

KINDS: dict[str, tuple[tuple[int, int] | None, tuple[int, int] | None]] = {
    "tensors": (None, None),
    "rows": ((1, 0), (0, 1)),
    "blocks": ((1, 128), (128, 128)),
    "squares": ((128, 128), (128, 128)),
    "columns": ((1, 128), (128, 1)),
}
"""By name, elements of a, and of b, along each dimension that share a scale; all of them for 0."""


def scale(
    operand: torch.Tensor, block: tuple[int, int] | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """A scale, and what each element of the operand is multiplied by."""
    if block is None:
        one = torch.rand(()) + 0.5
        return one, one
    pairs = list(zip(block, operand.shape, strict=True))
    made = torch.rand([-(-size // share) if share else 1 for share, size in pairs]) + 0.5
    wide = made
    for dim, (share, size) in enumerate(pairs):
        wide = wide.repeat_interleave(share or size, dim).narrow(dim, 0, size)
    return made, wide


def operands(
    m: int, n: int, k: int, kind: str, types: tuple[torch.dtype, torch.dtype] = (E4, E4)
) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """a [m, k], b [n, k] and their scales, b's transposed; and the product in float64."""
    torch.manual_seed(m + n + k)
    a, b = (torch.randn(rows, k).to(t) for rows, t in zip((m, n), types, strict=True))
    of_a, wide_a = scale(a, KINDS[kind][0])
    of_b, wide_b = scale(b.T, KINDS[kind][1])
    wanted = (a.double() * wide_a) @ (b.double().T * wide_b)
    return (a, b, of_a, of_b if kind == "tensors" else of_b.T.contiguous()), wanted


def program(
    kind: str, precision: str = "fast", dtype: DataType | None = None, *, told: bool = False
) -> Any:
    """The product; `told` what shares a scale also where that is the default."""

    def scaled(a: Any, b: Any, of_a: Any, of_b: Any) -> Any:
        first, second = KINDS[kind]
        blocks = {}
        if kind in ("squares", "columns") or (told and kind == "blocks"):
            blocks = {"block_a": first, "block_b": second}
        turned = of_b if kind == "tensors" else ops.transpose(of_b)
        w: Any = ops.transpose(b)
        return ops.scaled_matmul(a, w, of_a, turned, dtype=dtype, precision=precision, **blocks)

    return fuse(scaled)


def fusion_of(share: int = 128, *, columns: bool = False) -> FusionDefinition:
    """A product with scales of blocks of k; those of a's rows lie together by `columns`."""
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True, DataType.Float8_e4m3fn) for _ in range(2))
        order = [0, 1] if columns else None
        of_a = fd.define_tensor([-1, -1], True, stride_order=order)
        of_b = fd.define_tensor([-1, -1], True)
        made: Any = fd.ops.scaled_matmul(
            a,
            fd.ops.permute(b, [1, 0]),
            of_a,
            fd.ops.permute(of_b, [1, 0]),
            block_a=(1, share),
            block_b=(share, 128),
            precision="fast",
        )
        fd.add_output(made)
    return fd


def kernel_of(fd: FusionDefinition, m: int = 512, k: int = 1024, **params: Any) -> Kernel:
    """Its kernel for so many rows, 512 columns and k, as chosen but for these parameters."""
    candidate = select(fd.fusion, H200)
    steps = -(-k // 128)
    values = {"T0_size0": m, "T0_size1": k, "T1_size0": 512, "T1_size1": k}
    values |= {"T2_size0": m, "T2_size1": steps, "T3_size0": 4, "T3_size1": steps}
    chosen, _ = candidate.choose(Problem(values=values, alignment={}, target=H200))
    kernel: Kernel = lowered(candidate.scheduled(replace(chosen, **params)))
    return kernel
