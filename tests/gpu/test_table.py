"""Each operation's CUDA spelling computes what its NumPy meaning computes in float64."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.support.spellings import CASES, inputs, judged, kernel_text
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.scalars import numpy_dtype
from warpsmith.ops.table import TABLE, PointwiseOp
from warpsmith.runtime.arguments import ArgumentBuffer
from warpsmith.runtime.launch import LoadedKernel
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source
from warpsmith.runtime.stream import current_stream

Record = Callable[[str, object], None]
Computed = Callable[[PointwiseOp, DataType, list[np.ndarray]], np.ndarray]


@pytest.fixture(scope="module")
def run() -> Computed:
    """Runs an operation on the GPU; kernels with all operations of a type are compiled once."""
    kernels: dict[DataType, LoadedKernel] = {}

    def computed(op: PointwiseOp, dtype: DataType, args: list[np.ndarray]) -> np.ndarray:
        if dtype not in kernels:
            source = Source(text=kernel_text(dtype), entry="apply", arch="sm_90a")
            kernels[dtype] = LoadedKernel(compile_source(source), "apply", 0)
        size = args[0].size
        tensors = [torch.from_numpy(np.ascontiguousarray(arg)).cuda() for arg in args]
        values = list(tensors[op.conditions :])
        values += [values[-1]] * (4 - len(values))
        flags = tensors[0] if op.conditions else values[0]
        result: np.ndarray = np.empty(size, numpy_dtype(op.result_dtype(dtype)))
        out = torch.from_numpy(result).cuda()
        buffer = ArgumentBuffer("PPPPPPii")
        pointers = [tensor.data_ptr() for tensor in (*values, flags, out)]
        buffer.set((*pointers, list(TABLE).index(op.name), size))
        blocks = -(-size // 256)
        kernels[dtype].launch((blocks, 1, 1), (256, 1, 1), 0, current_stream(0), buffer)
        torch.cuda.synchronize()
        downloaded: np.ndarray = out.cpu().numpy()
        return downloaded

    return computed


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda case: getattr(case, "name", case))
def test_spelling_computes_the_meaning(
    run: Computed, record_property: Record, name: str, dtype: DataType
) -> None:
    op = TABLE[name]
    args = inputs(op, dtype)
    error, wrong = judged(op, dtype, args, run(op, dtype, args))
    assert not wrong, wrong
    record_property("ulps", round(error, 2))
