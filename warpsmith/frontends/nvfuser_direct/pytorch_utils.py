"""`nvfuser_direct.pytorch_utils`: what programs for nvFuser and PyTorch ask for."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import Any

from warpsmith.frontends.nvfuser_direct.dtypes import (
    python_scalar_to_nvfuser_dtype,
    torch_dtype_to_nvfuser_dtype,
)

__all__ = [
    "python_scalar_to_nvfuser_dtype",
    "retry_on_oom_or_skip_test",
    "torch_dtype_to_nvfuser_dtype",
]


def retry_on_oom_or_skip_test(func: Callable[..., Any]) -> Callable[..., Any]:
    """A test that is tried again with an empty cache where memory was short, and then skipped."""
    import torch

    @wraps(func)
    def retried(*args: Any, **kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except torch.OutOfMemoryError:
            gc.collect()
            torch.cuda.empty_cache()
        try:
            return func(*args, **kwargs)
        except torch.OutOfMemoryError as error:
            import pytest

            pytest.skip(f"Test failed due to OutOfMemoryError: {error}")

    return retried
