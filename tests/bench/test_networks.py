"""Networks beside Inductor: a gradient that is far from what it should be is said, and fails."""

import pytest

pytest.importorskip("torch")

from bench.networks import Row


def row(ours: float, inductor: float) -> Row:
    us = {"inductor": 30.0, "warpsmith": 20.0}
    wrong = {"inductor": inductor, "warpsmith": ours}
    return Row(name="net", what="step", shapes=((2, 3),), us=us, wrong=wrong, furthest="a.weight")


def test_gradients_that_are_wrong_are_said() -> None:
    assert row(2e-3, 1e-3).is_right
    assert "WRONG" not in str(row(2e-3, 1e-3))
    for far in (4e-2, float("nan"), float("inf")):
        assert not row(far, 1e-3).is_right
        assert str(row(far, 1e-3)).endswith(", WRONG at a.weight")
