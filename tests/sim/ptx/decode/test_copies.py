"""Asynchronous copies and tensor maps."""

import pytest

from tests.sim.support.ptx_body import one, refusal
from warpsmith.sim.isa import Flag, Kind, Mode, Op, Space, Type, Window

TO_SHARED = "shared::cluster.global.mbarrier::complete_tx::bytes"


@pytest.mark.parametrize(
    ("line", "op", "groups", "flags"),
    [
        ("cp.async.ca.shared.global [%r1], [%d1], 4;", Op.CP_ASYNC, (1, 1, 1), Flag.NONE),
        (
            "cp.async.cg.shared::cta.global.L2::128B [%r1], [%d1], 16, %r2;",
            *(Op.CP_ASYNC, (1, 1, 1, 1), Flag.ZERO_FILL),
        ),
        (
            "cp.async.cg.shared.global [%r1], [%d1], 16, %p2;",
            *(Op.CP_ASYNC, (1, 1, 1, 1), Flag.ZERO_FILL | Flag.PREDICATE),
        ),
        (
            "cp.async.cg.shared.global.L2::cache_hint [%r1], [%d1], 16, %d2;",
            *(Op.CP_ASYNC, (1, 1, 1), Flag.NONE),
        ),
        ("cp.async.wait_all;", Op.CP_ASYNC_WAIT, (), Flag.ALL),
        ("cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];", Op.CP_ASYNC_ARRIVE, (1,), Flag.NOINC),
        (f"cp.async.bulk.{TO_SHARED} [%r1], [%d1], %r2, [%r3];", Op.BULK_LOAD, (1, 1, 1, 1), 0),
        (
            "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
            " [%r1], [%d1], 512, [%r3];",
            *(Op.BULK_LOAD, (1, 1, 1, 1), Flag.SHARED_CTA),
        ),
        (
            f"cp.async.bulk.{TO_SHARED}.multicast::cluster.L2::cache_hint "
            "[%r1], [%d1], %r2, [%r3], %h1, %d4;",
            *(Op.BULK_LOAD, (1, 1, 1, 1, 1), Flag.MULTICAST),
        ),
        (
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
            " [%r1], [%r4], %r2, [%r3];",
            *(Op.BULK_COPY, (1, 1, 1, 1), Flag.NONE),
        ),
        (
            "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 16;",
            Op.BULK_STORE,
            (1,) * 3,
            0,
        ),
        ("cp.async.bulk.wait_group.read 1;", Op.BULK_WAIT, (1,), Flag.READ),
        ("cp.async.bulk.prefetch.tensor.2d.L2.global [%d1, {%r2,%r3}];", Op.NOP, (1, 2), 0),
        (
            f"cp.async.bulk.tensor.3d.{TO_SHARED}.multicast::cluster "
            "[%r1], [%d1, {%r2,%r3,0}], [%r3], %h1;",
            *(Op.TENSOR_LOAD, (1, 1, 3, 1, 1), Flag.MULTICAST),
        ),
        (
            "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d1, {%r2,%r3}], [%r1];",
            *(Op.TENSOR_STORE, (1, 2, 1), Flag.NONE),
        ),
    ],
)
def test_records(line: str, op: Op, groups: tuple[int, ...], flags: Flag) -> None:
    found = one(line)
    assert (found.op, found.groups, found.does.flags) == (op, groups, flags)


def test_reductions() -> None:
    found = one(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%d1], [%r1], 32;"
    )
    assert (found.op, found.does.mode, found.does.type) == (Op.BULK_REDUCE, Mode.ADD, Type.BF16)
    assert found.does.space is Space.GLOBAL
    found = one(
        "cp.reduce.async.bulk.tensor.1d.global.shared::cta.max.bulk_group [%d1, {%r2}], [%r1];"
    )
    assert (found.op, found.does.mode, found.does.vector) == (Op.TENSOR_REDUCE, Mode.MAX, 1)


def test_a_map_among_the_parameters_has_a_generic_address() -> None:
    found = one(f"cp.async.bulk.tensor.1d.{TO_SHARED} [%r1], [map, {{%r2}}], [%r3];")
    assert found.operands[1].kind is Kind.ADDRESS
    assert found.operands[1].value == Window.PARAM + 64


def test_tensor_maps_are_changed_field_by_field() -> None:
    found = one("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 1, %r2;")
    assert (found.does.mode, found.does.space, found.groups) == (
        Mode.BOX_DIM,
        Space.SHARED,
        (1, 1, 1),
    )
    found = one(
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
        " [%d1], [%r1], 128;"
    )
    assert (found.op, found.groups) == (Op.TENSORMAP_COPY, (1, 1, 1))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            f"cp.async.bulk.tensor.2d.{TO_SHARED} [%r1], [%d1, {{%r2}}], [%r3];",
            "takes 2 coordinates, got 1 in braces",
        ),
        (
            "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
            " [%r1], [%d1, {%r1,%r1,%r1}], [%r3], {%h1};",
            "only the tile mode",
        ),
        (f"cp.async.bulk.{TO_SHARED} [%r1], [%d1], %d2, [%r3];", ".u32 is expected here"),
        ("cp.async.wait_group %r1;", "takes a constant, got `%r1`"),
    ],
)
def test_refusals(line: str, said: str) -> None:
    assert said in refusal(line)
