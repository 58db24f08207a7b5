"""Kernels with roles that faults are made of, and how they are changed."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from tests.protocol.edits import edited, instead, without
from tests.support.lowering import lowered
from tests.support.ring_loads import Kind
from tests.support.role_cases import case_named
from tests.support.role_faults import Made
from tests.support.role_feeds import Feed
from tests.support.role_kernels import (
    RoleCase,
    along,
    chained,
    copied_by_threads,
    storing,
    streaming,
    taking_turns,
    turns,
)
from tests.support.role_parts import (
    channel,
    each_element,
    element,
    kernel_of,
    loader,
    memory,
    single,
)
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement, Store

Change = Callable[[Kernel], Kernel]


def of(case: RoleCase) -> Made:
    return lambda: (case.kernel, case.values)


def scheduled(name: str, kind: Kind, stages: int, extent: int) -> Made:
    """A schedule of `role_cases`, lowered, with the sizes of its inputs."""

    def make() -> tuple[Kernel, Mapping[str, int]]:
        case = case_named(name)
        fusion = case.schedule(Feed(kind, stages)).fusion
        values = {}
        for tensor, shape in zip(fusion.input_tensors, case.shapes(extent), strict=True):
            step = 1
            for place in reversed(range(len(shape))):
                values[f"{tensor.name}_size{place}"] = shape[place]
                values[f"{tensor.name}_stride{place}"] = step
                step *= shape[place]
        return lowered(fusion), values

    return make


def but(make: Made, *changes: Change) -> Made:
    """A kernel with changes made to it, one after the other."""

    def changed() -> tuple[Kernel, Mapping[str, int]]:
        kernel, values = make()
        for change in changes:
            kernel = change(kernel)
        return kernel, values

    return changed


ADDING = of(streaming())
"""`load_x` and `load_y` load, `add` adds."""

WITH_REGISTERS = of(streaming(registers=(40, 232)))

DOUBLING = of(chained())
"""`load` fills ring0, `double` ring1, which `add` uses."""

STORING = of(storing())
"""`load` fills ring0, `double` ring1, which `store` drains."""

TURNS = of(turns())
"""Two groups of `add` take turns, in stages of their own."""

COPIED = of(copied_by_threads(how=LoadStoreOpType.cp_async))
"""The threads of `load` copy, `double` doubles."""

UNEQUAL = scheduled("unequal_work", Kind.tma, 3, 2000)
"""Three blocks walk 16 tiles by the grid's strides; `load_a`, `load_b` and `compute` skip some."""

CHAIN = scheduled("transform_and_store", Kind.tma, 2, 5)
"""`load` fills ring0, `transform_0` ring2, `compute` ring1, which `store` drains."""

PING_PONG = scheduled("ping_pong_2_groups", Kind.tma, 3, 500)
"""Two groups take turns, in order, in three stages that belong to neither."""

SUMS = scheduled("sums_by_2_groups", Kind.bulk, 4, 40)
"""Two groups take turns in four stages, and add up a row each, for which their threads meet."""


def each(
    kind: type[Statement],
    new: Callable[..., Statement | tuple[Statement, ...]],
    role: str | None = None,
    **at: object,
) -> Change:
    """Something else for each statement of a kind, of one role or of all."""
    return partial(edited, change=instead(kind, new, **at), role=role)


def omitting(kind: type[Statement], role: str | None = None, **at: object) -> Change:
    return partial(edited, change=without(kind, **at), role=role)


def every(change: Callable[[Statement], tuple[Statement, ...]], role: str | None = None) -> Change:
    return partial(edited, change=change, role=role)


def moved(
    kind: type[Statement], ring: int, name: str, role: str | None = None, **at: object
) -> Change:
    """Statements of a kind are at barrier `full` or `empty` of another ring."""

    def change(kernel: Kernel) -> Kernel:
        barrier = getattr(kernel.pipelines[ring], name)
        return edited(kernel, instead(kind, partial(replace, barrier=barrier), **at), role)

    return change


def trap(groups: int, stages: int, *, size: int = 6000) -> RoleCase:
    """Groups take turns in so many stages; stages belong to no group unless groups divide them."""
    load = single("load", 0)
    adding = Agent("add", 4, along(128, groups), groups_along=ParallelType.block_y)
    x, z = memory("T0"), memory("T1", written=True)
    ring = channel("ring0", 256, stages, load, adding)

    def used(step: Expr) -> tuple[Statement, ...]:
        def work(index: Expr, place: Expr) -> Statement:
            return Store(z, place, element(ring, index))

        return ring.used(each_element(adding, 256, work, step))

    branches = (loader(load, ring, x), Branch(adding, taking_turns(adding, ring, used)))
    return RoleCase(kernel_of((x, z), (ring,), branches), {"size": size}, {}, {})
