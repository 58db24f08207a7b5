/* Integer arithmetic, carry chains and small dot products. */
#include "arithmetic/lanes.h"

typedef unsigned __int128 u128;
typedef __int128 i128;

/* PTX leaves division by zero open. The H200 gives all ones, as quotient and as remainder, for
   signed types too; the most negative number over -1 wraps. */
#define QUOTIENT(D) (q == 0 ? (D)-1 : q == -1 ? (D)(0 - (D)p) : (D)(p / q))

static inline i32 saturate_s32(i64 value) {
    return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (i32)value;
}

/* Of signed numbers, where it may need all bits. */
#define DISTANCE(D) (p < q ? (D)q - (D)p : (D)p - (D)q)

/* The same operation on each half of a register. */
#define HALVES(S, result)                                                                   \
    EACH(u32 both = 0; for (int shift = 0; shift < 32; shift += 16) {                       \
        const S p = (S)(x[i] >> shift), q = (S)(y[i] >> shift);                             \
        both |= (u32)(u16)(result) << shift;                                                \
    } d[i] = both)

static inline i32 low24(u32 value) { return (i32)(value << 8) >> 8; }

/* add.cc, addc, sub.cc, subc, mad.cc, madc. PTX calls CC.CF the borrow of a subtraction; on the GPU
   it is the carry of a + ~b + 1, the opposite, which shows where sums and differences mix. */
static bool carry_run(const insn *in, u64 *d, const u64 *const *a, u32 mask, u32 *carry) {
    const bool is_add = in->op == OP_ADD || in->op == OP_ADDC;
    const bool is_sub = in->op == OP_SUB || in->op == OP_SUBC;
    const bool wide = in->type == TYPE_U64 || in->type == TYPE_S64 || in->type == TYPE_B64;
    const bool is_signed = in->type == TYPE_S32 || in->type == TYPE_S64;
    const bool reads = in->flags & FLAG_CARRY, writes = in->flags & FLAG_CC;
    const u64 limit = wide ? ~0ull : 0xffffffffu;
    const int width = wide ? 64 : 32;
    FOR_LANES(i, mask) {
        u64 p = a[0][i] & limit, q = a[1][i] & limit;
        const u64 in_carry = reads ? *carry >> i & 1 : 0;
        if (!is_add && !is_sub) {
            u128 product;
            if (is_signed && wide)
                product = (u128)((i128)(i64)p * (i64)q);
            else if (is_signed)
                product = (u128)(i128)((i64)(i32)p * (i32)q);
            else
                product = (u128)p * q;
            p = (u64)(in->mode == MODE_HI ? product >> width : product) & limit;
            q = a[2][i] & limit;
        }
        const u128 sum = is_sub ? (u128)p + (~q & limit) + (reads ? in_carry : 1)
                                : (u128)p + q + in_carry;
        d[i] = (u64)sum & limit;
        if (writes) *carry = (*carry & ~(1u << i)) | (u32)(sum >> width & 1) << i;
    }
    return true;
}

/* dp4a and dp2a: bytes of b, signed or not as type2 says, with bytes or halves of a. */
static bool dot_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const bool sa = in->type == TYPE_S32, sb = in->type2 == TYPE_S32;
    const u64 *x = a[0], *y = a[1], *z = a[2];
    if (in->op == OP_DP4A) {
        EACH(u32 sum = (u32)z[i]; for (int k = 0; k < 32; k += 8) {
            const u8 p = (u8)(x[i] >> k), q = (u8)(y[i] >> k);
            sum += (u32)((sa ? (i8)p : p) * (sb ? (i8)q : q));
        } d[i] = sum);
        return true;
    }
    const int first = in->mode == MODE_HI ? 16 : 0;
    EACH(u32 sum = (u32)z[i]; for (int k = 0; k < 2; k++) {
        const u16 p = (u16)(x[i] >> 16 * k);
        const u8 q = (u8)(y[i] >> (first + 8 * k));
        sum += (u32)((sa ? (i16)p : p) * (sb ? (i8)q : q));
    } d[i] = sum);
    return true;
}

#define ON(op, type, loop)  \
    case KEY(op, type):     \
        loop;               \
        break
/* Operations whose result is the same for signed and unsigned. */
#define ON_BITS(op, loop, result)         \
    case KEY(op, TYPE_S16):               \
        ON(op, TYPE_U16, loop(u16, u16, result)); \
    case KEY(op, TYPE_S32):               \
        ON(op, TYPE_U32, loop(u32, u32, result)); \
    case KEY(op, TYPE_S64):               \
        ON(op, TYPE_U64, loop(u64, u64, result))
#define ON_UNSIGNED(op, loop, result)           \
    ON(op, TYPE_U16, loop(u16, u16, result));   \
    ON(op, TYPE_U32, loop(u32, u32, result));   \
    ON(op, TYPE_U64, loop(u64, u64, result))
#define ON_SIGNED(op, loop, result)             \
    ON(op, TYPE_S16, loop(i16, u16, result));   \
    ON(op, TYPE_S32, loop(i32, u32, result));   \
    ON(op, TYPE_S64, loop(i64, u64, result))

