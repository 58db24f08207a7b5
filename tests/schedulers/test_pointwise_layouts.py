"""Automatic pointwise schedules on every kind of layout."""

import numpy as np
import pytest

from tests.support.launching import check_automatic, random_inputs
from tests.support.program import Program
from warpsmith import FusionDefinition, ops
from warpsmith.frontends.lowered import lower_call
from warpsmith.ir.dtypes import DataType

SHAPES = ((1, 1), (1, 7), (3, 8), (17, 1), (7, 17), (4, 1000), (2, 1023), (33, 64))


def silu_mul(dtype: DataType) -> Program:
    p = Program()
    x, y = p.input(dtype, (None, None)), p.input(dtype, (None, None))
    return p.output(p.cast(p.op("mul", p.op("silu", x), y), dtype))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [DataType.BFloat16, DataType.Float])
def test_silu_mul(dtype: DataType, shape: tuple[int, int]) -> None:
    p = silu_mul(dtype)
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": shape, "T1": shape}))


@pytest.mark.parametrize("index_type", [DataType.Int32, DataType.Int])
@pytest.mark.parametrize("size", [1, 3, 8, 17, 1000, 4099])
def test_three_inputs_of_one_dimension(size: int, index_type: DataType) -> None:
    p = Program()
    inputs = [p.input(DataType.Float, (None,)) for _ in range(3)]
    p.output(p.op("add", p.op("add", inputs[0], inputs[1]), inputs[2]))
    arrays = random_inputs(p.fusion, dict.fromkeys(("T0", "T1", "T2"), (size,)))
    check_automatic(p.fusion, arrays, index_type=index_type)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("per_row", [True, False])
def test_bias_over_rows_or_columns(per_row: bool, shape: tuple[int, int]) -> None:
    p = Program()
    x, bias = p.input(DataType.Half, (None, None)), p.input(DataType.Half, (None,))
    wide = p.broadcast(bias, [not per_row, per_row])
    p.output(p.cast(p.op("tanh", p.op("add", x, wide)), DataType.Half))
    arrays = random_inputs(p.fusion, {"T0": shape, "T1": (shape[0 if per_row else 1],)})
    check_automatic(p.fusion, arrays)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 4, 4), (2, 5, 3, 7), (1, 16, 8, 8)])
@pytest.mark.parametrize("channels_last", [True, False])
def test_scale_of_channels(channels_last: bool, shape: tuple[int, ...]) -> None:
    p = Program()
    order = (3, 0, 2, 1) if channels_last else None
    x = p.input(DataType.Float, (None,) * 4, stride_order=order)
    scale = p.input(DataType.Float, (None,))
    wide = p.broadcast(scale, [True, False, True, True])
    p.output(p.op("mul", x, wide), stride_order=order)
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": shape, "T1": (shape[1],)}))


@pytest.mark.parametrize("size", [1, 24, 129])
def test_many_types_at_once(size: int) -> None:
    p = Program()
    a = p.input(DataType.BFloat16, (None, None))
    b = p.input(DataType.Float, (None, None))
    c = p.input(DataType.Int, (None, None))
    d = p.input(DataType.Bool, (None, None))
    total = p.op("add", p.cast(a, DataType.Float), p.op("mul", b, p.cast(c, DataType.Float)))
    p.output(p.op("where", d, total, b), p.op("add", c, c), p.op("logical_not", d))
    shape = (5, size)
    check_automatic(
        p.fusion, random_inputs(p.fusion, dict.fromkeys(("T0", "T1", "T2", "T3"), shape))
    )


@pytest.mark.parametrize("contiguity", [(False, True), (True, False), (False, False)])
@pytest.mark.parametrize("shape", [(1, 1), (5, 16), (6, 13)])
def test_rows_with_padding(contiguity: tuple[bool, bool], shape: tuple[int, int]) -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None), contiguity=contiguity)
    y = p.input(DataType.Float, (None, None))
    p.output(p.op("add", x, y))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": shape, "T1": shape}))


@pytest.mark.parametrize("step", [4, 8, 9, 16])
def test_vectors_only_where_rows_start_at_whole_ones(step: int) -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None), contiguity=(False, True))
    p.output(p.op("neg", x))
    rows = np.arange(6 * step, dtype=np.float32).reshape(6, step)[:, :4]
    check_automatic(p.fusion, {"T0": rows})


@pytest.mark.parametrize("alignment", [2, 4, 8, 16])
def test_misaligned_input_is_loaded_element_by_element(alignment: int) -> None:
    p = silu_mul(DataType.BFloat16)
    arrays = random_inputs(p.fusion, {"T0": (4, 64), "T1": (4, 64)})
    _, kernel = check_automatic(p.fusion, arrays, alignment={"T0": alignment})
    assert ("T0" in dict(kernel.alignments)) == (alignment == 16)
    assert "T1" in dict(kernel.alignments)


def test_no_dimensions() -> None:
    p = Program()
    x, y = p.input(DataType.Double, ()), p.input(DataType.Double, ())
    p.output(p.op("mul", p.op("sin", x), y))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (), "T1": ()}))


