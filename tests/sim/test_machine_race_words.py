"""What is said of races: who fenced in place of whom, and where in a word they begin."""

import pytest

from tests.sim.support.machine import clean, finding, run, text_of
from tests.sim.test_machine_order import FLAG


def last_block(before: str, after: str, signal: str = "atom.relaxed.gpu.global.add.u32") -> str:
    """All threads of CTA 0 write and its thread 0 signals; CTA 1 waits for that, and reads.

    `before` stands in front of the CTA barrier, in all threads; `after` behind it, in thread 0.
    """
    return f"""
    setp.eq.u32 %p0, %cta, 1; setp.eq.u32 %p2, %tid, 0;
    @%p0 bra READER;
    mov.u32 %r2, 42; mul.wide.u32 %d0, %tid, 4; add.s64 %d1, %x, %d0; st.global.u32 [%d1], %r2;
    {before}
    bar.sync 0;
    @!%p2 bra DONE;
    {after}
    {signal} %r9, [{FLAG}], 1;
    bra DONE;
    READER:
    @!%p2 bra READ;
    SPIN: ld.acquire.gpu.global.u32 %r1, [{FLAG}]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN;
    READ: bar.sync 0;
    mul.wide.u32 %d0, %tid, 4; add.s64 %d1, %x, %d0; ld.global.u32 %r0, [%d1];
    st.global.u32 [%o], %r0;
    """


ALL_FENCE = "fence.acq_rel.gpu;"


ELSEWHERE = "the fences stood in other threads than warp 0 lane 0 of CTA 0, which signals at line "


def said(body: str) -> str:
    report = run(body, threads=64, grid=2)
    assert {finding.kind for finding in report.findings} == {"race"}, str(report)
    return str(report)


def test_fences_of_other_threads_than_the_one_that_signals() -> None:
    body = last_block(ALL_FENCE, "")
    text = said(body)
    line = (
        text_of(body).splitlines().index(f"    atom.relaxed.gpu.global.add.u32 %r9, [{FLAG}], 1;")
    )
    assert f"{ELSEWHERE}{line + 1}, and a fence publishes what its own thread knows" in text
    assert "put a fence, or a release, into that thread behind the barrier" in text


def test_a_reader_that_fences_gets_the_same_words() -> None:
    body = last_block(ALL_FENCE, "").replace("ld.acquire.gpu", "ld.relaxed.gpu")
    assert ELSEWHERE in said(body.replace("READ: bar.sync", f"{ALL_FENCE} READ: bar.sync"))


def test_the_remedy_is_one() -> None:
    for before in (ALL_FENCE, ""):
        clean(last_block(before, ALL_FENCE), threads=64, grid=2)
        clean(last_block(before, "", "atom.release.gpu.global.add.u32"), threads=64, grid=2)


@pytest.mark.parametrize(
    "body",
    [
        last_block("", ""),  # nobody fences
        last_block(f"@%p2 {ALL_FENCE}", ""),  # only the one that signals, too early
        last_block(ALL_FENCE, "").replace("ld.acquire.gpu", "ld.relaxed.gpu"),  # nothing acquires
        last_block(ALL_FENCE, "").replace("bar.sync 0;\n    @!%p2 bra DONE;", "@!%p2 bra DONE;"),
        last_block("fence.acq_rel.gpu;", "", "atom.relaxed.cta.global.add.u32"),
    ],
)
def test_other_races_do_not_get_these_words(body: str) -> None:
    text = said(body)
    assert "the fences stood" not in text
    assert "with nothing that orders the two" in text


WHOLE = "@%p0 st.shared.v4.u32 [sm+16], {%r0, %r0, %r0, %r0};"


WORDS = "\n".join(f"@%p0 st.shared.u32 [sm+{place}], %r0;" for place in (16, 20, 24, 28))


PARTS = {
    "st.shared.u32 [sm+16], %r1;": 16,
    "st.shared.u16 [sm+22], %h1;": 22,
    "st.shared.u8 [sm+31], %h1;": 31,
    "st.shared.v2.u32 [sm+24], {%r1, %r1};": 24,
}


@pytest.mark.parametrize("written", [WHOLE, WORDS], ids=["at once", "by words"])
@pytest.mark.parametrize("part", PARTS)
def test_races_in_a_part_of_what_another_warp_wrote_are_found_where_it_begins(
    part: str, written: str
) -> None:
    place = PARTS[part]
    begin = f"""
    setp.eq.u32 %p0, %tid, 0; setp.eq.u32 %p1, %tid, 32;
    mov.u32 %r0, 0x01010101; mov.u32 %r1, 0x02020202; mov.u16 %h1, 0x0202;
    {written}
    """
    piece, read = f"@%p1 {part}", "@%p0 ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [sm+16];"
    clean(f"{begin} bar.sync 0;\n{piece}\nbar.sync 0;\n{read}", threads=64)
    race = finding(f"{begin}\n{piece}", "race", threads=64, count=1)
    assert race.address == 1024 + place
    race = finding(f"{begin} bar.sync 0;\n{piece}\n{read}", "race", threads=64, count=1)
    assert race.address == 1024 + place
