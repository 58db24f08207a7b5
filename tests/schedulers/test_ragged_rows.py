"""Rows whose length no number of threads divides: one masked pass behind those that are full."""

import re
from itertools import product
from typing import Any

import numpy as np
import pytest

import warpsmith
from bench.norm_backward import layer_norm_bwd
from bench.row_shapes import plan
from tests.schedulers.test_specialized_norms import softmax
from tests.support.norms_backward import (
    PROGRAMS,
    Case,
    explained,
    layer_norm_backward,
    on_simulator,
    rms_norm_backward,
)
from warpsmith import FusionDefinition, knobs
from warpsmith.engine.executable import Executable
from warpsmith.errors import ArgumentError
from warpsmith.ir.scalar import Symbol, evaluate
from warpsmith.kernel.nodes import Let
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.traversal import replace_symbols, walk
from warpsmith.runtime.arrays import NUMPY_DTYPES
from warpsmith.schedule.transforms import split
from warpsmith.schedulers.rows import turns
from warpsmith.schedulers.rows.candidate import FEW_SPILLS


def kernel(program: Any, case: Case) -> str:
    """The CUDA of the kernel that walks rows."""
    with knobs.scope(rings="prefer", warp_specialize=False):
        text: str = warpsmith.fuse(program).lower(*case.inputs(program)).compile().asm["cuda"]
    return max(text.split('extern "C"'), key=lambda part: part.count("T0_size0"))


@pytest.mark.few(2)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("columns", [1048, 1544, 2056, 3080])
@pytest.mark.parametrize("specialize", [False, True])
def test_against_float64(program: Any, dtype: str, columns: int, specialize: bool) -> None:
    """More rows than blocks would be slow here: turns run past the last row in test_rings.py."""
    case = Case((3, columns), dtype)
    with knobs.scope(warp_specialize=specialize):
        found = on_simulator(program, case.inputs(program), "prefer")
    for result, expected in zip(found, case.expected(program), strict=True):
        np.testing.assert_allclose(result.astype(np.float64), expected, case.relative, 1e-4)


