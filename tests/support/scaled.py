"""Products of scaled 8-bit floats: operands, what they mean, and the programs."""

from typing import Any

import torch

from warpsmith import DataType, fuse, ops

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
