"""Roles that cannot be, and the words for them; what the words advise is tried, and works."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from tests.support.ring_loads import BLOCK_X, TMA, Kind
from tests.support.role_feeds import Feed, bound_to_threads, defined, others
from tests.support.role_groups import sliced
from tests.support.role_refusals import inputs_of, refused, works
from warpsmith import FusionDefinition, MemoryType
from warpsmith.errors import ProtocolError
from warpsmith.ir.tensor import TensorView

BULK = Feed(Kind.bulk, 8)


def negated(
    change: Callable[[TensorView, TensorView], object] = lambda load, y: None,
) -> FusionDefinition:
    """Tiles of 128 elements that role `load` brings, negated; `change` is made at the end."""
    fd, (x,), y = defined([[-1]], lambda fd, x: fd.ops.neg(x))
    load = BULK.load(x)
    y.split(0, 128)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 1, selected_tensors=[load])
    BULK.bind(load)
    y.axis(-1).parallelize(BLOCK_X)
    change(load, y)
    return fd


@pytest.mark.parametrize(
    ("number", "instead"), [(0, 24), (20, 24), (33, 40), (250, 248), (256, 248), ("many", None)]
)
def test_numbers_of_registers(number: object, instead: int | None) -> None:
    def make(registers: object) -> FusionDefinition:
        fd = negated()
        fd.sched.set_registers(registers)  # type: ignore[arg-type]
        return fd

    words = f"{number!r} registers: a role has a multiple of 8, from 24 to 248; use "
    words += f"{instead or 'such a number'}, or 'auto'"
    refused(partial(make, (number, 64)), "WS0239", words)
    refused(partial(make, {"compute": number}), "WS0239", words)
    works(partial(make, {"compute": instead or 64}), np.negative)
    works(partial(make, "auto"), np.negative)


@pytest.mark.parametrize("role", ["load a", "2nd", "a-b"])
def test_names_of_roles(role: str) -> None:
    words = "is no name; use letters, digits and underscores, as in `load_a`"
    refused(lambda: negated(lambda load, y: y.set_role(role)), "WS0240", repr(role), words)
    works(lambda: negated(lambda load, y: y.set_role("load_2")), np.negative)


def test_a_role_for_an_input() -> None:
    def make(wrong: bool) -> FusionDefinition:
        fd, (x,), y = defined([[-1]], lambda fd, x: fd.ops.neg(x))
        load = x if wrong else x.cache_after()
        load.set_role("load")
        if not wrong:
            load.set_memory_type(MemoryType.shared)
            load.circular_buffer(2)
            for tensor in (load, y):
                tensor.split(0, 64)
                tensor.axis(-1).parallelize(BLOCK_X)
            fd.sched.inline_at(y, 1, selected_tensors=[load])
        return fd

    refused(partial(make, True), "WS0240", "T0 is an input of the fusion, which no role defines")
    refused(partial(make, True), "WS0240", "give its cache the role: T0.cache_after()")
    works(partial(make, False), np.negative)


def test_names_of_sections() -> None:
    words = "section 'not one' of T1: it is no name; name a computed tensor's section by letters"
    refused(lambda: negated(lambda load, y: y.order_groups("not one")), "WS0240", words)


def test_a_tensor_in_two_roles() -> None:
    refused(
        lambda: negated(lambda load, y: load.set_role("load_b")),
        "WS0242",
        "T2 is in role `load`, and cannot be in role `load_b` too; name one role",
    )
    works(lambda: negated(lambda load, y: load.set_role("load")), np.negative)


def test_results_of_one_operation_in_two_roles() -> None:
    made: list[TensorView] = []

    def meaning(fd: FusionDefinition, x: TensorView) -> TensorView:
        made.extend(fd.ops.welford(x, [1])[:2])
        return made[0] + made[1]

    fd, _, _ = defined([[-1, -1]], meaning)
    for tensor, role in zip(made, ("left", "right"), strict=True):
        tensor.set_role(role)
    refused(
        lambda: fd,
        "WS0242",
        "are results of one operation and are to be in the roles `left` and `right`; give them one",
    )


@pytest.mark.parametrize(
    ("position", "code", "says"),
    [
        (-1, "WS0243", "slice position -1 of T2: it is a number of loops, 0 or more; use 1 to 4"),
        (True, "WS0243", "slice position True of T2: it is a number of loops"),
        (0, "WS0262", "elements of shared memory, which is not a constant"),
        (1, "WS0262", "elements of shared memory, which is not a constant"),
        (5, "WS0244", "right of i[128 tma], which is bound to tma: one copy cannot fill several"),
        (6, "WS0243", "slice position 6 of T2, which has 5 loops: a stage would hold none of them"),
    ],
)
def test_positions_of_slices(position: int, code: str, says: str) -> None:
    def make(position: int) -> FusionDefinition:
        fd = sliced(BULK, groups=2, position=4)
        load = next(t for t in fd.fusion.tensors if t.role == "load")
        load.circular_buffer(8, stage_slice_position=position)
        return fd

    refused(partial(make, position), code, says)
    for right in (2, 3, 4):
        works(partial(make, right), lambda x: 2 * x)


def test_roles_in_a_circle() -> None:
    def make(role: str) -> FusionDefinition:
        made: list[TensorView] = []

        def meaning(fd: FusionDefinition, x: TensorView) -> TensorView:
            made.append(fd.ops.neg(x))
            made.append(fd.ops.exp(made[-1]))
            return fd.ops.neg(made[-1])

        fd, _, y = defined([[-1]], meaning)
        for tensor, its in zip((*made, y), ("left", "right", role), strict=True):
            tensor.split(0, 64)
            tensor.axis(-1).parallelize(BLOCK_X)
            if tensor is not y:
                tensor.set_memory_type(MemoryType.shared)
            tensor.set_role(its)
        fd.sched.inline_at(y, 1)
        made[0].circular_buffer(2)
        if role != "right":
            made[1].circular_buffer(2)
        return fd

    refused(
        partial(make, "left"),
        "WS0245",
        "roles wait for each other in a circle: `left` reads T2 of `right`; `right` reads T1 of "
        "`left`; put what closes the circle into one role, or split one of them in two",
    )
    works(partial(make, "last"), lambda x: -np.exp(-x))
    works(partial(make, "right"), lambda x: -np.exp(-x))


def crossing(memory: MemoryType, *, copies: bool = False) -> FusionDefinition:
    """Role `work` negates; role `compute` uses that, and so does the first role if it `copies`."""
    made: list[TensorView] = []

    def meaning(fd: FusionDefinition, x: TensorView) -> TensorView:
        made.append(fd.ops.neg(x))
        made.append(fd.ops.exp(made[0]))
        return made[0] + made[1]

    fd, _, y = defined([[-1]], meaning)
    negative, power = made
    if copies:
        kept = negative
        negative = negative.cache_before()  # what both are made of, in registers
        passed = negative.cache_after(cached_uses=[y])
        passed.set_memory_type(MemoryType.shared)
        passed.set_role("work")
        made.extend((passed, kept))
    power.set_role("work")
    power.set_memory_type(MemoryType.shared)
    made[0].set_role("work")
    if not copies:
        made[0].set_memory_type(memory)
    for tensor in others(fd, []):
        tensor.split(0, 64)
        tensor.axis(-1).parallelize(BLOCK_X)
    fd.sched.inline_at(y, 1)
    return fd


def test_a_tensor_that_crosses_in_registers() -> None:
    words = "T1 is computed by role `work` in local memory, and role `compute` reads it"
    refused(partial(crossing, MemoryType.local), "WS0246", words)
    refused(partial(crossing, MemoryType.local), "WS0246", "set_memory_type(MemoryType.shared)")


def test_a_tensor_that_its_own_role_reads_too() -> None:
    words = "T1 is read by role `compute` and by the role `work` that computes it"
    refused(partial(crossing, MemoryType.shared), "WS0246", words, "put a copy between")


def test_other_orders_of_stages() -> None:
    """Tiles are filled row by row, and used column by column."""

    def make(wrong: bool) -> FusionDefinition:
        fd, (x,), y = defined([[-1, -1]], lambda fd, x: fd.ops.neg(x))
        load = BULK.copy(x)
        for tensor in (load, y):
            tensor.split(1, 128)
        for tensor in (y,) if wrong else (load, y):
            tensor.reorder({0: 1, 1: 0})
        load.circular_buffer(2, role="load", stage_slice_position=2)
        BULK.bind(load)
        y.axis(-1).parallelize(BLOCK_X)
        return fd

    refused(
        partial(make, True),
        "WS0247",
        "role `compute` reads T2 to compute T1, and does not come by its stages as role `load` "
        "fills them: stages are filled in the order of",
        "split, merge and reorder both alike as far as loops stand outside a stage",
    )
    works(partial(make, False), np.negative)


def test_stages_used_in_two_loops() -> None:
    """The sum of a row, and the row less its sum, from the same stages in loops of their own."""

    def make(wrong: bool) -> FusionDefinition:
        fd, (x,), y = defined(
            [[-1, -1]], lambda fd, x: x - fd.ops.broadcast(fd.ops.sum(x, [1]), [False, True])
        )
        total = next(t for t in fd.fusion.tensors if t.has_reduction)
        readers = [()] if wrong else [(total,), (y,)]
        loads = [BULK.copy(x, *its) for its in readers]
        for load in loads:
            load.circular_buffer(2, role="load")
        for tensor in (*loads, total, y):
            tensor.split(1, 128)
        if wrong:
            loads[0].circular_buffer(2, stage_slice_position=2)
        else:
            fd.sched.inline_at(total, 2, selected_tensors=loads[:1])
            fd.sched.inline_at(y, 2, selected_tensors=loads[1:])
        fd.sched.inline_at(y, 1, selected_tensors=others(fd, [*loads, y]))
        for load in loads:
            BULK.bind(load)
        y.axis(-1).parallelize(BLOCK_X)
        return fd

    refused(
        partial(make, True),
        "WS0249",
        "role `compute` comes by the stages of T4 in loops that follow each other: the first would "
        "use up what the second waits for",
        "or load it twice",
    )
    works(partial(make, False), lambda x: x - x.sum(1, keepdims=True))


def test_two_roles_of_broken_warps() -> None:
    def make(tile: int) -> FusionDefinition:
        fd, (x,), y = defined([[-1]], lambda fd, x: fd.ops.neg(x))
        load = Feed(Kind.shared, 2).load(x)
        for tensor in (load, y):
            tensor.split(0, tile)
            tensor.axis(-1).parallelize(BLOCK_X)
        fd.sched.inline_at(y, 1, selected_tensors=[load])
        return fd

    refused(
        partial(make, 40),
        "WS0253",
        "role `load` has 40 threads, and so has `compute`: of several roles of many threads only "
        "one may have other than whole warps",
        "bind a multiple of 32 iterations to the block",
    )
    works(partial(make, 64), np.negative)


def test_an_order_of_two_rings_that_deadlocks() -> None:
    """The role brings all weights of a tile first, of which the reader frees one after the other,
    and waits for the tile before.
    """

    def make(roles: tuple[str, str]) -> FusionDefinition:
        def meaning(fd: FusionDefinition, x: TensorView, w: TensorView) -> TensorView:
            return x * w

        fd, (x, w), z = defined([[-1, 256], [-1, 256]], meaning)
        weights, tile = Feed(Kind.bulk, 2).copy(w), Feed(Kind.shared, 2).copy(x)
        for tensor in (weights, tile, z):
            tensor.split(0, 4)
        tile.circular_buffer(2, role=roles[0], stage_slice_position=1)
        weights.circular_buffer(2, role=roles[1], stage_slice_position=2)
        weights.axis(-1).parallelize(TMA)
        bound_to_threads([tile, z], 64)
        return fd

    with pytest.raises(ProtocolError) as caught:
        make(("load", "load")).manual_execute(inputs_of(make(("load", "load"))))
    assert caught.value.code == "WS0901"
    works(partial(make, ("tiles", "weights")), np.multiply)
