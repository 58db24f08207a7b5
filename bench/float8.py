"""Products of 8-bit floats with scales, against `torch._scaled_mm`: `python -m bench.float8`.

Each kind of scale at each size: compiled first, held against float64, then timed in turn.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.measure import gpu_name
from bench.peers import versions
from warpsmith.testing import do_bench_interleaved, relative_error

SIZES = (
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 7168, 16384),
    (4096, 14336, 4096),
    (128, 7168, 4096),
)
"""m, n and k."""

QUICK = ((64, 128, 256),)

KINDS: dict[str, tuple[tuple[int, int], tuple[int, int]] | None] = {
    "tensors": None,
    "rows": ((1, 0), (0, 1)),
    "blocks": ((1, 128), (128, 128)),
    "squares": ((128, 128), (128, 128)),
}
"""By name, elements of a and of b along each dimension that share a scale; 0 for all of them."""

LARGEST_ERROR = 1e-2
"""Of a product that is rounded to bfloat16, with sums of 13 bits: relative, as a norm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One contender at one size.

    Attributes:
        us: median microseconds; None where it failed, or was wrong.
        tflops: products and sums in a second.
        error: relative to float64, as a norm.
        failure: why there is no time.
    """

    size: tuple[int, int, int]
    scales: str
    contender: str
    us: float | None = None
    tflops: float | None = None
    error: float | None = None
    failure: str = ""


@dataclass(slots=True)
class Operands:
    """a [m, k], b [n, k] and scales of both; `wanted` is the product in float64."""

    size: tuple[int, int, int]
    kind: str
    device: str
    a: Any = field(init=False)
    b: Any = field(init=False)
    scales: tuple[Any, Any] = field(init=False)
    wanted: Any = field(init=False)

    def __post_init__(self) -> None:
        import torch

        m, n, k = self.size
        torch.manual_seed(m + n + k)
        kind = torch.float8_e4m3fn
        self.a, self.b = (torch.randn(r, k, device=self.device).to(kind) for r in (m, n))
        blocks = KINDS[self.kind] or (None, None)
        of_a, wide_a = self._scale((m, k), blocks[0])
        of_b, wide_b = self._scale((k, n), blocks[1])
        self.scales = (of_a, of_b)
        self.wanted = (self.a.double() * wide_a) @ (self.b.double().t() * wide_b)

    def _scale(self, shape: tuple[int, int], block: tuple[int, int] | None) -> tuple[Any, Any]:
        import torch

        if block is None:
            one = torch.rand((), device=self.device) + 0.5
            return one, one
        counts = [-(-s // share) if share else 1 for s, share in zip(shape, block, strict=True)]
        made = torch.rand(counts, device=self.device) + 0.5
        wide = made
        for dim, share in enumerate(block):
            wide = wide.repeat_interleave(share or shape[dim], dim).narrow(dim, 0, shape[dim])
        return made, wide


def contenders(operands: Operands) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Ours, and torch's with and without its fast sums."""
    import torch

    import warpsmith
    from warpsmith import DataType, ops

    blocks = KINDS[operands.kind] if operands.kind == "squares" else None
    more = {} if blocks is None else {"block_a": blocks[0], "block_b": blocks[1]}

    def product(a: Any, b: Any, of_a: Any, of_b: Any) -> Any:
        return ops.scaled_matmul(
            a,
            ops.transpose(b),
            of_a,
            of_b,
            dtype=DataType.BFloat16,
            precision="fast",
            **more,
        )

    a, b, (of_a, of_b) = operands.a, operands.b, operands.scales
    fused = warpsmith.fuse(product)
    yield "warpsmith", lambda: fused(a, b, of_a, of_b)
    if operands.device == "cpu":
        return
    if operands.kind == "blocks":  # the layouts that cuBLAS asks for
        of_a, of_b = of_a.t().contiguous().t(), of_b.t().contiguous().t()
    for fast in (False, True):

        def scaled(fast: bool = fast) -> Any:
            return torch._scaled_mm(
                a, b.t(), of_a, of_b, out_dtype=torch.bfloat16, use_fast_accum=fast
            )

        yield f"torch{' fast' if fast else ''}", scaled


def measure(size: tuple[int, int, int], device: str, rep: float) -> Iterator[Timed]:
    """All kinds of scales of one size, timed in turn where there is a GPU."""
    ready: dict[tuple[str, str], Callable[[], Any]] = {}
    errors: dict[tuple[str, str], float] = {}
    for kind in KINDS:
        operands = Operands(size, kind, device)
        for name, run in contenders(operands):
            try:
                error = relative_error(run(), operands.wanted)
            except Exception as failure:  # a peer that does not take these scales
                yield Timed(size=size, scales=kind, contender=name, failure=str(failure)[:300])
                continue
            if not error <= LARGEST_ERROR:
                yield Timed(size=size, scales=kind, contender=name, error=error, failure="wrong")
                continue
            ready[kind, name], errors[kind, name] = run, error
    named = {" ".join(key): run for key, run in ready.items()}
    times = {} if device == "cpu" else do_bench_interleaved(named, rep / 4, rep)
    m, n, k = size
    for key, error in errors.items():
        ms = times.get(" ".join(key))
        yield Timed(
            size=size,
            scales=key[0],
            contender=key[1],
            us=None if ms is None else ms * 1e3,
            tflops=None if ms is None else 2 * m * n * k / ms / 1e9,
            error=error,
        )


def main(arguments: list[str] | None = None) -> int:
    """Prints a line a contender, and writes all of them as JSON; 1 where one of ours failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small size, on any machine")
    parser.add_argument("--rep", type=float, default=60.0, help="ms for each contender")
    parser.add_argument("--json", type=Path, help="file for all rows")
    given = parser.parse_args(arguments)
    device = "cpu" if gpu_name() == "none" else "cuda"
    found: list[Timed] = []
    for size in QUICK if given.quick else SIZES:
        for row in measure(size, device, given.rep):
            found.append(row)
            what = row.failure or (f"{row.us:9.1f} us {row.tflops:6.0f} TF" if row.us else "right")
            shown = "" if row.error is None else f"  error {row.error:.1e}"
            name = f"{row.scales} {row.contender}"
            print(f"{'x'.join(map(str, size)):>16} {name:<20} {what}{shown}", flush=True)
    if given.json:
        whole = {"gpu": gpu_name(), "versions": dict(versions()), "rows": list(map(asdict, found))}
        given.json.write_text(json.dumps(whole, indent=1) + "\n")
    return int(any(row.failure and row.contender == "warpsmith" for row in found))


if __name__ == "__main__":
    sys.exit(main())
