"""Blocks of models on the GPU: forward and backward, by plans of many kernels."""

from __future__ import annotations

import pytest

from tests.programs.models.catalog import SMALL, assert_means, defined
from warpsmith.ir.dtypes import DataType


@pytest.mark.parametrize("dtype", [DataType.Float, DataType.BFloat16])
@pytest.mark.parametrize("way", ["forward", "backward"])
@pytest.mark.parametrize("name", SMALL)
def test_a_block_is_right(name: str, way: str, dtype: DataType) -> None:
    block = SMALL[name]()
    arrays = block.drawn(dtype)
    if way == "backward":
        arrays = [block.gradient(dtype), *arrays]
    fd = defined(getattr(block, way), arrays)
    assert_means(fd, arrays, fd.execute(arrays))
