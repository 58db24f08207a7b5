"""The simulator's test kernels: their specs fit their PTX, and each fault changes the kernel."""

import math
import re
from typing import Any

import pytest

from tests.sim.support.catalog import KERNELS, LOOPS, NAMES, TRITON, TWINS, read_ptx, read_spec
from tests.sim.support.corpus import BUGS, MULTI_ROLE
from tests.sim.support.expected import EXPECTED, assert_expected
from tests.sim.support.expected_triton import EXPECTED_TRITON
from tests.sim.support.tensor_boxes import BOXES, REFUSED, Box
from tests.support.launch_spec import initial_arrays, numpy_type
from warpsmith.sim.report import KINDS

REFERENCE = {**EXPECTED, **EXPECTED_TRITON}
SIZES = {
    "ptr": 8, "u64": 8, "i64": 8, "f64": 8, "u32": 4, "i32": 4, "f32": 4, "u16": 2, "u8": 1,
    "tensormap": 128,
}  # fmt: skip


def parameter_sizes(ptx: str) -> list[int]:
    header = re.search(r"\.entry\s+\w+\s*\((.*?)\)", ptx, re.DOTALL)
    assert header
    sizes = {".b8": 1, ".u8": 1, ".u16": 2, ".u32": 4, ".f32": 4, ".u64": 8, ".f64": 8}
    found = re.findall(r"\.param.*?(\.[buf]\d+)[^,\[]*(?:\[(\d+)\])?", header[1])
    return [sizes[kind] * int(count or 1) for kind, count in found]


@pytest.mark.parametrize("name", [*NAMES, *TWINS, *TRITON])
def test_spec_fits_the_ptx(name: str) -> None:
    spec, ptx = read_spec(name), read_ptx(name)
    assert re.findall(r"\.entry\s+(\w+)", ptx) == [spec["kernel"]]
    kinds = [next(iter(param)) for param in spec["params"]]
    assert [SIZES[kind] for kind in kinds] == parameter_sizes(ptx)
    bounds = re.search(r"\.(?:maxntid|reqntid) ([\d, ]+)", ptx)
    assert bounds
    assert math.prod(map(int, bounds[1].split(","))) == math.prod(spec["block"])
    clusters = re.search(r"\.reqnctapercluster ([\d, ]+)", ptx)
    assert (list(map(int, clusters[1].split(","))) if clusters else [1, 1, 1]) == spec["cluster"]
    assert set(spec["outputs"]) <= set(spec["buffers"])


@pytest.mark.parametrize("name", [*NAMES, *TWINS, *TRITON])
def test_tensor_maps_describe_their_buffers(name: str) -> None:
    spec = read_spec(name)
    for form in (param["tensormap"] for param in spec["params"] if "tensormap" in param):
        buffer = spec["buffers"][form["buffer"]]
        item = numpy_type(buffer["dtype"]).itemsize
        assert form["dtype"] == ("uint8" if item == 1 else buffer["dtype"])
        assert form["strides_bytes"] == [buffer["shape"][1] * item]
        assert form["dims"][0] == buffer["shape"][1]
        assert form["dims"][1] <= buffer["shape"][0]
        assert form["strides_bytes"][0] % 16 == form["box"][0] * item % 16 == 0
        assert form["swizzle"] == "none" or form["box"][0] * item <= int(form["swizzle"][:-1])


@pytest.mark.parametrize("name", [*NAMES, *TWINS, *TRITON])
def test_reference_gives_every_output_in_its_shape(name: str) -> None:
    for trips in (None, *(LOOPS[name].trips if name in LOOPS else ())):
        spec = read_spec(name, trips)
        before = initial_arrays(spec)
        values = REFERENCE[name].compute(spec, before)
        for output in spec["outputs"]:
            assert values[output].shape == before[output].shape
        assert_expected(REFERENCE[name], spec, before, values)


def test_boxes_lie_where_the_copies_allow_it() -> None:
    def allowed(box: Box) -> bool:
        aligned = all(at[0] * box.item % 16 == 0 for at in (box.load_at, box.store_at))
        return aligned and min(box.store_at) >= 0

    assert all(allowed(box) for box in BOXES)
    assert not any(allowed(box) for box, _ in REFUSED)
    for box in BOXES:
        values = box.expected(initial_arrays(box.spec()))
        assert values["raw"].nbytes == box.shared_bytes >= box.bytes


def test_arrays_depend_on_the_seed_only() -> None:
    spec: dict[str, Any] = read_spec("multi_role")
    first, again, other = (initial_arrays(spec, seed) for seed in (0, 0, 1))
    assert (first["x"] == again["x"]).all()
    assert (first["x"] != other["x"]).any()
    assert (first["x"] != first["y"]).any()


def test_bugs_use_the_known_kinds_and_are_named_once() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    for kinds in (*(bug.kinds for bug in BUGS), *(faults.kinds for faults in MULTI_ROLE)):
        assert set(kinds) <= set(KINDS)
    assert all(bug.kinds for bug in BUGS)


@pytest.mark.few(6)
@pytest.mark.parametrize("kernel", sorted({bug.kernel for bug in BUGS}))
def test_every_fault_of_a_kernel_is_listed_and_changes_it(kernel: str) -> None:
    source = (KERNELS / "corpus" / f"{kernel}.cu").read_text()
    declared = re.search(r"enum Fault \{(.*?)\}", source, re.DOTALL)
    assert declared
    faults = set(re.findall(r"\w+", re.sub(r"//.*", "", declared[1]))) - {"none"}
    listed = [bug for bug in BUGS if bug.kernel == kernel]
    assert {bug.fault for bug in listed} == faults
    texts = {read_ptx(f"corpus/{kernel}"), *(bug.ptx() for bug in listed)}
    assert len(texts) == 1 + len(listed)


def test_every_fault_of_the_multi_role_kernel_changes_it() -> None:
    texts = {read_ptx("multi_role"), *(faults.ptx() for faults in MULTI_ROLE)}
    assert len(texts) == 1 + len(MULTI_ROLE)
