"""Products of groups, and with scales, by nvFuser's names."""

import pytest
import torch

from warpsmith import knobs
from warpsmith.frontends.nvfuser_direct import DataType, FusionDefinition


def test_products_of_groups_and_scales() -> None:
    a, b = torch.randn(5, 4), torch.randn(2, 4, 3)
    ends = torch.tensor([2, 5], dtype=torch.int32)
    narrow = torch.randn(4, 3).to(torch.float8_e4m3fn)
    with FusionDefinition() as fd:
        ta, tb, te, tn = map(fd.from_pytorch, (a, b, ends, narrow))
        fd.add_output(fd.ops.grouped_mm(ta, tb, te))
        eight = fd.ops.cast(ta, DataType.Float8_e4m3fn)
        fd.add_output(fd.ops.scaled_mm(eight, tn, 2.0, 0.5, alpha=3.0, dtype=DataType.Float))
    grouped, scaled = fd.execute([a, b, ends, narrow])
    torch.testing.assert_close(grouped, torch.cat([a[:2] @ b[0], a[2:] @ b[1]]))
    torch.testing.assert_close(scaled, 3 * a.to(torch.float8_e4m3fn).float() @ narrow.float())


def test_products_of_groups_of_columns_and_of_what_is_summed() -> None:
    """The last column, and the last term, belong to no group."""
    a, b, c = torch.randn(2, 3, 6), torch.randn(6, 6), torch.randn(3, 6)
    ends = torch.tensor([2, 5], dtype=torch.int32)
    with FusionDefinition() as fd:
        ta, tb, tc, te = map(fd.from_pytorch, (a, b, c, ends))
        fd.add_output(fd.ops.grouped_mm(ta, tb, te))
        fd.add_output(fd.ops.grouped_mm(tc, tb, te))
        with pytest.raises(NotImplementedError, match="3 and 3 dimensions"):
            fd.ops.grouped_mm(ta, ta, te)
    with knobs.scope(device="reference"):
        columns, summed = fd.execute([a, b, c, ends])
    wanted = torch.cat([a[0] @ b[:, :2], a[1] @ b[:, 2:5], torch.zeros(3, 1)], 1)
    torch.testing.assert_close(columns, wanted)
    torch.testing.assert_close(summed, torch.stack([c[:, :2] @ b[:2], c[:, 2:5] @ b[2:5]]))


@pytest.mark.parametrize("ranks", [(2, 3), (3, 2), (2, 2)])
def test_scales_of_groups(ranks: tuple[int, int]) -> None:
    left, right = ((2,) if rank == 3 else () for rank in ranks)
    both = (2,) if ranks == (2, 2) else ()
    a, b = torch.randn(*left, 6, 6), torch.randn(*right, 6, 6)
    over, across = torch.rand(*(left or both), 6, 1), torch.rand(*(right or both), 1, 6)
    a, b = (each.to(torch.float8_e4m3fn) for each in (a, b))
    ends = torch.tensor([2, 6], dtype=torch.int32)
    given = [a, b, ends, over, across]
    with FusionDefinition() as fd:
        operands = map(fd.from_pytorch, given)
        fd.add_output(fd.ops.grouped_mm(*operands, None, None, None, DataType.Float))
    with knobs.scope(device="reference"):
        (result,) = fd.execute(given)
    parts, x, y = [], a.float(), b.float()
    for group, part in enumerate((slice(0, 2), slice(2, 6))):
        if ranks == (2, 3):
            parts.append(x[part] @ y[group] * over[part] * across[group])
        elif ranks == (3, 2):
            parts.append(x[group] @ y[:, part] * over[group] * across[:, part])
        else:
            parts.append(x[:, part] @ y[part] * over[group] * across[group])
    wanted = torch.stack(parts) if both else torch.cat(parts, 0 if right else 1)
    torch.testing.assert_close(result, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_fused_matmuls_are_of_16_bits(dtype: torch.dtype) -> None:
    x = torch.ones(8, 8, dtype=dtype)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.matmul(fd.from_pytorch(x), fd.from_pytorch(x)))
    asked = {"_enable_options": ["fuse_matmul"], "_disable_options": ["matmul_expr_eval"]}
    with knobs.scope(device="reference"):
        if dtype is torch.float16:
            torch.testing.assert_close(fd.execute([x, x], **asked)[0], x @ x)
            return
        with pytest.raises(RuntimeError, match="Can not find a scheduler to schedule fusion seg"):
            fd.execute([x, x], **asked)
        fd.execute([x, x])
