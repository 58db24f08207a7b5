"""Batch norm and its kin on a GPU: right, the same again, and right for sizes of every kind."""

import pytest

import warpsmith
from bench import batch_norm, group_norm, instance_norm
from bench.images import Images
from bench.problem import outputs_of
from tests.gpu.support import right_and_the_same_again
from warpsmith.testing import relative_error

SIZES = (
    (1, 1, 1),
    (2, 3, 1),
    (5, 17, 3),
    (64, 2048, 7),
    (32, 256, 56),
    (256, 512, 14),
    (16, 64, 112),
    (4096, 1024, 1),
    (1000, 999, 1),
    (33, 100, 13),
    (3, 1000, 31),
    (2, 8, 500),
)
"""Images, channels, height and width: of one block, of clusters, and of two kernels; odd ones."""

WITHIN = (
    *(instance_norm.instance_norm, group_norm.group_norm),
    *(instance_norm.instance_norm_bwd, group_norm.group_norm_bwd),
)
SOFTMAX = ((1, 5), (17, 1), (4096, 4096), (3000, 1000), (999, 2049), (20000, 256), (128, 65536))
LARGEST_ERROR = {"bfloat16": 2.0**-7, "float": 2e-5}
"""Relative to the norm of the result; a batch of two has variances that lose digits."""


@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("inner", [False, True], ids=["nchw", "nhwc"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_forward(size, inner, dtype):
    if size[0] * size[2] == 1:
        pytest.skip("PyTorch refuses to train on one value a channel")
    right_and_the_same_again(batch_norm.batch_norm(Images(*size, inner), dtype), LARGEST_ERROR)


@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("inner", [False, True], ids=["nchw", "nhwc"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_backward(size, inner, dtype):
    right_and_the_same_again(batch_norm.batch_norm_bwd(Images(*size, inner), dtype), LARGEST_ERROR)


@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("inner", [False, True], ids=["nchw", "nhwc"])
@pytest.mark.parametrize("make", WITHIN)
@pytest.mark.parametrize("size", [(3, 64, 7), (8, 256, 56), (2, 96, 33), (2, 32, 512)], ids=str)
def test_within_images(size, make, inner, dtype):
    right_and_the_same_again(make(Images(*size, inner), dtype), LARGEST_ERROR)


@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("shape", SOFTMAX, ids=str)
def test_softmax_over_the_outer_dimension(shape, dtype):
    right_and_the_same_again(batch_norm.outer_softmax(*shape, dtype), LARGEST_ERROR)


@pytest.mark.parametrize("inner", [False, True], ids=["nchw", "nhwc"])
def test_batches_change(inner):
    call = warpsmith.fuse(batch_norm.batch_norm(Images(8, 128, 14, inner), "bfloat16").fused)
    for batch in (1, 7, 8, 40, 300):
        problem = batch_norm.batch_norm(Images(batch, 128, 14, inner), "bfloat16")
        inputs = problem.draw()
        exact = outputs_of(problem.eager(*(x.double() for x in inputs)))
        for got, want in zip(outputs_of(call(*inputs)), exact, strict=True):
            assert relative_error(got, want) < LARGEST_ERROR["bfloat16"]