/* mul and mad: the low half, the high half, or both in a destination twice as wide. */
static bool product_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const u64 *x = a[0], *y = a[1], *z = a[2];
    const bool saturates = in->flags & FLAG_SAT;
    const u32 key = KEY(in->op, in->type);
    if (saturates && (key != KEY(OP_MAD, TYPE_S32) || in->mode != MODE_HI)) return false;
    if (in->mode == MODE_LO) {
        switch (key) {
            ON_BITS(OP_MUL, BINARY, p * (u64)q);
            ON_BITS(OP_MAD, TERNARY, p * (u64)q + r);
        default:
            return false;
        }
    } else if (in->mode == MODE_HI) {
        switch (key) {
            ON(OP_MUL, TYPE_U16, BINARY(u16, u16, (u32)p * q >> 16));
            ON(OP_MUL, TYPE_U32, BINARY(u32, u32, (u64)p * q >> 32));
            ON(OP_MUL, TYPE_U64, BINARY(u64, u64, (u128)p * q >> 64));
            ON(OP_MUL, TYPE_S16, BINARY(i16, u16, p * q >> 16));
            ON(OP_MUL, TYPE_S32, BINARY(i32, u32, (i64)p * q >> 32));
            ON(OP_MUL, TYPE_S64, BINARY(i64, u64, (i128)p * q >> 64));
            ON(OP_MAD, TYPE_U16, TERNARY(u16, u16, ((u32)p * q >> 16) + r));
            ON(OP_MAD, TYPE_U32, TERNARY(u32, u32, ((u64)p * q >> 32) + r));
            ON(OP_MAD, TYPE_U64, TERNARY(u64, u64, (u64)((u128)p * q >> 64) + r));
            ON(OP_MAD, TYPE_S16, TERNARY(i16, u16, (p * q >> 16) + r));
            ON(OP_MAD, TYPE_S64, TERNARY(i64, u64, (u64)((i128)p * q >> 64) + (u64)r));
        case KEY(OP_MAD, TYPE_S32):
            if (saturates)
                TERNARY(i32, u32, saturate_s32(((i64)p * q >> 32) + r));
            else
                TERNARY(i32, u32, ((i64)p * q >> 32) + r);
            break;
        default:
            return false;
        }
    } else if (in->mode == MODE_WIDE) {
        switch (key) {
            ON(OP_MUL, TYPE_U16, BINARY(u16, u32, (u32)p * q));
            ON(OP_MUL, TYPE_U32, BINARY(u32, u64, (u64)p * q));
            ON(OP_MUL, TYPE_S16, BINARY(i16, u32, p * q));
            ON(OP_MUL, TYPE_S32, BINARY(i32, u64, (i64)p * q));
            ON(OP_MAD, TYPE_U16, BINARY(u16, u32, (u32)p * q + (u32)z[i]));
            ON(OP_MAD, TYPE_U32, BINARY(u32, u64, (u64)p * q + z[i]));
            ON(OP_MAD, TYPE_S16, BINARY(i16, u32, (u32)(p * q) + (u32)z[i]));
            ON(OP_MAD, TYPE_S32, BINARY(i32, u64, (u64)((i64)p * q) + z[i]));
        default:
            return false;
        }
    } else {
        return false;
    }
    return true;
}

/* mul24 and mad24: 24 low bits of each factor; LO and HI are bits 31..0 and 47..16. */
static bool product24_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const u64 *x = a[0], *y = a[1], *z = a[2];
    const int shift = in->mode == MODE_HI ? 16 : 0;
    const bool saturates = in->flags & FLAG_SAT;
    if (in->mode != MODE_HI && in->mode != MODE_LO) return false;
    if (saturates && (shift == 0 || KEY(in->op, in->type) != KEY(OP_MAD24, TYPE_S32))) return false;
#define UNSIGNED24 ((u64)(p & 0xffffff) * (q & 0xffffff) >> shift)
#define SIGNED24 ((i64)low24(p) * low24(q) >> shift)
    switch (KEY(in->op, in->type)) {
        ON(OP_MUL24, TYPE_U32, BINARY(u32, u32, UNSIGNED24));
        ON(OP_MUL24, TYPE_S32, BINARY(u32, u32, SIGNED24));
        ON(OP_MAD24, TYPE_U32, TERNARY(u32, u32, UNSIGNED24 + r));
    case KEY(OP_MAD24, TYPE_S32):
        if (saturates)
            TERNARY(u32, u32, saturate_s32((i32)SIGNED24 + (i64)(i32)r));
        else
            TERNARY(u32, u32, SIGNED24 + r);
        break;
    default:
        return false;
    }
#undef UNSIGNED24
#undef SIGNED24
    return true;
}

