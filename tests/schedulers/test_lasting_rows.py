"""What loads of rows bring into the L2 is the last to go from it, or the first."""

import re
from typing import Any

import numpy as np
import pytest

import warpsmith
from bench import norms
from bench.batch_norm import batch_norm
from bench.images import Images
from bench.row_shapes import plan
from tests.schedulers.test_specialized_norms import check, layer_norm, softmax
from tests.support.norms_backward import Case, layer_norm_backward, rms_norm_backward
from warpsmith import knobs
from warpsmith.runtime import arrays
from warpsmith.schedulers import caching
from warpsmith.schedulers.rows.rows import Rows


@pytest.fixture
def many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have any row count move more bytes than the L2 takes."""
    monkeypatch.setattr(caching, "STREAMING_SHARE", 0)


def loads(program: Any, rows: int, columns: int, **options: Any) -> str:
    """The kernels' CUDA for bfloat16."""
    x = np.zeros(1, arrays.NUMPY_DTYPES["bfloat16"])
    matrix = np.lib.stride_tricks.as_strided(x, (rows, columns), (2 * columns, 2))
    others = () if program is softmax else (matrix[0], matrix[0])
    made = warpsmith.fuse(program, **options).lower(matrix, *others).compile()
    return "".join(str(kernel.asm["cuda"]).split("__global__")[-1] for kernel in made.kernels)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("program", [layer_norm, softmax])
def test_only_rows_of_many_bytes_last(program: Any) -> None:
    few, many = (loads(program, rows, 8192) for rows in (1000, 8192))
    assert "8, 3>(T0" in few
    assert "8, 6>" not in few
    assert "8, 6>(T0" in many
    assert many.count("8, 6>") == 1  # not what all rows share


@pytest.mark.usefixtures("uncompiled")
def test_so_do_those_that_a_role_copies() -> None:
    few, many = (loads(layer_norm, rows, 8192, warp_specialize=True) for rows in (1000, 8192))
    assert "ws_bulk_load(" in few
    assert "ws_bulk_load<true>(" in many
    assert "ws_bulk_load<true>(" not in few


@pytest.mark.few(2)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("columns", "specialized", "some"),
    [(1024, False, "_once"), (2050, False, ""), (1024, True, "")],
)
def test_beside_sums_of_columns_whole_rows_are_the_first_to_go_where_the_l2_has_not_all(
    columns: int, specialized: bool, some: str
) -> None:
    """Not those in chunks, whose lines two rows share, nor those that a role copies."""

    def called(megabytes: int) -> set[str]:
        kind, rows = arrays.NUMPY_DTYPES["bfloat16"], round(megabytes * 1e6 / columns / 6)
        line, one = np.zeros(columns, kind), np.zeros((1, 1), np.float32)
        matrix = np.lib.stride_tricks.as_strided(line, (rows, columns), (2 * columns, 2))
        stats = np.lib.stride_tricks.as_strided(one, (rows, 1), (4, 4))
        fused = warpsmith.fuse(layer_norm_backward, warp_specialize=specialized)
        made = fused.lower(matrix, matrix, line, stats, stats).compile().kernels[0]
        text = str(made.asm["cuda"]).split("__global__")[-1]
        return set(re.findall(r" ws_bulk_load(.*?)\(", text))

    assert [called(mb) for mb in (45, 60, 90)] == [{""}, {some}, {"<true>"}]


@pytest.mark.parametrize("program", [layer_norm, softmax])
def test_a_role_that_copies_them_is_right(program: Any, many_bytes: None) -> None:
    check(program, 300, 1024, "bfloat16")


@pytest.mark.few(1)
@pytest.mark.parametrize("program", [layer_norm_backward, rms_norm_backward])
@pytest.mark.parametrize("first", [False, True])
def test_backward_is_right(program: Any, first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rows, "streams", lambda rows, problem: first)
    monkeypatch.setattr(Rows, "past_l1", lambda rows, problem: first)
    case = Case((40, 1024), "bfloat16")
    given = case.inputs(program)
    fused = warpsmith.fuse(program)
    made = fused.lower(*given).compile()
    load = "ws_bulk_load_once(" if first else "ws_bulk_load<true>("
    assert load in str(made.kernels[0].asm["cuda"]).split("__global__")[-1]
    assert made.verify().verdict == "clean"
    with knobs.scope(device="sim"):
        found = [np.asarray(result) for result in fused(*given)]
    for result, expected in zip(found, case.expected(program), strict=True):
        np.testing.assert_allclose(result.astype(np.float64), expected, case.relative, 1e-4)


def test_waves_of_such_rows_are_right(many_bytes: None) -> None:
    x = np.random.default_rng(2).standard_normal((5, 8192)).astype(np.float32)
    fused = warpsmith.fuse(softmax, warp_specialize=False)
    made = fused.lower(x).compile()
    assert "4, 6>(T0" in str(made.kernels[0].asm["cuda"])
    assert made.verify().verdict == "clean"
    with knobs.scope(device="sim"):
        found = np.asarray(fused(x))
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(found, wide / wide.sum(1, keepdims=True), 1e-5, 1e-9)


def test_loads_of_ragged_pieces_wait_for_nothing() -> None:
    """Each is under a predicate, none in a branch, where it would be taken apart at once."""
    kernel = plan(batch_norm(Images(121, 800, 18, False), "bfloat16")).launches[0].compiled
    text = str(kernel.asm["sass"])
    found = [line for line in text.splitlines() if "LDG.E.64" in line or "BRA" in line]
    loads = [number for number, line in enumerate(found) if "LDG.E.64" in line]
    assert len(loads) >= 8
    assert loads == list(range(loads[0], loads[0] + len(loads)))


def test_loads_of_ragged_rows_are_not_taken_apart_under_a_predicate() -> None:
    """16-bit values that a branch loads would be merged with those before it, one by one."""
    kernel = plan(norms.layer_norm(1083, 29040, "bfloat16")).launches[0].compiled
    text = str(kernel.asm["sass"])
    assert "PRMT" in text
    assert not re.search(r"@!?P\d PRMT", text)


def test_ragged_pieces_are_right(many_bytes: None) -> None:
    problem = batch_norm(Images(5, 3, 12, False), "bfloat16")
    x, weight, bias = (a.astype(np.float32) for a in drawn((5, 3, 12, 12), (3,), (3,)))
    given = x.astype(arrays.NUMPY_DTYPES["bfloat16"]), weight, bias
    fused = warpsmith.fuse(problem.fused)
    made = fused.lower(*given).compile()
    assert "ws_load_where<6>(" in str(made.kernels[0].asm["cuda"])
    assert made.verify().verdict == "clean"
    with knobs.scope(device="sim"):
        found, mean, scale = (np.asarray(each).astype(np.float64) for each in fused(*given))
    wide = given[0].astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean((0, 2, 3)), 1e-5, 1e-6)
    np.testing.assert_allclose(scale, 1 / np.sqrt(wide.var((0, 2, 3)) + 1e-5), 1e-5)
    normal = (wide - mean[:, None, None]) * scale[:, None, None]
    expected = normal * weight[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(found, expected, 2**-7, 2**-8)


def drawn(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    source = np.random.default_rng(sum(map(len, shapes)))
    return [source.standard_normal(shape) for shape in shapes]