@pytest.mark.few(1)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("blocks", "columns"), [(2, 2096), (4, 4128), (2, 2104), (4, 4104)])
def test_parts_of_a_row_in_a_cluster(
    program: Any, blocks: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads divide a block's part as its copies do; the last one may have less."""
    monkeypatch.setattr(turns, "CLUSTERS", (blocks,))
    case = Case((2, columns), "bfloat16")
    with knobs.scope(warp_specialize=False):
        found = on_simulator(program, case.inputs(program), "prefer")
        with knobs.scope(rings="prefer"):
            first = explained(program, case.inputs(program)).split("kernel 1")[0]
    part = 8 * -(-columns // (8 * blocks))
    assert f"row={part}" in first
    assert f"uneven={columns if part * blocks != columns else 0}," in first
    for result, expected in zip(found, case.expected(program), strict=True):
        np.testing.assert_allclose(result.astype(np.float64), expected, case.relative, 1e-4)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.few(3)
@pytest.mark.parametrize("program", [rms_norm_backward, layer_norm_backward])
@pytest.mark.parametrize("columns", [5376, 7680, 8200, 12344, 13312, 22504, 22528, 29000])
def test_lengths_that_nothing_divides_are_loaded_ahead(program: Any, columns: int) -> None:
    """Their rows came by loads of threads, or by roles with uneven warps: 70 to 75 % of what
    their neighbours reached.
    """
    first = explained(program, Case((2, columns), "bfloat16").inputs(program)).split("kernel 1")[0]
    assert re.search(r"ring=[1-9]", first)
    assert "warp_specialize=False" in first


def test_two_rows_beside_two_others_in_a_cluster_do_not_spill() -> None:
    """32936 columns had them, spilled 280 bytes, and took an eighth longer than other shapes."""
    with knobs.scope(target="h200"):
        first = plan(layer_norm_bwd(1092, 32936, "bfloat16")).launches[0]
    assert first.compiled.n_spills == 0


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("program", [rms_norm_backward, layer_norm_backward])
def test_passes_that_are_full_have_no_predicates(program: Any) -> None:
    """Each loop over a row asks for its end in its last pass, around all that it does there."""
    text = kernel(program, Case((2, 10000), "bfloat16"))
    masks = [line.strip() for line in text.splitlines() if "< 1250)" in line and "?" not in line]
    assert len(masks) >= 5
    for line in masks:
        assert re.fullmatch(r"if \(\(i\d+r \* \d+ \+ \d+ \+ block_x\) < 1250\) \{", line)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("columns", "blocks", "specialize"),
    [(1000, 1, True), (1003, 1, True), (1003, 1, False), (2104, 1, False), (2104, 2, False)],
)
def test_rows_lie_in_lines_of_their_stage_as_in_memory(
    columns: int, blocks: int, specialize: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that began 16 bytes behind a line, in a stage that began with one, took 5 to 12 % longer
    on an H200. One, several and parts of them in a stage; also in whole chunks.
    """
    monkeypatch.setattr(turns, "CLUSTERS", (blocks,))
    inputs = Case((2000, columns), "bfloat16").inputs(rms_norm_backward)
    with knobs.scope(rings="prefer", warp_specialize=specialize, target="h200"):
        made = warpsmith.fuse(rms_norm_backward).lower(*inputs).compile()
    body = made.kernels[0].kernel.body
    copies = [s for s in walk(body) if isinstance(s, TileCopy)]
    named = {let.symbol: let.value for let in walk(body) if isinstance(let, Let)}
    assert len({copy.shared.name for copy in copies}) == 2
    for copy, shift in product(copies, range(3)):
        whole = copy
        for _ in named:
            whole = replace_symbols(whole, named)
        symbols = {
            s.name for e in (whole.index, whole.start) for s in e.walk() if isinstance(s, Symbol)
        }
        values = {name: 3 + n + shift for n, name in enumerate(sorted(symbols))}
        values["T0_size1"] = columns
        stage, memory = (2 * evaluate(place, values) for place in (whole.index, whole.start))
        assert copy.shared.alignment == 128
        assert (stage - memory) % 128 == 0


@pytest.mark.parametrize("columns", [7144, 27120])
def test_rows_forward_have_predicates_on_all_passes(columns: int) -> None:
    """Their loads stand in one row, without a branch before the last: masked, they wait for those
    before them. 27120 columns had spilled so.
    """
    x = np.empty((8000, columns), NUMPY_DTYPES["bfloat16"])
    compiled = warpsmith.fuse(softmax).lower(x).compile()
    assert compiled.n_spills <= FEW_SPILLS
    said = re.search(r"relies on .*", str(compiled.explain()))
    assert said
    assert ">=" not in said[0]


def test_a_size_below_what_a_kernel_was_made_for_is_refused() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = fd.ops.neg(x)
        fd.add_output(y)
        fd.fusion.least |= {(x.root[0].extent, 100)}
        split(y, 0, 32)
    kernel = Executable(fd.fusion, scheduled=True)
    with knobs.scope(device="sim"):
        assert kernel.run([np.ones(100, np.float32)])[0].sum() == -100
        with pytest.raises(ArgumentError, match="is 99, and .* scheduled for at least 100") as said:
            kernel.run([np.ones(99, np.float32)])
    assert said.value.code == "WS0328"


def test_any_order_of_blocks_with_uneven_parts_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "CLUSTERS", (2,))
    inputs = Case((20, 1064), "bfloat16").inputs(layer_norm_backward)
    with knobs.scope(rings="prefer", warp_specialize=False):
        found = warpsmith.verify(warpsmith.fuse(layer_norm_backward), list(inputs), schedules=3)
    assert found.verdict == "clean", found
