"""The programs of the long run, and how their results are judged."""

import random
from typing import Any

import numpy as np
import pytest
import torch

from bench.soak_programs import Program, _several, check, drawn
from warpsmith import knobs

PROGRAMS = tuple(drawn(random.Random(seed)) for seed in range(40))


def given() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    return x, x[:1]


def test_programs_differ_and_their_meanings_are_right() -> None:
    assert len(set(PROGRAMS)) > 35
    with knobs.scope(device="reference"):
        for program in PROGRAMS:
            check(program, given(), program.fused(*given()))


def test_tensors_have_the_same_meaning() -> None:
    for program in PROGRAMS:
        tensors = [torch.from_numpy(array).double() for array in given()]
        found = _several(program(*tensors, which=1))
        exact = _several(program(*(x.astype(np.float64) for x in given()), which=1))
        for tensor, array in zip(found, exact, strict=True):
            np.testing.assert_allclose(tensor.numpy(), array, rtol=1e-5, atol=1e-6)


def test_the_meaning_of_tensors_of_a_device_is_found_there() -> None:
    """Arrays of the host, once freed, stayed in the C heap: 200 MiB more each three minutes."""
    x, y = torch.empty(4000, 3000, device="meta"), torch.empty(1, 3000, device="meta")
    for program in PROGRAMS:
        assert {result.device.type for result in _several(program(x, y, which=1))} == {"meta"}


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_a_result_that_is_off_is_found(kind: Any) -> None:
    program = Program((("mix", 1, 0),), "both", one_row=True)
    arrays = [kind(array) for array in given()]
    results = program(*arrays, which=1)
    check(program, arrays, results)
    for wrong in (results[1] + 0.1, results[1][1:], results[1] * np.nan):
        with pytest.raises(AssertionError):
            check(program, arrays, (results[0], wrong))
