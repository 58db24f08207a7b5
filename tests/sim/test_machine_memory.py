"""Loads, stores and atomics: spaces, widths, bounds, alignment, undefined bytes."""

import pytest

from tests.sim.support.machine import STORE, at, clean, finding, found, run, values

ADDRESS = "mul.wide.u32 %d0, %lane, 4; mul.lo.u32 %r1, %lane, 4; add.u32 %r1, %r1, sm;"


def test_local_memory_belongs_to_its_lane() -> None:
    body = """
    .local .align 16 .b8 mine[64];
    mov.u64 %d0, mine; cvta.local.u64 %d1, %d0;
    st.local.u32 [%d0], %lane;
    st.local.v4.u32 [%d0+16], {%lane, %tid, %lane, %tid};
    bar.warp.sync -1;
    ld.u32 %r1, [%d1];
    ld.local.u32 %r2, [%d0+28];
    mad.lo.u32 %r0, %r1, 1000, %r2;
    """
    assert values(body + STORE, threads=64) == [t % 32 * 1000 + t for t in range(64)]


def test_local_memory_is_undefined_at_first_and_has_bounds() -> None:
    local = ".local .align 16 .b8 mine[64]; mov.u64 %d0, mine;"
    assert found(f"{local} ld.local.u32 %r0, [%d0]; {STORE}") == {"uninitialized"}
    assert found(f"{local} st.local.u32 [%d0+64], 0;") == {"out-of-bounds"}
    assert found(f"{local} cvta.local.u64 %d0, %d0; st.u32 [%d0+4096], 0;") == {"out-of-bounds"}


@pytest.mark.parametrize("branch", ["@%p1 bra BACK;", "@!%p1 bra BACK;"])
def test_no_branch_is_taken_by_bits_that_nobody_wrote(branch: str) -> None:
    """Half of the lanes never wrote the register; where they go, they stay on a GPU if its compiler
    took all lanes to be alike. What they do there is no finding of its own.
    """
    body = """
    mov.u32 %r0, 7; setp.ge.u32 %p0, %lane, 16; {before} @%p0 mov.u32 %r1, 5;
    setp.eq.u32 %p1, %r1, 5;
    """
    behind = f"{branch}\n mov.u32 %r0, 8; st.shared.u32 [sm], %r0; \nBACK: {STORE}"
    assert at(finding(body.format(before="") + behind, "uninitialized"), "bra")
    clean(body.format(before="mov.u32 %r1, 0;") + behind)


@pytest.mark.parametrize("guarded", ["mov.u32 %r0, 8;", "st.local.u32 [%d0], 8;"])
def test_what_an_undefined_guard_lets_a_lane_write_for_itself_is_undefined(guarded: str) -> None:
    body = f""".local .align 4 .b8 mine[4]; mov.u64 %d0, mine; mov.u32 %r0, 7;
    st.local.u32 [%d0], 7; @!%p5 {guarded}
    ld.local.u32 %r1, [%d0]; add.u32 %r0, %r0, %r1;
    """
    clean(body)
    assert at(finding(body + STORE, "uninitialized"), "st.global.u32")


@pytest.mark.parametrize("guarded", ["st.shared.u32 [sm], 8;", "bar.sync 0;", "bar.warp.sync -1;"])
@pytest.mark.parametrize("guard", ["@%p5", "@!%p5"])
def test_nothing_else_is_guarded_by_bits_that_nobody_wrote(guard: str, guarded: str) -> None:
    opcode = guarded.split()[0]
    assert at(finding(f"{guard} {guarded}", "uninitialized"), opcode)


