"""Tensor maps: boxes against NumPy slices, swizzles against a formula of their own, every rule."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.sim.support.layouts import swizzled
from tests.sim.support.native_parts import Parts, TensorMap, tensor_map
from warpsmith.sim.isa import Mode

SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
U8, F16, F32, F64, BF16, F32_FTZ, TF32, TF32_FTZ = 0, 6, 7, 8, 9, 10, 11, 12
PLAIN_TYPES = tuple(range(10))
MEMORY = np.random.default_rng(5).integers(0, 256, 1 << 18, np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A map, and where a box of it goes."""

    fields: dict[str, object]
    coordinates: list[int]
    shared: int

    @property
    def map(self) -> TensorMap:
        return tensor_map(**self.fields)


@st.composite
def copies(draw: st.DrawFn) -> Copy:
    type_ = draw(st.sampled_from(PLAIN_TYPES))
    size = SIZES[type_]
    rank = draw(st.integers(1, 5))
    swizzle = draw(st.integers(0, 3))
    chunks = draw(st.integers(1, 1 << swizzle if swizzle else 10))
    limit = (0, 1, 20, 8, 4, 3)[rank]
    steps = [1, *(draw(st.integers(1, 8)) for _ in range(rank - 1))]
    box = [chunks * 16 // size]
    box += [draw(st.integers(1, limit)) * draw(st.sampled_from((1, step))) for step in steps[1:]]
    box = [min(count, 256) for count in box]
    dim = [draw(st.integers(1, 40))]
    dim += [draw(st.integers(1, count + 4)) for count in box[1:]]
    stride: list[int] = []
    total = dim[0] * size
    for count in dim[1:]:
        stride.append(-(-total // 16) * 16 + 16 * draw(st.integers(0, 2)))
        total = stride[-1] * count
    assume(total + 1024 <= MEMORY.size)
    fields = {
        "type": type_,
        "rank": rank,
        "address": 16 * draw(st.integers(0, 9)),
        "dim": dim,
        "stride": stride,
        "box": box,
        "element_stride": steps,
        "swizzle": swizzle,
        "fill": draw(st.integers(0, 1)) if type_ >= F16 else 0,
    }
    chunk = 16 // size
    coordinates = [chunk * draw(st.integers(-box[0] // chunk - 1, dim[0] // chunk + 1))]
    coordinates += [
        draw(st.integers(-count, length + 1))
        for count, length in zip(box[1:], dim[1:], strict=True)
    ]
    return Copy(fields=fields, coordinates=coordinates, shared=128 * draw(st.integers(8, 24)))


def expected_box(copy: Copy, memory: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Rows of the box as bytes, by indexing the whole tensor."""
    f = copy.map
    size = SIZES[f.type]
    rank = f.rank
    shape = [f.dim[i] for i in reversed(range(rank))] + [size]
    strides = [f.stride[i - 1] for i in reversed(range(1, rank))] + [size, 1]
    tensor = np.lib.stride_tricks.as_strided(memory[f.address :], shape, strides)
    positions, inside = [], []
    for i in reversed(range(rank)):
        step = f.element_stride[i] if i else 1
        at = copy.coordinates[i] + np.arange(0, f.box[i], step)
        inside.append((at >= 0) & (at < f.dim[i]))
        positions.append(np.clip(at, 0, f.dim[i] - 1))
    box = tensor[np.ix_(*positions)].copy()
    hole = np.frombuffer(b"\xf7\x7f" * 4 if f.fill else bytes(8), np.uint8)[:size]
    box[~np.all(np.meshgrid(*inside, indexing="ij"), axis=0)] = hole
    return box.reshape(-1, box.shape[-2] * size)


@settings(deadline=None, max_examples=300)
@given(copy=copies())
def test_a_load_is_a_padded_slice_with_its_chunks_exchanged(parts: Parts, copy: Copy) -> None:
    assert parts.error(copy.map) is None
    rows = expected_box(copy, MEMORY)
    span = 16 << copy.map.swizzle if copy.map.swizzle else 0
    pitch = max(rows.shape[1], span)
    want = np.full(1 << 16, 0xA5, np.uint8)
    for r, c in np.ndindex(len(rows), rows.shape[1] // 16):
        at = swizzled(copy.shared + r * pitch + 16 * c, span) - copy.shared
        want[at : at + 16] = rows[r, 16 * c : 16 * c + 16]
    got = parts.load(copy.map, copy.coordinates, copy.shared, MEMORY)
    np.testing.assert_array_equal(got, want)
    assert parts.box_bytes(copy.map) == rows.size


@settings(deadline=None, max_examples=200)
@given(copy=copies())
def test_a_store_undoes_a_load(parts: Parts, copy: Copy) -> None:
    shared = parts.load(copy.map, copy.coordinates, copy.shared, MEMORY)
    memory = MEMORY.copy()
    runs = parts.segments(copy.map, copy.coordinates, copy.shared)
    for run in runs:
        if run.inside:
            memory[run.global_ : run.global_ + run.bytes] ^= 0xFF
        if run.spills:
            shared[run.shared - copy.shared :][: run.bytes] = MEMORY[run.global_ :][: run.bytes]
    parts.store(copy.map, copy.coordinates, copy.shared, shared, memory)
    np.testing.assert_array_equal(memory, MEMORY)
    assert all(0 < run.bytes <= 16 and run.shared % 16 + run.bytes <= 16 for run in runs)
    assert all(run.global_ // 16 == (run.global_ + run.bytes - 1) // 16 for run in runs)


def test_a_store_fills_the_last_chunk_of_a_row(parts: Parts) -> None:
    made = tensor_map(
        type=F32,
        rank=2,
        dim=[5, 2],
        stride=[48],
        box=[12, 2],
        element_stride=[1, 1],
    )
    spilled = [run for run in parts.segments(made, [0, 0], 1024) if run.spills]
    assert [(run.global_, run.bytes) for run in spilled] == [(20, 12), (68, 12)]
    assert [run.shared for run in spilled] == [1024 + 20, 1024 + 68]


@pytest.mark.parametrize(
    ("type_", "bits", "kept"),
    [
        (F32, 0x3F801FFF, 0x3F801FFF),
        (TF32, 0x3F800FFF, 0x3F800000),
        (TF32, 0x3F801001, 0x3F802000),
        (TF32, 0xFFCA48E6, 0x7FFFE000),
        (TF32, 0x7F800000, 0x7F800000),
        (TF32_FTZ, 0x80001FFF, 0x80000000),
        (F32_FTZ, 0x007FFFFF, 0),
        (F32_FTZ, 0x3F801FFF, 0x3F801FFF),
    ],
)
def test_loads_of_some_types_change_values(parts: Parts, type_: int, bits: int, kept: int) -> None:
    made = tensor_map(type=type_, rank=1, dim=[4], box=[4], element_stride=[1])
    loaded = parts.load(made, [0], 1024, np.array([bits] * 4, np.uint32).view(np.uint8))
    assert loaded[:16].view(np.uint32).tolist() == [kept] * 4


def test_an_interleaved_map_has_no_runs(parts: Parts) -> None:
    assert parts.segments(tensor_map(**{**GOOD, "interleave": 1}), [0, 0, 0], 0) == []


# ---- the 128 bytes ------------------------------------------------------------------------------


def fields_of(made: TensorMap | None) -> bytes:
    assert made is not None
    return bytes(made)


@given(copy=copies())
def test_a_map_survives_its_bytes(parts: Parts, copy: Copy) -> None:
    data = parts.encode(copy.map)
    assert len(data) == 128
    assert fields_of(parts.decode(data)) == bytes(copy.map)


def test_other_bytes_are_no_map(parts: Parts) -> None:
    good = parts.encode(tensor_map(**GOOD))
    assert parts.decode(bytes(range(128))) is None
    assert parts.decode(b"\1" + good[1:]) is None
    assert parts.decode(good[:127] + b"\1") is None


def test_a_map_grows_from_zeros_field_by_field(parts: Parts) -> None:
    """As a kernel makes one: through the bytes before and after every change."""
    changes = [
        (Mode.GLOBAL_ADDRESS, 0, 0x7F0000001230),
        (Mode.RANK, 0, 2),
        *((Mode.BOX_DIM, i, value) for i, value in enumerate((32, 8, 2))),
        *((Mode.GLOBAL_DIM, i, value) for i, value in enumerate((64, 0, 8))),
        *((Mode.GLOBAL_STRIDE, i, value) for i, value in enumerate((128, 4096))),
        *((Mode.ELEMENT_STRIDE, i, value) for i, value in enumerate((1, 2, 3))),
        *((Mode.ELEMTYPE, 0, 10), (Mode.INTERLEAVE, 0, 0), (Mode.SWIZZLE, 0, 2), (Mode.FILL, 0, 1)),
    ]
    data = bytes(128)
    for change in changes:
        made = parts.decode(data)
        assert made is not None
        assert parts.replace(made, *change)
        data = parts.encode(made)
    want = tensor_map(
        address=0x7F0000001230,
        rank=3,
        type=BF16,
        dim=[64, 1 << 32, 8],
        stride=[128, 4096],
        box=[32, 8, 2],
        element_stride=[1, 2, 3],
        swizzle=2,
        fill=1,
    )
    assert fields_of(parts.decode(data)) == bytes(want)


def test_types_are_numbered_as_ptx_numbers_them(parts: Parts) -> None:
    made = tensor_map(**GOOD)
    types = []
    for number in range(13):
        assert parts.replace(made, Mode.ELEMTYPE, 0, number)
        types.append(made.type)
    assert types == [0, 1, 2, 3, 4, 5, F16, F32, F32_FTZ, F64, BF16, TF32, TF32_FTZ]


@pytest.mark.parametrize(
    ("field", "ordinal", "value"),
    [
        *((Mode.RANK, 0, 5), (Mode.BOX_DIM, 5, 1), (Mode.GLOBAL_DIM, 5, 1), (Mode.ELEMTYPE, 0, 13)),
        *((Mode.GLOBAL_STRIDE, 4, 16), (Mode.ELEMENT_STRIDE, 5, 1), (Mode.INTERLEAVE, 0, 3)),
        *((Mode.SWIZZLE, 0, 4), (Mode.FILL, 0, 2), (Mode.ADD, 0, 0)),
    ],
)
def test_a_replacement_that_means_nothing_is_refused(
    parts: Parts, field: Mode, ordinal: int, value: int
) -> None:
    made = tensor_map(**GOOD)
    assert not parts.replace(made, field, ordinal, value)
    assert bytes(made) == bytes(tensor_map(**GOOD))


# ---- rules --------------------------------------------------------------------------------------

GOOD = {
    "type": BF16,
    "rank": 3,
    "address": 256,
    "dim": [64, 32, 8],
    "stride": [128, 4096],
    "box": [32, 8, 2],
    "element_stride": [1, 1, 1],
}
WRONG = [
    ({"rank": 0}, "rank is 0; a tensor map has 1 to 5 dimensions"),
    ({"rank": 6}, "rank is 6; a tensor map has 1 to 5 dimensions"),
    ({"type": 13}, "type 13 is no CUtensorMapDataType"),
    ({"interleave": 3}, "interleave 3 is unknown"),
    ({"swizzle": 4}, "swizzle 4 is unknown"),
    ({"fill": 2}, "fill 2 is unknown"),
    ({"interleave": 1, "rank": 2}, "an interleaved tensor map has at least 3 dimensions"),
    ({"interleave": 2}, "swizzle is 0; interleave 32B demands swizzle 32B"),
    ({"type": U8, "fill": 1}, "fill is NaN, but type 0 is an integer type"),
    ({"address": 8}, "global address 0x8 is not a multiple of 16"),
    ({"interleave": 2, "swizzle": 1, "address": 16}, "is not a multiple of 32"),
    ({"dim": [0, 1, 1]}, "global_dim[0] is 0; a dimension has 1 to 2^32 elements"),
    ({"dim": [1, 1, (1 << 32) + 1]}, "global_dim[2] is 4294967297"),
    ({"stride": [136, 4096]}, "global_stride[0] is 136 bytes, not a multiple of 16"),
    ({"interleave": 2, "swizzle": 1, "stride": [128, 144]}, "144 bytes, not a multiple of 32"),
    ({"stride": [128, 1 << 40]}, "strides are less than 2^40"),
    ({"box": [32, 0, 2]}, "box_dim[1] is 0; a box has 1 to 256 elements along a dimension"),
    ({"box": [257, 1, 1]}, "box_dim[0] is 257"),
    ({"element_stride": [1, 9, 1]}, "element_stride[1] is 9; element strides are 1 to 8"),
    ({"element_stride": [0, 1, 1]}, "element_stride[0] is 0"),
    ({"box": [12, 8, 2]}, "box_dim[0] is 12 elements or 24 bytes, not a multiple of 16 bytes"),
    ({"box": [24, 8, 2], "swizzle": 1}, "24 elements or 48 bytes; swizzle 32B allows 32 bytes"),
    ({"box": [40, 8, 2], "swizzle": 2}, "80 bytes; swizzle 64B allows 64 bytes"),
    ({"box": [72, 8, 2], "swizzle": 3}, "144 bytes; swizzle 128B allows 128 bytes"),
    ({"box": [256, 256, 2]}, "the box has 262144 bytes; shared memory has room for 233472"),
]
FINE = [
    {},
    {"dim": [1 << 32, 1, 1]},
    {"stride": [0, 0]},
    {"stride": [4096, 128]},
    {"stride": [128, (1 << 40) - 16]},
    {"box": [256, 228, 2], "element_stride": [1, 1, 2]},
    {"element_stride": [8, 8, 8]},
    {"interleave": 2, "swizzle": 1},
    {"type": TF32, "fill": 1},
    {"box": [8, 8, 2], "swizzle": 3},
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_each_rule_names_the_value(parts: Parts, change: dict[str, object], message: str) -> None:
    found = parts.error(tensor_map(**{**GOOD, **change}))
    assert found is not None
    assert message in found


@pytest.mark.parametrize("change", FINE)
def test_what_the_driver_takes_is_fine(parts: Parts, change: dict[str, object]) -> None:
    assert parts.error(tensor_map(**{**GOOD, **change})) is None


def test_a_copy_wants_aligned_places(parts: Parts) -> None:
    made = tensor_map(**GOOD)
    assert parts.copy_error(made, [8, -3, 1], 1024, False) is None
    assert parts.copy_error(made, [8, 3, 1], 1024, True) is None
    texts = [
        parts.copy_error(made, [8, 3, 1], 1040, False),
        parts.copy_error(made, [-3, 3, 1], 1024, False),
        parts.copy_error(made, [8, 3, -1], 1024, True),
    ]
    assert texts == [
        "shared address 0x410 is not a multiple of 128",
        "coordinate 0 is -3 elements or -6 bytes, not a multiple of 16 bytes",
        "coordinate 2 of a store is -1; stores take no negative ones",
    ]
