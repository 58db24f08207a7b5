"""Groups that take turns in the stages of a ring: each stage belongs to one of them."""

import pytest

from tests.support.role_fault_kernels import trap
from warpsmith.errors import ProtocolError
from warpsmith.protocol import check
from warpsmith.targets.hopper import H200


@pytest.mark.parametrize(("groups", "stages"), [(2, 3), (2, 5), (2, 9), (4, 5), (4, 6), (4, 10)])
def test_groups_must_divide_stages(groups: int, stages: int) -> None:
    with pytest.raises(ProtocolError, match=f"use a multiple of {groups}") as caught:
        check(trap(groups, stages, size=20000).kernel, {"size": 20000}, target=H200)
    assert caught.value.roles == ("add", "load")


@pytest.mark.parametrize(("groups", "stages"), [(1, 3), (1, 5), (2, 4), (2, 6), (4, 8), (4, 12)])
def test_groups_that_divide_stages_are_right(groups: int, stages: int) -> None:
    verdict = check(trap(groups, stages, size=20000).kernel, {"size": 20000}, target=H200)
    assert verdict.rings[0].fills == 40
