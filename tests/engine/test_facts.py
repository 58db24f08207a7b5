"""What `explain` knows of a call are values, which its text shows."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from tests.support.compiling import compiled, four_layers
from warpsmith import ops
from warpsmith.engine.facts import facts_of, prices_of
from warpsmith.frontends.lowered import Compiled


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = ops.exp(ops.matmul(q, ops.permute(k, [0, 2, 1])))
    return ops.matmul(scores / ops.sum(scores, [2], keepdim=True), v)


def texts(value: object) -> Iterator[str]:
    """All texts in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from texts(each)
    elif is_dataclass(value) and not isinstance(value, type):
        for declared in fields(value):
            yield from texts(getattr(value, declared.name))


@pytest.fixture(scope="module")
def several() -> Compiled:
    return compiled(attention, (4, 256, 64), (4, 256, 64), (4, 256, 64))


def test_every_choice_is_in_the_text(several: Compiled) -> None:
    told = several.explain()
    facts = facts_of(several._call, 12)
    assert len(facts.kernels) == 3
    for kernel in facts.kernels:
        choice = kernel.choice
        assert choice.launch is not None
        chosen = choice.scheduler, choice.refusals, choice.parameters, choice.words
        assert [text for text in texts((*chosen, choice.launch.needs)) if text not in told] == []


def test_bytes_are_those_of_the_tensors(several: Compiled) -> None:
    first, *_ = facts_of(several._call, 12).kernels
    assert [str(each)[3:] for each in first.reads] == ["half[4,256,64]"] * 2
    assert [each.size for each in first.reads] == [4 * 256 * 64 * 2] * 2
    assert [each.size for each in first.writes] == [4 * 256 * 256 * 2]


def test_cuts_are_counted_up_to_a_number(several: Compiled) -> None:
    few, all_ = (facts_of(several._call, most) for most in (1, 12))
    assert (len(few.cuts), few.more_cuts) == (1, True)
    assert (len(all_.cuts), all_.more_cuts) == (2, False)
    assert few.cuts[0] == all_.cuts[0]
    assert all_.cuts[0].tensor in all_.kernels[0].writes


def test_shared_memory_ends_where_the_launch_says(several: Compiled) -> None:
    for kernel in facts_of(several._call, 0).kernels:
        assert kernel.choice.launch is not None
        ends = [start + size for _, start, size in kernel.choice.launch.shared]
        assert 0 <= kernel.choice.launch.shared_bytes - max(ends) < 16


def test_a_kernel_takes_longer_than_its_busiest_resource() -> None:
    large = compiled(attention, (16, 1024, 64), (16, 1024, 64), (16, 1024, 64))
    product, norm, _ = prices_of(large._call)
    assert product is not None
    assert norm is not None
    for price in (product, norm):
        times = [us for _, us in price.bounds]
        assert times == sorted(times, reverse=True)
        assert price.us > times[0] > 0
    assert {name for name, _ in product.bounds} == {"memory", "tensor cores"}
    # 16 x 1024 x 1024 x 64 products and sums, of 989.4e6 a microsecond
    assert dict(product.bounds)["tensor cores"] == pytest.approx(2.170, abs=1e-3)


def test_layers_that_are_alike_are_told_by_their_own_names() -> None:
    call = compiled(four_layers, (128, 128), (128, 128))._call
    assert call.launches[1].compiled is call.launches[2].compiled
    _, one, other, _ = facts_of(call, 0).kernels
    (written,) = other.writes
    (staged,) = (value for name, value in other.choice.parameters if name == "staged")
    assert staged == f"('{written.name}',)"
    assert one.choice.parameters != other.choice.parameters
