"""What nvFuser refuses, and its words: programs and tests match them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import warpsmith
from warpsmith.frontends import nvfuser_direct as nvfuser
from warpsmith.frontends.nvfuser_direct import DataType, FusionDefinition, PythonProfiler, version

Use = Callable[[FusionDefinition, Any], Any]


def _defined(use: Use, rank: int = 2) -> FusionDefinition:
    with FusionDefinition() as fd:
        fd.add_output(use(fd, fd.define_tensor([-1] * rank, contiguity=True)))
    return fd


@pytest.mark.parametrize(
    ("start", "end", "step", "said"),
    [
        ([-1, 0], [5, 5], [1, 1], "start_indices must be greater than or equal to 0"),
        ([3, 4], [5, 2], [1, 1], "end_indices must be greater than or equal to start_indices"),
        ([0, 0], [5, 5], [1, 2], "slice operation strides must be of const size 1"),
        ([0] * 3, [4] * 3, None, "Number of tensor dimensions does not match slice dimensions!"),
        ([0, 0], [4, 4, 4], [1, 1], "Slice indexing attribute dimensions don't match!"),
        ([0, 0], [4, 4], [1, 1, 1], "Slice start_indices and strides don't match!"),
    ],
)
def test_slices(start: list[int], end: list[int], step: list[int] | None, said: str) -> None:
    with pytest.raises(RuntimeError, match=f"WS0194.*{said}") as error:
        _defined(lambda fd, x: fd.ops.slice(x, start, end, step))
    assert "test_nvfuser_contract.py" in str(error.value), "the user's line"


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda fd, x: fd.ops.where(x, x, x), "Condition should be of DataType Bool"),
        (lambda fd, x: fd.ops.squeeze(x, [0, 1, 1]), "dims to squeeze must be <= the number"),
        (
            lambda fd, x: fd.ops.iota(fd.define_scalar(3), step=fd.define_scalar(0)),
            "iota: step value must not equal zero",
        ),
        (
            lambda fd, x: fd.ops.iota(fd.define_scalar(3), fd.define_scalar(float("inf"))),
            "iota: length, start, step must be finite numbers",
        ),
    ],
)
def test_what_operations_refuse(use: Use, said: str) -> None:
    with pytest.raises(RuntimeError, match=f"WS0194.*{said}"):
        _defined(use)


@pytest.mark.parametrize(
    "use",
    [
        lambda fd, x: fd.ops.permute(x, [0.0, 1.0]),
        lambda fd, x: fd.ops.var_mean(x, 1.0),
        lambda fd, x: fd.ops.cumsum(x, 0.5),
        lambda fd, x: fd.define_tensor(shape=[10.0], contiguity=[True]),
        lambda fd, x: fd.define_tensor(shape=[2**63], contiguity=[True]),
    ],
)
def test_arguments_of_other_types(use: Use) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _defined(use)


def test_inputs_that_do_not_fit() -> None:
    with FusionDefinition() as fd:
        t0 = fd.define_tensor([-1], contiguity=True)
        fd.add_output(fd.ops.mul(t0, fd.define_scalar()))
    x = torch.ones(15)
    for given, said in (
        ([2.0, 2.0], "Expected input 0, .*, to be an at::Tensor but got scalar 2"),
        ([x, x], "Expected input 1, d2, to be a scalar but got float tensor of rank 1"),
        ([x.half(), 2.0], "to be bound to a tensor of dtype float, but got .* of dtype __half"),
        ([x, 2 + 1j], r"Scalar value \(2,1\) is not compatible with .* data type: double"),
    ):
        with pytest.raises(RuntimeError, match=said):
            fd.execute(given)
    (result,) = fd.execute([x, 2.0])
    torch.testing.assert_close(result, 2 * x)


def test_results_that_are_written_into_inputs_are_these_inputs() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], contiguity=True)
        y = fd.ops.relu(x)
        fd.add_output(y)
        fd.add_output(y, x)
        fd.add_output(fd.ops.neg(x))
        fd.add_output(x)
    given = torch.tensor([-1.0, 2.0])
    first, negative, last = fd.execute([given])
    assert first is last is given
    assert given.tolist() == [0.0, 2.0]
    assert negative.tolist() == [1.0, -2.0], "of the input as it was"


def test_vectors_of_values_and_orders_of_results() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        y = fd.ops.reshape(x, fd.define_vector([fd.ops.size(x, 1), 2], dtype=DataType.Int))
        fd.add_output(y, stride_order=[0, 1])
    given = torch.arange(6.0).reshape(2, 3)
    (result,) = fd.execute([given])
    torch.testing.assert_close(result, given.reshape(3, 2))
    assert result.stride() == (1, 3)


def test_versions_are_compared_by_their_numbers() -> None:
    with warpsmith.install_as_nvfuser():
        from nvfuser_direct.nvfuser_direct_version import Version  # type: ignore[import-not-found]
    assert version() > "0.0.0"
    assert Version("0.2.9") < version() < Version("0.2.100")
    assert Version("1.2") == "1.2+x"
    assert Version("1.2") != "1.3"


def test_a_fusion_prints_itself(capsys: pytest.CaptureFixture[str]) -> None:
    _defined(lambda fd, x: fd.ops.relu(x)).fusion.print()
    assert "fd.ops.relu(tv0)" in capsys.readouterr().out


def test_a_profiler_sees_the_last_call() -> None:
    given = torch.randn(4, 8)
    with PythonProfiler() as none:
        pass
    assert none.profile is None
    with PythonProfiler() as profiler:
        automatic = _defined(lambda fd, x: fd.ops.exp(fd.ops.sum(x, [1])))
        automatic.execute([given])
    profile = profiler.profile
    assert profile is not None
    assert profile.segments == len(profile.kernel_profiles) == 1
    assert (profile.input_bytes, profile.output_bytes) == (128, 16)
    assert profile.host_time_ms > 0
    (kernel,) = profile.kernel_profiles
    assert kernel.scheduler == "reduction"
    assert kernel.name in automatic.fec.get_cuda_kernel([given])
    assert kernel.grid_str == "[1, 1, 1]"
    assert kernel.registers > 0
    assert f"{kernel.time_ms:.2f}" == "nan", "torch.profiler tells it"
    with PythonProfiler(auto_scheduled=False) as profiler:
        _defined(lambda fd, x: fd.ops.relu(x)).manual_execute([given])
    assert profiler.profile is not None
    assert [each.scheduler for each in profiler.profile.kernel_profiles] == ["user"]
    automatic.execute([given])  # outside: not seen
    assert nvfuser.get_fusion_profile() is profiler.profile
    assert profiler.profile.kernel_profiles[0].scheduler == "user"
    nvfuser.reset_profiler()
    with pytest.raises(RuntimeError, match="WS0196.*has not been processed"):
        nvfuser.get_fusion_profile()


def test_results_are_validated_within_tolerances() -> None:
    fd = _defined(lambda fd, x: fd.ops.sum(x, [1]))
    given = torch.randn(4, 800)
    (found,) = fd.execute([given])
    ((absolute, relative),) = nvfuser.get_val_tolerances(fd.fusion, [given])
    assert 1e-7 < absolute < 1e-2
    assert 1e-7 < relative < 1e-2
    torch.testing.assert_close(found.double(), given.double().sum(1), atol=absolute, rtol=relative)
    nvfuser.validate_with_auto_inferred_outputs(fd.fusion, [found], [given])
    with pytest.raises(AssertionError, match="output 0"):
        nvfuser.validate_with_auto_inferred_outputs(fd.fusion, [found + 0.1], [given])
    ((absolute, relative),) = nvfuser.get_val_tolerances(
        _defined(lambda fd, x: fd.ops.gt(x, fd.define_scalar(0.0))).fusion, [given]
    )
    assert (absolute, relative) == (0, 0)
