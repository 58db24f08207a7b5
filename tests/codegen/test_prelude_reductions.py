"""Pieces of the prelude that reduce: blocks, grids, lanes, and the scratch of each."""

import itertools
import re

import pytest

from tests.codegen.test_prelude import compiled
from warpsmith.kernel.scratch import block_reduce_scratch, groups_reduce_scratch, kept_threads
from warpsmith.runtime.sass import disassemble
from warpsmith.runtime.source import Binary

AXES = [axes for axes in itertools.product((False, True), repeat=3) if any(axes)]


BLOCKS = [(32, 1, 1), (96, 1, 1), (100, 1, 1), (32, 8, 1), (16, 16, 1), (8, 12, 1), (4, 4, 8)]


OPS = {
    "ws_sum": "float",
    "ws_prod": "double",
    "ws_max": "float",
    "ws_min": "long long",
    "ws_welford_combine": "ws_welford<float>",
}


def block_reduce_kernel(
    block: tuple[int, int, int],
    axes: tuple[bool, bool, bool],
    ops: dict[str, str],
    *,
    extent: str = "{}",
    first: bool = False,
    count: int = 3,
) -> Binary:
    """Each operation on a few values a thread, for all threads or the `first` ones."""
    flags = ", ".join(str(flag).lower() for flag in (*axes, False, first))
    dims = ", ".join(map(extent.format, block))
    lines = [
        f"{{ extern __shared__ char memory[]; {ctype} *p = ({ctype}*)data + at;\n"
        f"  {ctype} v[{count}]; for (int k = 0; k < {count}; ++k) v[k] = p[k];\n"
        f"  ws_block_reduce<{op}, {count}, {flags}>(v, ({ctype}*)memory, {dims});\n"
        f"  for (int k = 0; k < {count}; ++k) p[k] = v[k]; }}"
        for op, ctype in ops.items()
    ]
    at = f"threadIdx.x + {block[0]} * (threadIdx.y + {block[1]} * threadIdx.z)"
    body = f"const int at = {count} * ({at});\n" + "\n".join(lines)
    return compiled(["reduce_ops", "block_reduce"], "char* data", body)


@pytest.mark.few(5)
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("block", BLOCKS)
def test_block_reduce_needs_shared_memory_exactly_where_its_twin_says(
    block: tuple[int, int, int], axes: tuple[bool, bool, bool]
) -> None:
    binary = block_reduce_kernel(block, axes, {"ws_sum": "float"})
    scratch = block_reduce_scratch(3, axes, block)
    assert binary.stack_bytes == 0
    assert ("st.shared" in binary.ptx) == ("bar.sync" in binary.ptx) == (scratch > 0)


@pytest.mark.few(1)
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("count", [3, 16])
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("block", BLOCKS)
def test_known_extents_leave_the_code_that_numbers_leave(
    block: tuple[int, int, int], axes: tuple[bool, bool, bool], count: int, first: bool
) -> None:
    """One way to combine is compiled, in place of all of which one is left."""
    ops = {"ws_sum": "float"}
    known, folded = (
        block_reduce_kernel(block, axes, ops, extent=extent, first=first, count=count)
        for extent in ("ws_int<{}>()", "{}")
    )
    assert disassemble(known.cubin) == disassemble(folded.cubin)


@pytest.mark.parametrize("block", [(100, 1, 1), (64, 8, 1)])
def test_block_reduce_compiles_for_all_operations(block: tuple[int, int, int]) -> None:
    binary = block_reduce_kernel(block, (True, False, False), OPS)
    assert binary.stack_bytes == 0
    assert "warning" not in binary.log


def test_block_reduce_along_a_warp_is_shuffles_alone() -> None:
    body = (
        "float v[1] = {data[threadIdx.x]};\n"
        "ws_block_reduce<ws_sum, 1, true, false, false>(v, (float*)nullptr, 32, 4, 1);\n"
        "data[threadIdx.x] = v[0];"
    )
    sass = disassemble(compiled(["reduce_ops", "block_reduce"], "float* data", body).cubin)
    assert sass.count("SHFL.BFLY") == 5
    assert not re.search(r"\b(STS|LDS|BAR|POPC)\b", sass)


