/* set, setp, selp and slct. */
#include "arithmetic/formats.h"

/* Which outcomes of a comparison count, each as a mask of no or all bits. */
typedef struct {
    u32 equal, less, greater, unordered;
} outcomes;

static bool outcomes_of(int compare, bool is_float, outcomes *wanted) {
    enum { E = 1, L = 2, G = 4, U = 8, FLOATS = 16, INTEGERS = 32, BOTH = FLOATS | INTEGERS };
    static const u8 table[] = {
        [COMPARE_EQ] = E | BOTH,          [COMPARE_NE] = L | G | BOTH,
        [COMPARE_LT] = L | BOTH,          [COMPARE_LE] = L | E | BOTH,
        [COMPARE_GT] = G | BOTH,          [COMPARE_GE] = G | E | BOTH,
        [COMPARE_EQU] = E | U | FLOATS,   [COMPARE_NEU] = L | G | U | FLOATS,
        [COMPARE_LTU] = L | U | FLOATS,   [COMPARE_LEU] = L | E | U | FLOATS,
        [COMPARE_GTU] = G | U | FLOATS,   [COMPARE_GEU] = G | E | U | FLOATS,
        [COMPARE_NUM] = E | L | G | FLOATS, [COMPARE_NAN] = U | FLOATS,
        [COMPARE_LO] = L | INTEGERS,      [COMPARE_LS] = L | E | INTEGERS,
        [COMPARE_HI] = G | INTEGERS,      [COMPARE_HS] = G | E | INTEGERS,
    };
    if (compare <= 0 || compare >= (int)sizeof table) return false;
    const u8 entry = table[compare];
    *wanted = (outcomes){.equal = 0u - (entry & E),
                         .less = 0u - (entry >> 1 & 1u),
                         .greater = 0u - (entry >> 2 & 1u),
                         .unordered = 0u - (entry >> 3 & 1u)};
    return entry & (is_float ? FLOATS : INTEGERS);
}

#define INTEGER_OUTCOME(p, q)                                                       \
    ((((p) == (q)) & wanted.equal) | (((p) < (q)) & wanted.less) | (((p) > (q)) & wanted.greater))
#define FLOAT_OUTCOME(p, q) \
    (INTEGER_OUTCOME(p, q) | ((u32)__builtin_isunordered(p, q) & wanted.unordered))

#define COMPARE_EACH(S) \
    EACH(const S p = (S)x[i]; const S q = (S)y[i]; out[i] = INTEGER_OUTCOME(p, q))
#define COMPARE_FLOATS(P, Q) \
    EACH(const float p = P; const float q = Q; out[i] = FLOAT_OUTCOME(p, q))

static inline float f32_in(u64 bits, bool ftz) { return float_of(f32_flush_if(ftz, (u32)bits)); }

static inline float f16_in(u64 bits, bool ftz) {
    const u32 half = (u32)bits & 0xffffu;
    return half_as_float(ftz && !(half & 0x7c00u) ? half & 0x8000u : half);
}

/* Bit 0 of `out` is the comparison; of pairs, bit 1 that of the high halves. */
static bool compare_rows(const insn *in, int type, u64 *out, const u64 *const *a, u32 mask) {
    const u64 *x = a[0], *y = a[1];
    const bool ftz = in->flags & FLAG_FTZ;
    const bool is_float = type >= (int)TYPE_F16 && type <= (int)TYPE_F64;
    outcomes wanted;
    if (!outcomes_of(in->compare, is_float, &wanted)) return false;
    switch (type) {
    case TYPE_B16:
    case TYPE_U16:
        COMPARE_EACH(u16);
        return true;
    case TYPE_B32:
    case TYPE_U32:
        COMPARE_EACH(u32);
        return true;
    case TYPE_B64:
    case TYPE_U64:
        COMPARE_EACH(u64);
        return true;
    case TYPE_S16:
        COMPARE_EACH(i16);
        return true;
    case TYPE_S32:
        COMPARE_EACH(i32);
        return true;
    case TYPE_S64:
        COMPARE_EACH(i64);
        return true;
    case TYPE_F32:
        if (ftz)
            COMPARE_FLOATS(f32_in(x[i], true), f32_in(y[i], true));
        else
            COMPARE_FLOATS(float_of((u32)x[i]), float_of((u32)y[i]));
        return true;
    case TYPE_F64:
        EACH(const double p = double_of(x[i]); const double q = double_of(y[i]);
             out[i] = FLOAT_OUTCOME(p, q));
        return true;
    case TYPE_F16:
        COMPARE_FLOATS(f16_in(x[i], ftz), f16_in(y[i], ftz));
        return true;
    case TYPE_BF16:
        COMPARE_FLOATS(bfloat16_as_float((u32)x[i]), bfloat16_as_float((u32)y[i]));
        return true;
    case TYPE_F16X2:
        EACH(const float p = f16_in(x[i], ftz); const float q = f16_in(y[i], ftz);
             const float s = f16_in(x[i] >> 16, ftz); const float t = f16_in(y[i] >> 16, ftz);
             out[i] = FLOAT_OUTCOME(p, q) | FLOAT_OUTCOME(s, t) << 1);
        return true;
    case TYPE_BF16X2:
        EACH(const float p = bfloat16_as_float((u32)x[i]);
             const float q = bfloat16_as_float((u32)y[i]);
             const float s = bfloat16_as_float((u32)(x[i] >> 16));
             const float t = bfloat16_as_float((u32)(y[i] >> 16));
             out[i] = FLOAT_OUTCOME(p, q) | FLOAT_OUTCOME(s, t) << 1);
        return true;
    default:
        return false;
    }
}

