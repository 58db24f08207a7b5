/* Arithmetic of f32 and f64 that PTX defines to the last bit. */
#include <fenv.h>
#include <math.h>

#include "arithmetic/formats.h"

/* The host adds, multiplies, divides and takes roots as IEEE says in any rounding mode; the files
   are compiled with -frounding-math. Returns -1 where nothing had to change. */
int set_rounding(int round) {
    static const int modes[] = {[ROUND_RZ] = FE_TOWARDZERO,
                                [ROUND_RM] = FE_DOWNWARD,
                                [ROUND_RP] = FE_UPWARD};
    if (round < (int)ROUND_RZ || round > (int)ROUND_RP) return -1;
    const int saved = fegetround();
    fesetround(modes[round]);
    return saved;
}

void restore_rounding(int saved) {
    if (saved >= 0) fesetround(saved);
}

/* --- f32 --- */

/* Any NaN result is the canonical one. */
static inline u32 f32_result(float value) {
    const u32 bits = bits_of(value);
    return f32_is_nan(bits) ? F32_NAN : bits;
}

static inline u32 f32_limit(u32 bits, bool ftz, bool sat) {
    bits = f32_flush_if(ftz, bits);
    return sat ? f32_saturate(bits) : bits;
}

/* Sources p, q and r as floats; the plain form apart, because it is the usual one. */
#define F32_IN(row) float_of(f32_flush_if(ftz, (u32)row[i]))
#define F32_1(result)                                                              \
    if (limited)                                                                   \
        EACH(const float p = F32_IN(x); d[i] = f32_limit(f32_result(result), ftz, sat)); \
    else                                                                           \
        EACH(const float p = float_of((u32)x[i]); d[i] = f32_result(result))
#define F32_2(result)                                                              \
    if (limited)                                                                   \
        EACH(const float p = F32_IN(x); const float q = F32_IN(y);                 \
             d[i] = f32_limit(f32_result(result), ftz, sat));                      \
    else                                                                           \
        EACH(const float p = float_of((u32)x[i]); const float q = float_of((u32)y[i]); \
             d[i] = f32_result(result))
#define F32_3(result)                                                              \
    if (limited)                                                                   \
        EACH(const float p = F32_IN(x); const float q = F32_IN(y); const float r = F32_IN(z); \
             d[i] = f32_limit(f32_result(result), ftz, sat));                      \
    else                                                                           \
        EACH(const float p = float_of((u32)x[i]); const float q = float_of((u32)y[i]); \
             const float r = float_of((u32)z[i]); d[i] = f32_result(result))

/* fmaf is exact everywhere, but a call for each lane unless the compiler may use the hardware's. */
#define FMA_BODY                                                                        \
    const u64 *x = a[0], *y = a[1], *z = a[2];                                          \
    const bool ftz = flags & FLAG_FTZ, sat = flags & FLAG_SAT, limited = ftz || sat;    \
    F32_3(__builtin_fmaf(p, q, r))

static void fma_by_library(u64 *d, const u64 *const *a, u32 mask, u32 flags) { FMA_BODY; }

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("fma,avx2"))) static void fma_by_hardware(u64 *d, const u64 *const *a,
                                                                u32 mask, u32 flags) {
    FMA_BODY;
}
static bool has_fma(void) {
    return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
}
#else
#define fma_by_hardware fma_by_library
static bool has_fma(void) { return true; }
#endif

/* min and max: -0 is below +0; a NaN loses against a number, or wins with .NaN. `order` turns the
   bits of a number into an integer of the same order. */
static inline i32 f32_order(u32 bits) {
    return (i32)(bits ^ ((bits & F32_SIGN) ? 0x7fffffffu : 0));
}

static inline u32 f32_choose(u32 p, u32 q, u32 flags, bool is_max) {
    const u32 kept = flags & (FLAG_XORSIGN | FLAG_ABS) ? ~F32_SIGN : ~0u;
    const u32 sign = flags & FLAG_XORSIGN ? (p ^ q) & F32_SIGN : 0;
    const bool p_nan = f32_is_nan(p), q_nan = f32_is_nan(q);
    const bool lost = (p_nan & q_nan) | ((p_nan | q_nan) & ((flags & FLAG_NAN) != 0));
    p &= kept, q &= kept;
    const bool take_p = (f32_order(p) < f32_order(q)) ^ is_max;
    const u32 chosen = p_nan ? q : q_nan | take_p ? p : q;
    return lost ? F32_NAN : chosen | sign;
}

