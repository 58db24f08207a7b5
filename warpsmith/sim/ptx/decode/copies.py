"""Asynchronous copies and tensor maps."""

from __future__ import annotations

from warpsmith.sim.isa import Flag, Mode, Op, Space
from warpsmith.sim.ptx.decode.form import Row, row

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


def _loads() -> list[Row]:
    """Bulk and tensor copies into shared memory: a mask follows only `.multicast::cluster`."""
    rows = []
    for cast, mask in (("", ""), (" multicast::cluster", " s:u16")):
        for space, flags in (("shared::cluster", Flag.NONE), ("shared::cta", Flag.SHARED_CTA)):
            tail = f"global {_COMPLETE}{cast} {_HINT}"
            rows += [
                row(
                    *("cp", Op.BULK_LOAD, f"async bulk space={space} {tail}"),
                    f"[a] [a] s:u32 [a]{mask}",
                    flags=flags,
                ),
                row(
                    "cp",
                    Op.TENSOR_LOAD,
                    f"async bulk tensor {_RANK} space={space} global tile? "
                    f"{_COMPLETE}{cast} {_HINT}",
                    f"[a] [t] [a]{mask}",
                    flags=flags,
                ),
            ]
    return rows


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
    row(
        *("cp", Op.BULK_COPY, f"async bulk space=shared::cluster shared::cta {_COMPLETE}"),
        "[a] [a] s:u32 [a]",
    ),
    row(
        *("cp", Op.BULK_STORE, f"async bulk space=global shared::cta bulk_group {_HINT}"),
        "[a] [a] s:u32",
    ),
    row("cp", Op.NOP, f"async bulk prefetch L2 global {_HINT}", "[a] s:u32"),
    row("cp", Op.NOP, f"async bulk prefetch tensor {_RANK} L2 global tile? {_HINT}", "[t]"),
    row(
        "cp",
        Op.TENSOR_STORE,
        f"async bulk tensor {_RANK} space=global shared::cta tile? bulk_group {_HINT}",
        "[t] [a]",
    ),
    row(
        "cp",
        Op.BULK_REDUCE,
        f"reduce async bulk space=shared::cluster shared::cta {_COMPLETE} "
        f"mode=$atomic type={_REDUCED}",
        "[a] [a] s:u32 [a]",
    ),
    row(
        "cp",
        Op.BULK_REDUCE,
        f"reduce async bulk space=global shared::cta bulk_group {_HINT} "
        f"mode=$atomic noftz? type={_REDUCED}",
        "[a] [a] s:u32",
    ),
    row(
        "cp",
        Op.TENSOR_REDUCE,
        f"reduce async bulk tensor {_RANK} space=global shared::cta mode=$atomic tile? "
        f"bulk_group {_HINT}",
        "[t] [a]",
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
