"""Where one block has all of a sum, nobody adds up its part."""

import numpy as np
import pytest

import warpsmith
from tests.support import binaries
from tests.support.stand_in import StandIn, taken_by_c
from warpsmith import FusionDefinition, ops
from warpsmith.ir.dtypes import DataType


def gradient(dy, x, kind):
    """Of rows that are centred and scaled: dx, and sums of columns of two types."""
    scale = ops.rsqrt(ops.add(ops.mean(x * x, [1], keepdim=True), 1e-5))
    normal = x * scale
    dx = dy * scale - normal * ops.mean(dy * normal, [1], keepdim=True)
    return dx, ops.sum(dy * normal, [0]).to(DataType(kind)), ops.sum(dy, [0])


def arrays(rows: int, columns: int = 64) -> tuple[np.ndarray, ...]:
    drawn = np.random.default_rng([rows, columns])
    return tuple(drawn.standard_normal((rows, columns)).astype(np.float32) for _ in range(2))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("rows", "kind", "kernels"), [(16, "float", 1), (16, "half", 2), (700, "float", 2)]
)
def test_results_are_the_parts(rows: int, kind: str, kernels: int) -> None:
    made = warpsmith.fuse(gradient).lower(*arrays(rows), kind).compile()
    assert len(made.kernels) == kernels
    assert made.verify(schedules=2).verdict == "clean"
    assert ("to add up" in made.explain()) == (kernels == 1)
    admits = "griddepcontrol.launch_dependents" in made.kernels[0].asm["ptx"]
    assert admits == (kernels == 2), "the last kernel of a call lets no other start"


def test_a_part_of_two_results_is_neither() -> None:
    """The last of them was in its place, and nobody wrote the other one."""
    with FusionDefinition() as fd:
        rows = fd.ops.sum(fd.define_tensor([-1, -1], True, DataType.Float), [1])
        for result in (fd.ops.prod(rows, [0]), fd.ops.sum(rows, [0])):
            fd.add_output(result)
    x = arrays(1)[0]
    for found in fd.execute([x]):
        np.testing.assert_allclose(found, x.sum(dtype=np.float64), rtol=1e-5)


def test_one_program_has_both(gpu: StandIn) -> None:
    """Calls of one function, of which some have one block, by Python and by C."""
    torch = pytest.importorskip("torch")
    made = warpsmith.fuse(gradient)
    with binaries.uncompiled():
        for rows, launches in ((16, 1), (700, 2), (16, 1)):
            given = [torch.from_numpy(each) for each in arrays(rows)]
            gpu.taken(given)
            made(*given, "float")
            assert len(gpu.taken(given)[1]) == launches
            assert taken_by_c(made, *given, "float")
            assert len(gpu.taken(given)[1]) == launches


def test_calls_between_two(gpu: StandIn) -> None:
    """Of one block both; what C launches between them is what Python plans."""
    torch = pytest.importorskip("torch")
    made, fresh = warpsmith.fuse(gradient), warpsmith.fuse(gradient)
    between = [torch.from_numpy(each) for each in arrays(12)]
    with binaries.uncompiled():
        for rows in (8, 16):
            made(*map(torch.from_numpy, arrays(rows)), "float")
        gpu.taken([])
        by_line = taken_by_c(made, *between, "float")
        found = gpu.taken(between)
        fresh(*between, "float")
        assert not by_line or found == gpu.taken(between)
    assert by_line


def test_what_others_read_is_a_part_still() -> None:
    """Here the sum is no result, and the kernel behind it does more than add up."""

    def scaled(dy, x):
        dx, dw, _ = gradient(dy, x, "float")
        return dx, ops.sqrt(ops.abs(dw))

    made = warpsmith.fuse(scaled).lower(*arrays(16)).compile()
    assert len(made.kernels) == 2
    assert made.verify(schedules=2).verdict == "clean"