def test_generic_addresses_lead_to_their_space() -> None:
    body = f"""
    {ADDRESS}
    cvt.u64.u32 %d2, %r1; cvta.shared.u64 %d3, %d2;
    st.shared.u32 [%r1], %lane;
    ld.u32 %r2, [%d3];
    isspacep.shared %p0, %d3; selp.u32 %r3, 100, 0, %p0;
    isspacep.global %p1, %x; selp.u32 %r4, 1000, 0, %p1;
    isspacep.global %p2, %d3; @%p2 trap;
    isspacep.local %p2, %x; @%p2 trap;
    cvta.to.shared.u64 %d4, %d3; setp.ne.u64 %p3, %d4, %d2; @%p3 trap;
    add.u32 %r0, %r2, %r3; add.u32 %r0, %r0, %r4;
    """
    assert values(body + STORE) == [lane + 1100 for lane in range(32)]


def test_constants_and_variables_of_the_module() -> None:
    module = (
        ".const .align 4 .b32 table[4] = {5, 6, 7, 8};\n.global .align 4 .b32 counter[2] = {40, 2};"
    )
    body = """
    and.b32 %r1, %lane, 3; mul.wide.u32 %d0, %r1, 4;
    mov.u64 %d1, table; add.u64 %d1, %d1, %d0; ld.const.u32 %r2, [%d1];
    mov.u64 %d2, counter; ld.global.u32 %r3, [%d2]; ld.global.u32 %r4, [%d2+4];
    add.u32 %r0, %r2, %r3; add.u32 %r0, %r0, %r4;
    """
    assert values(body + STORE, module=module) == [47 + lane % 4 for lane in range(32)]


@pytest.mark.parametrize("width", [2, 4])
def test_vectors(width: int) -> None:
    names = ", ".join(f"%r{10 + i}" for i in range(width))
    body = f"""
    mul.wide.u32 %d0, %lane, {4 * width}; add.u64 %d1, %x, %d0;
    ld.global.v{width}.u32 {{{names}}}, [%d1];
    mul.lo.u32 %r1, %lane, {4 * width}; add.u32 %r1, %r1, sm;
    st.shared.v{width}.u32 [%r1], {{{names}}};
    ld.shared.u32 %r0, [%r1+{4 * width - 4}];
    """
    assert values(body + STORE) == [lane * width + width - 1 for lane in range(32)]


def test_128_bits_in_one_register() -> None:
    body = """
    mul.wide.u32 %d0, %lane, 16; add.u64 %d1, %x, %d0;
    ld.global.b128 %q0, [%d1];
    mul.lo.u32 %r1, %lane, 16; add.u32 %r1, %r1, sm;
    st.shared.b128 [%r1], %q0;
    mov.b128 {%d2, %d3}, %q0;
    ld.shared.u32 %r2, [%r1+12];
    shr.u64 %d3, %d3, 32; cvt.u32.u64 %r3, %d3;
    sub.u32 %r4, %r2, %r3; add.u32 %r0, %r2, %r4;
    """
    assert values(body + STORE) == [4 * lane + 3 for lane in range(32)]


def test_sign_and_width_of_narrow_loads() -> None:
    body = """
    ld.global.s8 %r1, [%x]; ld.global.u8 %r2, [%x];
    ld.global.s16 %r3, [%x]; ld.global.u16 %r4, [%x];
    add.u32 %r1, %r1, %r2; add.u32 %r3, %r3, %r4; add.u32 %r0, %r1, %r3;
    """
    expected = (-1 + 255 + -129 + 65407) & 0xFFFFFFFF
    assert values(body + STORE, x=[0xFFFFFF7F | 0x80]) != [expected] * 32  # bytes are ff ff ff ff
    assert (
        values(body + STORE, x=[0xFF7F])
        == [(0x7F + 0x7F + (0xFF7F - 0x10000) + 0xFF7F) & 0xFFFFFFFF] * 32
    )


