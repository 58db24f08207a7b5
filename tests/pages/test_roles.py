"""The page about roles shows what its kernel is, what is said of it, and what is refused."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pages import roles
from pages.examples import SHAPE, planned, scheduled_roles
from tests.protocol.edits import edited, instead
from tests.support.hungry_roles import hungry
from tests.support.lowering import lowered
from tests.support.ring_loads import Kind
from tests.support.role_chains import transformed
from tests.support.role_feeds import Feed
from tests.support.role_groups import sliced
from tests.support.role_kernels import streaming
from tests.support.role_streams import single_dim
from warpsmith import FusionDefinition
from warpsmith.engine.budgets import settle_registers
from warpsmith.engine.launches import CallPlan
from warpsmith.engine.role_facts import ring_rows, role_rows
from warpsmith.errors import ProtocolError
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.kernel import Budgets
from warpsmith.kernel.printer import kernel_text
from warpsmith.kernel.rings import Await
from warpsmith.lower.pipeline import lower
from warpsmith.protocol import check
from warpsmith.runtime.cache import CubinCache
from warpsmith.targets.hopper import H200

ROOT = Path(__file__).parents[2]
PAGE, IN_DEPTH, PROTOCOL = (
    (ROOT / "docs" / name).read_text() for name in ("roles.md", "roles_in_depth.md", "protocol.md")
)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
TILES = SHAPE[1] // 128


def scheduled_on_the_page() -> FusionDefinition:
    """The page's example up to its schedule, as a file `model.py`."""
    (example,) = BLOCK.findall(PAGE)
    names: dict[str, object] = {}
    exec(compile(example.partition("\na, b = ")[0], "model.py", "exec"), names)
    found = names["fd"]
    assert isinstance(found, FusionDefinition)
    return found


def tables_of(call: CallPlan) -> str:
    (launch,) = call.launches
    return roles.tables(launch.compiled, call.problem.values)


def test_the_tables_of_the_page_are_those_of_its_kernel() -> None:
    assert roles.written(PAGE) == PAGE


def test_the_kernel_of_the_tables_is_the_example_of_the_page() -> None:
    fusions = (scheduled_roles().fusion, scheduled_on_the_page().fusion)
    drawn, shown = (kernel_text(lowered(fusion)) for fusion in fusions)
    assert drawn == shown
    assert "agent store: store, warps from 2, one elected thread" in shown


def test_arrivals_that_are_counted_are_those_that_barriers_expect() -> None:
    call = planned(scheduled_roles(), [SHAPE, SHAPE])
    kernel = call.launches[0].compiled.kernel
    rows = ring_rows(kernel, call.problem.values)
    facts = check(kernel, call.problem.values, target=H200).rings
    assert [(r.full, r.empty, r.stages) for r in rows] == [
        (f.full, f.empty, f.stages) for f in facts
    ]
    sizes = [sum(amount for _, amount in row.stage_bytes) for row in rows if row.full == 1]
    assert sizes == [f.bytes for f in facts if f.bytes] == [2048, 2048]
    assert {f.fills for f in facts} == {TILES}


def test_lines_of_explain_on_the_page() -> None:
    call = planned(scheduled_roles(), [SHAPE, SHAPE])
    compiled = call.launches[0].compiled
    (block,) = re.findall(r"```\n(  role .*?)```", PAGE, re.DOTALL)
    fd = scheduled_on_the_page()
    fd.manual_execute([np.zeros(SHAPE, np.float32)] * 2)
    shown = fd.explain().splitlines()
    assert all(line in shown for line in block.splitlines())
    assert len(role_rows(compiled.kernel, call.problem.values, 0)) == 4


def test_the_error_on_the_page_is_the_one_that_is_raised() -> None:
    kernel = lower(scheduled_on_the_page().fusion, "gated", DataType.Int32, target=H200)
    turned = instead(
        Await,
        lambda wait: replace(wait, parity=integers.sub(1, wait.parity)),
        barrier="ring2_full",
    )
    sizes = {f"T{tensor}_size{dim}": SHAPE[dim] for tensor in (0, 1) for dim in (0, 1)}
    check(kernel, sizes, target=H200)
    with pytest.raises(ProtocolError) as caught:
        check(edited(kernel, turned, "store"), sizes, target=H200)
    said = " ".join(str(caught.value).split())
    assert said in " ".join(PROTOCOL.split()), caught.value


@pytest.mark.parametrize(
    "make", [lambda: hungry(180).kernel, lambda: streaming().kernel], ids=["derived", "left alone"]
)
def test_notes_on_registers_on_the_page(make: Callable[[], object], tmp_path: Path) -> None:
    kernel = replace(make(), budgets=Budgets())  # type: ignore[type-var]
    compile_ = CubinCache(tmp_path).get_or_compile
    note = settle_registers(kernel, compile_, H200).note  # type: ignore[arg-type]
    assert f"| {note} |" in IN_DEPTH, note


def test_groups_have_a_barrier_each_and_own_their_stages() -> None:
    table = tables_of(planned(sliced(Feed(Kind.bulk, 4), groups=2, position=3), [(96, 128)]))
    assert "| `compute` | 4 to 11 | 256 |" in table
    assert "| 1, 2 |" in table
    assert "| 4 | 2048 (`T" in table
    assert "and 2048 bytes | 4 arrivals, one a warp |" in table  # of one group's four warps


def test_roles_that_fill_by_threads_announce_no_bytes() -> None:
    fd = transformed(Feed(Kind.shared, 3), stores=True)
    table = tables_of(planned(fd, [(4, 512)]))
    chain = re.findall(r"\| `(\w+)` \| `(\w+)` \| (\d arrivals?, \S+ \S+ \S+) \| ", table)
    assert ("load", "transform_0", "2 arrivals, one a warp") in chain
    assert all("bytes |" not in line for line in table.splitlines()[8:])
    assert re.search(
        r"\| `compute` \| `store` \| \d arrivals?, one a warp \| 1 arrival, of the", table
    )


def test_tensors_of_one_role_share_a_ring() -> None:
    fd = single_dim(Feed(Kind.bulk, 3), ("load", "load"))
    (row,) = ring_rows(lowered(fd), {"T0_size0": 512, "T1_size0": 512})
    assert len(row.stage_bytes) == 2
    assert (row.producer, row.consumers, row.full) == ("load", ("compute",), 1)
    table = tables_of(planned(fd, [(512,), (512,)]))
    assert re.search(r"\(`T\d+`\), \d+ \(`T\d+`\)", table)
    together = sum(amount for _, amount in row.stage_bytes)
    assert f"and {together} bytes" in table
