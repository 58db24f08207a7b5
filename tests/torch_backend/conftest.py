"""How tests of models begin."""

import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture
def fresh() -> Iterator[None]:
    """Weights that are drawn alike, nothing that torch has compiled, and no warnings of its own."""
    import torch

    torch.manual_seed(0)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch")
        yield
