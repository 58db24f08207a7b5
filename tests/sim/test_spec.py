"""Specs: what they describe, and each way of not fitting, with what is said then."""

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.sim.support.small import ADD_ONE, add_one_spec
from warpsmith import sim
from warpsmith.errors import SimulationError
from warpsmith.sim.ptx import read
from warpsmith.sim.simulate import simulate
from warpsmith.sim.spec import prepare
from warpsmith.targets.hopper import SM90A

X = {"dtype": "float32", "shape": [32], "init": "arange"}
TAKES = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry takes(.param .align 8 .b8 p[{size}]) {{ ret; }}
"""


def parameters(size: int, *entries: Any, **spec: Any) -> bytes:
    """The parameter buffer of a kernel that takes so many bytes."""
    spec = {"grid": [1], "block": [32], "params": list(entries), **spec}
    return prepare(read(TAKES.format(size=size)), spec).launch.parameters


def refusal(spec: Any, ptx: str = ADD_ONE, **options: Any) -> str:
    with pytest.raises(SimulationError) as caught:
        sim.run(ptx, spec, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"grid": None}, "the spec has no `grid`"),
        ({"grid": [1.5]}, "`grid`[0] is 1.5; it must be an integer"),
        ({"grid": [-1, 1]}, "`grid`[0] is -1; it must be from 1"),
        ({"grid": [True]}, "`grid`[0] is True; it must be an integer"),
        ({"grid": 4}, "`grid` is 4; it must be a list of integers"),
        ({"grid": [1, 1, 1, 1]}, "`grid` has 4 entries; it must have 1 to 3"),
        ({"grid": [65536, 2]}, "a grid of 131072 CTAs; at most 65536 are simulated"),
        ({"grid": [10**30]}, "`grid`[0] is 1000"),
        ({"block": [1025]}, "a block of 1025 x 1 x 1 threads; at most 1024 are allowed"),
        ({"block": [1, 1, 65]}, "at most 1024 are allowed, and 64 in z"),
        ({"cluster": [2]}, "the grid has 1 CTAs in x and the cluster 2"),
        ({"grid": [17], "cluster": [17]}, "a cluster of 17 CTAs; at most 16 are allowed"),
        ({"shared_bytes": 1 << 20}, "`shared_bytes` is 1048576"),
        ({"shared_bytes": "4k"}, "`shared_bytes` is '4k'; it must be an integer"),
        ({"registers": 255, "block": [512]}, "512 threads of 255 registers take 130560"),
        ({"grids": [1]}, "the spec has an entry 'grids'"),
        ({"kernel": 3}, "`kernel` is 3; it must be a string"),
        ({"kernel": "other"}, "no kernel `other`"),
        ({"buffers": [X]}, "`buffers` is [{"),
        ({"buffers": {"x": 3}}, "buffer `x` is 3; it must be an object"),
        ({"buffers": {"x": {**X, "type": 1}}}, "buffer `x` has an entry 'type'"),
        ({"buffers": {"x": {"shape": [1], "init": "ones"}}}, "buffer `x` has no `dtype`"),
        ({"buffers": {"x": {**X, "dtype": "object"}}}, "buffer `x` has dtype 'object'"),
        ({"buffers": {"x": {**X, "dtype": "finfo"}}}, "it must be among bool, int8"),
        ({"buffers": {"x": {**X, "shape": [2.0]}}}, "`shape` of buffer `x`[0] is 2.0"),
        ({"buffers": {"x": {**X, "shape": [-2]}}}, "`shape` of buffer `x`[0] is -2"),
        ({"buffers": {"x": {**X, "shape": [1 << 40]}}}, "the buffers take 4398046511104 bytes"),
        (
            {"buffers": {n: {**X, "shape": [1 << 29], "init": "zeros"} for n in "xyz"}},
            "the buffers take 6442450944 bytes; at most 4294967296 are simulated",
        ),
        ({"buffers": {"x": {**X, "init": "random"}}}, "init 'random'; it must be among randn"),
        ({"buffers": {"x": {"npy": "gone.npy"}}}, "gone.npy cannot be read"),
        ({"params": []}, "gives 0 params and `add_one` takes 2; `add_one` takes x: 8 bytes"),
        ({"params": {}}, "`params` is {}; it must be a list"),
        ({"params": [{"ptr": "z"}, {"u32": 1}]}, "param 0 points to 'z'; buffers are x"),
        ({"params": [{"ptr": 3}, {"u32": 1}]}, "`ptr` of param 0 is 3; it must be an object"),
        ({"params": [{"ptr": {"offset": 4}}, {"u32": 1}]}, "`ptr` of param 0 has no `buffer`"),
        ({"params": [{"u32": 1}, {"u32": 1}]}, "param 0 (u32) has 4 bytes and `x` takes 8"),
        ({"params": [{"ptr": "x"}, {"u32": -1}]}, "param 1 is -1; it must be an integer that u32"),
        ({"params": [{"ptr": "x"}, {"u32": 1.0}]}, "param 1 is 1.0; it must be an integer that"),
        ({"params": [{"ptr": "x"}, {"i32": 1 << 31}]}, "param 1 is 2147483648"),
        ({"params": [{"ptr": "x"}, {"f32": 1e300}]}, "param 1 is 1e+300; it must be a number"),
        ({"params": [{"ptr": "x"}, {"f32": 10**400}]}, "param 1 is 1000"),
        ({"params": [{"ptr": "x"}, {"f32": "1"}]}, "param 1 is '1'"),
        ({"params": [{"ptr": "x"}, {"u128": 1}]}, "param 1 is of kind 'u128'; kinds are ptr"),
        ({"params": [{"ptr": "x"}, {"bytes": "xyz"}]}, "it must be hexadecimal digits"),
        ({"params": [{"ptr": "x"}, 3]}, "param 1 is 3; it must be an object with one of ptr"),
        ({"params": [{"ptr": "x"}, {"struct": 3}]}, "`struct` of param 1 is 3"),
        ({"params": [{"ptr": "x", "u32": 3}, {"u32": 1}]}, "it must be an object with one of"),
        ({"outputs": ["y"]}, "output `y` is no buffer; buffers are x"),
        ({"outputs": "x"}, "`outputs` is no list"),
        ({"expect": {"y": {"npy": "gone.npy"}}}, "gone.npy cannot be read"),
        ({"expect": {"x": {"rtol": 1}}}, "`expect` of `x` has no `npy`"),
        ({"expect": {"x": 1}}, "`expect` of `x` is 1; it must be an object"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(changes: dict[str, Any], said: str) -> None:
    assert said in refusal(add_one_spec(**changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dims": []}, "`dims` of param 0 has 0 entries; it must have 1 to 5"),
        ({"dims": [0, 32]}, "`dims` of param 0[0] is 0"),
        ({"strides_bytes": []}, "`strides_bytes` of param 0 has 0 entries; it must have 1"),
        ({"strides_bytes": [8]}, "global_stride[0] is 8 bytes, not a multiple of 16"),
        ({"box": [8, 512]}, "`box` of param 0[1] is 512"),
        ({"box": [6, 4]}, "box_dim[0] is 6 elements or 24 bytes"),
        ({"element_strides": [9, 1]}, "`element_strides` of param 0[0] is 9"),
        ({"swizzle": "256B"}, "swizzle '256B' of param 0; it must be among none, 32B, 64B, 128B"),
        ({"swizzle": 128}, "swizzle 128 of param 0"),
        ({"dtype": "float31"}, "dtype 'float31' of param 0"),
        ({"buffer": "z"}, "param 0 points to 'z'"),
        ({"offset": -16}, "`offset` of param 0 is -16"),
        ({"offset": 8}, "is not a multiple of 16"),
        ({"boxes": 1}, "the tensor map of param 0 has an entry 'boxes'"),
    ],
)
def test_tensor_maps_that_the_driver_refuses(changes: dict[str, Any], said: str) -> None:
    form = {"buffer": "x", "dtype": "float32", "dims": [8, 4], "strides_bytes": [32], "box": [8, 4]}
    entry = {"tensormap": {**form, **changes}}
    spec = {"grid": [1], "block": [32], "buffers": {"x": X}, "params": [entry]}
    assert said in refusal(spec, TAKES.format(size=128))


def test_scalars_pointers_and_structs_lie_as_c_lays_them_out() -> None:
    buffers = {"buffers": {"x": X, "y": X}}
    assert parameters(4, {"i32": -2}) == struct.pack("<i", -2)
    assert parameters(2, {"bf16": 1}) == np.array(1, ml_dtypes.bfloat16).tobytes()
    assert parameters(8, {"null": 0}) == bytes(8)
    assert parameters(3, {"bytes": "0a0b0c"}) == b"\n\x0b\x0c"
    entry = {"struct": [{"u8": 1}, {"struct": [{"u16": 2}, {"u16": 3}]}, {"u32": 4}]}
    assert parameters(12, entry) == struct.pack("<BxHHxxI", 1, 2, 3, 4)
    entry = {"struct": [{"u32": 1}, {"ptr": {"buffer": "y", "offset": 4}}, {"u8": 1}]}
    assert parameters(24, entry, **buffers) == struct.pack("<I4xQB7x", 1, 0x7602_0000_0004, 1)


def test_contents_are_drawn_by_seed_and_position() -> None:
    spec = add_one_spec(buffers={"x": {**X, "init": "randn"}, "y": {**X, "init": "randn"}})
    program = read(ADD_ONE)
    first, again, other = (prepare(program, spec, seed=seed).launch.buffers for seed in (0, 0, 1))
    assert (first[0].array == again[0].array).all()
    assert (first[0].array != other[0].array).any()
    assert (first[0].array != first[1].array).any()


def test_arrays_and_files_take_the_place_of_contents(tmp_path: Path) -> None:
    values = np.linspace(0, 1, 32, dtype=np.float32)
    np.save(tmp_path / "x.npy", values)
    spec = add_one_spec(buffers={"x": {"npy": "x.npy"}}, expect={"x": {"npy": "y.npy"}})
    np.save(tmp_path / "y.npy", values + 1)
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert sim.run(ADD_ONE, tmp_path / "spec.json").verdict == "clean"
    report = sim.run(ADD_ONE, add_one_spec(), arrays={"x": values}, expect={"x": values + 1})
    assert report.verdict == "clean"
    assert values[0] == 0


def test_bfloat16_files_have_bytes_without_a_type(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(32, ml_dtypes.bfloat16))
    program = read(ADD_ONE)
    entry = {"npy": "x.npy", "dtype": "bfloat16", "shape": [32]}
    job = prepare(program, add_one_spec(buffers={"x": entry}), folder=tmp_path)
    assert job.launch.buffers[0].array.dtype == ml_dtypes.bfloat16
    with pytest.raises(SimulationError, match="say in the spec which `dtype` these bytes are"):
        prepare(program, add_one_spec(buffers={"x": {"npy": "x.npy"}}), folder=tmp_path)


@pytest.mark.parametrize(
    ("array", "entry", "said"),
    [
        (np.ones(31, np.float32), {"shape": [32]}, "has shape [31]; the spec says [32]"),
        (np.ones(32), {"dtype": "float32"}, "has dtype float64; the spec says float32"),
        (np.ones(32, np.complex64), {}, "has dtype complex64; it must be among bool"),
        (np.ones(2, [("a", "i4")]), {}, "it must be among bool"),
    ],
)
def test_files_that_do_not_fit(
    tmp_path: Path, array: np.ndarray, entry: dict[str, Any], said: str
) -> None:
    np.save(tmp_path / "x.npy", array)
    spec = add_one_spec(buffers={"x": {"npy": "x.npy", **entry}})
    with pytest.raises(SimulationError) as caught:
        prepare(read(ADD_ONE), spec, folder=tmp_path)
    assert said in str(caught.value)


def test_files_that_are_no_arrays(tmp_path: Path) -> None:
    (tmp_path / "words.npy").write_text("words")
    np.savez(tmp_path / "two.npz", a=np.ones(2), b=np.ones(2))
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    for name, said in (
        ("words.npy", "is no .npy file of numbers"),
        ("two.npz", "holds several arrays; give a .npy file"),
        ("objects.npy", "is no .npy file of numbers"),
        (".", "cannot be read"),
    ):
        spec = add_one_spec(buffers={"x": {"npy": name}})
        with pytest.raises(SimulationError) as caught:
            prepare(read(ADD_ONE), spec, folder=tmp_path)
        assert said in str(caught.value)


def test_expectations_must_fit_their_buffer() -> None:
    expect = {"x": np.ones(31, np.float32)}
    assert "has shape [31]; the buffer has [32]" in refusal(add_one_spec(), expect=expect)
    assert "`expect` names `z`; buffers are x" in refusal(add_one_spec(), expect={"z": 1})
    assert "no buffer of the spec" in refusal(add_one_spec(), arrays={"z": np.ones(2)})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[1]", "is a list; it must be an object"),
        ('{"grid": [1], "grid": [2]}', "two entries `grid` in one object; a name may stand once"),
        ('{"buffers": {"x": {}, "x": {}}}', "two entries `x`"),
        ("[" * 100_000, "is not JSON"),
        ("\udcff", "is not UTF-8: byte 0"),
    ],
)
def test_texts_that_are_no_specs(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "spec.json"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(SimulationError) as caught:
        sim.load_spec(path)
    assert said in str(caught.value)


def test_the_target_is_that_of_the_text_or_of_the_spec() -> None:
    spec = {"grid": [1], "block": [32], "params": [{"u32": 0}]}
    text = TAKES.format(size=4)
    assert prepare(read(text), spec).launch.target.name == "h200"
    assert prepare(read(text), {**spec, "target": "h100"}).launch.target.name == "h100"
    blackwell = text.replace("sm_90a", "sm_100a")
    assert prepare(read(blackwell), spec).launch.target.name == "b200"


@pytest.mark.parametrize(
    ("arch", "spec", "said"),
    [
        ("sm_80", {}, "the PTX is for sm_80; name a `target`: "),
        ("sm_90a", {"target": "h800"}, "`target` is `h800`; the known ones are "),
    ],
)
def test_targets_that_are_not_known(arch: str, spec: dict[str, str], said: str) -> None:
    text = TAKES.format(size=4).replace("sm_90a", arch)
    with pytest.raises(SimulationError) as caught:
        prepare(read(text), {"grid": [1], "block": [32], "params": [{"u32": 0}], **spec})
    assert said in str(caught.value)


@pytest.mark.parametrize(("excess", "fits"), [(0, True), (1, False)])
def test_launches_without_a_spec_have_no_more_shared_memory(excess: int, fits: bool) -> None:
    launch = prepare(
        read(TAKES.format(size=4)), {"grid": [1], "block": [32], "params": [{"u32": 0}]}
    )
    large = replace(launch.launch, dynamic_shared=SM90A.limits.block_shared + excess)
    if fits:
        assert simulate(large, count=1).verdict == "clean"
        return
    with pytest.raises(SimulationError, match="takes 232449 bytes of shared memory"):
        simulate(large, count=1)
