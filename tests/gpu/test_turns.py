"""Calls that get their memory launch by launch: the same results, and the planned peak."""

import pytest

from bench.small_models import TINY, loss_of, made
from warpsmith.engine import lives
from warpsmith.engine.executable import Executable
from warpsmith.engine.lives import peak_of, takes_turns
from warpsmith.frontends.fuse import fuse

torch = pytest.importorskip("torch")
backend = pytest.importorskip("warpsmith.torch_backend.backend").backend


@pytest.mark.parametrize("name", ["own_llama", "own_encoder"])
def test_a_training_step_gives_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model, given = made(name, TINY)
    model = model.cuda().bfloat16()
    inputs = {key: value.cuda() for key, value in given.items()}
    found = []
    for large in (lives.LARGE, 0):
        monkeypatch.setattr(lives, "LARGE", large)
        torch._dynamo.reset()
        fast = torch.compile(model, backend=backend)
        for _ in range(3):  # memory is other tensors' in the second step, and the third
            model.zero_grad()
            loss = loss_of(fast(**inputs))
            loss.backward()
        found.append([loss.detach(), *(p.grad.clone() for p in model.parameters())])
    for at_once, in_turns in zip(*found, strict=True):  # torch's attention adds in any order
        assert (at_once - in_turns).float().norm() <= 0.02 * at_once.float().norm() + 1e-6


def test_the_peak_is_what_was_planned() -> None:
    rows = 4096
    given = [torch.randn(rows, rows, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
    chain = fuse(lambda x, a, b, c: ((x @ a) @ b) @ c)
    executable = Executable(chain.lower(*given).fusion)
    run = executable.prepared(given)
    expected = run(given)[0]
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    (result,) = run.consumed(list(given))
    peak = torch.cuda.max_memory_allocated() - before
    assert executable.last_plan is not None
    assert takes_turns(executable.last_plan)
    planned = peak_of(executable.fusion, executable.last_plan)
    assert planned < 3 * given[0].nbytes
    assert planned <= peak <= planned + 4096  # the allocator rounds up
    assert torch.equal(result, expected)
