"""The doors of the long run have one meaning."""

import random

import numpy as np
import pytest
import torch

from bench import soak
from bench.soak_doors import DOORS, opened
from bench.soak_programs import check
from warpsmith import knobs

SLOW = [pytest.param(door, marks=[pytest.mark.slow] * (door == "compile")) for door in DOORS]


@pytest.mark.parametrize("door", SLOW)
def test_results_are_right(door: str) -> None:
    for number in range(1 if door == "compile" else 5):
        case = opened(door, random.Random(number))
        with knobs.scope(device="reference"):
            for rows, columns in ((5, 7), (3, 2)):
                x, y = (
                    np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
                    for shape in ((rows, columns), (1 if case.program.one_row else rows, columns))
                )
                given = [torch.from_numpy(each) if case.tensors else each for each in (x, y)]
                check(case.program, given, case.call(*given))
                with pytest.raises(AssertionError):
                    check(case.program, given, [given[0][:1]])


def test_threads_go_through_several_doors() -> None:
    doors = [door for door in DOORS if door != "compile"]
    seen = soak.soak(
        minutes=1, threads=16, device="reference", seed=0, say=print, calls=32, doors=doors
    )
    assert not seen.wrong
    assert len(seen.through) >= 3


def test_a_wrong_call_is_told_with_its_door() -> None:
    assert str(opened("nn", random.Random(0))).endswith(" through nn")
