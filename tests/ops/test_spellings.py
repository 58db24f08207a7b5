"""How results of CUDA spellings are judged, without a GPU: what passes, and what does not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.spellings import CASES, ULPS, inputs, judged, kernel_text, reference
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.scalars import numpy_dtype
from warpsmith.ops.table import TABLE
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source


@pytest.mark.few(100)
@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda case: getattr(case, "name", case))
def test_the_meaning_is_right_and_what_is_far_from_it_is_not(name: str, dtype: DataType) -> None:
    op = TABLE[name]
    result = op.result_dtype(dtype)
    args = inputs(op, dtype)
    with np.errstate(all="ignore"):
        right = reference(op, dtype, args).astype(numpy_dtype(result))
    error, wrong = judged(op, dtype, args, right)
    assert (wrong, error <= 0.5) == ("", True)
    off = right.copy()
    usable = np.flatnonzero(np.isfinite(right)) if result.is_float else np.arange(right.size)
    at = usable[0]
    off[at] = not off[at] if result is DataType.Bool else off[at] + 1
    if result.is_float:
        off[at] = right[at] + 1e-2 + abs(right[at]) * np.finfo(right.dtype).eps * 64 * ULPS[result]
    _, wrong = judged(op, dtype, args, off)
    assert wrong.startswith("1 wrong; of (")


@pytest.mark.parametrize("dtype", sorted({dtype for _, dtype in CASES}, key=lambda d: d.name))
def test_the_kernel_of_all_operations_compiles(dtype: DataType) -> None:
    assert compile_source(Source(text=kernel_text(dtype), entry="apply", arch="sm_90a")).cubin
