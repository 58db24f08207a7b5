"""Loads, stores, atomics, matrix loads and addresses."""

from __future__ import annotations

from typing import Any

from warpsmith.sim.isa import Op, Scope, Semantics, Space
from warpsmith.sim.ptx.decode.form import Row, row

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


def _atomics(head: str, op: Op, out: str) -> list[Row]:
    """`atom` or `red`; `out` is the destination with a space behind, or empty."""
    begin = f"semantics=relaxed|acquire|release|acq_rel? scope=$scope? space={_ATOMIC_SPACES}?"
    fixed: dict[str, Any] = {"semantics": Semantics.RELAXED, "scope": Scope.GPU}
    hint = "L2::cache_hint?"
    return [
        row(head, op, f"{begin} mode=and|or|xor {hint} type=b32|b64", f"{out}[a] s", **fixed),
        row(
            *(head, op, f"{begin} mode=add {hint} type=u32|s32|u64|s64|f32|f64", f"{out}[a] s"),
            **fixed,
        ),
        row(
            head,
            op,
            f"{begin} mode=add noftz {hint} type=f16|f16x2|bf16|bf16x2",
            f"{out}[a] s",
            **fixed,
        ),
        row(head, op, f"{begin} mode=inc|dec {hint} type=u32", f"{out}[a] s", **fixed),
        row(
            *(head, op, f"{begin} mode=min|max {hint} type=u32|s32|u64|s64", f"{out}[a] s"),
            **fixed,
        ),
        row(
            head,
            op,
            f"{begin} mode=add {hint} vector=v2|v4 type=f32",
            f"{out.replace('d', '{d}')}[a] {{s}}",
            **fixed,
        ),
        row(
            head,
            op,
            f"{begin} mode=add|min|max noftz {hint} vector=v2|v4|v8 type=f16|bf16|f16x2|bf16x2",
            f"{out.replace('d', '{d}')}[a] {{s}}",
            **fixed,
        ),
    ]


_ATOM = "semantics=relaxed|acquire|release|acq_rel? scope=$scope? " + f"space={_ATOMIC_SPACES}?"
_RELAXED_GPU: dict[str, Any] = {"semantics": Semantics.RELAXED, "scope": Scope.GPU}
_COMPLETE = "mbarrier::complete_tx::bytes"

ROWS: tuple[Row, ...] = (
    *_accesses("ld", Op.LD, _LOAD_SPACES, "acquire", "ca|cg|cs|lu|cv? nc?", "d [a]"),
    *_accesses("st", Op.ST, _STORE_SPACES, "release", "wb|cg|cs|wt?", "[a] s"),
    row("ldu", Op.LD, "space=global? type=$memory", "d [a]", loose=True),
    row("ldu", Op.LD, "space=global? vector=v2|v4 type=$memory", "{d} [a]", loose=True),
    *_atomics("atom", Op.ATOM, "d "),
    row(
        *("atom", Op.ATOM, f"{_ATOM} mode=exch L2::cache_hint? type=b32|b64|b128", "d [a] s"),
        **_RELAXED_GPU,
    ),
    row(
        "atom",
        Op.ATOM,
        f"{_ATOM} mode=cas L2::cache_hint? type=b16|b32|b64|b128",
        "d [a] s s",
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
    row(
        *("ldmatrix", Op.LDMATRIX, "sync aligned m8n8 vector=x1|x2|x4 trans? space=$own? type=b16"),
        "{d:b32} [a]",
    ),
    row(
        *("stmatrix", Op.STMATRIX, "sync aligned m8n8 vector=x1|x2|x4 trans? space=$own? type=b16"),
        "[a] {s:b32}",
    ),
    row("mapa", Op.MAPA, "space=shared::cluster type=u32|u64", "d s s:u32"),
    row("mapa", Op.MAPA, "type=u32|u64", "d s s:u32"),
    row("getctarank", Op.GETCTARANK, "space=shared::cluster? type=u32|u64", "d:u32 s"),
    row(
        "createpolicy",
        Op.POLICY,
        f"fractional {_EVICT2}|L2::evict_unchanged L2::evict_first|L2::evict_unchanged? type=b64",
        "d",
    ),
    row(
        "createpolicy",
        Op.POLICY,
        f"fractional {_EVICT2}|L2::evict_unchanged L2::evict_first|L2::evict_unchanged? type=b64",
        "d x",
    ),
    row(
        "createpolicy",
        Op.POLICY,
        f"range global? {_EVICT2}|L2::evict_unchanged "
        "L2::evict_first|L2::evict_unchanged? type=b64",
        "d [a] x x",
    ),
    row("createpolicy", Op.POLICY, "cvt L2 type=b64", "d x"),
    row("prefetch", Op.NOP, "global|local? L1|L2", "[a]"),
    row("prefetch", Op.NOP, "global L2::evict_last|L2::evict_normal", "[a]"),
    row("prefetch", Op.NOP, "const|param? tensormap", "[a]"),
    row("prefetchu", Op.NOP, "L1", "[a]"),
    row("applypriority", Op.NOP, "global? L2::evict_normal", "[a] x"),
    row("discard", Op.NOP, "global? L2", "[a] x"),
)
