"""`nvfuser_direct` by its own names: definitions, calls, texts, refusals."""

from typing import Any

import pytest
import torch

import warpsmith
from warpsmith.errors import DefinitionError, WarpsmithError
from warpsmith.frontends import nvfuser_direct as nvfuser
from warpsmith.frontends.nvfuser_direct import DataType, FusionDefinition, ParallelType, ops
from warpsmith.frontends.nvfuser_direct.place import on_gpu
from warpsmith.frontends.nvfuser_direct.random import of_device


def _summed() -> FusionDefinition:
    with FusionDefinition() as fd:
        t0 = fd.define_tensor([-1, -1, -1], True)
        t1 = fd.define_tensor(shape=[-1, 1, 4], contiguity=[True, None, True])
        t2 = fd.ops.add(t0, t1)
        c0 = fd.define_scalar(3.0)
        fd.add_output(fd.ops.sum(fd.ops.mul(t2, c0), [-1], False, DataType.Float))
        fd.ops.exp(t2)  # no output needs it
    return fd


TEXT = """def nvfuser_fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[-1, -1, -1], contiguity=[True, True, True], \
dtype=DataType.Float, is_cpu=False)
    tv1 = fd.define_tensor(shape=[-1, 1, 4], contiguity=[True, None, True], \
dtype=DataType.Float, is_cpu=False)
    tv2 = fd.ops.add(tv0, tv1)
    c5 = fd.define_scalar(3.00000, dtype=DataType.Double)
    tv3 = fd.ops.mul(tv2, c5)
    tv4 = fd.ops.sum(tv3, dims=[2], dtype=DataType.Float)
    fd.add_output(tv4)
"""


def test_the_text_defines_it_again() -> None:
    fd = _summed()
    assert repr(fd) == TEXT
    inputs = [torch.randn(2, 3, 4), torch.randn(2, 1, 4)]
    (wanted,) = fd.execute(inputs, save_repro_inputs=True)
    with warpsmith.install_as_nvfuser():
        names: dict[str, Any] = {}
        exec(fd.last_repro_script(), names)
        assert repr(names["fd"]) == TEXT
        (found,) = names["fd"].execute(inputs)
    torch.testing.assert_close(found, wanted)
    strided = fd.repro_script_for([torch.ones(5, 3, 2).permute(2, 1, 0), 1.5])
    assert "make_tensor" not in strided
    assert "(1, 2, 6)" in strided
    assert "    1.50000,\n" in strided


def test_a_reduction_of_all_may_name_its_type_first() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        fd.add_output(fd.ops.sum(x, DataType.Double))
        fd.add_output(fd.ops.max(x, dim=-1))
    given = torch.randn(3, 5)
    total, largest = fd.execute([given])
    torch.testing.assert_close(total, given.double().sum())
    assert torch.equal(largest, given.amax(-1))
    assert "fd.ops.sum(tv0, dtype=DataType.Double)" in repr(fd)
    assert "fd.ops.max(tv0, dims=[1], dtype=DataType.Float)" in repr(fd)


def test_random_numbers_follow_the_generator() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], dtype=DataType.Double)
        factor = fd.define_scalar(DataType.Double)
        drawn = [
            fd.ops.uniform(-1.0, 1.0, x.shape(), dtype=DataType.Double),
            fd.ops.rand_like(x),
            fd.ops.randn_like(x),
            fd.ops.normal(0.0, 1.0, x.shape(), rng_seed=3, rng_offset=1),
        ]
        fd.add_output(fd.ops.mul(x, factor))
        for each in drawn:
            fd.add_output(each)
    inputs = [torch.ones(64, dtype=torch.float64), 2.0]
    torch.manual_seed(5)
    first, other = fd.execute(inputs), fd.execute(inputs)
    torch.manual_seed(5)
    again = fd.execute(inputs)
    torch.testing.assert_close(first[0], inputs[0] * 2)
    for k, name in enumerate(("uniform", "rand_like", "randn_like"), 1):
        assert torch.equal(first[k], again[k]), name
        assert not torch.equal(first[k], other[k]), name
    assert torch.equal(first[4], other[4])  # a seed of its own
    assert first[1].min() < 0 < first[2].min()
    assert first[2].max() < 1 < first[3].max()
    assert "fd.ops.normal(0.00000, 1.00000, shape=[c" in repr(fd)
    with FusionDefinition() as fd, pytest.raises(RuntimeError, match="WS0192"):
        fd.ops.uniform(0.0, 1.0, [2], rng_seed=1)


def test_a_device_s_generator_moves_on() -> None:
    class Generator:
        offset = 8

        def initial_seed(self) -> int:
            return 2**64 - 3

        def get_offset(self) -> int:
            return self.offset

        def set_offset(self, offset: int) -> None:
            self.offset = offset

    generator = Generator()
    assert of_device(generator, 3) == (-3, 2)
    assert of_device(generator, 1) == (-3, 5)
    assert generator.offset == 24


