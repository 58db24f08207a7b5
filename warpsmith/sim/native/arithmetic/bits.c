/* Logic, shifts and bit fields. */
#include "arithmetic/lanes.h"

/* lop3: bit k of the table is the result for a, b, c = bits 2, 1, 0 of k. Chosen by c, then b, then
   a. With a predicate: p = (d != 0) AND or OR q, the fifth source. */
static bool lop3_run(const insn *in, u64 *d, u64 *d2, const u64 *const *a, u32 mask) {
    if (!mask) return true;
    const u64 *x = a[0], *y = a[1], *z = a[2];
    const u32 table = (u32)a[3][__builtin_ctz(mask)];
    u32 even[4], change[4];
    for (int k = 0; k < 4; k++) {
        even[k] = 0 - (table >> 2 * k & 1);
        change[k] = even[k] ^ (0 - (table >> (2 * k + 1) & 1));
    }
    const u32 e0 = even[0], e1 = even[1], e2 = even[2], e3 = even[3];
    const u32 c0 = change[0], c1 = change[1], c2 = change[2], c3 = change[3];
#define BY_A(not_a, if_a) (((not_a) & ~p) | ((if_a) & p))
#define BY_B(not_b, if_b) (((not_b) & ~q) | ((if_b) & q))
    TERNARY(u32, u32,
            BY_A(BY_B(e0 ^ (c0 & r), e1 ^ (c1 & r)), BY_B(e2 ^ (c2 & r), e3 ^ (c3 & r))));
#undef BY_A
#undef BY_B
    if (in->mode == MODE_NONE || !d2) return true;
    const u64 *extra = a[4];
    if (in->mode == MODE_AND)
        EACH(d2[i] = (d[i] != 0) & extra[i]);
    else if (in->mode == MODE_OR)
        EACH(d2[i] = (d[i] != 0) | extra[i]);
    else
        return false;
    return true;
}

/* fns: the offset-th bit set of `mask` from `base` on, upwards or, when negative, downwards. */
static u32 find_nth_set(u32 mask, u32 base, i32 offset) {
    if (base > 31) return ~0u;
    if (offset == 0) return mask >> base & 1 ? base : ~0u;
    const int step = offset > 0 ? 1 : -1;
    i64 left = offset > 0 ? offset : -(i64)offset;
    for (int at = (int)base; at >= 0 && at < 32; at += step)
        if ((mask >> at & 1) && --left == 0) return (u32)at;
    return ~0u;
}

/* Four selectors of bytes of {b, a} for each value of the low two bits of c: byte 0 is the lowest
   nibble, as in the selector of prmt without a mode. */
static const u16 permutations[6][4] = {
    {0x3210, 0x4321, 0x5432, 0x6543}, /* F4E: forward four */
    {0x5670, 0x6701, 0x7012, 0x0123}, /* B4E: backward four */
    {0x0000, 0x1111, 0x2222, 0x3333}, /* RC8: one byte everywhere */
    {0x3210, 0x3211, 0x3222, 0x3333}, /* ECL: edge clamp left */
    {0x0000, 0x1110, 0x2210, 0x3210}, /* ECR: edge clamp right */
    {0x1010, 0x3232, 0x1010, 0x3232}, /* RC16: one half twice */
};