@pytest.mark.parametrize(
    ("access", "space"),
    [
        ("ld.global.u32 %r0, [%x+4096];", "x"),
        ("ld.global.u32 %r0, [%x+-4];", ""),
        ("st.global.v4.u32 [%out+4096], {%r1, %r1, %r1, %r1};", "out"),
        ("ld.shared.u32 %r0, [sm+4096];", ""),
        ("st.shared.u32 [sm+-16], %lane;", ""),
        ("atom.global.add.u32 %r0, [%x+8192], 1;", "x"),
        ("ld.global.u32 %r0, [1234560];", ""),
    ],
)
def test_out_of_bounds(access: str, space: str) -> None:
    one = finding(f"mov.u32 %r1, 0; {access}", "out-of-bounds")
    assert at(one, access.split()[0])
    assert (one.buffer or "") == space


@pytest.mark.parametrize(
    "access",
    [
        "ld.global.u32 %r0, [%x+2];",
        "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%x+8];",
        "st.shared.u64 [sm+4], %x;",
        "ld.shared.b128 %q0, [sm+8];",
        "ld.global.u16 %h0, [%x+1];",
        "atom.shared.add.u32 %r0, [sm+2], 1;",
        "red.global.add.u64 [%x+4], 1;",
    ],
)
def test_misaligned(access: str) -> None:
    assert at(finding(access, "misaligned"), access.split()[0])


def test_nobody_writes_constants_or_parameters() -> None:
    module = ".const .align 4 .b32 table[1] = {5};"
    body = "mov.u64 %d1, table; cvta.const.u64 %d1, %d1; st.u32 [%d1], %lane;"
    assert found(body, module=module) == {"out-of-bounds"}


def test_undefined_memory() -> None:
    assert found(f"ld.global.u32 %r0, [%o]; {STORE}", init="undefined") == {"uninitialized"}
    assert found(f"ld.shared.u32 %r0, [sm]; {STORE}") == {"uninitialized"}
    clean("ld.shared.u32 %r0, [sm];")  # read, and never used


def test_undefined_bytes_travel_through_shared_memory() -> None:
    body = f"""
    {ADDRESS}
    st.shared.u32 [%r1], %r5;
    ld.shared.u32 %r0, [%r1];
    add.u32 %r0, %r0, 1;
    """
    assert found(body + STORE) == {"uninitialized"}
    clean(body)


def test_part_of_a_word_that_nobody_wrote() -> None:
    body = f"{ADDRESS} mov.b16 %h0, 1; st.shared.b16 [%r1], %h0; ld.shared.u32 %r0, [%r1];"
    assert found(body + STORE) == {"uninitialized"}
    clean(body + "ld.shared.u16 %r0, [%r1];" + STORE)


def test_select_takes_undefined_bits_of_the_chosen_arm_only() -> None:
    clean("setp.ge.u32 %p0, %lane, 0; selp.u32 %r0, %lane, %r5, %p0;" + STORE)
    assert found("setp.lt.u32 %p0, %lane, 1; selp.u32 %r0, %lane, %r5, %p0;" + STORE) == {
        "uninitialized"
    }
    assert found(f"selp.u32 %r0, 1, 2, %p5; {STORE}") == {"uninitialized"}


def test_a_mask_takes_the_undefined_half_of_a_register_away() -> None:
    """As NVRTC asks whether both numbers of a division of 64 bits have 32 bits only."""
    store = "cvt.u32.u64 %r0, %d1;" + STORE
    for halves, mask in (("{%r5, %lane}", -(1 << 32)), ("{%lane, %r5}", (1 << 32) - 1)):
        pack = f"mov.b64 %d2, {halves}; mov.b64 %d0, %d2;"
        clean(f"{pack} and.b64 %d1, %d0, {mask}; {store}")
        assert found(f"{pack} and.b64 %d1, %d0, {mask ^ -1}; {store}") == {"uninitialized"}
        assert found(f"{pack} add.u64 %d1, %d0, 1; {store}") == {"uninitialized"}
    clean(f"mov.b64 %d0, {{%r5, %lane}}; mov.b64 {{%r6, %r0}}, %d0; {STORE}")
    assert found(f"mov.b64 %d0, {{%r5, %lane}}; mov.b64 {{%r0, %r6}}, %d0; {STORE}") == {
        "uninitialized"
    }


