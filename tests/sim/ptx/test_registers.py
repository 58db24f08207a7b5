"""Slots that registers share."""

from tests.sim.support.ptx_body import program
from warpsmith.sim.program import Program


def slots(found: Program, *positions: int) -> list[int]:
    """Of the registers that these instructions name, by default all do."""
    chosen = [found.instructions[p] for p in positions] if positions else found.instructions
    return [found.slots[o.index] for i in chosen for o in i.operands if o.is_register]


def test_registers_that_follow_each_other_share_a_slot() -> None:
    line = "mov.u32 %r{0}, 1; st.shared.u32 [sm], %r{0};"
    found = program(" ".join(line.format(i) for i in range(1, 6)))
    assert found.registers == 1
    assert found.register_names == ("%r1",)


def test_a_result_does_not_take_the_slot_of_a_source_of_its_instruction() -> None:
    found = program("mov.u64 %d1, 1; ld.global.v2.u64 {%d2, %d3}, [%d1];")
    assert len(set(slots(found))) == found.registers == 3


def test_what_lives_across_blocks_keeps_its_slot() -> None:
    found = program("mov.u32 %r1, 1; A: mov.u32 %r2, 2; add.u32 %r3, %r1, %r2; @%p1 bra A;")
    (keeps,) = slots(found, 0)
    assert keeps not in slots(found, 1)
    assert found.register_names[keeps] == "%r1"


def test_a_guarded_or_reading_definition_is_not_a_first_one() -> None:
    guarded = program(
        "mov.u32 %r2, 2; st.shared.u32 [sm], %r2;"
        "@%p1 mov.u32 %r1, 1; st.shared.u32 [sm], %r1; mov.u32 %r3, 2; st.shared.u32 [sm], %r3;"
    )
    assert guarded.register_names == ("%p1", "%r1", "%r2")
    reading = program(
        "add.u32 %r1, %r1, 1; st.shared.u32 [sm], %r1; mov.u32 %r2, 2; st.shared.u32 [sm], %r2;"
    )
    assert reading.registers == 2


def test_registers_of_wgmma_and_their_copies_share_nothing() -> None:
    four = "{%f1,%f2,%f3,%f4}"
    found = program(
        f"wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {four}, %d1, %d2, 1, 1, 1;"
        "mov.f32 %f5, %f1; st.shared.f32 [sm], %f5; mov.f32 %f6, %f2; st.shared.f32 [sm], %f6;"
    )
    assert {"%f1", "%f2", "%f3", "%f4", "%f5", "%f6"} <= set(found.register_names)


def test_halves_of_a_wide_register_stay_together() -> None:
    _, low, high = slots(program("mov.b128 %q1, {%d1, %d2}; st.global.b128 [%d3], %q1;"), 2)
    assert high == low + 1
