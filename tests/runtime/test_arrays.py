"""Arrays of NumPy and PyTorch under one description."""

import ml_dtypes
import numpy as np
import pytest
import torch

from warpsmith.errors import ArgumentError
from warpsmith.runtime.arrays import NUMPY_DTYPES, adopt, describe, empty, from_numpy, to_numpy

TORCH_DTYPES = {
    "double": torch.float64,
    "float": torch.float32,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    "int64": torch.int64,
    "int32": torch.int32,
    "int16": torch.int16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
}


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_numpy_and_torch_are_described_alike(dtype: str) -> None:
    array = np.zeros((4, 6), NUMPY_DTYPES[dtype])[1:, ::2]
    tensor = torch.zeros((4, 6), dtype=TORCH_DTYPES[dtype])[1:, ::2]
    described = describe(tensor)
    assert described == describe(array)._replace(kind="torch", pointer=tensor.data_ptr())
    assert (described.dtype, described.shape, described.strides) == (dtype, (3, 3), (6, 2))
    assert (described.device_kind, described.ordinal) == ("cpu", 0)
    assert describe(array).pointer == array.ctypes.data


def test_transposed_reversed_expanded_and_scalar() -> None:
    assert describe(np.zeros((2, 3)).T).strides == (1, 3)
    assert describe(np.zeros(5)[::-1]).strides == (-1,)
    assert describe(np.broadcast_to(np.zeros(3), (2, 3))).strides == (0, 1)
    assert describe(torch.zeros(3).expand(2, 3)).strides == (0, 1)
    assert describe(np.zeros(())).shape == describe(torch.zeros(())).shape == ()
    assert describe(torch.zeros(0, 3)).shape == (0, 3)


def test_a_subclass_and_a_parameter_are_arrays() -> None:
    assert describe(torch.nn.Parameter(torch.zeros(2))).dtype == "float"
    assert describe(np.zeros(2).view(np.recarray)).dtype == "double"


def test_unsupported_dtypes_are_named_with_the_supported() -> None:
    allowed = (
        "the dtypes are double, float, half, bfloat16, float8_e4m3fn, float8_e5m2, int64, int32, "
        "int16, int8, uint8, bool"
    )
    for array, name in (
        (torch.zeros(2, dtype=torch.uint16), "torch.uint16"),
        (np.zeros(2, np.complex64), "complex64"),
        (np.zeros(2, ">f4"), ">f4"),
        (np.array(["x"], object), "object"),
    ):
        with pytest.raises(ArgumentError, match=rf"dtype {name} is not supported; {allowed}"):
            describe(array)


def test_what_is_no_array_is_named() -> None:
    for value, name in ((3.0, "float"), ([1, 2], "list"), (None, "NoneType")):
        with pytest.raises(ArgumentError, match=f"a value of type {name} is not an array; pass a"):
            describe(value)
        with pytest.raises(ArgumentError, match=f"a value of type {name} is not an array"):
            adopt(value)


def test_tensors_without_plain_memory_are_refused() -> None:
    with pytest.raises(ArgumentError, match="layout torch.sparse_coo has no plain memory"):
        describe(torch.eye(3).to_sparse())
    with pytest.raises(ArgumentError, match="on device `meta` is not supported; move it"):
        describe(torch.zeros(3, device="meta"))
    negated = torch.zeros(3, dtype=torch.complex64).conj().imag
    with pytest.raises(ArgumentError, match="negates on reading; pass `tensor.resolve_neg"):
        describe(negated)
    assert describe(negated.resolve_neg()).shape == (3,)


def test_masks_are_not_lost() -> None:
    masked = np.ma.masked_array(np.ones(3, np.float32), mask=[0, 1, 0])
    with pytest.raises(ArgumentError, match=r"what the array masks; pass `array.filled\(value\)"):
        describe(masked)


def test_strides_within_an_element_are_refused() -> None:
    packed = np.zeros(4, np.dtype([("a", "i1"), ("b", "f4")]))["b"]
    with pytest.raises(ArgumentError, match=r"strides of \(5,\) bytes are not whole elements of 4"):
        describe(packed)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_tensor_to_numpy_and_back_shares_memory(dtype: str) -> None:
    tensor = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(TORCH_DTYPES[dtype]).T
    array = to_numpy(tensor)
    assert array.dtype == NUMPY_DTYPES[dtype]
    assert array.tolist() == tensor.tolist()
    assert array.ctypes.data == tensor.data_ptr()
    back = from_numpy(array, tensor)
    assert back.dtype == tensor.dtype
    assert torch.equal(back, tensor)
    assert back.data_ptr() == tensor.data_ptr()


def test_to_numpy_of_what_needs_gradients_and_of_scalars() -> None:
    assert to_numpy(torch.ones((), dtype=torch.bfloat16)).item() == 1.0
    assert to_numpy(torch.ones(2, requires_grad=True)).tolist() == [1.0, 1.0]
    array = np.ones(2)
    assert to_numpy(array) is array


def test_from_numpy_copies_what_a_tensor_cannot_view() -> None:
    like = torch.zeros(1)
    assert from_numpy(np.arange(3)[::-1], like).tolist() == [2, 1, 0]
    fixed = np.arange(3)
    fixed.flags.writeable = False
    assert from_numpy(fixed, like).tolist() == [0, 1, 2]
    assert from_numpy(fixed, np.zeros(1)) is fixed


def test_empty_has_the_layout_that_was_asked_for() -> None:
    for kind in ("numpy", "torch"):
        for dtype in NUMPY_DTYPES:
            described = describe(empty((2, 3), dtype, kind=kind))
            assert (described.dtype, described.strides) == (dtype, (3, 1))
        strided = empty((2, 3), "float", kind=kind, strides=(1, 4))
        assert describe(strided)[:4] == (kind, "float", (2, 3), (1, 4))
        strided[:] = 1.0
        assert describe(empty((), "float", kind=kind)).shape == ()
        assert describe(empty((), "float", kind=kind, strides=())).shape == ()
        assert describe(empty((0, 3), "half", kind=kind, strides=(3, 1))).shape == (0, 3)


class Foreign:
    """Somebody else's array, known by the DLPack protocol only."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: object) -> object:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def test_adopt_views_foreign_arrays() -> None:
    tensor = torch.arange(3)
    assert adopt(tensor) is tensor
    view = adopt(Foreign(tensor))
    assert isinstance(view, np.ndarray)
    assert view.ctypes.data == tensor.data_ptr()


def test_adopt_refuses_what_dlpack_cannot_give() -> None:
    with pytest.raises(ArgumentError, match=r"Foreign cannot be viewed through DLPack: .*; pass"):
        adopt(Foreign(torch.ones(2, requires_grad=True)))


def test_bfloat16_values_survive() -> None:
    values = np.array([1.5, -2.0, 3.140625], ml_dtypes.bfloat16)
    assert from_numpy(values, torch.zeros(1)).tolist() == [1.5, -2.0, 3.140625]


def test_memory_of_a_tensor_can_be_let_go_of_later() -> None:
    """As by FSDP, which frees what it gathered behind each layer."""
    tensor = torch.arange(6.0).view(torch.bfloat16)
    assert to_numpy(tensor).size == tensor.numel()
    tensor.untyped_storage().resize_(0)