/* prmt: each nibble of the selector picks a byte; its top bit replicates that byte's sign. */
static inline u32 permute(u64 bytes, u32 selector) {
    u32 result = 0;
    for (int k = 0; k < 4; k++) {
        const u32 nibble = selector >> 4 * k & 15;
        u32 byte = (u32)(bytes >> 8 * (nibble & 7)) & 255;
        if (nibble & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * k;
    }
    return result;
}

/* prmt with the same selector, no sign among it, for the whole warp, as it is nearly always. */
static bool permute_alike(u64 *d, const u64 *const *a, u32 mask) {
    const u64 *x = a[0], *y = a[1], *z = a[2];
    const u32 selector = (u32)z[0];
    u64 different = 0;
    for (int i = 0; i < LANES; i++) different |= z[i] ^ selector;
    if (different || (selector & 0x8888) || mask != ALL_LANES) return false;
    const u32 s0 = (selector & 7) * 8, s1 = (selector >> 4 & 7) * 8;
    const u32 s2 = (selector >> 8 & 7) * 8, s3 = (selector >> 12 & 7) * 8;
    EACH(const u64 both = y[i] << 32 | x[i];
         d[i] = (both >> s0 & 255) | (both >> s1 & 255) << 8 | (both >> s2 & 255) << 16 |
                (both >> s3 & 255) << 24);
    return true;
}

/* bfe: bits above the register repeat the sign bit, which is that of the field's last bit inside
   the register. PTX limits position and length to 255: beyond, the GPU takes their low byte for 32 bits
   and all of them for 64. */
static inline u64 extract(u64 value, u32 position, u32 length, int width, bool is_signed) {
    const u32 top = (u32)width - 1;
    const u64 end = (u64)position + length - 1;
    const u32 last = end < top ? (u32)end : top;
    const u64 sign = is_signed && length && (value >> last & 1) ? ~0ull : 0;
    const u64 above = position > top ? sign
                      : sign         ? value >> position | ~(~0ull >> (64 - width) >> position)
                                     : value >> position;
    if (length >= 64) return above;
    const u64 field = (1ull << length) - 1;
    return (above & field) | (sign & ~field);
}

/* bfi: the low `length` bits of `value` into `base` at `position`; nothing beyond the register. */
static inline u64 insert(u64 value, u64 base, u32 position, u32 length, int width) {
    if (length == 0 || position >= (u32)width) return base;
    const u64 field = (length >= 64 ? ~0ull : (1ull << length) - 1) << position;
    return (base & ~field) | (value << position & field);
}

static inline u32 find_top(u64 value, int width, bool shift_amount) {
    if (!value) return ~0u;
    const u32 top = 63 - (u32)__builtin_clzll(value);
    return shift_amount ? (u32)width - 1 - top : top;
}

static inline u32 reverse32(u32 v) {
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(v);
}

static inline u32 popcount(u64 v) {
    v -= v >> 1 & 0x5555555555555555ull;
    v = (v & 0x3333333333333333ull) + (v >> 2 & 0x3333333333333333ull);
    v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0full;
    return (u32)(v * 0x0101010101010101ull >> 56);
}

/* szext: the low `bits` of a, extended. */
static inline u32 extend(u32 value, u32 bits, bool is_signed) {
    if (bits == 0) return 0;
    if (bits >= 32) return value;
    const u32 up = value << (32 - bits);
    return is_signed ? (u32)((i32)up >> (32 - bits)) : up >> (32 - bits);
}

static inline u32 ones(u32 position, u32 count) {
    const u64 field = (1ull << count) - 1;
    return position > 31 ? 0 : (u32)(field << position);
}

#define ON(op, type, loop) \
    case KEY(op, type):    \
        loop;              \
        break
#define ON_LOGIC(op, loop, result)                                     \
    ON(op, TYPE_PRED, loop(u8, u8, (result) & 1));                     \
    ON(op, TYPE_B16, loop(u16, u16, result));                          \
    ON(op, TYPE_B32, loop(u32, u32, result));                          \
    ON(op, TYPE_B64, loop(u64, u64, result))

/* Shift amounts above the width count as the width. */
#define AMOUNT ((u32)y[i])
#define ON_SHIFT(op, type, S, D, width, within, beyond) \
    ON(op, type, EACH(const S p = (S)x[i]; const u32 n = AMOUNT; \
                      d[i] = (u64)(D)(n < width ? (within) : (beyond))))

bool bits_run(const insn *in, u64 *d, u64 *d2, const u64 *const *a, u32 mask) {
    const u64 *x = a[0], *y = a[1], *z = a[2];
    const bool wraps = in->flags & FLAG_WRAP, shift_amount = in->flags & FLAG_SHIFTAMT;
    switch (KEY(in->op, in->type)) {
        ON_LOGIC(OP_AND, BINARY, p & q);
        ON_LOGIC(OP_OR, BINARY, p | q);
        ON_LOGIC(OP_XOR, BINARY, p ^ q);
        ON_LOGIC(OP_NOT, UNARY, ~p);
        ON(OP_CNOT, TYPE_B16, UNARY(u16, u16, p == 0));
        ON(OP_CNOT, TYPE_B32, UNARY(u32, u32, p == 0));
        ON(OP_CNOT, TYPE_B64, UNARY(u64, u64, p == 0));
    case KEY(OP_LOP3, TYPE_B32):
        return lop3_run(in, d, d2, a, mask);

        ON_SHIFT(OP_SHL, TYPE_B16, u16, u16, 16, (u32)p << n, 0);
        ON_SHIFT(OP_SHL, TYPE_B32, u32, u32, 32, p << n, 0);
        ON_SHIFT(OP_SHL, TYPE_B64, u64, u64, 64, p << n, 0);
    case KEY(OP_SHR, TYPE_B16):
        ON_SHIFT(OP_SHR, TYPE_U16, u16, u16, 16, p >> n, 0);
    case KEY(OP_SHR, TYPE_B32):
        ON_SHIFT(OP_SHR, TYPE_U32, u32, u32, 32, p >> n, 0);
    case KEY(OP_SHR, TYPE_B64):
        ON_SHIFT(OP_SHR, TYPE_U64, u64, u64, 64, p >> n, 0);
        ON_SHIFT(OP_SHR, TYPE_S16, i16, u16, 16, p >> n, p >> 15);
        ON_SHIFT(OP_SHR, TYPE_S32, i32, u32, 32, p >> n, p >> 31);
        ON_SHIFT(OP_SHR, TYPE_S64, i64, u64, 64, p >> n, p >> 63);
    case KEY(OP_SHF, TYPE_B32): {
        const bool left = in->mode == MODE_LEFT;
        EACH(const u64 both = (u64)(u32)y[i] << 32 | (u32)x[i]; u32 n = (u32)z[i];
             n = wraps ? n & 31 : n < 32 ? n : 32;
             d[i] = (u32)(left ? both << n >> 32 : both >> n));
        break;
    }
        ON(OP_POPC, TYPE_B32, UNARY(u32, u32, popcount(p)));
        ON(OP_POPC, TYPE_B64, UNARY(u64, u32, popcount(p)));
        ON(OP_CLZ, TYPE_B32, UNARY(u32, u32, p ? __builtin_clz(p) : 32));
        ON(OP_CLZ, TYPE_B64, UNARY(u64, u32, p ? __builtin_clzll(p) : 64));
        ON(OP_BREV, TYPE_B32, UNARY(u32, u32, reverse32(p)));
        ON(OP_BREV, TYPE_B64,
           UNARY(u64, u64, (u64)reverse32((u32)p) << 32 | reverse32((u32)(p >> 32))));
        ON(OP_BFIND, TYPE_U32, UNARY(u32, u32, find_top(p, 32, shift_amount)));
        ON(OP_BFIND, TYPE_U64, UNARY(u64, u32, find_top(p, 64, shift_amount)));
        /* The top bit unlike the sign. */
        ON(OP_BFIND, TYPE_S32, UNARY(i32, u32, find_top((u32)(p < 0 ? ~p : p), 32, shift_amount)));
        ON(OP_BFIND, TYPE_S64, UNARY(i64, u32, find_top((u64)(p < 0 ? ~p : p), 64, shift_amount)));
    case KEY(OP_FNS, TYPE_B32):
        TERNARY(u32, u32, find_nth_set(p, q, (i32)r));
        break;
        ON(OP_BFE, TYPE_U32, TERNARY(u32, u32, extract(p, q & 255, r & 255, 32, false)));
        ON(OP_BFE, TYPE_S32, TERNARY(u32, u32, extract(p, q & 255, r & 255, 32, true)));
        ON(OP_BFE, TYPE_U64, TERNARY(u64, u64, extract(p, (u32)q, (u32)r, 64, false)));
        ON(OP_BFE, TYPE_S64, TERNARY(u64, u64, extract(p, (u32)q, (u32)r, 64, true)));
        ON(OP_BFI, TYPE_B32, TERNARY(u32, u32, insert(p, q, r & 255, a[3][i] & 255, 32)));
        ON(OP_BFI, TYPE_B64, TERNARY(u64, u64, insert(p, q, (u32)r, (u32)a[3][i], 64)));
        ON(OP_SZEXT, TYPE_U32,
           BINARY(u32, u32, extend(p, wraps ? q & 31 : q, false)));
        ON(OP_SZEXT, TYPE_S32,
           BINARY(u32, u32, extend(p, wraps ? q & 31 : q, true)));
    case KEY(OP_BMSK, TYPE_B32):
        if (wraps)
            BINARY(u32, u32, ones(p & 31, q & 31));
        else
            BINARY(u32, u32, ones(p, q < 32 ? q : 32));
        break;
    case KEY(OP_PRMT, TYPE_B32):
        if (in->mode == MODE_NONE) {
            if (!permute_alike(d, a, mask)) TERNARY(u32, u32, permute((u64)q << 32 | p, r));
        } else {
            if (in->mode < MODE_F4E || in->mode > MODE_RC16) return false;
            const u16 *selectors = permutations[in->mode - MODE_F4E];
            TERNARY(u32, u32, permute((u64)q << 32 | p, selectors[r & 3]));
        }
        break;
    default:
        return false;
    }
    return true;
}
