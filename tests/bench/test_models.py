"""The table of whole models: those written here equal eager, and are taken nearly whole."""

import pytest
import torch

from bench.models import furthest, on_cpu
from bench.small_models import NAMES, OWN


@pytest.mark.few(1)
@pytest.mark.parametrize("name", OWN)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_own_models_equal_eager(name: str) -> None:
    distance, share, _ = on_cpu(name)
    assert distance < 1e-5
    assert share > 0.97


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in OWN])
@pytest.mark.filterwarnings("ignore")
def test_models_of_transformers_equal_eager(name: str) -> None:
    distance, share, _ = on_cpu(name)
    assert distance < 1e-5
    assert share >= 0.9


def test_a_gradient_that_is_off_is_seen() -> None:
    right = [torch.ones(3), torch.zeros(2)]
    assert furthest(right, right) == 0
    assert furthest([torch.ones(3), torch.full((2,), 0.1)], right) > 0.05
    assert furthest(right[:1], right) == float("inf")
