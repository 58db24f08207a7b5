"""Loads, stores, atomics, matrix loads and addresses."""

from __future__ import annotations

from typing import Any

from warpsmith.sim.isa import Op, Scope, Semantics, Space
from warpsmith.sim.ptx.decode.form import Row, row, rows

_EVICT1 = "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate"
_EVICT2 = "L2::evict_normal|L2::evict_first|L2::evict_last"
_HINTS = f"{_EVICT1}? {_EVICT2}? L2::cache_hint? L2::64B|L2::128B|L2::256B?"
_LOAD_SPACES = (
    "global|shared|shared::cta|shared::cluster|local|const|param|param::entry|param::func"
)
_STORE_SPACES = "global|shared|shared::cta|shared::cluster|local|param|param::func"
_ATOMIC_SPACES = "global|shared|shared::cta|shared::cluster"


def _accesses(head: str, op: Op, spaces: str, order: str, cached: str, operands: str) -> list[Row]:
    """`ld` or `st`, with one register and with a vector."""
    tails = (
        ("type=$memory|b128", operands),
        ("type=$memory|b128", operands.replace("d", "{d}").replace("s", "{s}")),  # of one
        ("vector=v2|v4|v8 type=$memory|b128", operands.replace("d", "{d}").replace("s", "{s}")),
    )
    rows = []
    for tail, shape in tails:
        rest = f"space={spaces}? {_HINTS} {tail}"
        rows += [
            row(head, op, f"semantics=weak|volatile? {rest}", shape, loose=True),
            row(head, op, f"weak? space={spaces}? {cached} {_HINTS} {tail}", shape, loose=True),
            row(head, op, f"semantics=relaxed|{order} scope=$scope {rest}", shape, loose=True),
            row(head, op, f"mmio semantics=relaxed scope=sys {rest}", shape, loose=True),
        ]
    return rows


def _atomics(head: str, op: Op, out: str) -> tuple[Row, ...]:
    """`atom` or `red`; `out` is the destination with a space behind, or empty."""
    operands, vectors = f"{out}[a] s", f"{out.replace('d', '{d}')}[a] {{s}}"
    halves = "type=f16|bf16|f16x2|bf16x2"
    return rows(
        *(head, op),
        (f"{_ATOM} mode=and|or|xor {_HINT} type=b32|b64", operands),
        (f"{_ATOM} mode=add {_HINT} type=u32|s32|u64|s64|f32|f64", operands),
        (f"{_ATOM} mode=add noftz {_HINT} type=f16|f16x2|bf16|bf16x2", operands),
        (f"{_ATOM} mode=inc|dec {_HINT} type=u32", operands),
        (f"{_ATOM} mode=min|max {_HINT} type=u32|s32|u64|s64", operands),
        (f"{_ATOM} mode=add {_HINT} vector=v2|v4 type=f32", vectors),
        (f"{_ATOM} mode=add|min|max noftz {_HINT} vector=v2|v4|v8 {halves}", vectors),
        **_RELAXED_GPU,
    )


_ATOM = f"semantics=relaxed|acquire|release|acq_rel? scope=$scope? space={_ATOMIC_SPACES}?"
_RELAXED_GPU: dict[str, Any] = {"semantics": Semantics.RELAXED, "scope": Scope.GPU}
_HINT = "L2::cache_hint?"
_COMPLETE = "mbarrier::complete_tx::bytes"
_POLICY = f"{_EVICT2}|L2::evict_unchanged"
_MATRICES = "sync aligned m8n8 vector=x1|x2|x4 trans? space=$own? type=b16"

ROWS: tuple[Row, ...] = (
    *_accesses("ld", Op.LD, _LOAD_SPACES, "acquire", "ca|cg|cs|lu|cv? nc?", "d [a]"),
    *_accesses("st", Op.ST, _STORE_SPACES, "release", "wb|cg|cs|wt?", "[a] s"),
    row("ldu", Op.LD, "space=global? type=$memory", "d [a]", loose=True),
    row("ldu", Op.LD, "space=global? vector=v2|v4 type=$memory", "{d} [a]", loose=True),
    *_atomics("atom", Op.ATOM, "d "),
    *rows(
        *("atom", Op.ATOM),
        (f"{_ATOM} mode=exch {_HINT} type=b32|b64|b128", "d [a] s"),
        (f"{_ATOM} mode=cas {_HINT} type=b16|b32|b64|b128", "d [a] s s"),
        **_RELAXED_GPU,
    ),
    *_atomics("red", Op.RED, ""),
    row(
        "red",
        Op.RED_ASYNC,
        f"async semantics=relaxed scope=cluster space=shared::cluster? {_COMPLETE} "
        "mode=$atomic type=u32|s32|u64|b32",
        "[a] s [a]",
        space=Space.SHARED_CLUSTER,
    ),
    *(
        row(
            "st",
            Op.ST_ASYNC,
            f"async semantics=weak|relaxed? scope=cluster? space=shared::cluster? {_COMPLETE}? "
            f"{vector}type=b32|b64|u32|u64|s32|s64|f32|f64",
            f"[a] {value} [a]",
            space=Space.SHARED_CLUSTER,
        )
        for vector, value in (("", "s"), ("vector=v2|v4 ", "{s}"))
    ),
    row("ldmatrix", Op.LDMATRIX, _MATRICES, "{d:b32} [a]"),
    row("stmatrix", Op.STMATRIX, _MATRICES, "[a] {s:b32}"),
    row("mapa", Op.MAPA, "space=shared::cluster type=u32|u64", "d s s:u32"),
    row("mapa", Op.MAPA, "type=u32|u64", "d s s:u32"),
    row("getctarank", Op.GETCTARANK, "space=shared::cluster? type=u32|u64", "d:u32 s"),
    *rows(
        *("createpolicy", Op.POLICY),
        (f"fractional {_POLICY} L2::evict_first|L2::evict_unchanged? type=b64", "d"),
        (f"fractional {_POLICY} L2::evict_first|L2::evict_unchanged? type=b64", "d x"),
        (f"range global? {_POLICY} L2::evict_first|L2::evict_unchanged? type=b64", "d [a] x x"),
        ("cvt L2 type=b64", "d x"),
    ),
    row("prefetch", Op.NOP, "global|local? L1|L2", "[a]"),
    row("prefetch", Op.NOP, "global L2::evict_last|L2::evict_normal", "[a]"),
    row("prefetch", Op.NOP, "const|param? tensormap", "[a]"),
    row("prefetchu", Op.NOP, "L1", "[a]"),
    row("applypriority", Op.NOP, "global? L2::evict_normal", "[a] x"),
    row("discard", Op.NOP, "global? L2", "[a] x"),
)
