"""Products with weights of 8 and 4 bits, of drawn sizes, against sums in double."""

import random

import pytest
import torch

from warpsmith import DataType, fuse, ops

GROUP = 128


@pytest.mark.parametrize("seed", range(24))
def test_weights_are_converted_where_they_are_multiplied(seed: int) -> None:
    source = random.Random(seed)
    kind, grouped = source.choice(("int8", "int4", "float8_e4m3fn")), source.random() < 0.5
    m = source.choice((1, 1, 2, 7, 16, 33, 64, 200, 700))
    n, k = source.randrange(1, 600) * 8, source.randrange(1, 40) * GROUP
    k -= 0 if grouped else source.choice((0, 0, 8, 16, 64))

    def program(x, weight, scale):
        values = ops.unpack_int4(weight) if kind == "int4" else weight
        if grouped:
            scale = ops.repeat_interleave(scale, GROUP, 1)
        return ops.linear(x, ops.cast(ops.cast(values, DataType.Float) * scale, DataType.BFloat16))

    torch.manual_seed(seed)
    x = torch.randn(m, k, device="cuda").bfloat16()
    scale = torch.rand(n, k // GROUP if grouped else 1, device="cuda")
    if kind == "float8_e4m3fn":
        weight = torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn)
    else:
        columns = k // 2 if kind == "int4" else k
        weight = torch.randint(-128, 128, (n, columns), device="cuda").to(torch.int8)
    values = weight
    if kind == "int4":
        values = torch.stack([(weight << 4) >> 4, weight >> 4], -1).view(n, k)
    spread = scale.repeat_interleave(GROUP, 1) if grouped else scale
    wanted = x.double() @ (values.float() * spread).bfloat16().double().T
    made = fuse(program)
    for _ in range(3):
        found = made(x, weight, scale).double()
        assert found.shape == wanted.shape
        error = (found - wanted).abs().max() / wanted.abs().max()
        assert float(error) < 2.0**-7