def test_halves_of_words_are_undefined_apart() -> None:
    """As two results are rounded to one word, of which one has no input."""
    store = "and.b32 %r0, %r3, {}; " + STORE
    makings = (
        ("mov.b32 {%h0, %h1}, %lane; mov.b32 {%h2, %h3}, %r5;", "mov.b32 %r3, {%h0, %h2};", -65536),
        ("cvt.rn.f32.u32 %f0, %lane;", "cvt.rn.bf16x2.f32 %r3, %f5, %f0;", -65536),
        ("cvt.rn.f32.u32 %f0, %lane;", "cvt.rn.f16x2.f32 %r3, %f0, %f5;", 65535),
    )
    for first, pack, lost in makings:
        clean(first + pack + store.format(lost ^ -1))
        assert found(first + pack + store.format(lost)) == {"uninitialized"}
        assert found(f"{first} {pack} add.u32 %r0, %r3, 1; {STORE}") == {"uninitialized"}


def test_undefined_address_of_a_store() -> None:
    assert "uninitialized" in found("st.global.u32 [%d5], %lane;")


def test_the_non_coherent_path_reads_what_nobody_writes() -> None:
    own = "mul.wide.u32 %d0, %tid, 4; add.u64 %d1, %x, %d0;"
    assert values(f"{own} ld.global.nc.u32 %r0, [%d1]; {STORE}") == list(range(32))
    written = f"{own} st.global.u32 [%d1], 7; ld.global{{}}.u32 %r0, [%d1]; {STORE}"
    assert values(written.format("")) == [7] * 32
    one = finding(written.format(".nc"), "race")
    assert "non-coherent" in one.message
    assert at(one, "ld.global.nc.u32")
    assert one.buffer == "x"


def test_a_variable_of_the_module_is_read_and_then_written() -> None:
    """Such a run had been started again for ever."""
    counter = ".global .align 4 .u32 v = 5;"
    load = "mov.u64 %d0, v; ld.global.u32 %r0, [%d0];"
    add = f"{load} add.u32 %r0, %r0, 1; st.global.u32 [%d0], %r0; {STORE}"
    assert values(add, threads=1, module=counter) == [6]
    race = f"{load} setp.eq.u32 %p0, %tid, 32; @%p0 st.global.u32 [%d0], 9; {STORE}"
    assert found(race, threads=64, module=counter) == {"race"}


VECTORS = """mul.wide.u32 %d0, %tid, 16; add.u64 %d1, %x, %d0;
ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d1]; st.global.u32 [%o], %r3;"""


@pytest.mark.parametrize("given", [125, 126, 127])
def test_vector_that_ends_behind_a_buffer(given: int) -> None:
    """The rest of its 16 bytes is there to be read where it is open, and NaN."""
    assert values(VECTORS, given=given, is_open=True) == [*range(3, 127, 4), 0xFFFFFFFF]
    assert "out-of-bounds" in found(VECTORS, given=given)


def test_accesses_that_nothing_opens() -> None:
    """Vectors that begin behind the buffer, and stores."""
    assert "out-of-bounds" in found(VECTORS, given=124, is_open=True)
    store = VECTORS.replace("u32 [%o], %r3", "v4.u32 [%d1], {%r0, %r1, %r2, %r3}")
    clean(store, given=128, is_open=True)
    assert "out-of-bounds" in found(store, given=127, is_open=True)


def test_word_that_a_buffer_of_short_elements_ends_in() -> None:
    body = """setp.ne.u32 %p0, %tid, 0; @%p0 bra DONE;
    ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%x]; st.global.u32 [%o], %r1;"""
    report = run(body, given=3, dtype="uint16", x=[7, 8, 9], is_open=True)
    assert report.verdict == "clean", str(report)
    assert report.arrays["out"][0:2].tolist() == [9, 0xFFFF]
