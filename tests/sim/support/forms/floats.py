"""Arithmetic of floats: exact, of halves, approximate."""

from collections.abc import Iterator
from itertools import product

from tests.sim.support.forms.form import EXACT_ROUNDS, HALVES, Form, simple


def floats() -> Iterator[Form]:
    """f32 and f64, exact."""
    limits = ((), (".ftz",), (".sat",), (".ftz", ".sat"))
    for rounding in EXACT_ROUNDS:
        for extra in limits:
            for op in ("add", "sub", "mul"):
                yield simple(op, "f32", 2, rounding, *extra)
            yield simple("fma", "f32", 3, rounding, *extra)
        for extra in limits[:2]:
            yield simple("div", "f32", 2, rounding, *extra)
            yield simple("rcp", "f32", 1, rounding, *extra)
            yield simple("sqrt", "f32", 1, rounding, *extra)
        for op in ("add", "sub", "mul", "div"):
            yield simple(op, "f64", 2, rounding)
        yield simple("fma", "f64", 3, rounding)
        yield simple("mad", "f64", 3, rounding)
        yield simple("rcp", "f64", 1, rounding)
        yield simple("sqrt", "f64", 1, rounding)
    for op, sources in (("abs", 1), ("neg", 1)):
        yield simple(op, "f32", sources)
        yield simple(op, "f32", sources, ".ftz")
        yield simple(op, "f64", sources)
    for op in ("min", "max"):
        yield simple(op, "f64", 2)
        for ftz, nan, sign in product(((), (".ftz",)), ((), (".NaN",)), ((), (".xorsign.abs",))):
            yield simple(op, "f32", 2, *ftz, *nan, *sign)
    for width in ("32", "64"):
        yield simple("copysign", f"f{width}", 2)
        for mode in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield simple(
                "testp", f"f{width}", 1, mode=mode, text=f"testp.{mode}.f{width} Dp, A{width};"
            )


def halves() -> Iterator[Form]:
    """f16 and bf16, alone and in pairs."""
    for type_ in HALVES:
        is_f16 = type_.startswith("f")
        for op in ("add", "sub", "mul"):
            for extra in ((), (".ftz",), (".sat",), (".ftz", ".sat")):
                if is_f16 or not extra:
                    yield simple(op, type_, 2, ".rn", *extra)
        for extra in ((), (".ftz",), (".sat",), (".ftz", ".sat"), (".relu",), (".ftz", ".relu")):
            if is_f16 or extra in ((), (".relu",)):
                yield simple("fma", type_, 3, ".rn", *extra)
        for op in ("abs", "neg"):
            yield simple(op, type_, 1)
            if is_f16:
                yield simple(op, type_, 1, ".ftz")
        for op, ftz, nan, sign in product(
            ("min", "max"), ((), (".ftz",)), ((), (".NaN",)), ((), (".xorsign.abs",))
        ):
            if is_f16 or not ftz:
                yield simple(op, type_, 2, *ftz, *nan, *sign)


def approximate() -> Iterator[Form]:
    """Functions that the GPU approximates."""
    for ftz in ((), (".ftz",)):
        for op, ulps in (("rcp", 1), ("sqrt", 3), ("rsqrt", 2), ("ex2", 2)):
            yield simple(op, "f32", 1, ".approx", *ftz, ulps=ulps)
        for op in ("sin", "cos", "lg2"):
            yield simple(op, "f32", 1, ".approx", *ftz, ulps=1 << 40)
        for kind in (".approx", ".full"):
            yield simple("div", "f32", 2, kind, *ftz, ulps=2)
    yield simple("tanh", "f32", 1, ".approx", ulps=1 << 14)
    for type_ in HALVES:
        yield simple("tanh", type_, 1, ".approx", ulps=1)
    for type_ in ("f16", "f16x2"):
        yield simple("ex2", type_, 1, ".approx", ulps=1)
    for type_ in ("bf16", "bf16x2"):
        yield simple("ex2", type_, 1, ".approx", ".ftz", ulps=1)
    yield simple("rcp", "f64", 1, ".approx", ".ftz", ulps=1 << 33)
    yield simple("rsqrt", "f64", 1, ".approx", ".ftz", ulps=1 << 33)
    yield simple("rsqrt", "f64", 1, ".approx", ulps=4)
