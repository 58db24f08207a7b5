"""Of steps of k whose scales come at once the last ones may be behind its end: who loads operands,
and who multiplies them, leaves those out, and nobody else.
"""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.scaled import fusion_of, kernel_of
from warpsmith.errors import ProtocolError
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If, Statement
from warpsmith.kernel.products import Multiply
from warpsmith.kernel.rings import Advance
from warpsmith.kernel.traversal import map_bodies, walk
from warpsmith.lower.passes.beside_products import _Step
from warpsmith.protocol.checks import check_blocks
from warpsmith.targets.hopper import H200


def made(k: int, **params: Any) -> Kernel:
    kernel: Kernel = kernel_of(fusion_of(), k=k, tile=(128, 128, 128), passes=1, stages=3, **params)
    return kernel


def values(k: int) -> dict[str, int]:
    steps = -(-k // 128)
    sizes = {"T0_size0": 512, "T0_size1": k, "T1_size0": 512, "T1_size1": k}
    return sizes | {"T2_size0": 512, "T2_size1": steps, "T3_size0": 4, "T3_size1": steps}


def conditions(kernel: Kernel, agent: str) -> list[If]:
    """What the agent does under a condition on the number of its step of k."""
    (branch,) = (s for s in kernel.body if isinstance(s, Branch) and s.agent.name == agent)
    ifs = [s for s in walk(branch.body) if isinstance(s, If) and s.uniform]
    return [s for s in ifs if any(isinstance(each, Advance) for each in s.body)]


def test_who_comes_by_stages_of_operands_leaves_them_out() -> None:
    kernel = made(1152)
    (load,), (step,) = conditions(kernel, "load"), conditions(kernel, "compute")
    assert "T2_size1" in str(load.condition)
    assert "T2_size1" in str(step.condition)
    assert any(isinstance(s, Multiply) for s in walk(step.body))
    assert not conditions(kernel, "load_scales")
    assert not conditions(made(1024), "load")
    assert not conditions(made(1024), "compute")  # turns of eight divide it


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("steps", [5, 8, 9, 17])
def test_nobody_waits_for_what_is_left_out(steps: int, stream: bool) -> None:
    kernel = made(1152, chunk=64, store_stages=1, stream=stream, whole=1, blocks=5, group=1)
    for block in range(5):
        check_blocks(kernel, values(128 * steps), [(block, 0, 0)], target=H200)


def test_the_proof_refuses_steps_that_one_agent_alone_leaves_out() -> None:
    kernel = made(1152)

    def always(statement: Statement) -> Statement:
        (mine,) = conditions(kernel, "load")
        return map_bodies(
            statement,
            lambda body: tuple(
                inner for s in body for inner in (mine.body if s is mine else (always(s),))
            ),
        )

    body = tuple(
        always(s) if isinstance(s, Branch) and s.agent.name == "load" else s for s in kernel.body
    )
    with pytest.raises(ProtocolError):
        check_blocks(replace(kernel, body=body), values(1152), [(0, 0, 0)], target=H200)


def test_the_proof_refuses_to_wait_for_a_step_that_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_Step, "_next", lambda self, condition: condition)
    with pytest.raises(ProtocolError, match="never ends"):
        check_blocks(made(1152), values(1152), [(0, 0, 0)], target=H200)
