"""What one process compiled another finds on disk; whatever that is, results are right."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
from torch import Tensor, nn
from torch._dynamo import compiled_autograd
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import warpsmith
from tests.torch_backend.graphs import compiled
from warpsmith import knobs
from warpsmith.torch_backend import compilers, kept
from warpsmith.torch_backend.backend import backend
from warpsmith.torch_backend.cuda_graphs import Recording
from warpsmith.torch_backend.program import Program
from warpsmith.torch_backend.stored import NotStored, read, written

pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.filterwarnings("ignore:The .grad attribute"),  # torch looks at it itself
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where torch keeps its entries; nothing is there, and all is kept."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    with knobs.scope(keep_emitted=True):
        yield tmp_path


def entries(folder: Path) -> list[Path]:
    return sorted(each for each in (folder / "aotautograd").rglob("*") if each.is_file())


class Gated(nn.Module):  # type: ignore[misc]  # torch is not analysed
    """A norm with running statistics, a product and a gate: a loss, and what it is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.both = nn.BatchNorm1d(8), nn.Linear(8, 12, bias=False)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.steps += 1
        a, b = self.both(self.norm(x)).chunk(2, -1)
        hidden = nn.functional.silu(a) * b + torch.tensor(0.5)
        return hidden.square().mean(), hidden, hidden.exp()


def trained(run: Any, model: nn.Module, rows: int, chosen: tuple[int, ...] = (0,)) -> list[Tensor]:
    """Results, gradients and buffers of one call."""
    model.zero_grad()
    x = torch.linspace(-1, 1, rows * 8).view(rows, 8).requires_grad_()
    results = run(x)
    sum(results[k].sum() for k in chosen).backward()
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in (x, *model.parameters())]
    return [t.detach().clone() for t in (*results, *grads, *model.buffers())]