/* `row` = row op q for each bit of `bits`. */
static bool combine_rows(int combine, u64 *row_, const u64 *q, u64 bits, u32 mask) {
    switch (combine) {
    case COMBINE_NONE:
        return true;
    case COMBINE_AND:
        EACH(row_[i] &= 0 - (q[i] & 1));
        return true;
    case COMBINE_OR:
        EACH(row_[i] |= (0 - (q[i] & 1)) & bits);
        return true;
    case COMBINE_XOR:
        EACH(row_[i] ^= (0 - (q[i] & 1)) & bits);
        return true;
    default:
        return false;
    }
}

/* setp: p = (a ? b) op c and q = !(a ? b) op c; of pairs, p is the low and q the high half's. */
static bool setp_run(const insn *in, u64 *d, u64 *d2, const u64 *const *a, u32 mask) {
    const bool pairs = in->type == TYPE_F16X2 || in->type == TYPE_BF16X2;
    const u64 bits = pairs ? 3 : 1;
    if (!d2 && !pairs && in->combine == COMBINE_NONE)
        return compare_rows(in, in->type, d, a, mask);
    row first, second;
    if (!compare_rows(in, in->type, first, a, mask)) return false;
    if (!pairs) EACH(second[i] = first[i] ^ 1);
    if (!combine_rows(in->combine, first, a[2], bits, mask)) return false;
    if (pairs)
        EACH(second[i] = first[i] >> 1);
    else
        combine_rows(in->combine, second, a[2], 1, mask);
    EACH(d[i] = first[i] & 1);
    if (d2) EACH(d2[i] = second[i]);
    return true;
}

/* set: all ones or 1.0 of `type` where setp's p is true. */
static bool set_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    row result;
    const bool pairs = in->type2 == TYPE_F16X2 || in->type2 == TYPE_BF16X2;
    if (!compare_rows(in, in->type2, result, a, mask)) return false;
    if (!combine_rows(in->combine, result, a[2], pairs ? 3 : 1, mask)) return false;
    u64 one;
    switch (in->type) {
    case TYPE_U16:
    case TYPE_S16:
        one = 0xffff;
        break;
    case TYPE_U32:
    case TYPE_S32:
        one = pairs ? 0xffff : 0xffffffffu;
        break;
    case TYPE_F32:
        one = 0x3f800000u;
        break;
    case TYPE_F16:
    case TYPE_F16X2:
        one = 0x3c00;
        break;
    case TYPE_BF16:
    case TYPE_BF16X2:
        one = 0x3f80;
        break;
    default:
        return false;
    }
    if (pairs)
        EACH(d[i] = (result[i] & 1 ? one : 0) | (result[i] & 2 ? one << 16 : 0));
    else
        EACH(d[i] = result[i] & 1 ? one : 0);
    return true;
}

/* slct: a where c >= 0, which -0 is and a NaN is not. */
static bool slct_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const u64 *x = a[0], *y = a[1], *z = a[2];
    const bool ftz = in->flags & FLAG_FTZ;
    if (in->type2 == TYPE_S32)
        EACH(d[i] = (i32)z[i] >= 0 ? x[i] : y[i]);
    else if (in->type2 == TYPE_F32)
        EACH(d[i] = f32_in(z[i], ftz) >= 0 ? x[i] : y[i]);
    else
        return false;
    return true;
}

bool compare_run(const insn *in, u64 *d, u64 *d2, const u64 *const *a, u32 mask) {
    switch (in->op) {
    case OP_SETP:
        return setp_run(in, d, d2, a, mask);
    case OP_SET:
        return set_run(in, d, a, mask);
    case OP_SLCT:
        return slct_run(in, d, a, mask);
    case OP_SELP: {
        const u64 *x = a[0], *y = a[1], *z = a[2];
        EACH(d[i] = z[i] & 1 ? x[i] : y[i]);
        return true;
    }
    default:
        return false;
    }
}
