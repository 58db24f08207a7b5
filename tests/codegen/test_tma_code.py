"""Who issues copies in machine code, on texts as nvdisasm prints them."""

import pytest

from tests.support.machine_code import parsed
from tests.support.tma_code import Issue, Lanes, tma_predicates
from warpsmith.errors import CompileError

COPY = "UTMASTG.2D [UR8], [UR16] ;"
THREAD = "S2R R0, SR_TID.X ;"
WARP = f"{THREAD}\nSHF.R.U32.HI R0, RZ, 0x5, R0 ;\nSHFL.IDX PT, R0, R0, RZ, 0x1f ;"
TESTED = "ISETP.NE.AND P0, PT, R0, RZ, PT ;"
BEHIND = f"@P0 BRA `(.L_x_0) ;\n{COPY}\n.L_x_0:\nEXIT ;"


def printed(body: str) -> str:
    return f"\t.section .text.k\n.text.k:\n{body}\n.section .nv.info\n"


def only(body: str) -> Issue:
    (issue,) = tma_predicates(printed(body))
    return issue


@pytest.mark.parametrize(
    ("body", "lanes"),
    [
        (f"{COPY}\nEXIT ;", Lanes.WARP),
        (f"{WARP}\n{TESTED}\n{BEHIND}", Lanes.WARP),
        (f"{THREAD}\n{TESTED}\n{BEHIND}", Lanes.SOME),
        (f"ELECT P0, URZ, PT ;\n{BEHIND}", Lanes.ELECTED),
        (f"{WARP}\nELECT P1, URZ, PT ;\nISETP.NE.OR P0, PT, R0, RZ, !P1 ;\n{BEHIND}", 1),
        (f"{THREAD}\nELECT P1, URZ, PT ;\nISETP.LT.AND P0, PT, R0, 0x20, P1 ;\n{BEHIND}", 2),
        (f"S2R R0, SR_CTAID.X ;\n{TESTED}\n{BEHIND}", Lanes.WARP),
        (f"S2R R0, SR_LANEID ;\n{TESTED}\n{BEHIND}", Lanes.SOME),
        (f"LDC R0, c[0x0][0x210] ;\n{TESTED}\n{BEHIND}", Lanes.WARP),
        (f"LDG.E R0, desc[UR4][R2.64] ;\n{TESTED}\n{BEHIND}", Lanes.SOME),
        (f"{THREAD}\n{TESTED}\nVOTE.ANY R1, P0, P0 ;\n{BEHIND}", Lanes.SOME),
        (f"{THREAD}\n{TESTED}\nVOTEU.ANY UP0, P0 ;\n@UP0 {COPY}\nEXIT ;", Lanes.WARP),
        (f"{THREAD}\nSHFL.IDX PT, R0, R0, R0, 0x1f ;\n{TESTED}\n{BEHIND}", Lanes.SOME),
        (f"{THREAD}\nSHFL.BFLY PT, R0, R0, 0x1, 0x1f ;\n{TESTED}\n{BEHIND}", Lanes.SOME),
        (f"{THREAD}\n{TESTED}\n@P0 EXIT ;\n{COPY}\nEXIT ;", Lanes.SOME),
        (f"ELECT P0, URZ, PT ;\n@!P0 EXIT ;\n{COPY}\nEXIT ;", Lanes.ELECTED),
        (f"{THREAD}\n{TESTED}\nBRA.U UP0, `(.L_x_0) ;\n{COPY}\n.L_x_0:\nEXIT ;", Lanes.WARP),
        (f"{THREAD}\n{TESTED}\n@P0 {COPY}\nEXIT ;", Lanes.SOME),
    ],
)
def test_lanes_that_come_to_a_copy(body: str, lanes: int) -> None:
    assert only(body).lanes == lanes


def test_the_second_half_of_a_wide_result_is_one_too() -> None:
    wide = f"{THREAD}\nIMAD.WIDE R4, R0, 0x4, R2 ;\nISETP.NE.AND P0, PT, R5, RZ, PT ;\n{BEHIND}"
    assert only(wide).lanes is Lanes.SOME
    assert only(wide.replace("IMAD.WIDE", "IMAD")).lanes is Lanes.WARP