def fresh_run(**how: Any) -> tuple[Gated, Any]:
    """A model of the same weights each time, as a process that begins has it."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Gated()
    return model, torch.compile(model, backend=backend, **how)


def starts(model: nn.Module) -> list[bool]:
    return [graph.from_disk for graph in warpsmith.report(model).graphs]


def in_another_process() -> None:
    """Trains, and prints what it compiled itself, and what it found."""

    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("it was traced or divided again")

    for name in ("partition", "compile_graph"):
        setattr(compilers, name, never)
    with knobs.scope(keep_emitted=True):
        model, run = fresh_run()
        found = trained(run, model, 6)
    print(json.dumps([starts(model), [each.tolist() for each in found]]))


def test_another_process_traces_and_divides_nothing(folder: Path) -> None:
    model, run = fresh_run()
    trained(run, model, 6)
    assert len(entries(folder)) == 1
    assert starts(model) == [False, False]
    name = in_another_process.__name__
    text = f"from tests.torch_backend import test_kept; test_kept.{name}()"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        check=True,
    )
    found, mine = json.loads(done.stdout.splitlines()[-1])
    assert found == [True, True]
    eager = Gated()
    eager.load_state_dict({**fresh_run()[0].state_dict()})
    for theirs, wanted in zip(mine, trained(eager, eager, 6), strict=True):
        torch.testing.assert_close(torch.tensor(theirs), wanted)


@pytest.mark.parametrize("dynamic", [None, True])
def test_what_is_found_is_right_at_all_sizes_and_of_all_results(
    folder: Path, dynamic: bool | None
) -> None:
    cases = ((6, (0,)), (6, (0, 1)), (6, (1, 2)), (9, (0,)), (5, (0, 2)))
    for times in range(2):
        model, run = fresh_run(dynamic=dynamic)
        eager, _ = fresh_run()
        for rows, chosen in cases:
            found, wanted = (
                trained(*each, rows, chosen) for each in ((run, model), (eager, eager))
            )
            torch.testing.assert_close(found, wanted)
        assert set(starts(model)) == {bool(times)}


def test_compiled_autograd_makes_zeros_in_what_is_found(folder: Path) -> None:
    found = []
    for _ in range(2):
        model, run = fresh_run()
        loss = run(torch.linspace(-1, 1, 48).view(6, 8))[0]
        with compiled_autograd._enable(torch.compile(backend="eager")):
            loss.backward()
        found.append([p.grad.clone() for p in model.parameters()])
    eager, _ = fresh_run()
    eager(torch.linspace(-1, 1, 48).view(6, 8))[0].backward()
    for each in found:
        torch.testing.assert_close(each, [p.grad for p in eager.parameters()])


def test_graphs_without_gradients_are_kept(folder: Path) -> None:
    for times in range(2):
        model, run = fresh_run(fullgraph=True)
        with torch.no_grad():
            torch.testing.assert_close(run(torch.ones(6, 8)), fresh_run()[0](torch.ones(6, 8)))
        assert starts(model) == [bool(times)]
    assert "taken outside attention), from disk" in str(warpsmith.report(model))


def test_another_setting_is_another_graph(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(**how: Any) -> bool:
        model, run = fresh_run(**how)
        trained(run, model, 6)
        return all(starts(model))

    assert [found(), found()] == [False, True]
    assert not found(options={"products": False})
    assert not found(options={"rings": "never"})
    monkeypatch.setattr(kept, "files", lambda: "another version")
    assert not found()


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_entry_is_compiled_again(folder: Path, damage: str) -> None:
    model, run = fresh_run()
    wanted = trained(run, model, 6)
    (path,) = entries(folder)
    content = path.read_bytes()
    place = content.index(b"def run(args)")
    path.write_bytes(
        {
            "cut": content[: len(content) // 2],
            "changed": content[:place] + b"DEF" + content[place + 3 :],
        }[damage]
    )
    for times in range(2):
        model, run = fresh_run()
        torch.testing.assert_close(trained(run, model, 6), wanted)
        assert set(starts(model)) == {bool(times)}


def test_nothing_is_kept_unless_asked(folder: Path) -> None:
    with knobs.scope(keep_emitted=False):
        model, run = fresh_run()
        trained(run, model, 6)
    assert not entries(folder)
    assert "disk" not in str(warpsmith.report(model))


@torch.library.custom_op("warpsmith_tests::doubled", mutates_args=())  # type: ignore[untyped-decorator]
def doubled(x: Tensor) -> Tensor:
    return x * 2


doubled.register_fake(torch.empty_like)


def test_the_report_says_what_cannot_be_kept(folder: Path) -> None:
    class Model(nn.Module):  # type: ignore[misc]  # torch is not analysed
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return torch.exp(doubled(self.inner(x)))

    model, x = Model(), torch.ones(3, 8)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend=backend)(x), model(x))
    text = str(warpsmith.report(model))
    assert "not kept on disk: warpsmith_tests.doubled" in text
    assert not entries(folder)


def sized(x: Tensor, y: Tensor) -> list[Tensor]:
    rows = x.shape[0]
    scaled = (x * rows).view(-1, 2, x.shape[1]) + torch.arange(x.shape[1])
    return [scaled.sum(0), torch.softmax(y, -1).to(torch.bfloat16)]


def test_regions_are_read_as_they_were_written() -> None:
    made = compiled(sized, torch.randn(6, 5), torch.randn(3, 7))
    programs = [each for each in made.programs if each is not None]
    again: tuple[Any, list[Program]] = read(written((made.source, programs)), knobs.current())
    assert [p.recipe.key() for p in again[1]] == [p.recipe.key() for p in programs]
    assert again[0].text == made.source.text
    given = torch.randn(6, 5), torch.randn(3, 7)
    torch.testing.assert_close(again[0].function()(list(given)), made.run(list(given)))


def test_what_may_change_is_not_written() -> None:
    for value in (lambda: 0, compiled, nn.Linear(1, 1), nn.Parameter(torch.zeros(1))):
        with pytest.raises(NotStored):
            written(value)


def test_what_calls_are_recorded_by_is_kept() -> None:
    """Sizes that are symbols are numbers in calls: each is a recording of its own."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with mode:
        x = torch.empty(4, device="cuda")
    symbol = sympy.Symbol("s0", integer=True, positive=True)
    size = torch.SymInt(SymNode(symbol, mode.shape_env, int, 4))
    graph = Graph()
    nodes = [graph.placeholder("s"), graph.placeholder("x")]
    nodes.append(graph.call_function(torch.ops.aten.sin.default, (nodes[1],)))
    graph.output((nodes[2],))
    for node, value in zip(nodes, (size, x, x), strict=True):
        node.meta["val"] = value
    made = Recording.of(GraphModule(nn.Module(), graph), [size, x], "inference")
    assert (made.device, made.numbers) == (0, (True, False))
    assert read(written(made), knobs.current()) == made
