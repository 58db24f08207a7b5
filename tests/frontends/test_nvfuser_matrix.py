"""Operations of `nvfuser_direct` by types and layouts, on the simulator, against PyTorch."""

import pytest

from tests.support.nvfuser_matrix import AGREES, LAYOUTS, cases, outcome
from tests.support.nvfuser_operations import OPERATIONS, TYPES, Operation
from warpsmith.frontends.nvfuser_direct import ops

UNPAIRED = {
    "grouped_mm",
    "imag",
    "normal",
    "rand_like",
    "randn_like",
    "scaled_mm",
    "sdpfa_bwd",
    "shape",
    "size",
    "uniform",
}
"""Operations without a case in the matrix, which `test_nvfuser_*.py` have."""


REFUSED = {
    ("nextafter", "half"): "raises WS0118: nextafter does not take operands of type Half",
    ("nextafter", "bfloat16"): "raises WS0118: nextafter does not take operands of type BFloat16",
    ("pad", "complex_float"): "raises WS0194: Tensor arg and pad value must have the same dtype",
    ("pad", "complex_double"): "raises WS0194: Tensor arg and pad value must have the same dtype",
    ("matmul", "float8_e4m3fn"): "has type torch.float32",
    ("matmul", "float8_e5m2"): "has type torch.float32",
    ("linear", "float8_e4m3fn"): "raises WS0142: linear adds T2 of type Float8_e4m3fn",
    ("linear", "float8_e5m2"): "raises WS0142: linear adds T2 of type Float8_e5m2",
}
"""What PyTorch takes, and what is said instead."""


def test_no_operation_is_left_out() -> None:
    tried = {operation.name for operation in OPERATIONS}
    assert tried | UNPAIRED == set(dir(ops)) - set(ops.LACKING)
    assert not tried & UNPAIRED


@pytest.mark.few(3)
@pytest.mark.parametrize(("operation", "dtype"), list(cases()), ids=str)
def test_agrees_in_every_layout(operation: Operation, dtype: str) -> None:
    found = {layout: outcome(operation, TYPES[dtype], layout) for layout in LAYOUTS}
    wanted = REFUSED.get((operation.name, dtype), AGREES)
    assert all(said.startswith(wanted) for said in found.values() if said is not None), found


def test_what_differs_is_noticed() -> None:
    wrong = Operation("add", lambda ops, x: ops.add(x, 1), lambda x: x + 2)
    assert "differs" in str(outcome(wrong, TYPES["float"], "contiguous"))
    other = Operation("add", lambda ops, x: ops.add(x, 1), lambda x: (x + 1).double())
    assert "has type" in str(outcome(other, TYPES["float"], "contiguous"))
    refused = Operation("imag", lambda ops, x: ops.imag(x), lambda x: x)
    assert "raises WS0190" in str(outcome(refused, TYPES["float"], "contiguous"))
