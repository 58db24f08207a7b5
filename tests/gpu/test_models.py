"""Blocks of models on the GPU: forward and backward, by plans of many kernels."""

from typing import Any

import pytest
import torch

from tests.programs.models.catalog import SMALL, assert_means, defined
from warpsmith.ir.dtypes import DataType
from warpsmith.torch_backend.backend import backend


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


class _Kept(torch.nn.Module):  # type: ignore[misc]  # torch is not analysed
    """Writes what it gets into a buffer, and sums over all blocks what is there."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(rows, 1 << 16, device="cuda"))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        self.kept.index_copy_(0, place, x)
        return self.kept.sum() + (self.kept[0] * 2).sum()


@pytest.mark.filterwarnings("ignore")
def test_graphs_write_buffers_and_count_blocks() -> None:
    mine, theirs = _Kept(8), _Kept(8)
    fast: Any = torch.compile(mine, backend=backend, mode="reduce-overhead")
    for number in range(6):
        x = torch.randn(1, 1 << 16, device="cuda")
        place = torch.tensor([number], device="cuda")
        with torch.no_grad():
            torch.testing.assert_close(fast(x, place), theirs(x, place), rtol=1e-4, atol=1e-1)
        assert torch.equal(mine.kept, theirs.kept)
