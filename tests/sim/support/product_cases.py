"""Matrix products that were run on an H200: their operands, from seeds."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.sim.support.native_parts import Product, descriptor
from tests.sim.support.random_bits import Bits, Style, Words, floats
from warpsmith.sim.isa import Flag, Type

Bytes = npt.NDArray[np.uint8]

WIDTH = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f32": 32,
    "f64": 64,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "s32": 32,
}
STYLES = (
    *(Style(1), Style(4), Style(9, zeros=0.1), Style(14, zeros=0.5), Style(40, zeros=0.1)),
    *(Style(300, zeros=0.05), Style(3, -14, zeros=0.2), Style(4, zeros=0.1, specials=0.02)),
    *(Style(20, -126, zeros=0.3), Style(3, 13, zeros=0.3)),
)


@dataclass(frozen=True, slots=True)
class Mma:
    name: str
    m: int
    k: int
    d: str
    a: str
    b: str

    @property
    def product(self) -> Product:
        return _product(self.name, self.d, self.a, self.b, self.m, 8, self.k)


@dataclass(frozen=True, slots=True)
class WgmmaForm:
    name: str
    n: int
    k: int
    d: str
    a: str
    b: str
    a_registers: bool = False
    a_transposed: bool = False
    b_transposed: bool = False
    scale_a: int = 1
    scale_b: int = 1

    @property
    def product(self) -> Product:
        return _product(self.name, self.d, self.a, self.b, 64, self.n, self.k)


def _product(name: str, d: str, a: str, b: str, m: int, n: int, k: int) -> Product:
    types = {"d": Type[d.upper()], "a": Type[a.upper()], "b": Type[b.upper()]}
    flags = Flag.SATFINITE if name.endswith("sat") else Flag.NONE
    return Product(**types, m=m, n=n, k=k, flags=flags)


MMA = (
    *(Mma(f"f16_k{k}_{d}", 16, k, d, "f16", "f16") for d in ("f32", "f16") for k in (8, 16)),
    *(Mma(f"bf16_k{k}", 16, k, "f32", "bf16", "bf16") for k in (8, 16)),
    *(Mma(f"tf32_k{k}", 16, k, "f32", "tf32", "tf32") for k in (4, 8)),
    Mma("e4m3_k32", 16, 32, "f32", "e4m3", "e4m3"),
    Mma("e5m2_k32", 16, 32, "f32", "e5m2", "e5m2"),
    Mma("mixed_k32", 16, 32, "f32", "e4m3", "e5m2"),
    Mma("e4m3_k16", 16, 16, "f32", "e4m3", "e4m3"),
    Mma("e4m3_k32_f16", 16, 32, "f16", "e4m3", "e4m3"),
    Mma("e5m2_k16_f16", 16, 16, "f16", "e5m2", "e5m2"),
    Mma("f64_8_k4", 8, 4, "f64", "f64", "f64"),
    *(Mma(f"f64_k{k}", 16, k, "f64", "f64", "f64") for k in (4, 8, 16)),
    Mma("s8_k16", 16, 16, "s32", "s8", "s8"),
    Mma("u8_k32", 16, 32, "s32", "u8", "u8"),
    Mma("s8_k32_sat", 16, 32, "s32", "s8", "s8"),
    Mma("us_k32", 16, 32, "s32", "u8", "s8"),
    Mma("s8_k32", 16, 32, "s32", "s8", "s8"),
)
WGMMA = (
    WgmmaForm("f16_n8", 8, 16, "f32", "f16", "f16"),
    WgmmaForm("f16_n64", 64, 16, "f32", "f16", "f16"),
    WgmmaForm("f16_n64_ta", 64, 16, "f32", "f16", "f16", a_transposed=True),
    WgmmaForm("f16_n64_tb", 64, 16, "f32", "f16", "f16", b_transposed=True),
    WgmmaForm("f16_n200_tab", 200, 16, "f32", "f16", "f16", False, True, True, -1),
    WgmmaForm("bf16_n256", 256, 16, "f32", "bf16", "bf16"),
    WgmmaForm("bf16_n24_tab", 24, 16, "f32", "bf16", "bf16", False, True, True, 1, -1),
    WgmmaForm("bf16_n16_ra", 16, 16, "f32", "bf16", "bf16", True, b_transposed=True),
    WgmmaForm("f16_n16_h", 16, 16, "f16", "f16", "f16"),
    WgmmaForm("f16_n40_h_ra", 40, 16, "f16", "f16", "f16", True, scale_a=-1, scale_b=-1),
    WgmmaForm("tf32_n16", 16, 8, "f32", "tf32", "tf32"),
    WgmmaForm("tf32_n8_ra", 8, 8, "f32", "tf32", "tf32", True),
    WgmmaForm("e4m3_n16", 16, 32, "f32", "e4m3", "e4m3"),
    WgmmaForm("e5m2_n16", 16, 32, "f32", "e5m2", "e5m2"),
    WgmmaForm("mixed_n8_ra", 8, 32, "f32", "e4m3", "e5m2", True),
    WgmmaForm("e4m3_n16_h", 16, 32, "f16", "e4m3", "e4m3"),
    WgmmaForm("s8_n16", 16, 32, "s32", "s8", "s8"),
    WgmmaForm("us_n96_sat", 96, 32, "s32", "u8", "s8"),
    WgmmaForm("u8_n8_ra", 8, 32, "s32", "u8", "u8", True),
    WgmmaForm("bf16_n16", 16, 16, "f32", "bf16", "bf16"),
    WgmmaForm("bf16_n8_ra", 8, 16, "f32", "bf16", "bf16", True, scale_a=-1),
    WgmmaForm("f16_n8_ra", 8, 16, "f32", "f16", "f16", True, scale_b=-1),
    WgmmaForm("e5m2_n8_h_ra", 8, 32, "f16", "e5m2", "e5m2", True),
    WgmmaForm("s8_n16_sat", 16, 32, "s32", "s8", "s8"),
    WgmmaForm("tf32_n248", 248, 8, "f32", "tf32", "tf32"),
)


def pack(values: Words, width: int) -> Words:
    """The last axis, elements, into one slot each."""
    out = np.zeros(values.shape[:-1], np.uint64)
    for i in range(values.shape[-1]):
        out |= values[..., i] << np.uint64(i * width)
    return out


def elements(bits: Bits, name: str, shape: tuple[int, ...], style: Style) -> Words:
    if name in ("s8", "u8"):
        return bits.array(256, shape).astype(np.uint64)
    if name == "f64":
        style = Style(3 * style.spread, style.center, style.zeros, style.specials)
    return floats(bits, name, shape, style)


def accumulators(bits: Bits, name: str, shape: tuple[int, ...], style: Style) -> Words:
    """Values of C: zero, far from the products, near them, or like the operands."""
    if name == "s32":
        anything = bits.array(1 << 32, shape)
        pick = bits.array(4, shape) == 0
        near_top = (1 << 31) - 1 - bits.array(1 << 18, shape) + bits.array(2, shape)
        return np.where(pick, anything, near_top).astype(np.uint64) & np.uint64(0xFFFFFFFF)
    mode = bits.below(4)
    spread, center, zeros = style.spread, style.center, style.zeros
    if mode == 0:
        zeros = 1.0
    elif mode == 1:
        center, spread = 2 * center, 2 * spread + 6
    elif mode == 2:
        center, spread = 2 * center - 12, 14
    return elements(bits, name, shape, Style(spread, center, zeros, style.specials))


def mma_inputs(index: int, count: int) -> tuple[Words, Words, Words]:
    """A, B and C as [case, register, lane]."""
    form = MMA[index]
    bits = Bits(1000 + index)
    width, c_width = WIDTH[form.a], WIDTH[form.d]
    packed, c_packed = max(1, 32 // width), max(1, 32 // c_width)
    a_shape = (1, form.m * form.k // 32 // packed, 32, packed)
    b_shape = (1, form.k * 8 // 32 // packed, 32, packed)
    c_shape = (1, form.m * 8 // 32 // c_packed, 32, c_packed)
    cases = []
    for case in range(count):
        style = STYLES[case % len(STYLES)]
        a = elements(bits, form.a, a_shape, style)
        b = elements(bits, form.b, b_shape, style)
        cases.append((a, b, accumulators(bits, form.d, c_shape, style)))
    a, b, c = (np.concatenate(parts) for parts in zip(*cases, strict=True))
    return pack(a, width), pack(b, width), pack(c, c_width)


# ---- wgmma: layouts -----------------------------------------------------------------------------

IMAGE_BYTES = 65536


def _image(bits: Bits, name: str, count: int) -> Bytes:
    """Small exact numbers of a type, as bytes."""
    if name in ("s8", "u8"):
        return bits.bytes(count)
    value = bits.array(17, (count * 8 // WIDTH[name],)) - 8
    if name in ("e4m3", "e5m2"):
        mantissa, bias = (3, 7) if name == "e4m3" else (2, 15)
        few = bits.array(5, (count,)) - 2
        code = np.where(abs(few) == 1, bias << mantissa, (bias + 1) << mantissa)
        return (np.where(few == 0, 0, code) | np.where(few < 0, 128, 0)).astype(np.uint8)
    if name == "f16":
        return value.astype(np.float16).view(np.uint8)
    single = value.astype(np.float32).view(np.uint32)
    return single.view(np.uint8) if name == "tf32" else (single >> 16).astype("u2").view(np.uint8)


def _any_descriptor(bits: Bits, lines: int) -> int:
    """Anything that stays within the image."""
    code = bits.below(4)
    aligned = 1024 * bits.below(8), 128 * bits.below(16), 16 * bits.below(16), 32 * bits.below(8)
    start = bits.choice((0, *aligned))
    limit = min(2560, (IMAGE_BYTES - 2048 - start) // (lines // 8 + 3))

    def offset() -> int:
        if bits.below(2):
            return 16 * bits.between(1, limit // 16)
        return 128 * bits.between(1, limit // 128)

    leading, stride = offset(), offset()
    base = bits.below(8) if bits.below(4) == 0 else 0
    return descriptor(start, leading, stride, code, base)


def layout_cases(index: int) -> tuple[Bytes, list[tuple[int, int]], Words]:
    """An image of shared memory, descriptors of A and B, and A's registers."""
    form = WGMMA[index]
    bits = Bits(5000 + index)
    image = _image(bits, form.a, IMAGE_BYTES)
    descriptors = []
    for _ in range(40):
        pair = _any_descriptor(bits, 64), _any_descriptor(bits, form.n)
        descriptors.append(pair)
        bits.below(2)
    width = WIDTH[form.a]
    values = _image(bits, form.a, 128 * 16).view(f"u{width // 8}")
    registers = pack(values.reshape(4, 128, 32 // width).astype(np.uint64), width)
    return image, descriptors, registers


# ---- wgmma: numbers -----------------------------------------------------------------------------

A_PLAIN = descriptor(0, 128, 256, 0)
B_PLAIN = descriptor(2048, 128, 256, 0)


def _plain_image(values: Words, width: int) -> Bytes:
    """Rows of 32 bytes, K-major, without swizzle."""
    unsigned = values.astype(f"u{width // 8}")
    lines = np.ascontiguousarray(unsigned).view(np.uint8).reshape(-1, 8, 2, 16)
    return lines.transpose(0, 2, 1, 3).reshape(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberCase:
    """Operands as bits: A is 64 x k, B n x k, C 64 x n; `image` holds A and B."""

    a: Words
    c: Words
    image: Bytes
    add: bool


def number_cases(index: int, count: int) -> list[NumberCase]:
    form = WGMMA[index]
    bits = Bits(7000 + index)
    made = []
    for case in range(count):
        style = STYLES[case % len(STYLES)]
        a = elements(bits, form.a, (64, form.k), style)
        b = elements(bits, form.b, (form.n, form.k), style)
        c = accumulators(bits, form.d, (64, form.n), style)
        images = [_plain_image(x, WIDTH[form.a]) for x in (a, b)]
        add = bits.below(8) != 0
        made.append(NumberCase(a=a, c=c, image=np.concatenate(images), add=add))
    return made