def test_no_dimensions_beside_many() -> None:
    p = Program()
    x, y = p.input(DataType.Float, (None, None)), p.input(DataType.Float, ())
    small = p.op("exp", y)
    p.output(p.op("mul", x, p.broadcast(small, [True, True])), small)
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (3, 9), "T1": ()}))


@pytest.mark.parametrize("shape", [(1, 1), (3, 8), (5, 33)])
def test_outputs_of_different_ranks(shape: tuple[int, int]) -> None:
    p = Program()
    x, row = p.input(DataType.Float, (None, None)), p.input(DataType.Float, (None,))
    scaled = p.op("exp", row)
    wide = p.broadcast(scaled, [True, False])
    p.output(scaled, p.op("mul", x, wide), p.op("neg", p.op("mul", x, wide)), wide)
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": shape, "T1": shape[1:]}))


@pytest.mark.parametrize("sizes", [(None, 1), (1, None), (1, 1), (6, None), (6, 8)])
def test_static_and_broadcast_extents(sizes: tuple[int | None, ...]) -> None:
    p = Program()
    x, y = p.input(DataType.Float, (6, 8)), p.input(DataType.Float, sizes)
    p.output(p.op("sub", x, y))
    small = tuple(1 if size == 1 else full for size, full in zip(sizes, (6, 8), strict=True))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (6, 8), "T1": small}))


def test_what_there_is_once_a_row_is_not_transposed() -> None:
    """Its fastest dimension is another one's, but it has none of the other."""
    p = Program()
    x = p.input(DataType.Float, (None, None))
    row = p.input(DataType.Float, (None, 1))
    p.output(p.op("sub", x, row))
    arrays = random_inputs(p.fusion, {"T0": (96, 64), "T1": (96, 1)})
    _, kernel = check_automatic(p.fusion, arrays)
    assert not kernel.shared


def test_an_input_of_a_part_of_merged_rows_is_loaded_in_vectors() -> None:
    """Each row of two, one behind the other: a vector of the result is one of the input."""
    with FusionDefinition() as fd:
        x, scales = fd.define_tensor([24, 64], True), fd.define_tensor([2], True)
        each = ops.broadcast(x, [False, True, False]) * ops.broadcast(scales, [True, False, True])
        fd.add_output(ops.reshape(each, (24, 128)))
    rows = np.random.default_rng(0).standard_normal((24, 64), np.float32)
    two = np.array([2, -1], np.float32)
    compiled = lower_call(fd.fusion, [rows, two]).compile()
    assert "T0[" not in compiled.asm["cuda"]
    assert compiled.verify().verdict == "clean"
    assert np.array_equal(fd.execute([rows, two])[0], np.concatenate([2 * rows, -rows], 1))


@pytest.mark.few(3)
@pytest.mark.parametrize("shape", [(3, 40, 7, 7), (2, 64, 4, 24), (1, 33, 5, 9)])
@pytest.mark.parametrize("channels_last", [True, False])
def test_heights_and_widths_are_one_side_of_a_tile(
    channels_last: bool, shape: tuple[int, ...]
) -> None:
    """Which alone have less than half of one."""
    images, channels, height, width = shape
    with FusionDefinition() as fd:
        sizes = (images, height, width, channels) if channels_last else shape
        x = fd.define_tensor([-1] * 4, dtype=DataType.Float)
        bias = fd.define_tensor([-1], dtype=DataType.Float)
        wide = bias if channels_last else ops.broadcast(bias, [False, True, True])
        order = (0, 3, 1, 2) if channels_last else (0, 2, 3, 1)
        fd.add_output(ops.permute(ops.add(x, wide), order))
    generator = np.random.default_rng(4)
    given = [generator.random(s, dtype=np.float32) for s in (sizes, (channels,))]
    sides = (
        "first=1, dimension=1, columns=2" if channels_last else "first=1, dimension=2, columns=3"
    )
    assert sides in lower_call(fd.fusion, given).compile().explain()
    check_automatic(fd.fusion, dict(zip(("T0", "T1"), given, strict=True)))


@pytest.mark.parametrize("heads", [2, 3])
def test_a_part_of_an_input_s_rows_is_loaded_in_vectors(heads: int) -> None:
    """Rows of heads, of which each becomes a row: `[words, heads * 64]` to `[heads, words, 64]`."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, heads * 64], dtype=DataType.Half)
        bias = fd.define_tensor([heads * 64], dtype=DataType.Half)
        apart = ops.reshape(ops.add(x, bias), [x.shape_axes[0].extent, heads, 64])
        fd.add_output(ops.permute(apart, (1, 0, 2)))
    generator = np.random.default_rng(4)
    given = [generator.random(s).astype(np.float16) for s in ((9, heads * 64), (heads * 64,))]
    (line,) = (
        line
        for line in lower_call(fd.fusion, given).compile().explain().splitlines()
        if "vectorized=" in line
    )
    assert all(name in line for name in ("'T0'", "'T1'"))
    check_automatic(fd.fusion, dict(zip(("T0", "T1"), given, strict=True)))
