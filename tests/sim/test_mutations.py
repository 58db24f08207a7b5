"""The mutation engine by itself: what it changes, and what it must leave alone."""

from tests.sim.support.mutations import Mutant, mutants
from tests.sim.support.ptx_text import Boundary, Instruction, statements

HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(
 .param .align 64 .b8 k_param_0[128],
 .param .u32 k_param_1
)
.maxntid 128, 1, 1
{
 .reg .pred  %p<3>;
 .reg .b32  %r<9>;
"""


def kernel(*lines: str) -> str:
    """A kernel; its first line of body is line 12."""
    return HEAD + "\n".join(lines) + "\n ret;\n}\n"


def by_operator(text: str) -> dict[str, Mutant]:
    return {mutant.operator: mutant for mutant in mutants(text)}


def body(mutant: Mutant) -> list[str]:
    """The body without blanks, up to `ret`."""
    lines = (" ".join(line.split()) for line in mutant.text.splitlines()[11:])
    found = [line for line in lines if line]
    return found[: found.index("ret;")]


def instructions(text: str) -> list[Instruction]:
    return [one for one in statements(text) if isinstance(one, Instruction)]


def test_statements_know_their_place_and_their_registers() -> None:
    text = kernel(
        " .loc 1 3 5, function_name $L__info_string0, inlined_at 1 7 2",
        "$L__BB0_1:  // a label; and a comment",
        " @!%p1 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1+8], %r2;",
        " ld.shared.v2.u32 {%r3, %r4}, [%r5];  st.shared.u32 [%r6], %r3;",
    )
    wait, load, store, _ = instructions(text)
    assert (wait.line, wait.guard, wait.writes) == (14, "!%p1", {"%p2"})
    assert wait.reads == {"%p1", "%r1", "%r2"}
    assert (load.line, load.writes, load.reads) == (15, {"%r3", "%r4"}, {"%r5"})
    assert (store.writes, store.reads) == (frozenset(), {"%r6", "%r3"})
    assert not load.independent_of(store)
    assert wait.independent_of(store)
    assert text[store.start : store.end] == "st.shared.u32 [%r6], %r3;"


def test_braces_labels_and_declarations_are_boundaries() -> None:
    text = kernel(" { .reg .pred q; elect.sync _|q, -1; }", "$L1:", " bar.sync 0;")
    kinds = [isinstance(one, Boundary) for one in statements(text)[-8:]]
    # brace, .reg, elect, brace, label, bar, ret, brace
    assert kinds == [True, True, False, True, True, False, False, True]


def test_every_mutant_keeps_the_lines_and_has_a_name_of_its_own() -> None:
    text = kernel(
        " mbarrier.init.shared::cta.b64 [%r1], 1; mbarrier.init.shared::cta.b64 [%r2], 8;",
        " fence.mbarrier_init.release.cluster;",
        " bar.sync  0;",
    )
    found = list(mutants(text))
    assert len({mutant.name for mutant in found}) == len(found)
    for mutant in found:
        assert mutant.text != text
        assert mutant.text.count("\n") == text.count("\n")


def test_deleted_wait_succeeds_at_once() -> None:
    text = kernel(" @%p1 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], %r2;")
    assert body(by_operator(text)["deleted"]) == ["@%p1 setp.eq.u32 %p2, 0, 0;"]


def test_deleted_arrival_leaves_its_state_defined() -> None:
    text = kernel(" mbarrier.arrive.shared::cta.b64 %rd1, [%r1];")
    assert body(by_operator(text)["deleted"]) == ["mov.b64 %rd1, 0;"]


def test_parity_of_a_register_and_of_a_number() -> None:
    wait = "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], "
    changed = by_operator(kernel(f" {wait}%r2;"))["parity"]
    assert body(changed) == [f"{{ .reg .b32 mutant; xor.b32 mutant, %r2, 1; {wait}mutant; }}"]
    assert body(by_operator(kernel(f" {wait}1;"))["parity"]) == [f"{wait}0;"]


def test_counts_bytes_and_threads() -> None:
    found = by_operator(kernel(" mbarrier.init.shared::cta.b64 [%r1], 8;"))
    assert body(found["count+1"]) == ["mbarrier.init.shared::cta.b64 [%r1], 9;"]
    assert body(found["count-1"]) == ["mbarrier.init.shared::cta.b64 [%r1], 7;"]
    found = by_operator(kernel(" mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4096;"))
    assert body(found["bytes+16"]) == ["mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4112;"]
    assert "count+1" not in found
    found = by_operator(kernel(" mbarrier.arrive.shared::cta.b64 _, [%r1];"))
    assert body(found["count+1"]) == ["mbarrier.arrive.shared::cta.b64 _, [%r1], 2;"]
    found = by_operator(kernel(" bar.sync  1, 256;"))
    assert body(found["threads-32"]) == ["bar.sync 1, 224;"]
    assert "threads+32" not in by_operator(kernel(" bar.sync  0;"))


def test_numbers_stay_in_their_range() -> None:
    assert "count-1" not in by_operator(kernel(" mbarrier.init.shared::cta.b64 [%r1], 1;"))
    found = by_operator(kernel(" wgmma.wait_group.sync.aligned 0;"))
    assert "pending-1" not in found
    assert "pending+1" in found
    found = by_operator(kernel(" setmaxnreg.dec.sync.aligned.u32 24;"))
    assert "registers-8" not in found


def test_waits_for_reads_and_for_writes_are_exchanged() -> None:
    found = by_operator(kernel(" cp.async.bulk.wait_group 0;"))
    assert body(found["read"]) == ["cp.async.bulk.wait_group.read 0;"]
    found = by_operator(kernel(" cp.async.bulk.wait_group.read 0;"))
    assert body(found["full"]) == ["cp.async.bulk.wait_group 0;"]


def test_neutral_mutants_say_why() -> None:
    found = by_operator(kernel(" cp.async.bulk.wait_group.read 1;"))
    assert {name for name, mutant in found.items() if mutant.neutral} == {
        "duplicated",
        "full",
        "pending-1",
    }
    found = by_operator(kernel(" fence.proxy.async;"))
    assert [name for name, mutant in found.items() if mutant.neutral] == ["duplicated"]
    found = by_operator(kernel(" cp.async.bulk.commit_group;"))
    assert not any(mutant.neutral for mutant in found.values())


def test_scope_and_order_are_weakened() -> None:
    arrive = "mbarrier.arrive{}.shared::cluster.b64 _, [%r1];"
    found = by_operator(kernel(" " + arrive.format(".release.cluster")))
    assert body(found["scope"]) == [arrive.format(".release.cta")]
    assert body(found["relaxed"]) == [arrive.format(".relaxed.cluster")]
    found = by_operator(kernel(" red.release.gpu.global.add.u32 [%rd1], 1;"))
    assert set(found) == {"relaxed"}
    found = by_operator(kernel(" fence.mbarrier_init.release.cluster;"))
    assert not {"scope", "relaxed"} & set(found)


def test_moved_across_the_next_effect_and_the_arithmetic_before_it() -> None:
    text = kernel(
        " st.shared.u32 [%r1], %r2;",
        " add.s32 %r3, %r3, 1;",
        " bar.sync 0;",
        " mov.u32 %r4, 0;",
        " ld.shared.u32 %r5, [%r4];",
    )
    found = by_operator(text)
    store, add, bar, mov, load = (
        "st.shared.u32 [%r1], %r2;", "add.s32 %r3, %r3, 1;", "bar.sync 0;", "mov.u32 %r4, 0;",
        "ld.shared.u32 %r5, [%r4];",
    )  # fmt: skip
    assert body(found["moved before"]) == [f"{bar} {store}", add, mov, load]
    assert body(found["moved behind"]) == [store, add, mov, f"{load} {bar}"]


def test_moves_stop_at_branches_labels_and_dependences() -> None:
    for neighbour in ("@%p1 bra $L1;", "$L1:", "{ .reg .pred q; }", "mov.u32 %r1, 0;"):
        text = kernel(
            f" {neighbour}",
            " mbarrier.inval.shared::cta.b64 [%r1];",
            f" {neighbour.replace('$L1:', '$L2:')}",
            " st.shared.u32 [%r7], %r8;",
        )
        assert not any(m.operator.startswith("moved") for m in mutants(text)), neighbour


def test_wait_for_wgmma_moves_across_a_use_of_its_accumulators() -> None:
    text = kernel(
        " wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%f1, %f2}, %rd1, %rd2, 1, 1, 1;",
        " wgmma.commit_group.sync.aligned;",
        " wgmma.wait_group.sync.aligned 0;",
        " add.f32 %f3, %f4, %f4;",
        " cvt.rn.bf16x2.f32 %r1, %f2, %f1;",
    )
    waits = [m for m in mutants(text) if m.line == 14 and m.operator == "moved behind"]
    assert [body(m)[2:] for m in waits] == [
        [
            "add.f32 %f3, %f4, %f4;",
            "cvt.rn.bf16x2.f32 %r1, %f2, %f1; wgmma.wait_group.sync.aligned 0;",
        ]
    ]
