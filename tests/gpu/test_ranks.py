"""Two GPUs: losses of 20 steps are those of one, whatever is spread and through whichever door."""

import numpy as np
import pytest

from tests.support.ranks import trained

torch = pytest.importorskip("torch")

WAYS = [f"{kind}-{door}" for kind in ("ddp", "fsdp", "tensor") for door in ("compiled", "modules")]


def test_losses_of_two_gpus_are_those_of_one() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    found = trained(20, *WAYS)
    assert set(found) == {"eager", *WAYS}
    want = found["eager"].losses
    assert want[0] - want[-1] > 0.1
    for way, each in found.items():
        assert each.device == "cuda"
        np.testing.assert_allclose(each.losses, want, rtol=1e-5, err_msg=way)
