"""What tests of functions for PyTorch share."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def compiled_anew() -> Iterator[None]:
    """Nothing that torch has compiled is left behind."""
    import torch

    yield
    torch._dynamo.reset()
