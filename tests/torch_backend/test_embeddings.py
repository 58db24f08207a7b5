"""Gradients of embeddings in a graph of AOTAutograd's."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tests.torch_backend.graphs import compiled
from warpsmith import knobs
from warpsmith.errors import ArgumentError
from warpsmith.nn import embeddings
from warpsmith.nn.embeddings import ADDED, BY_EACH, PLACES, SUMMED, SUMS_AT
from warpsmith.torch_backend import rows_added
from warpsmith.torch_backend.decompositions import decompositions
from warpsmith.torch_backend.embeddings import join_embeddings, sort_once, sum_embeddings
from warpsmith.torch_backend.graph import compile_graph
from warpsmith.torch_backend.saved import fill_again, forward_of


@pytest.mark.parametrize(
    ("device", "by_frequency", "ours"),
    [("cuda", False, True), ("cuda", True, False), ("cpu", False, False)],
)
def test_those_on_a_gpu_are_summed_by_ours(device: str, by_frequency: bool, ours: bool) -> None:
    def program(dy: Tensor, words: Tensor) -> Tensor:
        return torch.ops.aten.embedding_dense_backward(dy, words, 8, 3, by_frequency) + 1

    with FakeTensorMode():
        dy = torch.empty(2, 6, 4, dtype=torch.bfloat16, device=device)
        words = torch.empty(2, 6, dtype=torch.int64, device=device)
        module = make_fx(program)(dy, words)
    sum_embeddings(module.graph)
    module.graph.lint()
    kinds = SUMMED, torch.ops.aten.embedding_dense_backward.default
    (node,) = (n for n in module.graph.nodes if n.target in kinds)
    assert (node.target is SUMMED) == ours
    assert node.args[2:4] == (8, 3)
    made = node.meta["val"]
    assert (made.shape, made.dtype, made.device.type) == ((8, 4), torch.bfloat16, device)
    assert len(node.users) == 1


def tied(dy: Tensor, words: Tensor, slopes: Tensor, rows: Tensor) -> list[Tensor]:
    """The gradient of weights that words choose, and that logits are made of."""
    total = torch.ops.aten.embedding_dense_backward(dy, words, 8, 3, False)
    return [(slopes.t() @ rows).t().t() + total]


def beside(dy: Tensor, words: Tensor, slopes: Tensor, rows: Tensor) -> list[Tensor]:
    product = slopes.t() @ rows
    total = torch.ops.aten.embedding_dense_backward(dy, words, 8, 3, False)
    return [product + total, product]


def scaled(dy: Tensor, words: Tensor, slopes: Tensor, rows: Tensor) -> list[Tensor]:
    total = torch.ops.aten.embedding_dense_backward(dy, words, 8, 3, False)
    return [torch.add(slopes.t() @ rows, total, alpha=2)]


@pytest.mark.parametrize(("program", "added"), [(tied, True), (beside, False), (scaled, False)])
def test_sums_are_added_to_a_product_that_nothing_else_reads(program: Any, added: bool) -> None:
    with FakeTensorMode():
        empty = partial(torch.empty, dtype=torch.bfloat16, device="cuda")
        words = torch.empty(2, 6, dtype=torch.int64, device="cuda")
        module = make_fx(program)(empty(2, 6, 4), words, empty(12, 8), empty(12, 4))
    sum_embeddings(module.graph)
    module.graph.lint()
    targets = [node.target for node in module.graph.nodes]
    assert (ADDED in targets, SUMMED in targets) == (added, not added)
    (made, *_) = module.graph.find_nodes(op="output")[0].args[0]
    assert (made.meta["val"].shape, made.meta["val"].dtype) == ((8, 4), torch.bfloat16)


@pytest.mark.parametrize("alone", [True, False])
def test_they_are_added_in_place_where_the_product_is_theirs(
    monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    def program(dy: Tensor, words: Tensor, slopes: Tensor, rows: Tensor) -> list[Tensor]:
        product = slopes.t() @ rows
        total = ADDED(product.t().t(), dy, words, 3)
        return [total] if alone else [total, product]

    draw = torch.Generator().manual_seed(0)
    words = torch.randint(8, (2, 6), generator=draw)
    given = [torch.randn(*s, generator=draw) for s in ((2, 6, 4), (12, 8), (12, 4))]
    given.insert(1, words)
    expected = program(*given)
    made = compiled(program, *given)
    copies = []
    monkeypatch.setattr(embeddings, "_with_sums", None)
    monkeypatch.setattr(Tensor, "clone", lambda x: copies.append(x) or torch.add(x, 0))
    found = made.run(list(given))
    assert bool(copies) == (not alone)
    torch.testing.assert_close(list(found), expected)


def gradient(dy: Tensor, words: Tensor, rows: int, padding: int = -1) -> Tensor:
    return torch.ops.aten.embedding_dense_backward(dy, words, rows, padding, False)


def several(dx: Tensor, dy: Tensor, dz: Tensor, i: Tensor, j: Tensor) -> list[Tensor]:
    return [gradient(dx, i, 5), gradient(dy, i, 40, 3), gradient(dz.transpose(0, 1), j, 9) * 2]


def used_between(dx: Tensor, dy: Tensor, dz: Tensor, i: Tensor, j: Tensor) -> list[Tensor]:
    first = gradient(dx, i, 12)
    return [first, gradient(dy + first, i, 40), gradient(dz.transpose(0, 1), j, 5)]


def of_other_kinds(dx: Tensor, dy: Tensor, dz: Tensor, i: Tensor, j: Tensor) -> list[Tensor]:
    others = gradient(dy.double(), i, 40), gradient(dz.transpose(0, 1)[..., :2], j, 5)
    return [gradient(dx, i, 5), *others]


@pytest.mark.parametrize(
    ("program", "count"), [(several, 1), (used_between, 2), (of_other_kinds, 3)]
)
def test_gradients_of_several_are_one(
    monkeypatch: pytest.MonkeyPatch, program: Any, count: int
) -> None:
    monkeypatch.setattr("warpsmith.torch_backend.embeddings._is_ours", lambda node: True)
    draw = torch.Generator().manual_seed(0)
    given = [torch.randn(*s, 4, generator=draw) for s in ((12,), (12,), (3, 2))]
    given += [torch.randint(5, s, generator=draw) for s in ((12,), (2, 3))]
    module = make_fx(program, tracing_mode="fake")(*given)
    expected = module(*given)
    join_embeddings(module.graph)
    module.graph.lint()
    module.recompile()
    target = torch.ops.aten.embedding_dense_backward.default
    assert len(module.graph.find_nodes(op="call_function", target=target)) == count
    torch.testing.assert_close(module(*given), expected)


def test_words_of_no_row_are_in_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(dy: Tensor, words: Tensor) -> list[Tensor]:
        return [gradient(dy, words, 3), gradient(dy, words, 5), gradient(dy, words, 16)]

    monkeypatch.setattr("warpsmith.torch_backend.embeddings._is_ours", lambda node: True)
    dy, words = torch.ones(6, 4), torch.tensor([-1, 0, 3, 4, 15, -16])
    module = make_fx(program, tracing_mode="fake")(dy, words)
    join_embeddings(module.graph)
    module.recompile()
    inside = [{0}, {0, 3, 4}, {0, 3, 4, 15}]
    for found, words_of in zip(module(dy, words), inside, strict=True):
        assert set(found.sum(1).nonzero().flatten().tolist()) == words_of


def test_words_of_several_gradients_are_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(dy: Tensor, dz: Tensor, i: Tensor, j: Tensor) -> list[Tensor]:
        return [gradient(dy, i, 40, 3), gradient(dz, i, 40, 3), gradient(dz, j, 40, 3)]

    monkeypatch.setattr("warpsmith.torch_backend.embeddings._is_ours", lambda node: True)
    draw = torch.Generator().manual_seed(0)
    given = [torch.randn(*s, generator=draw) for s in ((12, 4), (12, 2))]
    given += [torch.randint(40, (12,), generator=draw) for _ in range(2)]
    for few, rows in ((2, [1, 2, 1]), (12, [0, 0, 3])):
        monkeypatch.setattr(embeddings, "FEW", few)
        module = make_fx(program, tracing_mode="fake")(*given)
        expected = module(*given)
        sum_embeddings(module.graph)
        module.graph.lint()
        module.recompile()
        targets = [node.target for node in module.graph.nodes]
        assert [targets.count(each) for each in (PLACES, SUMS_AT, SUMMED)] == rows
        with knobs.scope(device="reference"):
            torch.testing.assert_close(module(*given), expected)


def test_backward_sums_where_forward_found_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(x: Tensor, y: Tensor, at: Tensor, early: Tensor) -> list[Tensor]:
        zeros = torch.zeros(9, 4)
        total = zeros.index_add(0, at, x)
        later = [zeros.index_put((i,), y, accumulate=True) for i in (at, early)]
        return [total, *later]

    monkeypatch.setattr("warpsmith.torch_backend.embeddings._is_ours", lambda node: True)
    monkeypatch.setattr(rows_added, "_DEVICE", "cpu")
    monkeypatch.setattr(rows_added, "few_ask", lambda *sizes: False)
    for module_of_few in (rows_added, embeddings):
        monkeypatch.setattr(module_of_few, "FEW", 2)
    draw = torch.Generator().manual_seed(0)
    given = [torch.randn(12, 4, generator=draw) for _ in range(2)]
    given += [torch.randint(9, (12,), generator=draw) for _ in range(2)]
    module = make_fx(both, dict(decompositions()), tracing_mode="fake")(*given)
    expected = module(*given)
    fill_again(module.graph, 1)
    filled = module.graph.find_nodes(op="call_function", target=torch.ops.aten.full.default)
    assert len(filled) == 2
    rows_added.add_rows_in_order(module.graph)
    sort_once(module.graph, forward_of(module.graph, 1))
    sum_embeddings(module.graph)
    module.graph.lint()
    module.recompile()
    targets = [node.target for node in module.graph.nodes]
    assert [targets.count(each) for each in (PLACES, SUMS_AT, SUMMED)] == [1, 2, 1]
    with knobs.scope(device="reference"):
        torch.testing.assert_close(module(*given), expected)


@pytest.mark.parametrize("rows", [3, 300])
def test_places_have_the_shapes_that_graphs_are_told(rows: int) -> None:
    words = torch.randint(rows, (70,), generator=torch.Generator().manual_seed(0))
    with knobs.scope(device="reference"):
        made = PLACES(words, rows, -1)
    with FakeTensorMode() as mode:
        told = PLACES(mode.from_tensor(words), rows, -1)
    assert [(each.shape, each.dtype) for each in made] == [(e.shape, e.dtype) for e in told]


def added(base: Tensor, at: Tensor, rows: Tensor) -> list[Tensor]:
    return [
        torch.zeros(9, 4).index_put((at,), rows, accumulate=True),
        torch.zeros(9, 2, 2).index_put((at,), rows.view(-1, 2, 2) * 2, accumulate=True),
        torch.zeros_like(base).index_add(0, at % 9, rows),
        torch.zeros(9).index_put((at,), rows[:, 0], accumulate=True),
        torch.zeros(9, 4).index_put(
            (at.view(3, 4),), rows.view(4, 3, 4).transpose(0, 1), accumulate=True
        ),
    ]


def left(base: Tensor, at: Tensor, rows: Tensor) -> list[Tensor]:
    return [
        base.index_put((at,), rows, accumulate=True),
        torch.zeros(9, 4).index_put((at,), rows),
        torch.zeros(9, 4).index_put((at,), rows[0], accumulate=True),
        torch.zeros(9, 12).index_add(1, at % 9, rows.t().repeat(3, 1)[:9]),
        torch.zeros(9, 4).index_add(0, at % 9, rows, alpha=2),
        torch.zeros(9).index_put((at,), rows[:, 0]),
    ]


@pytest.mark.parametrize("by_each", [False, True])
@pytest.mark.parametrize(("program", "count"), [(added, 5), (left, 0)])
def test_rows_that_are_added_in_zeros_are_gradients_of_embeddings(
    monkeypatch: pytest.MonkeyPatch, program: Any, count: int, by_each: bool
) -> None:
    monkeypatch.setattr(rows_added, "FEW", 11)
    monkeypatch.setattr(rows_added, "few_ask", lambda *sizes: by_each)
    monkeypatch.setattr(rows_added, "_DEVICE", "cpu")
    draw = torch.Generator().manual_seed(0)
    at = torch.randint(-9, 9, (12,), generator=draw)
    given = torch.randn(9, 4, generator=draw), at, torch.randn(12, 4, generator=draw)
    module = make_fx(program, dict(decompositions()), tracing_mode="fake")(*given)
    expected = module(*given)
    rows_added.add_rows_in_order(module.graph)
    module.graph.lint()
    module.recompile()
    target = BY_EACH if by_each else torch.ops.aten.embedding_dense_backward.default
    assert len(module.graph.find_nodes(op="call_function", target=target)) == count
    with knobs.scope(device="reference"):
        torch.testing.assert_close(module(*given), expected)


@pytest.mark.parametrize(("few", "padding"), [(5, -1), (5, 3), (40, -1)])
def test_rows_ask_each_word(few: int, padding: int) -> None:
    draw = torch.Generator().manual_seed(few)
    words, dy = torch.randint(-9, 9, (few,), generator=draw), torch.randn(few, 6, generator=draw)
    expected = torch.zeros(9, 6).index_put((words,), dy, accumulate=True)
    if padding >= 0:
        expected[padding] = 0
    with knobs.scope(device="sim"):
        torch.testing.assert_close(BY_EACH(dy, words, 9, padding), expected)
        narrow = BY_EACH(dy.bfloat16(), words, 9, padding)
    torch.testing.assert_close(narrow.float(), expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("place", [9, -1, -10])
def test_places_of_no_row_are_errors(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    def summed(rows: Tensor, at: Tensor) -> list[Tensor]:
        return [torch.zeros(9, 4).index_add(0, at, rows)]

    monkeypatch.setattr(rows_added, "FEW", 2)
    monkeypatch.setattr(rows_added, "few_ask", lambda *sizes: False)
    monkeypatch.setattr(rows_added, "_DEVICE", "cpu")
    given = torch.ones(3, 4), torch.tensor([0, place, 1])
    module = make_fx(summed, dict(decompositions()), tracing_mode="fake")(*given)
    rows_added.add_rows_in_order(module.graph)
    chosen = knobs.current().replace(device="reference")
    made = compile_graph(module, chosen, precision="exact", products=True)
    with pytest.raises(ArgumentError, match="WS0319"):
        made.run(list(given))
