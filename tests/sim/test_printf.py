"""What kernels print, and what a failed assertion says."""

import pytest

from tests.sim.support.small import ptx_of, run_body
from warpsmith import sim


@pytest.mark.parametrize(
    ("call", "printed"),
    [
        (r'printf("plain\n")', "plain\n"),
        (r'printf("%d|%i|%5d|%-5d|%+d|%05d\n", -1, 7, 42, 42, 42, 42)', None),
        (
            r'printf("%u %x %X %o %#x\n", 4000000000u, 255, 255, 8, 255)',
            "4000000000 ff FF 10 0xff\n",
        ),
        (r'printf("%lld %llu %ld %zu\n", -1ll << 40, 1ull << 63, 5l, sizeof(int))', None),
        (r'printf("%hhd %hd %hhu\n", 300, 70000, 300)', "44 4464 44\n"),
        (
            r'printf("%f %.2f %8.3f %-8.1f| %e %g %+.0e\n", 1.5, 1.005, 2.5, 3.5, 1e10, 1e-5, -2.)',
            None,
        ),
        (r'printf("%a %F %E %G\n", 1.0, 1.0, 1.0, 1.0)', "0x1p+0 1.000000 1.000000E+00 1\n"),
        (r'printf("%c%c %%|%5s|%-5s|%.2s\n", 72, 105, "ab", "ab", "abc")', "Hi %|   ab|ab   |ab\n"),
        (r'printf("%*d|%-*d|%.*f\n", 6, 1, 6, 2, 1, 0.25)', "     1|2     |0.2\n"),
        (r'printf("%d %f %d %s\n", 1, 2.0, 3, "x")', "1 2.000000 3 x\n"),
        (r'printf("%s\n", (const char*)nullptr)', "(null)\n"),
        (r'printf("%f %f\n", 1.0 / 0.0, 3.4e38f * 10)', "inf inf\n"),
    ],
)
def test_conversions_are_those_of_c(call: str, printed: str | None) -> None:
    report = run_body(f"{call};", block=1)
    assert report.verdict == "clean", str(report)
    known = {
        "%d|%i": "-1|7|   42|42   |+42|00042\n",
        "%lld": "-1099511627776 9223372036854775808 5 4\n",
        "%f %.2f": "1.500000 1.00    2.500 3.5     | 1.000000e+10 1e-05 -2e+00\n",
    }
    if printed is None:
        printed = next(text for start, text in known.items() if f'"{start}' in call)
    assert report.printed == printed


def test_lanes_print_in_order_and_only_those_that_call() -> None:
    report = run_body(r'if (threadIdx.x % 8 == 3) printf("lane %d\n", threadIdx.x);')
    assert report.printed == "lane 3\nlane 11\nlane 19\nlane 27\n"


def test_what_the_first_schedule_printed_is_kept() -> None:
    report = run_body(r'printf("once\n");', block=1, schedules=4)
    assert report.printed == "once\n"
    assert report.to_json()["printed"] == "once\n"


def test_printf_gives_the_number_of_its_arguments() -> None:
    body = r'int n = printf("%d %d\n", 1, 2); printf("%d\n", n);'
    assert run_body(body, block=1).printed == "1 2\n2\n"


def test_an_argument_that_nobody_wrote_is_a_finding() -> None:
    body = (
        r'__shared__ int x; __shared__ int y; if (threadIdx.x) y = 1; printf("%d\n", x + (y & 0));'
    )
    report = run_body(body, block=1)
    assert [finding.kind for finding in report.findings] == ["uninitialized"]


def test_an_unknown_conversion_is_a_finding() -> None:
    (finding,) = run_body(r'printf("%y\n", 1);', block=1).findings
    assert finding.kind == "illegal-argument"
    assert "%y" in finding.message


def test_a_string_outside_of_all_memory_is_a_finding() -> None:
    (finding,) = run_body(r'printf("%s\n", (const char*)16);', block=1).findings
    assert finding.kind == "out-of-bounds"
    assert "a string that printf is given at 0x10" in finding.message


def test_a_lot_of_output_is_cut_off() -> None:
    body = r'for (int i = 0; i < 3000; ++i) printf("%0400d\n", i);'
    report = run_body(body, block=1)
    assert report.verdict == "clean"
    assert len(report.printed) == 1 << 20


def test_a_failed_assertion_gives_its_words() -> None:
    body = 'if (n != 3) __assertfail("n == 3", "file.cu", 17, "kernel", 1);'
    ptx = ptx_of(body, "int n")
    spec = {"grid": [1], "block": [32], "params": [{"i32": 3}]}
    assert sim.run(ptx, spec).verdict == "clean"
    report = sim.run(ptx, {**spec, "params": [{"i32": 4}]}, schedules=1)
    (finding,) = report.findings
    assert finding.kind == "trap"
    assert finding.message == "a device assertion failed: `n == 3` at file.cu:17 in kernel"
    assert finding.site.source
    assert finding.site.source.endswith("k.cu:2")