static bool f32_choose_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const u64 *x = a[0], *y = a[1];
    const bool ftz = in->flags & FLAG_FTZ, is_max = in->op == OP_MAX;
    const u32 flags = in->flags;
    if (!flags && is_max)
        EACH(d[i] = f32_choose((u32)x[i], (u32)y[i], 0, true));
    else if (!flags)
        EACH(d[i] = f32_choose((u32)x[i], (u32)y[i], 0, false));
    else
        EACH(d[i] = f32_choose(f32_flush_if(ftz, (u32)x[i]), f32_flush_if(ftz, (u32)y[i]), flags,
                               is_max));
    return true;
}

/* testp: a bit of `wanted` for each class of numbers. */
enum { CLASS_ZERO = 1, CLASS_SUBNORMAL = 2, CLASS_NORMAL = 4, CLASS_INFINITE = 8, CLASS_NAN = 16 };

static int wanted_classes(int mode) {
    switch (mode) {
    case MODE_FINITE:
        return CLASS_ZERO | CLASS_SUBNORMAL | CLASS_NORMAL;
    case MODE_INFINITE:
        return CLASS_INFINITE;
    case MODE_NUMBER:
        return CLASS_ZERO | CLASS_SUBNORMAL | CLASS_NORMAL | CLASS_INFINITE;
    case MODE_NOTANUMBER:
        return CLASS_NAN;
    case MODE_NORMAL: /* a zero counts */
        return CLASS_ZERO | CLASS_NORMAL;
    case MODE_SUBNORMAL:
        return CLASS_SUBNORMAL;
    default:
        return 0;
    }
}

static inline int class_of(u64 magnitude, u64 least_normal, u64 infinity) {
    return magnitude == 0              ? CLASS_ZERO
           : magnitude < least_normal  ? CLASS_SUBNORMAL
           : magnitude < infinity      ? CLASS_NORMAL
           : magnitude == infinity     ? CLASS_INFINITE
                                       : CLASS_NAN;
}

/* .ftz flushes what is subnormal when rounded to 24 digits. Below the least normal number the host
   rounds to fewer and may arrive at it all the same: those lanes are looked at once more. */
static double f32_unrounded(u32 op, float p, float q, float r) {
    switch (op) {
    case OP_MUL:
        return (double)p * (double)q;
    case OP_MAD:
    case OP_FMA:
        return add_to_odd((double)p * (double)q, (double)r);
    case OP_DIV:
        return (double)p / (double)q;
    case OP_RCP:
        return 1.0 / (double)p;
    default: /* a sum is exact there */
        return 1.0;
    }
}

static void f32_flush_tiny(u32 op, int round, u64 *out, const u64 *const *a, u32 mask) {
    const bool outwards = round == (int)ROUND_RM || round == (int)ROUND_RP;
    const double least = 0x1p-126 * (outwards ? 1 - 0x1p-24 : 1 - 0x1p-25);
    const bool binary = op != OP_RCP, ternary = op == OP_FMA || op == OP_MAD;
    u32 lanes = 0;
    for (int i = 0; i < LANES; i++) lanes |= (u32)((out[i] & ~F32_SIGN) == 0x00800000u) << i;
    FOR_LANES(i, lanes & mask) {
        const float p = float_of(f32_flush((u32)a[0][i]));
        const float q = float_of(f32_flush(binary ? (u32)a[1][i] : 0));
        const float r = float_of(f32_flush(ternary ? (u32)a[2][i] : 0));
        const double exact = fabs(f32_unrounded(op, p, q, r));
        if (exact < least || (outwards && exact == least)) out[i] &= F32_SIGN;
    }
}

static bool f32_exact(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const u64 *x = a[0], *y = a[1];
    const bool ftz = in->flags & FLAG_FTZ, sat = in->flags & FLAG_SAT, limited = ftz || sat;
    switch (in->op) {
    case OP_ADD:
        F32_2(p + q);
        return true;
    case OP_SUB:
        F32_2(p - q);
        return true;
    case OP_MUL:
        F32_2(p * q);
        return true;
    case OP_MAD:
    case OP_FMA:
        if (has_fma())
            fma_by_hardware(d, a, mask, in->flags);
        else
            fma_by_library(d, a, mask, in->flags);
        return true;
    case OP_DIV:
        F32_2(p / q);
        return true;
    case OP_RCP:
        F32_1(1.0f / p);
        return true;
    case OP_SQRT:
        F32_1(sqrtf(p));
        return true;
    default:
        return false;
    }
}