def test_lanes_that_have_the_same_columns_share_their_values_out() -> None:
    """Sixteen values of sixteen lanes: 8 + 4 + 2 + 1 exchanges, and one word each to shared memory;
    each lane with all of them took 64, and 16 words of every sixteenth.
    """
    body = (
        "extern __shared__ float memory[];\nfloat v[16];\n"
        "#pragma unroll\nfor (int n = 0; n < 16; ++n) v[n] = data[256 * n + threadIdx.y];\n"
        "ws_block_reduce<ws_sum, 16, false, true, false, true>(v, memory, 2, 128, 1);\n"
        "#pragma unroll\nfor (int n = 0; n < 16; ++n) data[256 * n + threadIdx.y] = v[n];"
    )
    binary = compiled(["reduce_ops", "block_reduce"], "float* data", body)
    before = disassemble(binary.cubin).split("BAR.SYNC")[0]
    assert before.count("SHFL.BFLY") == 15
    assert len(re.findall(r"\bSTS\b", before)) == 1
    assert binary.stack_bytes == 0


def test_block_dimensions_may_be_known_at_run_time_only() -> None:
    body = (
        "extern __shared__ ws_welford<double> memory[];\n"
        "ws_welford<double> v[2] = {data[threadIdx.x], data[threadIdx.x + 1]};\n"
        "ws_block_reduce<ws_welford_combine, 2, true, false, true>(\n"
        "    v, memory, blockDim.x, blockDim.y, blockDim.z);\n"
        "data[threadIdx.x] = v[0]; data[threadIdx.x + 1] = v[1];"
    )
    binary = compiled(["reduce_ops", "block_reduce"], "ws_welford<double>* data", body)
    assert binary.stack_bytes == 0


@pytest.mark.few(5)
@pytest.mark.parametrize("axes", [(True, False, False), (False, True, True)])
@pytest.mark.parametrize("op", OPS)
def test_grid_reduce_compiles(op: str, axes: tuple[bool, bool, bool]) -> None:
    ctype = OPS[op]
    flags = ", ".join("true" if axis else "false" for axis in axes)
    body = (
        f"__shared__ char memory[16384]; {ctype} v[2] = {{data[threadIdx.x], data[threadIdx.y]}};\n"
        f"if (ws_grid_reduce<{op}, 2, {flags}>(v, workspace, semaphore, ({ctype}*)memory,\n"
        "    blockIdx.y, gridDim.y, blockIdx.x * gridDim.y, blockIdx.x, 32, 8, 1))\n"
        "{ data[0] = v[0]; data[1] = v[1]; }"
    )
    arguments = f"{ctype}* data, {ctype}* workspace, unsigned* semaphore"
    binary = compiled(["reduce_ops", "grid_reduce"], arguments, body)
    assert "ld.relaxed.gpu" in binary.ptx
    assert binary.stack_bytes == 0


def test_partial_results_move_in_wide_accesses_and_one_atomic_orders_them() -> None:
    body = (
        "__shared__ char memory[16384]; ws_welford<float> v[4];\n"
        "for (int n = 0; n < 4; ++n) v[n] = data[4 * threadIdx.x + n];\n"
        "if (ws_grid_reduce<ws_welford_combine, 4, false, true, false>(v, workspace, semaphore,\n"
        "    (ws_welford<float>*)memory, blockIdx.y, gridDim.y,\n"
        "    blockIdx.x * gridDim.y, blockIdx.x, 8, 32, 1))\n"
        "    for (int n = 0; n < 4; ++n) data[4 * threadIdx.x + n] = v[n];"
    )
    arguments = "ws_welford<float>* data, ws_welford<float>* workspace, unsigned* semaphore"
    binary = compiled(["reduce_ops", "grid_reduce"], arguments, body)
    ptx, sass = binary.ptx, disassemble(binary.cubin)
    assert set(re.findall(r"ld\.relaxed\.gpu\.global\.(\S+) ", ptx)) == {"v4.b32"}
    assert sass.count("STG.E.128") == 3
    assert ptx.count("atom.acq_rel.gpu.global.inc.u32") == 1
    assert "fence" not in ptx
    assert "membar" not in ptx
    assert binary.stack_bytes == 0


