"""What sizes alone decide is a parameter, which the launch computes."""

from tests.support.lowering import lowered
from tests.support.program import Program
from warpsmith.codegen.cuda import cuda_text
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Symbol, evaluate
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Let
from warpsmith.kernel.printer import kernel_text
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200


def row_sums() -> Kernel:
    p = Program()
    p.output(p.reduce("sum", p.input(DataType.Float, (None, None)), [1]))
    candidate = select(p.fusion, H200)
    problem = Problem(values={"T0_size0": 64, "T0_size1": 5000}, alignment={}, target=H200)
    params, _ = candidate.choose(problem)
    return lowered(candidate.scheduled(params))


def test_they_are_parameters_in_order_of_their_needs() -> None:
    kernel = row_sums()
    assert kernel.derived
    known = {"T0_size0": 64, "T0_size1": 5000, "splits": 3}
    for symbol, value in kernel.derived:
        known[symbol.name] = evaluate(value, known)
    used = {symbol.name for symbol, _ in kernel.derived} & {s.name for s in kernel.scalars}
    assert used
    assert all(f"const int {name}" in cuda_text(kernel, H200) for name in used)
    assert "derive x0 = ceildiv(T0_size1, 4)" in kernel_text(kernel)


def test_what_depends_on_a_thread_stays_in_the_kernel() -> None:
    threads = {kind.name for kind in (*GRID_TYPES, *BLOCK_TYPES)}
    derived = set(dict(row_sums().derived))
    for statement in row_sums().body:
        if isinstance(statement, Let):
            names = {node.name for node in statement.value.walk() if isinstance(node, Symbol)}
            assert statement.symbol not in derived
            assert any(name in threads or name.startswith(("x", "full")) for name in names)


def test_what_memory_says_stays_in_the_kernel() -> None:
    with FusionDefinition() as fd:
        rows = fd.define_tensor([64, 256], True, DataType.BFloat16)
        chosen = fd.ops.embedding(fd.define_tensor([32], True, DataType.Int), rows)
        fd.add_output(chosen)
    candidate = select(fd.fusion, H200)
    sizes = {f"T{k}_stride{d}": n for k, d, n in ((0, 0, 256), (0, 1, 1), (1, 0, 1))}
    params, _ = candidate.choose(Problem(values=sizes, alignment={}, target=H200))
    kernel = lowered(candidate.scheduled(params))
    assert "place(" in kernel_text(kernel)
    assert not [value for _, value in kernel.derived if "place" in repr(value)]
