"""Products that contenders compute in turn: cases, operands, schedules, and rows of a table."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from bench.measure import one_line
from warpsmith.ir.exprs import Precision
from warpsmith.lower import pipeline
from warpsmith.schedulers.matmul import candidates, heuristic
from warpsmith.schedulers.matmul.heuristic import MatmulParams
from warpsmith.schedulers.matmul.words import shortly
from warpsmith.schedulers.matmul_by_threads import heuristic as by_threads
from warpsmith.schedulers.matmul_by_threads.heuristic import MatmulByThreadsParams

NAMES = {
    "bfloat16": "BFloat16",
    "half": "Half",
    "float": "Float",
    "tf32": "Float",
    "int8": "Int8",
    "int32": "Int32",
}
ITEMS = {
    "bfloat16": "bfloat16",
    "half": "float16",
    "float": "float32",
    "tf32": "float32",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "int8": "int8",
}
"""What `DataType` and PyTorch call the types; `tf32` are floats of so many bits."""

RESULTS = {"tf32": "float", "int8": "int32"}
"""Types of results that are not those of the operands."""

PRECISION: Mapping[str, Precision] = {"tf32": "tf32", "e4m3": "fast", "e5m2": "fast"}
"""What products may give up that are not exact."""

TF32_BITS = -1 << 13
"""Of a float's bits, those that TF32 keeps."""

PEER = "cublas"
"""The contender that the others are held against."""

WARMUP_MS = 3.0

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A product `a [batch, m, k] @ b [batch, k, n]`.

    Attributes:
        batch: 0 where operands have no such dimension.
        a_fast, b_fast: the fastest dimension of each operand: `m` or `k`, `k` or `n`.
        shared: `b` has no batches of its own.
        dtype, out: types of operands and of the result.
    """

    m: int
    n: int
    k: int
    batch: int = 0
    a_fast: str = "k"
    b_fast: str = "k"
    shared: bool = False
    dtype: str = "bfloat16"
    out: str = "bfloat16"

    @property
    def title(self) -> str:
        batch = f"{self.batch}x" if self.batch else ""
        shared = " shared" if self.shared else ""
        layout = f"{self.a_fast}{self.b_fast}"
        return f"{batch}{self.m}x{self.n}x{self.k} {layout}{shared} {self.dtype} to {self.out}"

    @property
    def precision(self) -> Precision:
        return PRECISION.get(self.dtype, "exact")

    @property
    def sides(self) -> tuple[tuple[int, int, int, bool], ...]:
        """Of each operand: batches, rows, columns, and whether it lies in memory by columns."""
        of_b = 0 if self.shared else self.batch
        return (
            (self.batch, self.m, self.k, self.a_fast == "m"),
            (of_b, self.k, self.n, self.b_fast == "k"),
        )


def said(text: str, dtype: str = "bfloat16") -> Case:
    """A case: `MxNxK`, or `MxNxK:mn`, with the fastest dimensions of both operands; `BxMxNxK` of so
    many batches.
    """
    sizes, _, layout = text.partition(":")
    *batch, m, n, k = map(int, sizes.split("x"))
    a_fast, b_fast = list(layout or "kk")
    out = RESULTS.get(dtype, dtype)
    return Case(m=m, n=n, k=k, batch=sum(batch), a_fast=a_fast, b_fast=b_fast, dtype=dtype, out=out)


def operands(case: Case, device: str = "cuda") -> tuple[Any, Any]:
    """Fresh operands of -2 to 2, or any bytes, in the layout of the case."""
    import torch

    dtype = getattr(torch, ITEMS[case.dtype])

    def numbers(full: tuple[int, ...]) -> Any:
        if case.dtype == "int8":
            return torch.randint(-128, 128, full, device=device, dtype=dtype)
        tensor = torch.rand(full, device=device).mul_(4).sub_(2).to(dtype)
        if case.dtype == "tf32":
            tensor.view(torch.int32).bitwise_and_(TF32_BITS)
        return tensor

    def made(batch: int, rows: int, columns: int, turned: bool) -> Any:
        shape = (columns, rows) if turned else (rows, columns)
        full = (batch, *shape) if batch else shape
        return numbers(full).transpose(-1, -2) if turned else numbers(full)

    a, b = (made(*side) for side in case.sides)
    return a, b


def theirs(case: Case, a: Any, b: Any) -> Callable[[], Any]:
    """PyTorch's product, which writes floats itself where they are asked for."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = case.dtype == "tf32"
    if case.dtype == "int8":
        return lambda: torch._int_mm(a, b)
    if case.out in (case.dtype, RESULTS.get(case.dtype)):
        return lambda: torch.matmul(a, b)
    if case.batch == 0:
        return lambda: torch.mm(a, b, out_dtype=torch.float32)
    wide = b.expand(case.batch, *b.shape) if case.shared else b
    return lambda: torch.bmm(a, wide, out_dtype=torch.float32)


def error_of(result: Any, a: Any, b: Any) -> float:
    """`beyond` of a product, against sums in float; those of floats and bytes are doubles."""
    short = a.element_size() == 2
    wide = [each.float() if short else each.double() for each in (a, b)]
    return beyond(result, wide[0] @ wide[1], a.shape[-1])


def beyond(result: Any, wanted: Any, depth: int) -> float:
    """By how much more a result differs from sums than rounding allows; above 1 is wrong.

    Operands are normal, so sums of `depth` products come to 4 roots of it. Tensor cores add 16
    products at a time and cut off what a float of that size does not hold.
    """
    import torch

    if not result.is_floating_point():
        return 0.0 if bool((result == wanted).all()) else math.inf
    if not bool(torch.isfinite(result).all()):
        return math.inf
    eps = torch.finfo(result.dtype).eps
    allowed = wanted.abs().mul_(eps).add_(2.0**-23 * (depth / 16 + 4) * 4 * depth**0.5)
    return float((result.to(wanted.dtype) - wanted).abs_().div_(allowed).max())