def test_lanes_that_exchange_triples_take_no_branch() -> None:
    body = (
        "ws_welford<float> v[2] = {data[threadIdx.x], data[threadIdx.x + 32]};\n"
        "ws_block_reduce<ws_welford_combine, 2, true, false, false>(\n"
        "    v, (ws_welford<float>*)nullptr, 32, 4, 1);\n"
        "data[threadIdx.x] = v[0]; data[threadIdx.x + 32] = v[1];"
    )
    binary = compiled(["reduce_ops", "block_reduce"], "ws_welford<float>* data", body)
    sass = disassemble(binary.cubin)
    assert sass.count("SHFL.BFLY") == 5 * 2 * 3
    assert "BSSY" not in sass


def test_a_grid_that_is_not_split_costs_nothing() -> None:
    body = (
        "float v[1] = {data[threadIdx.x]};\n"
        "if (ws_grid_reduce<ws_sum, 1, true, false, false>(\n"
        "    v, data, (unsigned*)nullptr, (float*)nullptr, 0, 1, 0, 0, 32, 1, 1)) data[0] = v[0];"
    )
    sass = disassemble(compiled(["reduce_ops", "grid_reduce"], "float* data", body).cubin)
    assert not re.search(r"\b(ATOM|MEMBAR|BAR|SHFL)", sass)


@pytest.mark.parametrize(
    ("count", "reduced", "block", "elements"),
    [
        (4, (True, False, False), (32, 8, 1), 0),  # a warp a row
        (4, (True, False, False), (16, 3, 1), 0),  # half a warp a row
        (1, (True, False, False), (256, 1, 1), 8),  # one partial result a warp
        (2, (True, False, False), (100, 1, 1), 200),  # no whole warps: one a thread
        (8, (False, True, False), (32, 8, 1), 8 * 8 * 32),
        (8, (False, True, False), (8, 32, 1), 8 * 8 * 8),  # 4 rows a warp by shuffles
        (1, (True, True, True), (4, 4, 8), 4),
        (3, (False, False, True), (64, 4, 1), 0),  # nothing to reduce
    ],
)
def test_scratch_of_block_reduce(
    count: int, reduced: tuple[bool, bool, bool], block: tuple[int, int, int], elements: int
) -> None:
    assert block_reduce_scratch(count, reduced, block) == elements


def test_threads_with_results_of_their_own() -> None:
    assert kept_threads((False, True, False), (32, 8, 1)) == 32


@pytest.mark.parametrize(
    ("block", "apart", "elements"),
    [
        ((128, 2, 1), 1, 2 * 4),
        ((64, 2, 3), 2, 3 * 2 * 2),
        ((2, 48, 2), 0, 2 * 48 * 2),  # more than the 12 of one group with these extents
        ((32, 4, 1), None, 0),
        ((32, 4, 1), 1, 0),
    ],
)
def test_each_group_of_a_role_has_scratch_of_its_own(
    block: tuple[int, int, int], apart: int | None, elements: int
) -> None:
    reduced = (apart != 0, apart == 0, False)
    assert groups_reduce_scratch(1, reduced, block, apart) == elements
    if apart is not None:
        x, y, z = (1 if axis == apart else extent for axis, extent in enumerate(block))
        assert elements == block[apart] * block_reduce_scratch(1, reduced, (x, y, z))