bool f32_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const u64 *x = a[0], *y = a[1];
    const bool ftz = in->flags & FLAG_FTZ;
    switch (in->op) {
    case OP_ABS:
        EACH(const u32 p = f32_flush_if(ftz, (u32)x[i]) & ~F32_SIGN;
             d[i] = f32_is_nan(p) ? F32_NAN : p);
        return true;
    case OP_NEG:
        EACH(const u32 p = f32_flush_if(ftz, (u32)x[i]) ^ F32_SIGN;
             d[i] = f32_is_nan(p) ? F32_NAN : p);
        return true;
    case OP_MIN:
    case OP_MAX:
        return f32_choose_run(in, d, a, mask);
    case OP_COPYSIGN:
        BINARY(u32, u32, (p & F32_SIGN) | (q & ~F32_SIGN));
        return true;
    case OP_TESTP: {
        const int wanted = wanted_classes(in->mode);
        UNARY(u32, u32, (class_of(p & ~F32_SIGN, 0x00800000u, F32_INF) & wanted) != 0);
        return wanted != 0;
    }
    default: {
        const int saved = set_rounding(in->round);
        row flushed; /* the sources must outlive the first result */
        const bool known = f32_exact(in, ftz ? flushed : d, a, mask);
        restore_rounding(saved);
        if (known && ftz) {
            f32_flush_tiny(in->op, in->round, flushed, a, mask);
            EACH(d[i] = flushed[i]);
        }
        return known;
    }
    }
}

/* --- f64 --- */

/* A NaN among the sources is the result, made quiet; of several, add, sub and mul take the second
   source's, div the first's, fma the second's, then the third's. Without one, an invalid
   operation gives F64_NAN. */
static inline u64 f64_result(double value, u64 first, u64 second, u64 third) {
    if (value == value) return bits_of_double(value);
    return f64_is_nan(first)    ? f64_quiet(first)
           : f64_is_nan(second) ? f64_quiet(second)
           : f64_is_nan(third)  ? f64_quiet(third)
                                : F64_NAN;
}

#define F64_1(result) \
    EACH(const double p = double_of(x[i]); d[i] = f64_result(result, x[i], 0, 0))
#define F64_2(result, first, second) \
    EACH(const double p = double_of(x[i]); const double q = double_of(y[i]); \
         d[i] = f64_result(result, first[i], second[i], 0))
#define F64_3(result, first, second, third) \
    EACH(const double p = double_of(x[i]); const double q = double_of(y[i]); \
         const double r = double_of(z[i]); \
         d[i] = f64_result(result, first[i], second[i], third[i]))

static inline u64 f64_choose(u64 p, u64 q, bool is_max) {
    const bool p_nan = f64_is_nan(p), q_nan = f64_is_nan(q);
    if (p_nan && q_nan) return f64_quiet(q);
    if (p_nan || q_nan) return p_nan ? q : p;
    const i64 p_order = (i64)(p ^ ((p & F64_SIGN) ? ~F64_SIGN : 0));
    const i64 q_order = (i64)(q ^ ((q & F64_SIGN) ? ~F64_SIGN : 0));
    return (p_order < q_order) != is_max ? p : q;
}

static bool f64_exact(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const u64 *x = a[0], *y = a[1], *z = a[2];
    switch (in->op) {
    case OP_ADD:
        F64_2(p + q, y, x);
        return true;
    case OP_SUB:
        F64_2(p - q, y, x);
        return true;
    case OP_MUL:
        F64_2(p * q, y, x);
        return true;
    case OP_MAD:
    case OP_FMA:
        F64_3(fma(p, q, r), y, z, x);
        return true;
    case OP_DIV:
        F64_2(p / q, x, y);
        return true;
    case OP_RCP:
        F64_1(1.0 / p);
        return true;
    case OP_SQRT:
        F64_1(sqrt(p));
        return true;
    default:
        return false;
    }
}

bool f64_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const u64 *x = a[0], *y = a[1];
    if (in->flags & (FLAG_FTZ | FLAG_SAT | FLAG_NAN | FLAG_XORSIGN)) return false;
    switch (in->op) {
    case OP_ABS:
        UNARY(u64, u64, f64_is_nan(p) ? f64_quiet(p) : p & ~F64_SIGN);
        return true;
    case OP_NEG:
        UNARY(u64, u64, f64_is_nan(p) ? f64_quiet(p) : p ^ F64_SIGN);
        return true;
    case OP_MIN:
        BINARY(u64, u64, f64_choose(p, q, false));
        return true;
    case OP_MAX:
        BINARY(u64, u64, f64_choose(p, q, true));
        return true;
    case OP_COPYSIGN:
        BINARY(u64, u64, (p & F64_SIGN) | (q & ~F64_SIGN));
        return true;
    case OP_TESTP: {
        const int wanted = wanted_classes(in->mode);
        UNARY(u64, u64, (class_of(p & ~F64_SIGN, 1ull << 52, F64_INF) & wanted) != 0);
        return wanted != 0;
    }
    default: {
        const int saved = set_rounding(in->round);
        const bool known = f64_exact(in, d, a, mask);
        restore_rounding(saved);
        return known;
    }
    }
}
