"""Random programs: none is wrong, none breaks, none that has a meaning is refused.

`python -m tests.programs.run` draws thousands. A failing seed is printed with its program, which
runs as it stands.
"""

import pytest

from tests.programs import steps
from tests.programs.generate import TINY, Budget, enlarged, generate
from tests.programs.growth import FLOAT8S, FLOATS, SMALL_INTS
from tests.programs.judge import Mode, judged
from tests.programs.meaning import RULES
from warpsmith import DataType, ops
from warpsmith.ops.table import TABLE

PRODUCTS = ("addmm", "baddbmm", "bmm", "dot", "einsum", "linear", "matmul", "mv")

KNOWN = ("WS0103",)
"""Codes of what has no meaning, and is drawn all the same: an alias that lies otherwise than its
input."""


def check(seeds: range, mode: Mode, budget: Budget) -> tuple[int, int]:
    """How many programs passed, and how many were refused; the test fails at any other verdict."""
    print(f"seeds {seeds.start} to {seeds.stop - 1}")
    passed = refused = 0
    for seed in seeds:
        program = generate(seed, budget)
        if mode == "plan" and seed % 2:
            program = enlarged(program)
        verdict = judged(program, mode)
        known = verdict.kind == "refused" and verdict.code in KNOWN
        good = verdict.kind in ("passed", "skipped") or known
        assert good, f"seed {seed}: {verdict}\n{program.text()}"
        passed += verdict.kind == "passed"
        refused += known
    return passed, refused


@pytest.mark.few(1)
@pytest.mark.parametrize("block", range(4))
def test_the_meaning_is_that_of_the_reference(block: int) -> None:
    """All of `ops`, and the evaluator, against rules that were written down a second time."""
    passed, _ = check(range(40 * block, 40 * block + 40), "reference", Budget())
    assert passed >= 36  # of others too little is known


@pytest.mark.few(1)
@pytest.mark.parametrize("block", range(8))
def test_programs_are_planned_and_lowered(block: int) -> None:
    passed, refused = check(range(7000 + 10 * block, 7010 + 10 * block), "plan", Budget())
    assert passed >= 5
    assert passed + refused == 10


@pytest.mark.few(1)
@pytest.mark.parametrize("block", range(4))
def test_small_programs_are_right_on_the_simulator(block: int) -> None:
    passed, _ = check(range(500 + 15 * block, 515 + 15 * block), "sim", TINY)
    assert passed >= 9


def test_programs_are_of_every_kind() -> None:
    """The generator reaches what it is for, or it would prove little."""
    programs = [generate(seed) for seed in range(150)]
    used = {statement.op for program in programs for statement in program.statements}
    assert {"matmul", "linear", "var_mean", "welford", "prod", "dropout", "normal", "iota"} <= used
    rare = set(RULES) - used
    for seed in range(150, 1500):  # any operation that joins the table makes other programs
        if not rare:
            break
        rare -= {statement.op for statement in generate(seed).statements}
    assert not rare
    assert {"reshape", "expand", "squeeze", "permute", "stride_order", "broadcast_in_dim"} <= used
    assert len(used) > 80
    sizes = [size for program in programs for size in program.sizes.values()]
    assert any(size.extent == 0 for size in sizes)
    assert any(size.extent == 1 for size in sizes)
    assert {size.static for size in sizes} == {True, False}
    lengths = {len(program.statements) for program in programs}
    assert min(lengths) <= 3
    assert max(lengths) >= 25
    assert {len(program.outputs) for program in programs} >= {1, 2, 3, 4, 5, 6}
    assert any(alias for program in programs for _, alias in program.outputs)
    layouts = [given.layout for p in programs for given in p.inputs if hasattr(given, "layout")]
    for attribute in ("order", "gaps", "repeated", "offset"):
        assert any(getattr(layout, attribute) for layout in layouts)


def test_products_are_of_every_type() -> None:
    wanted: set[object] = {"beta", "alpha", ("precision", "tf32"), ("precision", "fast")}
    wanted |= {("dtype", dtype) for dtype in (*FLOATS, DataType.Int32)} | {*SMALL_INTS, *FLOAT8S}
    for seed in range(3000):
        program = generate(seed, TINY)
        options = [o for s in program.statements if s.op in PRODUCTS for o in s.options]
        wanted -= {*options, *(name for name, _ in options), *(x.dtype for x in program.inputs)}
        if not wanted:
            break
    assert not wanted


def test_how_many_tensors_are_joined_is_not_enlarged() -> None:
    programs = [generate(seed) for seed in range(60)]
    fixed = [(p, name) for p in programs for name, size in p.sizes.items() if size.fixed]
    assert fixed
    for program, name in fixed:
        assert enlarged(program).sizes[name] == program.sizes[name]


UNDRAWN = {
    "numbers, and no tensors": ("shape", "size"),
    "rules that are functions of a program's own": ("reduce", "scan"),
    "extents that are no product of sizes": (
        *("split", "tiles"),
        *("choose", "index"),
    ),
    "`full` by another name, of a fusion that has no tensor yet": ("ones", "zeros"),
    "`embedding` by another name": ("embedding_fwd",),
    "what orders and writes at chosen places are made of": (
        *("count_up_to", "nth_parted", "float_rank", "double_rank", "or_zero"),
    ),
    "numbers that `uniform`, `normal` and `dropout` are made of": ("philox", "kept"),
    "heads and losses of models, which have tests of their own": (
        *("cross_entropy", "cross_entropy_backward", "attention", "attention_backward"),
    ),
    "scales of blocks, and values of parts of a byte": ("scaled_matmul", "unpack_int4"),
}
"""Operations that no random program has, by the reason."""


def test_the_generator_draws_every_operation_or_says_why_not() -> None:
    drawn = {*RULES, *TABLE} - {"philox", "kept", "float_rank", "double_rank"}
    reasons = [op for some in UNDRAWN.values() for op in some]
    untold = set(ops.__all__) - drawn - set(reasons)
    assert not untold, f"{untold}: a rule in RULES and a step draw it, or UNDRAWN says why not"
    assert drawn.isdisjoint(reasons)
    assert set(reasons) <= set(ops.__all__)
    assert len(set(reasons)) == len(reasons)


def test_what_operands_an_operation_wants_follows_from_its_meaning() -> None:
    assert {"log", "rsqrt", "acosh"} <= steps.ABOVE
    assert {"exp", "tan", "erfinv", "asin"} <= steps.NARROW
    assert not {"sin", "tanh", "erf", "sigmoid"} & (steps.ABOVE | steps.NARROW)


def test_a_seed_is_a_program() -> None:
    assert generate(11) == generate(11)
    assert generate(11).text() == generate(11).text()
