"""What is computed of heads of a product is an epilogue of its rows and columns: rotations, too."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support.binaries import uncompiled
from tests.torch_backend.graphs import compiled
from warpsmith import knobs
from warpsmith.engine.launches import CallPlan
from warpsmith.errors import PlanWarning, TorchCompileWarning
from warpsmith.schedulers.matmul import heuristic

B, S, H, K = 2, 40, 3, 72
Form = Callable[..., torch.Tensor]


def drawn(*shape: int) -> torch.Tensor:
    """Small whole numbers: sums, and what is made of them, are exact in bfloat16."""
    seed = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-1, 2, shape, generator=seed).bfloat16()


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def halves(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """As models of Hugging Face do."""
    q, cos, sin = q.transpose(1, 2), cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin


def halves_of_pairs(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """One angle for each pair: a table has half as many columns as a head."""
    a, b = q.float().chunk(2, -1)
    cos, sin = (table[:, :, None, : a.shape[-1]].contiguous() for table in (cos, sin))
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(q.dtype)


def neighbours(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = q[..., ::2], q[..., 1::2]
    cos, sin = (table[:, :, None, ::2] for table in (cos, sin))
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def shared(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """One table for all batches."""
    return halves(q, cos[:1], sin[:1])


def scaled(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """No element beside its own is read."""
    return (q * cos[:, :, None]).transpose(1, 2)


def rows_of_heads(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Heads one behind the other are no rows of the product."""
    return halves(q, cos, sin).contiguous()


def other_heads(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Of another head, which a tile need not have."""
    return q * cos[:, :, None] + q.flip(2) * sin[:, :, None]


def planned(form: Form, size: int, *, bias: bool = False) -> tuple[Any, Any, CallPlan, str]:
    """What the simulator gives, and eager mode; the kernels, and the simulator's verdict."""

    def layer(x: Any, w: Any, b: Any, cos: Any, sin: Any) -> list[torch.Tensor]:
        flat = torch.nn.functional.linear(x, w, b if bias else None)
        return [form(flat.view(*x.shape[:2], -1, size), cos, sin)]

    shapes = (B, S, K), (H * size, K), (H * size,), (B, S, size), (B, S, size)
    given = [drawn(*shape) for shape in shapes]
    graph = compiled(layer, *given, device="sim")
    (program,) = graph.programs
    values: list[Any] = []
    run = program.executable_for

    def noted(asked: Any) -> Any:
        values[:] = asked
        return run(asked)

    program.executable_for = noted
    (found,) = graph.run(list(given))
    with knobs.scope(device="sim"):
        executable = run(values)
        call, told = executable.plan_for(values), executable.verify(values, schedules=2)
    return found, layer(*given)[0], call, told.verdict


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("form", "size"),
    [
        (halves, 64),
        (halves_of_pairs, 32),
        (neighbours, 16),
        (scaled, 24),
        (halves, 48),
        (shared, 64),
        (halves_of_pairs, 128),
        (neighbours, 64),
    ],
)
def test_heads_are_turned_by_the_kernel_of_their_product(form: Form, size: int) -> None:
    found, wanted, call, verdict = planned(form, size, bias=size == 48)
    assert [launch.compiled.name.split("_")[0] for launch in call.launches] == ["matmul"]
    assert not call.temporaries  # the result is written in their place
    assert verdict == "clean"
    assert found.stride() == wanted.stride()
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@pytest.mark.parametrize(("form", "size"), [(rows_of_heads, 16), (other_heads, 16), (halves, 80)])
def test_what_lies_otherwise_has_a_kernel_of_its_own(form: Form, size: int) -> None:
    """As what needs larger tables than a thread holds beside its sums."""
    found, wanted, call, verdict = planned(form, size)
    assert len(call.launches) == 2
    assert verdict == "clean"
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_a_tile_without_whole_heads_makes_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who chose it is told, and the part is planned without tensor cores."""
    monkeypatch.setattr(heuristic, "columns_in_groups", lambda _: 1)
    with pytest.warns(PlanWarning, match="WS1038"):
        found, wanted, *_ = planned(halves, 64)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_few_rows_have_a_kernel_behind_their_product() -> None:
    """Tiles of few rows have these as columns, where a thread has no two of one head."""
    x, w, table = (torch.zeros(*s).bfloat16() for s in ((8, 4096), (4096, 4096), (8, 1, 128)))

    def layer(x: Any, w: Any, table: Any) -> list[torch.Tensor]:
        q = (x @ w.t()).view(-1, 1, 32, 128)
        return [q * table[:, None] + rotate_half(q) * table[:, None]]

    graph = compiled(layer, x, w, table, device="sim")
    (program,) = graph.programs
    plan = program.executable_for
    plans: list[CallPlan] = []

    def planned_only(given: Any) -> Any:
        plans.append(plan(given).plan_for(given))
        raise LookupError

    program.executable_for = planned_only
    with uncompiled(), knobs.scope(target="h200"), pytest.warns(TorchCompileWarning):
        graph.run([x, w, table])
    (call,) = plans
    assert [each.candidate.scheduler for each in call.segments] == ["matmul", "pointwise"]
    assert not call.segments[1].segment.views