def spoil(result: Any) -> None:
    """Fill a result with what no product comes to."""
    result.fill_(math.nan if result.is_floating_point() else 2**31 - 1)


def _nvfuser(a: Any, b: Any) -> Callable[[], Any]:
    nvfuser_direct = importlib.import_module("nvfuser_direct")
    with nvfuser_direct.FusionDefinition() as fd:
        fd.add_output(fd.ops.matmul(fd.from_pytorch(a), fd.from_pytorch(b)))
    options = {
        "_enable_options": ["fuse_matmul"],  # else it calls cuBLAS
        "_disable_options": ["matmul_expr_eval"],
    }
    return lambda: fd.execute([a, b], **options)[0]


def _quack(a: Any, b: Any) -> Callable[[], Any]:
    gemm = importlib.import_module("quack.gemm_interface").gemm
    return lambda: gemm(a, b)


PEERS = ("nvfuser", "quack")
BUILDERS = dict(zip(PEERS, (_nvfuser, _quack), strict=True))


# --- schedules ---------------------------------------------------------------------------------

Params = MatmulParams | MatmulByThreadsParams
Way = tuple[Params, float]
"""A schedule and its predicted time in microseconds."""


@contextmanager
def forced(params: Params) -> Iterator[None]:
    """Products get this schedule, whatever would be chosen."""
    room = heuristic if isinstance(params, MatmulParams) else by_threads
    with mock.patch.object(room, "choose", return_value=params):
        yield


def words_of(params: Params) -> str:
    """A schedule in a few words."""
    return shortly(params) if isinstance(params, MatmulParams) else params.words


def ways_of(plan: Callable[[], object]) -> list[Way]:
    """The schedules of the product that is planned, of which the first is chosen; without a GPU."""
    found: list[Way] = []

    def noting(ranked: Callable[..., Sequence[Way]]) -> Callable[..., Params]:
        def noted(*given: Any) -> Params:
            found[:] = ranked(*given)
            return found[0][0]

        return noted

    with (
        mock.patch.object(heuristic, "choose", noting(heuristic.ranked)),
        mock.patch.object(by_threads, "choose", noting(by_threads.ranked)),
    ):
        plan()
    return found


def kinds(found: Sequence[Way], count: int) -> list[Way]:
    """The best predicted, and `count` more of other kinds, the best of each."""
    best: dict[tuple[object, ...], Way] = {}
    for way in found:
        p = way[0]
        kind: tuple[object, ...] = (type(p),)
        if isinstance(p, MatmulParams):
            shared = p.splits, p.parts > 1, p.cluster
            kind = p.swapped, p.tile[0], p.lines, *shared, p.ping_pong > 0
        best.setdefault(kind, way)
    return list(best.values())[: 1 + count]


@contextmanager
def trying(clusters: Sequence[tuple[int, int]]) -> Iterator[None]:
    """Candidates have clusters of so many blocks along m and n besides."""
    every = dict.fromkeys((*candidates.CLUSTERS, *clusters))
    with mock.patch.object(candidates, "CLUSTERS", tuple(every)):
        yield


@contextmanager
def lacking(passes: Sequence[str]) -> Iterator[None]:
    """Kernels are lowered without these passes."""
    rest = tuple(each for each in pipeline.PASSES if each.name not in passes)
    with mock.patch.dict(pipeline.passed.__kwdefaults__, passes=rest):
        yield


# --- contenders --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turns:
    """Contenders of one case: cuBLAS and those whose results are right are timed in turn.

    Attributes:
        case: what all rows begin with.
        error: by how much more than rounding allows a result is wrong; above 1 is too much.
        calls, rows: of those that take part, and of all.
    """

    case: Row
    error: Callable[[Any], float]
    calls: dict[str, Callable[[], Any]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def add(self, name: str, build: Callable[[], Callable[[], Any]], **facts: Any) -> None:
        """A contender, of which `build` makes the call, and what its row says of it."""
        row = self.case | {"contender": name, **facts}
        self.rows.append(row)
        try:
            call = build()
            spoil(call())  # the next result most likely gets this memory
            row["error"] = self.error(call())
        except Exception as failure:
            row["failed"] = one_line(failure)
            return
        if row["error"] <= 1 or name == PEER:
            self.calls[name] = call
        else:
            row["failed"] = f"wrong: {row['error']:.3g} of what rounding allows"

    def timed(
        self, rep_ms: float, ceilings: Mapping[str, Callable[[], Any]] | None = None
    ) -> list[Row]:
        """All rows, with microseconds, cuBLAS's, and the ratio of both where there are any; and
        what the fastest of the plain passes takes, which are timed in turn with them.
        """
        from warpsmith.testing import do_bench_interleaved

        passes = ceilings or {}
        times = do_bench_interleaved({**self.calls, **passes}, WARMUP_MS, rep_ms)
        ceiling = {"ceiling_us": 1e3 * min(times[name] for name in passes)} if passes else {}
        for row in self.rows:
            ms = times.get(row["contender"])
            if ms is not None:
                row |= {"us": 1e3 * ms, "cublas_us": 1e3 * times[PEER], "ratio": times[PEER] / ms}
                row |= ceiling
        return self.rows


def failures(rows: Sequence[Row]) -> list[Row]:
    """Those that failed or were wrong."""
    return [row for row in rows if "failed" in row]