def test_lists_are_vectors_and_numbers_of_the_cpu_are_scalars() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        shape = fd.define_vector(3)
        factor = fd.define_tensor([], dtype=DataType.Float, is_cpu=True)
        fd.add_output(fd.ops.mul(fd.ops.reshape(x, shape), factor))
    given = torch.randn(4, 6)
    (found,) = fd.execute([given, [2, 2, 6], torch.tensor(1.5)])
    torch.testing.assert_close(found, given.reshape(2, 2, 6) * 1.5)
    assert "shape=[], contiguity=[], dtype=DataType.Float, is_cpu=True" in repr(fd)


def test_a_call_says_how_many() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        k, rows = (fd.define_scalar(DataType.Int) for _ in range(2))
        fd.add_output(fd.ops.topk(x, k, 1)[0])
        left = fd.ops.mul(fd.ops.size(x, 0), fd.ops.reciprocal(rows))  # a float, which is cut
        fd.add_output(fd.ops.reshape(x, [rows, fd.ops.mul(left, 4.0)]))
    given = torch.tensor([[3.0, 1.0, 4.0, 1.0], [5.0, 9.0, 2.0, 6.0]])
    for count, extent in ((1, 1), (3, 4)):
        largest, folded = fd.execute([given, count, extent])
        torch.testing.assert_close(largest, given.topk(count).values)
        torch.testing.assert_close(folded, given.reshape(extent, -1))
    fd.validate([given, 2, 2])


def test_two_scalars_keep_their_type() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], contiguity=True, dtype=DataType.Bool)
        for dtype in (DataType.Double, DataType.Float, DataType.Int32):
            values = [fd.define_scalar(value, dtype) for value in (3, 5)]
            fd.add_output(fd.ops.where(x, *values))
    found = fd.execute([torch.tensor([True, False])])
    assert [each.dtype for each in found] == [torch.float64, torch.float32, torch.int32]
    assert all(each.tolist() == [3, 5] for each in found)


def test_dimensions_of_which_nothing_is_said_are_repeated() -> None:
    """Between others, before them, and with an order of its own."""
    base = torch.randn(3, 5)
    for flags, order, given in (
        ([True, None, True], [], base[:, None].expand(3, 4, 5)),
        ([None, True, True], [], base.expand(4, 3, 5)),
        ([True, True, None], [1, 2, 0], base.T[..., None].expand(5, 3, 4)),
    ):
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1, -1, -1], flags, stride_order=order)
            fd.add_output(fd.ops.neg(x))
        (found,) = fd.execute([given])
        assert torch.equal(found, -given)


def test_places_may_be_floats() -> None:
    """As nvFuser's are, which drops their fractions: Lightning Thunder's cross entropy has such."""
    with FusionDefinition() as fd:
        x, at = fd.define_tensor([-1, -1]), fd.define_tensor([-1, -1])
        row = fd.define_tensor([-1])
        for made in (fd.ops.take_along_axis(x, at, 1), fd.ops.index_select(x, row, 0)):
            fd.add_output(made)
    x, at, row = torch.randn(3, 5), torch.rand(3, 2) * 5, torch.tensor([2.0, 0.9])
    taken, rows = fd.execute([x, at, row])
    assert torch.equal(taken, torch.take_along_dim(x, at.long(), 1))
    assert torch.equal(rows, x[row.long()])


def test_results_of_no_tensor_are_tensors() -> None:
    with FusionDefinition() as fd:
        fill = fd.define_scalar()
        fd.add_output(fd.ops.full([2], fill, DataType.BFloat16))
    (found,) = fd.execute([1.5])
    assert torch.equal(found, torch.full((2,), 1.5, dtype=torch.bfloat16))


def test_results_into_inputs_and_their_meaning() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1])
        fd.add_output(fd.ops.add(x, 1.0), alias_input=x)
        fd.add_output(fd.ops.mul(x, 2.0))
    given = torch.arange(4.0)
    (twice,) = fd.validate([given])
    torch.testing.assert_close(given, torch.arange(1.0, 5.0))
    torch.testing.assert_close(twice, torch.arange(0.0, 8.0, 2.0))
    with pytest.raises(AssertionError, match="output 0"):
        fd.validate([given], [torch.zeros(4)])


def test_values_say_what_they_are() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 3], dtype=DataType.Double)
        s = fd.define_scalar(DataType.Int)
        y = fd.ops.relu(x)
        fd.add_output(y)
    assert (x.ndim, x.dtype(), x.is_tensor(), s.is_tensor()) == (2, DataType.Double, True, False)
    assert s.is_symbolic()
    assert not fd.ops.size(x, 1).is_symbolic()
    assert str(x.size(1)) == "3"
    made = y.definition()
    assert made is not None
    assert made.input(0).definition() is None
    assert x.uses()[0].output(0).ndim == 2
    assert fd.fusion.inputs() == [x, s]
    assert x in fd.fusion.vals()
    assert not y.axis(0).is_reduction()
    assert str(y.axis(1).extent()) == "3"


