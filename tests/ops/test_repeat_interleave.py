"""Elements of a dimension repeated in a row: values, sizes that fit and that do not, refusals."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.support.rebuilding import rebuilt
from warpsmith import FusionDefinition, fuse, knobs, ops
from warpsmith.errors import ArgumentError, DefinitionError


@pytest.mark.parametrize("device", ["sim", "reference"])
@pytest.mark.parametrize(("repeats", "dim", "size"), [(3, 1, 10), (3, 1, 12), (2, 0, 9), (1, 0, 5)])
def test_as_torch_has_it_and_cut_where_the_size_says(
    repeats: int, dim: int, size: int, device: str
) -> None:
    x = torch.randn(5, 4)
    given = fuse(lambda x: ops.repeat_interleave(x, repeats, dim, output_size=size) * 2)
    with knobs.scope(device=device):
        got = given(x)
    whole = x.repeat_interleave(repeats, dim)
    assert torch.equal(got, 2 * whole.narrow(dim, 0, size))


def test_of_what_is_computed_transposed_and_summed() -> None:
    """What is repeated is read from memory, so a kernel before stores it."""

    def program(x: Any) -> Any:
        made = ops.repeat_interleave(ops.transpose(ops.exp(x)), 3, 0)
        return ops.sum(ops.repeat_interleave(made, 2, 1), [1])

    x = torch.randn(7, 6)
    with knobs.scope(device="sim"):
        got = fuse(program)(x)
    wanted = x.exp().T.repeat_interleave(3, 0).repeat_interleave(2, 1).sum(1)
    torch.testing.assert_close(got, wanted)


def test_its_text_defines_it_again() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        turned = fd.ops.permute(x, [1, 0])
        once = fd.ops.repeat_interleave(turned, 3, 0, output_size=8)
        fd.add_output(fd.ops.repeat_interleave(once, 2, 1))
    again = rebuilt(str(fd))
    given = np.arange(12, dtype=np.float32).reshape(4, 3)
    with knobs.scope(device="reference"):
        (first,), (second,) = fd.execute([given]), again.execute([given])
    wanted = given.T.repeat(3, 0)[:8].repeat(2, 1)
    np.testing.assert_array_equal(first, wanted)
    np.testing.assert_array_equal(second, wanted)


def test_refusals() -> None:
    x = torch.randn(5, 4)
    with pytest.raises(DefinitionError, match="WS0162.*repeats 0.*1 or more"):
        fuse(lambda x: ops.repeat_interleave(x, 0, 1))(x)
    with FusionDefinition() as fd:
        known = fd.define_tensor([5, 4], True)
        with pytest.raises(DefinitionError, match="WS0162.*output_size 9.*needs 3.*has 4"):
            fd.ops.repeat_interleave(known, 3, 1, output_size=9)
        fd.add_output(known)
    with pytest.raises(ArgumentError, match=r"WS0312.*is 4.*repeat_interleave"):
        fuse(lambda x: ops.repeat_interleave(x, 3, 1, output_size=9))(x)
