"""Control, lanes together, and special registers."""

import pytest

from tests.sim.support.ptx_body import one, ops, program, refusal
from warpsmith.sim.isa import Flag, Kind, Mode, Op, Special, Type
from warpsmith.sim.program import Instruction, Place
from warpsmith.sim.ptx.decode import heads
from warpsmith.sim.ptx.decode.form import build, signatures
from warpsmith.sim.ptx.decode.pattern import fit, slots
from warpsmith.sim.ptx.registers import written


@pytest.mark.parametrize(
    ("line", "op", "mode", "count", "flags"),
    [
        ("shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;", Op.SHFL, Mode.BFLY, 5, Flag.NONE),
        ("shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1;", Op.SHFL, Mode.IDX, 6, Flag.PREDICATE),
        ("vote.sync.ballot.b32 %r1, !%p2, -1;", Op.VOTE, Mode.BALLOT, 3, Flag.NONE),
        ("vote.sync.uni.pred %p1, %p2, -1;", Op.VOTE, Mode.UNI, 3, Flag.NONE),
        ("match.all.sync.b64 %r1|%p1, %d2, -1;", Op.MATCH, Mode.ALL, 4, Flag.PREDICATE),
        ("redux.sync.max.u32 %r1, %r2, -1;", Op.REDUX, Mode.MAX, 3, Flag.NONE),
        ("elect.sync _|%p1, 0xffffffff;", Op.ELECT, Mode.NONE, 3, Flag.PREDICATE),
        ("activemask.b32 %r1;", Op.ACTIVEMASK, Mode.NONE, 1, Flag.NONE),
        ("bar.warp.sync 0xffffffff;", Op.WARP_SYNC, Mode.NONE, 1, Flag.NONE),
        ("setmaxnreg.inc.sync.aligned.u32 240;", Op.SETMAXNREG, Mode.INC, 1, Flag.ALIGNED),
        ("griddepcontrol.wait;", Op.GRIDDEP, Mode.WAIT, 0, Flag.NONE),
        ("nanosleep.u32 100;", Op.NANOSLEEP, Mode.NONE, 1, Flag.NONE),
        ("trap;", Op.TRAP, Mode.NONE, 0, Flag.NONE),
        ("brkpt;", Op.BRKPT, Mode.NONE, 0, Flag.NONE),
    ],
)
def test_records(line: str, op: Op, mode: Mode, count: int, flags: Flag) -> None:
    found = one(line)
    assert (found.op, found.does.mode, found.does.flags) == (op, mode, flags)
    assert len(found.operands) == count


def test_constants_are_the_bits_of_a_register() -> None:
    assert one("redux.sync.max.u32 %r1, %r2, -1;").operands[2].value == 0xFFFFFFFF
    assert one("mov.b64 %d1, -1;").operands[1].value == -1
    assert one("mov.b64 %d1, 0xffffffffffffffff;").operands[1].value == -1
    assert one("mov.f32 %f1, 0f3F800000;").operands[1].value == 0x3F800000
    assert one("mov.f32 %f1, 1.0;").operands[1].value == 0x3F800000
    assert one("mov.f32 %f1, -1.5e0;").operands[1].value == 0xBFC00000
    assert one("mov.f64 %fd1, 0d3FF0000000000000;").operands[1].value == 0x3FF0000000000000
    assert one("mov.f64 %fd1, 0f3F800000;").operands[1].value == 0x3FF0000000000000
    assert one("mov.b16 %h1, -2;").operands[1].value == 0xFFFE
    assert one("mov.u32 %r1, (1 << 4) | 017 - 0b11;").operands[1].value == 16 | 12
    assert one("mov.u32 %r1, WARP_SZ;").operands[1].value == 32


def test_special_registers_are_read_by_a_move() -> None:
    found = one("mov.u32 %r1, %cluster_ctaid.x;")
    assert (found.operands[1].kind, found.operands[1].index) == (
        Kind.SPECIAL,
        Special.CLUSTER_CTAID_X,
    )
    first, second = program("add.u64 %d1, %clock64, 5;").instructions[:2]
    assert (first.op, first.does.type) == (Op.MOV, Type.U64)
    assert second.operands[1] == first.operands[0]
    assert "`%clock64` is a .u64 register" in refusal("mov.u32 %r1, %clock64;")
    assert "unknown name `%tid.w`" in refusal("mov.u32 %r1, %tid.w;")


def test_guards() -> None:
    assert one("@!%p1 exit;").guard is not None
    assert "`%r1` is not a predicate register" in refusal("@%r1 exit;")


def test_indexed_branches() -> None:
    found = program(
        "mov.u32 %r1, 1;\nT: .branchtargets A, B;\nbrx.idx %r1, T;\n"
        "A: mov.u32 %r2, 1;\nbra C;\nB: mov.u32 %r2, 2;\nC: st.shared.u32 [%r1], %r2;"
    ).instructions
    assert found[1].targets == (2, 4)
    assert found[1].reconverge == 5
    assert "`A` is not a label" in refusal(".reg .b32 A; brx.idx %r1, A;")


def test_hints_do_nothing() -> None:
    assert ops("prefetch.global.L2 [%d1]; pmevent 3; discard.global.L2 [%d1], 128;") == [Op.NOP] * 3


def test_destinations_are_known_for_every_row() -> None:
    """`written` counts what the tables call destinations."""
    wrong = []
    for head, lines in heads().items():
        for line in lines:
            words = tuple(s.words[0] for s in slots(line.suffixes) if not s.optional)
            taken = fit(slots(line.suffixes), words)
            assert isinstance(taken, dict), (head, words)
            form = build(line, words, taken)
            for _, items in signatures(line.operands):
                outs = sum(part[0] == "d" for i in items for part in i.strip("{").split("|"))
                groups = (outs,) * max(1, len(items))
                record = Instruction(does=form, place=Place(line=1), groups=groups)
                if form.op not in (Op.NOP, Op.BRX) and written(record) != outs:
                    wrong.append(f"{head} {line.suffixes} {items}: {written(record)} is not {outs}")
    assert not wrong