def test_executors() -> None:
    fd = _summed()
    inputs = [torch.randn(2, 3, 4), torch.randn(2, 1, 4)]
    cache = nvfuser.FusionExecutorCache(fd.fusion)
    assert not cache.is_compiled(inputs)
    cache.execute(inputs, device=0)
    assert cache.is_compiled(inputs)
    assert "__global__" in cache.get_cuda_kernel(inputs)
    assert cache.get_scheduled_ir(inputs) == cache.get_most_recent_scheduled_ir() != ""
    with pytest.raises(AssertionError, match="it must be a CUDA device"):
        cache.execute(inputs, device="cpu")


def test_what_is_not_defined_is_not_executed() -> None:
    fd = FusionDefinition()
    with pytest.raises(NotImplementedError, match="Fusion does not exist!"):
        fd.execute([])
    with fd:
        fd.define_tensor([-1])
    with pytest.raises(NotImplementedError, match="Fusion is empty!"):
        fd.execute([torch.ones(2)])
    with pytest.raises(AssertionError, match="cannot provide a repro"):
        fd.last_repro_script()
    with pytest.raises(RuntimeError, match="WS0191.*inside of"):
        ops.full([2], 1.0, DataType.Float)


def test_errors_are_runtime_errors_with_their_codes() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1])
        with pytest.raises(RuntimeError, match="WS0136|WS01") as caught:
            fd.ops.broadcast(x, [True])
        assert isinstance(caught.value, WarpsmithError)
        assert isinstance(caught.value.__cause__, DefinitionError)
        assert "test_nvfuser_direct.py" in str(caught.value)
        with pytest.raises(TypeError, match="argument"):
            fd.ops.add(x)
        fd.add_output(x)
    with pytest.raises(RuntimeError, match="WS03"):
        fd.execute([torch.ones(2, 2)])


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda fd, x: fd.define_scalar(None, DataType.UInt64), "DataType.UInt64"),
        (lambda fd, x: fd.ops.neg(fd.define_tensor([2], dtype=DataType.UInt64)), "neg of UInt64"),
        (lambda fd, x: x.axis(0).parallelize(ParallelType.mesh_x), "mesh_x: a kernel runs on one"),
        (lambda fd, x: x.set_memory_type(nvfuser.MemoryType.tensor), "MemoryType.tensor"),
        (lambda fd, x: x.swizzle(0, 0), "swizzle: memory is permuted by chunks"),
        (lambda fd, x: x.set_device_mesh(None), "one GPU"),
        (lambda fd, x: fd.ops.imag(x), "imag.*is real"),
        (lambda fd, x: fd.ops.nv_block_quantize(x), "4 bits"),
        (lambda fd, x: fd.ops.grouped_mm(x, x, x, bias=x), "it adds nothing"),
        (lambda fd, x: fd.sched.bounded_transform_backward(x, 0, [x]), "all loops, not 0"),
        (lambda fd, x: nvfuser.multidevice.DeviceMesh([0]), "DeviceMesh: a fusion runs on one GPU"),
        (lambda fd, x: nvfuser.nvf_cutlass.mxfp8_scaled_mm(x), "mxfp8_scaled_mm"),
        (lambda fd, x: nvfuser.execute_with_dtensors(fd, []), "execute_with_dtensors"),
    ],
)
def test_what_is_not_here_says_why(use: Any, said: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1])
        with pytest.raises(NotImplementedError, match=f"WS0190.*{said}"):
            use(fd, x)


def test_names_that_nvfuser_has_not_either() -> None:
    for module in (nvfuser, ops, nvfuser.multidevice, nvfuser.nvf_cutlass, nvfuser.idm):
        with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
            _ = module.nonsense
    with pytest.raises(KeyError):
        nvfuser.pytorch_utils.torch_dtype_to_nvfuser_dtype(torch.qint8)
    assert nvfuser.pytorch_utils.python_scalar_to_nvfuser_dtype(1.0) is DataType.Double


def test_tensors_of_the_cpu_where_calls_run_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not on_gpu() or torch.cuda.is_available()
    home = "warpsmith.frontends.nvfuser_direct.definition.on_gpu"
    monkeypatch.setattr(home, lambda: True)
    with FusionDefinition() as fd:
        with pytest.raises(ValueError, match="Found unsupported device cpu, only scalar CPU"):
            fd.from_pytorch(torch.ones(2))
        fd.from_pytorch(torch.tensor(2.0))
    assert "is_cpu=True" in repr(fd)


@pytest.mark.parametrize(
    ("sizes", "strides", "contiguity", "order"),
    [
        ([2, 3, 4], [12, 1, 3], [True, True, True], [2, 0, 1]),
        ([2, 1, 4], [8, 9, 2], [None, True, False], [1, 2, 0]),
        ([5, 2, 3], [6, 0, 2], [True, None, False], [2, 1, 0]),
        ([], [], [], []),
    ],
)
def test_how_a_tensor_lies_in_memory(
    sizes: list[int], strides: list[int], contiguity: list[bool | None], order: list[int]
) -> None:
    assert nvfuser.compute_tensor_descriptor(sizes, strides) == (contiguity, order)
