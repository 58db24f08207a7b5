"""Results take the place of inputs that nobody reads any more, and of no others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from warpsmith import DataType, FusionDefinition, knobs, ops
from warpsmith.errors import SimulationError
from warpsmith.frontends.outputs import add_output
from warpsmith.planner import in_place

Body = Callable[[FusionDefinition, Any, Any], None]
SIZE = 80
"""More than a tile, so that blocks read what others write."""


def replace(fd: FusionDefinition, value: Any, place: Any, *, apart: bool = True) -> None:
    add_output(fd.fusion, value, place, apart=apart)


def momentum(fd: FusionDefinition, p: Any, m: Any) -> None:
    new = m * 0.5 + p
    replace(fd, new, m)
    replace(fd, p - new, p)


def not_read(fd: FusionDefinition, p: Any, m: Any) -> None:
    replace(fd, ops.exp(m), p)


def centred(fd: FusionDefinition, p: Any, m: Any) -> None:
    replace(fd, p - ops.mean(p, [1], keepdim=True), p)


def turned(fd: FusionDefinition, p: Any, m: Any) -> None:
    replace(fd, p + ops.transpose(p, 0, 1), p)


def turned_beside(fd: FusionDefinition, p: Any, m: Any) -> None:
    replace(fd, p * 2.0, p)
    fd.add_output(ops.transpose(p, 0, 1) + m)


def flipped(fd: FusionDefinition, p: Any, m: Any) -> None:
    replace(fd, p + ops.flip(p, [0]), p)


def repeated(fd: FusionDefinition, p: Any, m: Any) -> None:
    replace(fd, p * 2.0, p)
    wide = ops.broadcast(p, [True, False, False])
    fd.add_output(ops.expand(wide, [3, SIZE, SIZE]) + 1.0)


def there_before_it_is_read(fd: FusionDefinition, p: Any, m: Any) -> None:
    replace(fd, p * p, m)
    fd.add_output(p * m)


def read_later(fd: FusionDefinition, p: Any, m: Any) -> None:
    replace(fd, p * 2.0, p)
    fd.add_output(ops.sum(ops.sum(ops.exp(p), [0], keepdim=True) * p, [1]))


def new_is_read(fd: FusionDefinition, p: Any, m: Any) -> None:
    new = p * 2.0
    replace(fd, new, p)
    fd.add_output(ops.cumsum(ops.cumsum(new, 0), 1))


def overlapping(fd: FusionDefinition, p: Any, m: Any) -> None:
    replace(fd, p * 2.0, p, apart=False)


def run(body: Body, *, contiguous: bool = True) -> tuple[FusionDefinition, list[Any], list[Any]]:
    """What was planned for a program of two squares, with its inputs and results."""
    with FusionDefinition() as fd:
        p = fd.define_tensor([SIZE, SIZE], contiguous, DataType.Float)
        m = fd.define_tensor([SIZE, SIZE], True, DataType.Float)
        body(fd, p, m)
    random = np.random.default_rng(0)
    given = [random.normal(size=(SIZE, SIZE)).astype(np.float32) for _ in range(2)]
    if not contiguous:
        given[0] = np.repeat(given[0], 2, axis=1)[:, ::2]
    found = fd.execute(given)
    return fd, given, found


@pytest.mark.parametrize(("body", "count"), [(momentum, 2), (not_read, 1)])
def test_elements_are_written_where_they_were(body: Body, count: int) -> None:
    fd, given, _ = run(body)
    call = fd.executable().last_plan
    assert len(call.here) == count
    assert not call.outputs
    assert len(call.launches[0].pointers) == 2
    with knobs.scope(device="reference"):
        _, wanted, _ = run(body)
    for own, other in zip(given, wanted, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-6)
    assert fd.verify(given).verdict == "clean"


REFUSED = [
    *(centred, turned, turned_beside, flipped, repeated, there_before_it_is_read, read_later),
    *(new_is_read, overlapping),
]


@pytest.mark.parametrize("body", REFUSED)
def test_what_others_read_is_copied_there_behind_them(body: Body) -> None:
    fd, given, found = run(body)
    assert not fd.executable().last_plan.here
    with knobs.scope(device="reference"):
        _, wanted, results = run(body)
    for own, other in zip((*given, *found), (*wanted, *results), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-3, atol=1e-3)


def test_an_input_with_gaps_is_copied() -> None:
    fd, given, _ = run(momentum, contiguous=False)
    assert set(fd.executable().last_plan.here.values()) == {"T1"}
    with knobs.scope(device="reference"):
        _, wanted, _ = run(momentum, contiguous=False)
    np.testing.assert_allclose(given[0], wanted[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("body", [turned, flipped, repeated])
def test_without_the_rule_threads_race(body: Body, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "_reads_own", lambda *given: True)
    with pytest.raises(SimulationError, match="race"):
        run(body)


@pytest.mark.parametrize("width", [1, 5])
def test_loops_that_a_result_lacks_read_what_it_replaces(width: int) -> None:
    """Two programs of one loop nest, whose threads all have the same one element."""
    with FusionDefinition() as fd:
        p = fd.define_tensor([1], True, DataType.Float)
        m = fd.define_tensor([1, width * 64], True, DataType.Float)
        replace(fd, p * 2.0, p)
        replace(fd, m * 2.0, m)
    given = [np.ones((1,), np.float32), np.ones((1, width * 64), np.float32)]
    fd.execute(given)
    assert set(fd.executable().last_plan.here.values()) == {"T1"}
    assert (given[0] == 2).all()
    assert (given[1] == 2).all()
