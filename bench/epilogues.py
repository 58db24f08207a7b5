"""What follows a product, in its kernel: each beside the plain product and PyTorch's two kernels.

python -m bench.epilogues --json rows.json

All kernels are compiled first, each result is held against sums in double, then all contenders of a
row take turns. A row's `over_plain` is the fused time over that of the plain product of all weights
together, `over_torch` the better PyTorch's over the fused one.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.measure import gpu_name, one_line

SIZES = ((2048, 4096, 4096), (4096, 14336, 4096), (8192, 8192, 8192), (4096, 4096, 14336))
"""Rows and columns of the result, and terms of each sum."""

DROPPED = 0.1
SEED, OFFSET = 7, 0
"""Share of elements that are dropped, and what says which."""

LARGEST_ERROR = 2e-2
WARMUP_MS, REP_MS = 5.0, 40.0


@dataclass(frozen=True, slots=True)
class Program:
    """A product and what follows it.

    Attributes:
        beside: tensors that are read besides `x [m, k]` and `weight [n, k]`, by their dimensions.
        fused: of warpsmith's tensors.
        eager: of PyTorch's.
    """

    name: str
    beside: tuple[str, ...]
    fused: Callable[..., Any]
    eager: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Row:
    """Times of one program at one size, in microseconds; an error in place of them."""

    name: str
    size: tuple[int, int, int]
    us: dict[str, float] = dataclasses.field(default_factory=dict)
    kernels: int = 0
    error: str = ""

    @property
    def over_plain(self) -> float:
        return self.us["fused"] / self.us["plain"]

    @property
    def over_torch(self) -> float:
        return min(us for name, us in self.us.items() if "torch" in name) / self.us["fused"]


def programs() -> tuple[Program, ...]:
    from torch.nn import functional

    from warpsmith import DataType, ops

    def both(name: str, beside: tuple[str, ...], body: Callable[..., Any]) -> Program:
        """One body, told whose operations it has."""
        return Program(name, beside, partial(body, ops), partial(body, functional))

    def floats(x: Any, w: Any) -> Any:
        return ops.cast(ops.linear(x, w), DataType.Float)

    return (
        Program("bias_gelu", ("n",), _bias_gelu, _eager_bias_gelu),
        both("residual", ("mn",), lambda of, x, w, r: of.linear(x, w) + r),
        both("bias_residual", ("n", "mn"), lambda of, x, w, bias, r: of.linear(x, w, bias) + r),
        Program("floats", (), floats, lambda x, w: (x @ w.t()).float()),
        both("before_and_after", ("n",), _before_and_after),
        both("swiglu", ("nk",), lambda of, x, w, v: of.silu(of.linear(x, w)) * of.linear(x, v)),
        Program("swiglu_of_one", (), _swiglu_of_one, _eager_swiglu_of_one),
        Program("dropout_residual", ("mn",), _dropout_residual, _eager_dropout_residual),
    )


def _before_and_after(of: Any, x: Any, w: Any, bias: Any) -> Any:
    before = of.linear(x, w, bias)
    return before, of.silu(before)


def _bias_gelu(x: Any, w: Any, bias: Any) -> Any:
    from warpsmith import ops

    h: Any = ops.linear(x, w, bias)
    return 0.5 * h * (1 + ops.tanh(0.7978845608 * (h + 0.044715 * h * h * h)))


def _eager_bias_gelu(x: Any, w: Any, bias: Any) -> Any:
    from torch.nn import functional

    return functional.gelu(functional.linear(x, w, bias), approximate="tanh")


def _swiglu_of_one(x: Any, w: Any) -> Any:
    """Of the halves of one weight, of as many columns together as the plain product has."""
    from warpsmith import ops

    a, b = ops.chunk(ops.linear(x, w), 2, -1)
    return ops.mul(ops.silu(a), b)


def _eager_swiglu_of_one(x: Any, w: Any) -> Any:
    from torch.nn import functional

    a, b = functional.linear(x, w).chunk(2, -1)
    return functional.silu(a) * b


def _dropout_residual(x: Any, w: Any, residual: Any) -> Any:
    from warpsmith import ops

    dropped, _ = ops.dropout(ops.linear(x, w), DROPPED, rng_seed=SEED, rng_offset=OFFSET)
    return ops.add(dropped, residual)


def _eager_dropout_residual(x: Any, w: Any, residual: Any) -> Any:
    from torch.nn import functional

    return functional.dropout(functional.linear(x, w), DROPPED) + residual


def plain(x: Any, w: Any) -> Any:
    from warpsmith import ops

    return ops.linear(x, w)


def plain_inputs(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """Those of one product that multiplies as much: all weights are one."""
    import torch

    weights = [t for t, dims in zip(inputs[2:], program.beside, strict=True) if dims == "nk"]
    return [inputs[0], torch.cat([inputs[1], *weights])]


def inputs_of(program: Program, size: tuple[int, int, int], device: str = "cuda") -> list[Any]:
    """Random operands of -1 to 1, and what is beside them."""
    import torch

    extents = dict(zip("mnk", size, strict=True))
    torch.manual_seed(sum(size))
    return [
        torch.rand([extents[d] for d in dims], device=device).mul_(2).sub_(1).bfloat16()
        for dims in ("mk", "nk", *program.beside)
    ]


def check(program: Program, inputs: Sequence[Any], results: Any) -> None:
    """Hold results against sums in double.

    Raises:
        ValueError: a result differs by more than rounding explains.
    """
    import torch

    wide = [tensor.double() for tensor in inputs]
    if program.name == "dropout_residual":
        product = wide[0] @ wide[1].t()
        kept = wide[2] + product / (1 - DROPPED)
        far = (results.double() - wide[2]).abs() > (results.double() - kept).abs()
        wanted: Any = torch.where(far, kept, wide[2])
        if abs(float(far.double().mean()) - (1 - DROPPED)) > LARGEST_ERROR:
            raise ValueError(f"{float(far.double().mean()):.3f} of the elements are kept")
    else:
        wanted = program.eager(*wide)
    several = isinstance(results, tuple | list)
    pairs = zip(results, wanted, strict=True) if several else ((results, wanted),)
    for got, want in pairs:
        found = float((got.double() - want).norm() / want.norm())
        if not found <= LARGEST_ERROR:
            raise ValueError(f"relative error {found:.3g}")


def measure(program: Program, size: tuple[int, int, int], *, mode: str | None) -> Row:
    """One row; PyTorch's compiler takes part in this mode, if in any."""
    import torch

    import warpsmith
    from warpsmith.testing import do_bench_interleaved

    inputs = inputs_of(program, size)
    x, weight = plain_inputs(program, inputs)
    fused, alone = warpsmith.fuse(program.fused), warpsmith.fuse(plain)
    try:
        check(program, inputs, fused(*inputs))
        said = fused.lower(*inputs).compile().explain()
        contenders: dict[str, Callable[[], Any]] = {
            "plain": lambda: alone(x, weight),
            "fused": lambda: fused(*inputs),
            "torch": lambda: program.eager(*inputs),
            "torch plain": lambda: x @ weight.t(),
        }
        if mode is not None:
            peer = torch.compile(program.eager, dynamic=False, mode=mode)
            contenders["torch compile"] = lambda: peer(*inputs)
        times = do_bench_interleaved(contenders, WARMUP_MS, REP_MS)
    except Exception as failure:
        return Row(program.name, size, error=one_line(failure))
    us = {name: round(1e3 * ms, 2) for name, ms in times.items()}
    plain_peer = us.pop("torch plain")
    us["cublas"] = plain_peer
    return Row(program.name, size, us, int(said.split()[0]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rows that the limit leaves time for; 1 where one of them fails."""
    parser = argparse.ArgumentParser(prog="bench.epilogues", description=__doc__)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--only", nargs="*", default=[], help="names of programs")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    parser.add_argument(
        "--mode", default="default", help="of torch.compile: max-autotune-no-cudagraphs"
    )
    parser.add_argument("--seconds", type=float, default=90, help="begin no row after so many")
    asked = parser.parse_args(arguments)
    start, rows = time.monotonic(), []
    for program in programs():
        if asked.only and program.name not in asked.only:
            continue
        for size in SIZES:
            if time.monotonic() - start < asked.seconds:
                mode = None if asked.no_compile else asked.mode
                rows.append(measure(program, size, mode=mode))
                print(line(rows[-1]), flush=True)
    if asked.json:
        found = {"gpu": gpu_name(), "rows": [dataclasses.asdict(row) for row in rows]}
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    return int(any(row.error for row in rows))


def line(row: Row) -> str:
    """A row as it is printed."""
    head = f"{row.name:18} {'x'.join(map(str, row.size)):18}"
    if row.error:
        return f"{head} {row.error}"
    times = "  ".join(f"{name} {us:.1f}" for name, us in row.us.items())
    ratios = f"over plain {row.over_plain:.3f}  over torch {row.over_torch:.2f}"
    return f"{head} {row.kernels} kernels  {times}  {ratios}"


if __name__ == "__main__":
    raise SystemExit(main())
