"""Asynchronous copies and tensor maps."""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.sim.isa import Flag, Mode, Op, Space
from warpsmith.sim.ptx.decode.form import Row, row, rows

_COMPLETE = "mbarrier::complete_tx::bytes"
_HINT = "L2::cache_hint?"
_RANK = "vector=1d|2d|3d|4d|5d"
_REDUCED = "u32|s32|u64|s64|b32|b64|f16|bf16|f32|f64"
_AHEAD = "L2::cache_hint? L2::64B|L2::128B|L2::256B?"
_FIELDS = (
    ("global_address", Mode.GLOBAL_ADDRESS, "b64", "[a] s"),
    ("rank", Mode.RANK, "b32", "[a] s"),
    ("box_dim", Mode.BOX_DIM, "b32", "[a] n s"),
    ("global_dim", Mode.GLOBAL_DIM, "b32", "[a] n s"),
    ("global_stride", Mode.GLOBAL_STRIDE, "b64", "[a] n s"),
    ("element_stride", Mode.ELEMENT_STRIDE, "b32", "[a] n s"),
    ("elemtype", Mode.ELEMTYPE, "b32", "[a] n"),
    ("interleave_layout", Mode.INTERLEAVE, "b32", "[a] n"),
    ("swizzle_mode", Mode.SWIZZLE, "b32", "[a] n"),
    ("fill_mode", Mode.FILL, "b32", "[a] n"),
)


def _loads() -> Iterator[Row]:
    """Bulk and tensor copies into shared memory: a mask follows only `.multicast::cluster`."""
    for cast, mask in (("", ""), (" multicast::cluster", " s:u16")):
        tail = f"{_COMPLETE}{cast} {_HINT}"
        for space, flags in (("shared::cluster", Flag.NONE), ("shared::cta", Flag.SHARED_CTA)):
            bulk = f"async bulk space={space} global {tail}"
            tensor = f"async bulk tensor {_RANK} space={space} global tile? {tail}"
            yield row("cp", Op.BULK_LOAD, bulk, f"[a] [a] s:u32 [a]{mask}", flags=flags)
            yield row("cp", Op.TENSOR_LOAD, tensor, f"[a] [t] [a]{mask}", flags=flags)


_WITHIN = f"async bulk space=shared::cluster shared::cta {_COMPLETE}"
_OUT = f"async bulk space=global shared::cta bulk_group {_HINT}"
_TENSOR_OUT = f"async bulk tensor {_RANK} space=global shared::cta"

ROWS: tuple[Row, ...] = (
    *(
        row("cp", Op.CP_ASYNC, f"async ca|cg space=$own global {_AHEAD}", operands, flags=flags)
        for operands, flags in (
            ("[a] [a] n", Flag.NONE),
            ("[a] [a] n s:none", Flag.ZERO_FILL),  # a size, or a predicate to ignore the source
        )
    ),
    row("cp", Op.CP_ASYNC_COMMIT, "async commit_group", ""),
    row("cp", Op.CP_ASYNC_WAIT, "async wait_group", "n"),
    row("cp", Op.CP_ASYNC_WAIT, "async wait_all", "", flags=Flag.ALL),
    row("cp", Op.CP_ASYNC_ARRIVE, "async mbarrier arrive noinc? space=$own? type=b64", "[a]"),
    *_loads(),
    row("cp", Op.BULK_COPY, _WITHIN, "[a] [a] s:u32 [a]"),
    row("cp", Op.BULK_STORE, _OUT, "[a] [a] s:u32"),
    row("cp", Op.NOP, f"async bulk prefetch L2 global {_HINT}", "[a] s:u32"),
    row("cp", Op.NOP, f"async bulk prefetch tensor {_RANK} L2 global tile? {_HINT}", "[t]"),
    row("cp", Op.TENSOR_STORE, f"{_TENSOR_OUT} tile? bulk_group {_HINT}", "[t] [a]"),
    *rows(
        *("cp", Op.BULK_REDUCE),
        (f"reduce {_WITHIN} mode=$atomic type={_REDUCED}", "[a] [a] s:u32 [a]"),
        (f"reduce {_OUT} mode=$atomic noftz? type={_REDUCED}", "[a] [a] s:u32"),
    ),
    row(
        *("cp", Op.TENSOR_REDUCE),
        *(f"reduce {_TENSOR_OUT} mode=$atomic tile? bulk_group {_HINT}", "[t] [a]"),
    ),
    row("cp", Op.BULK_COMMIT, "async bulk commit_group", ""),
    row("cp", Op.BULK_WAIT, "async bulk wait_group read?", "n"),
    *(
        row(
            "tensormap",
            Op.TENSORMAP_REPLACE,
            f"replace tile {field} space=global|shared::cta|shared? b1024 type={type_}",
            operands,
            mode=mode,
        )
        for field, mode, type_, operands in _FIELDS
    ),
    row(
        "tensormap",
        Op.TENSORMAP_COPY,
        "cp_fenceproxy global shared::cta tensormap::generic semantics=release "
        "scope=$scope sync aligned",
        "[a] [a] n",
        mode=Mode.PROXY_TENSORMAP,
        space=Space.GLOBAL,
    ),
)