/* .sat and .relu. */
static bool limited_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const u64 *x = a[0], *y = a[1];
    const bool saturates = in->flags & FLAG_SAT;
    switch (KEY(in->op, in->type) | (u32)saturates << 16) {
        ON(OP_ADD, TYPE_S32 | 1u << 16, BINARY(i32, u32, saturate_s32((i64)p + q)));
        ON(OP_SUB, TYPE_S32 | 1u << 16, BINARY(i32, u32, saturate_s32((i64)p - q)));
#define MIN_RELU ((p < q ? p : q) < 0 ? 0 : p < q ? p : q)
#define MAX_RELU ((p > q ? p : q) < 0 ? 0 : p > q ? p : q)
        ON(OP_MIN, TYPE_S32, BINARY(i32, u32, MIN_RELU));
        ON(OP_MAX, TYPE_S32, BINARY(i32, u32, MAX_RELU));
        ON(OP_MIN, TYPE_S16X2, HALVES(i16, MIN_RELU));
        ON(OP_MAX, TYPE_S16X2, HALVES(i16, MAX_RELU));
    default:
        return false;
    }
    return true;
}

bool integer_run(const insn *in, u64 *d, const u64 *const *a, u32 mask, u32 *carry) {
    const u64 *x = a[0], *y = a[1], *z = a[2];
    switch (in->op) {
    case OP_ADDC:
    case OP_SUBC:
    case OP_MADC:
        return carry_run(in, d, a, mask, carry);
    case OP_MUL24:
    case OP_MAD24:
        return product24_run(in, d, a, mask);
    case OP_DP4A:
    case OP_DP2A:
        return dot_run(in, d, a, mask);
    }
    if (in->flags & (FLAG_CC | FLAG_CARRY)) return carry_run(in, d, a, mask, carry);
    if (in->op == OP_MUL || in->op == OP_MAD) return product_run(in, d, a, mask);
    if (in->flags & (FLAG_SAT | FLAG_RELU)) return limited_run(in, d, a, mask);
    switch (KEY(in->op, in->type)) {
        ON_BITS(OP_ADD, BINARY, p + q);
        ON_BITS(OP_SUB, BINARY, p - q);
    case KEY(OP_ADD, TYPE_U16X2):
        ON(OP_ADD, TYPE_S16X2, HALVES(u16, p + q));
        ON(OP_DIV, TYPE_U16, BINARY(u16, u16, q ? p / q : 0xffff));
        ON(OP_DIV, TYPE_U32, BINARY(u32, u32, q ? p / q : ~0u));
        ON(OP_DIV, TYPE_U64, BINARY(u64, u64, q ? p / q : ~0ull));
        ON(OP_DIV, TYPE_S16, BINARY(i16, u16, QUOTIENT(u16)));
        ON(OP_DIV, TYPE_S32, BINARY(i32, u32, QUOTIENT(u32)));
        ON(OP_DIV, TYPE_S64, BINARY(i64, u64, QUOTIENT(u64)));
        ON(OP_REM, TYPE_U16, BINARY(u16, u16, q ? p % q : 0xffff));
        ON(OP_REM, TYPE_U32, BINARY(u32, u32, q ? p % q : ~0u));
        ON(OP_REM, TYPE_U64, BINARY(u64, u64, q ? p % q : ~0ull));
        ON_SIGNED(OP_REM, BINARY, q == 0 ? -1 : q == -1 ? 0 : p % q);
        ON_UNSIGNED(OP_MIN, BINARY, p < q ? p : q);
        ON_UNSIGNED(OP_MAX, BINARY, p > q ? p : q);
        ON_SIGNED(OP_MIN, BINARY, p < q ? p : q);
        ON_SIGNED(OP_MAX, BINARY, p > q ? p : q);
        ON(OP_MIN, TYPE_U16X2, HALVES(u16, p < q ? p : q));
        ON(OP_MAX, TYPE_U16X2, HALVES(u16, p > q ? p : q));
        ON(OP_MIN, TYPE_S16X2, HALVES(i16, p < q ? p : q));
        ON(OP_MAX, TYPE_S16X2, HALVES(i16, p > q ? p : q));
        ON(OP_ABS, TYPE_S16, UNARY(i16, u16, p < 0 ? -p : p));
        ON(OP_ABS, TYPE_S32, UNARY(i32, u32, p < 0 ? 0 - (u32)p : (u32)p));
        ON(OP_ABS, TYPE_S64, UNARY(i64, u64, p < 0 ? 0 - (u64)p : (u64)p));
        ON(OP_NEG, TYPE_S16, UNARY(u16, u16, 0 - p));
        ON(OP_NEG, TYPE_S32, UNARY(u32, u32, 0 - p));
        ON(OP_NEG, TYPE_S64, UNARY(u64, u64, 0 - p));
        ON_UNSIGNED(OP_SAD, TERNARY, r + (p < q ? q - p : p - q));
        ON(OP_SAD, TYPE_S16, TERNARY(i16, u16, r + (p < q ? q - p : p - q)));
        ON(OP_SAD, TYPE_S32, TERNARY(i32, u32, (u32)r + DISTANCE(u32)));
        ON(OP_SAD, TYPE_S64, TERNARY(i64, u64, (u64)r + DISTANCE(u64)));
    default:
        return false;
    }
    return true;
}