def test_what_lanes_set_apart_from_each_other_differs_where_they_meet() -> None:
    """R4 is 1 or 2 by the lane; neither value differs where it is set."""
    body = f"""{THREAD}
{TESTED}
IMAD.MOV.U32 R4, RZ, RZ, 0x1 ;
@P0 BRA `(.L_x_1) ;
IMAD.MOV.U32 R4, RZ, RZ, 0x2 ;
.L_x_1:
ISETP.NE.AND P0, PT, R4, 0x1, PT ;
{BEHIND}"""
    assert only(body).lanes is Lanes.SOME
    assert only(body.replace(THREAD, WARP)).lanes is Lanes.WARP


def test_an_instruction_under_a_predicate_keeps_what_was_there() -> None:
    body = f"{THREAD}\n{TESTED}\n@P0 IMAD.MOV.U32 R4, RZ, RZ, 0x1 ;\n"
    rest = f"ISETP.NE.AND P0, PT, R4, RZ, PT ;\n{BEHIND}"
    assert only(body + rest).lanes is Lanes.SOME
    assert only(body.replace(THREAD, WARP) + rest).lanes is Lanes.WARP


def test_a_loop_that_peels_lanes_off_is_one_of_some_lanes() -> None:
    body = f"""{THREAD}
.L_x_0:
ISETP.NE.AND P0, PT, R0, RZ, PT ;
@P0 ELECT P2, URZ, PT ;
@P2 R2UR UR8, R0 ;
{COPY}
@P0 BRA.U.ANY `(.L_x_0) ;
EXIT ;"""
    assert only(body).lanes is Lanes.SOME


def test_a_wait_of_all_lanes_does_not_tell_them_apart() -> None:
    wait = "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR5+0x600], R2 ;"
    body = f".L_x_1:\n{wait}\n@!P0 BRA `(.L_x_1) ;\n{COPY}\nEXIT ;"
    assert only(body).lanes is Lanes.WARP


def test_a_called_function_may_write_what_it_writes() -> None:
    body = (
        f"{WARP}\nCALL.REL.NOINC `(k_div) ;\n{TESTED}\n{BEHIND}\nk_div:\nMUFU.RCP {{}}, R9 ;\nRET ;"
    )
    assert only(body.format("R0")).lanes is Lanes.SOME
    assert only(body.format("R7")).lanes is Lanes.WARP


def test_between_bssy_and_bsync_is_a_region() -> None:
    opened = f"BSSY B0, `(.L_x_1) ;\n{WARP}\n{TESTED}\n"
    closed = f"@P0 BRA `(.L_x_0) ;\n{COPY}\n.L_x_0:\nBSYNC B0 ;\n.L_x_1:\n"
    assert only(f"{opened}{closed}EXIT ;").region
    assert not only(f"{opened}BSYNC B0 ;\n.L_x_1:\n{COPY}\nEXIT ;").region
    assert only(f"BSSY B1, `(.L_x_2) ;\n{opened}{closed}BSYNC B1 ;\n.L_x_2:\nEXIT ;").region


def test_uniform_is_neither_of_some_lanes_nor_in_a_region() -> None:
    def issue(lanes: Lanes, region: bool) -> Issue:
        return Issue(instruction=COPY, lanes=lanes, region=region)

    assert [issue(lanes, False).is_uniform for lanes in Lanes] == [True, True, False]
    assert not any(issue(lanes, True).is_uniform for lanes in Lanes)


def test_loads_runs_and_prefetches_are_copies_and_flushes_are_none() -> None:
    text = "\n".join(
        [
            "UTMALDG.5D [UR8], [UR26] ;",
            "@!UP0 UBLKCP.S.G [UR4], [UR8], UR6 ;",
            "UTMAPF.L2.2D [UR4], [UR8] ;",
            "UTMACMDFLUSH ;",
            "EXIT ;",
        ]
    )
    found = [issue.instruction.split(" [")[0] for issue in tma_predicates(printed(text))]
    assert found == ["UTMALDG.5D", "@!UP0 UBLKCP.S.G", "UTMAPF.L2.2D"]


def test_code_that_is_never_reached_has_no_copies() -> None:
    assert tma_predicates(printed(f"EXIT ;\n{COPY}\nEXIT ;")) == ()


def test_a_text_without_a_kernel_is_refused() -> None:
    with pytest.raises(CompileError, match="no kernel"):
        tma_predicates("nothing")


def test_blocks_and_who_decides_on_them() -> None:
    code = parsed(printed(f"{THREAD}\n{TESTED}\n{BEHIND}"))
    assert code.blocks == (range(3), range(3, 4), range(4, 5))
    assert code.successors == ((1, 2), (2,), (3,))
    assert code.deciders == (frozenset(), frozenset({0}), frozenset())
