/* The approximate functions: closer than PTX promises, with its special values. */
#include <math.h>

#include "arithmetic/formats.h"

typedef float (*function)(float);

/* sin and cos: the GPU takes the argument in turns, x * (1/2pi) rounded towards zero. */
static float in_turns(float x) {
    const double turns = (double)x * (double)0.15915494309189535f;
    float rounded = (float)turns;
    if (fabs((double)rounded) > fabs(turns)) rounded = nextafterf(rounded, 0.0f);
    return rounded;
}

static float sine(float x) {
    if (!isfinite(x)) return NAN;
    const float turns = in_turns(x);
    const double whole = rint((double)turns);
    const double angle = ((double)turns - whole) * 6.283185307179586476925;
    return angle == 0 ? copysignf(0.0f, turns) : (float)sin(angle);
}

static float cosine(float x) {
    if (!isfinite(x)) return NAN;
    const double turns = (double)in_turns(x);
    return (float)cos((turns - rint(turns)) * 6.283185307179586476925);
}

static float reciprocal(float x) { return 1.0f / x; }
static float reciprocal_root(float x) { return (float)(1.0 / sqrt((double)x)); }

static function function_of(u32 op) {
    switch (op) {
    case OP_RCP:
        return reciprocal;
    case OP_SQRT:
        return sqrtf;
    case OP_RSQRT:
        return reciprocal_root;
    case OP_SIN:
        return sine;
    case OP_COS:
        return cosine;
    case OP_LG2:
        return log2f;
    case OP_EX2:
        return exp2f;
    case OP_TANH:
        return tanhf;
    default:
        return NULL;
    }
}

static inline u32 f32_of(float value, bool ftz) {
    const u32 bits = bits_of(value);
    return f32_is_nan(bits) ? F32_NAN : f32_flush_if(ftz, bits);
}

/* div.approx is a times the reciprocal of b: beyond 2^126 that reciprocal is zero. div.full scales
   such operands first. */
static float divide(float a, float b, bool full) {
    if (!full && !isnan(a) && isfinite(b) && fabsf(b) > 0x1p126f) {
        const float zero = copysignf(0.0f, a) * copysignf(1.0f, b);
        return isinf(a) ? NAN : zero;
    }
    return a / b;
}

static bool f32_approximate(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const u64 *x = a[0], *y = a[1];
    const bool ftz = in->flags & FLAG_FTZ, full = in->flags & FLAG_FULL;
    if (in->op == OP_DIV) {
        EACH(d[i] = f32_of(divide(float_of(f32_flush_if(ftz, (u32)x[i])),
                                  float_of(f32_flush_if(ftz, (u32)y[i])), full),
                           ftz));
        return true;
    }
    if (in->op == OP_EX2) { /* the most used one */
        EACH(d[i] = f32_of(exp2f(float_of(f32_flush_if(ftz, (u32)x[i]))), ftz));
        return true;
    }
    const function apply = function_of(in->op);
    if (!apply) return false;
    EACH(d[i] = f32_of(apply(float_of(f32_flush_if(ftz, (u32)x[i]))), ftz));
    return true;
}

/* rcp and rsqrt .approx.ftz.f64 see the upper 32 bits only and give only those; rsqrt.approx.f64
   is an ordinary function. */
static inline u64 f64_seed(u64 bits, bool root) {
    bits &= ~0xffffffffull; /* a NaN may lose all its payload and be an infinity */
    if (f64_is_nan(bits)) return 0x7fffffff00000000ull;
    if (!(bits & F64_INF)) bits &= F64_SIGN;
    const double value = double_of(bits);
    u64 result = bits_of_double(root ? 1.0 / sqrt(value) : 1.0 / value);
    if (f64_is_nan(result)) return 0x7fffffff00000000ull;
    if (!(result & F64_INF)) result &= F64_SIGN;
    return result & ~0xffffffffull;
}

static bool f64_approximate(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const u64 *x = a[0];
    const bool root = in->op == OP_RSQRT;
    if (in->op != OP_RCP && !root) return false;
    if (in->flags & FLAG_FTZ) {
        EACH(d[i] = f64_seed(x[i], root));
        return true;
    }
    if (!root) return false;
    EACH(const u64 result = bits_of_double(1.0 / sqrt(double_of(x[i])));
         d[i] = f64_is_nan(x[i]) ? f64_quiet(x[i]) : f64_is_nan(result) ? F64_NAN : result);
    return true;
}

/* ex2 and tanh of halves, rounded from the function of a float. */
static inline u32 f16_apply(function apply, u32 bits) {
    const float value = apply(half_as_float(bits));
    return isnan(value) ? F16_NAN : float_to_half(value, ROUND_RN);
}

static inline u32 bf16_apply(function apply, u32 bits, bool ftz) {
    const float value = apply(float_of(f32_flush_if(ftz, (bits & 0xffffu) << 16)));
    const u32 result = isnan(value) ? BF16_NAN : float_to_bfloat16(value, ROUND_RN);
    return ftz && !(result & 0x7f80u) ? result & 0x8000u : result;
}

static bool half_approximate(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const u64 *x = a[0];
    const bool ftz = in->flags & FLAG_FTZ;
    if (in->op != OP_EX2 && in->op != OP_TANH) return false;
    const function apply = function_of(in->op);
    switch (in->type) {
    case TYPE_F16:
        EACH(d[i] = f16_apply(apply, (u32)x[i]));
        return true;
    case TYPE_F16X2:
        EACH(d[i] = f16_apply(apply, (u32)x[i] >> 16) << 16 | f16_apply(apply, (u32)x[i]));
        return true;
    case TYPE_BF16:
        EACH(d[i] = bf16_apply(apply, (u32)x[i], ftz));
        return true;
    case TYPE_BF16X2:
        EACH(d[i] = bf16_apply(apply, (u32)x[i] >> 16, ftz) << 16 |
                    bf16_apply(apply, (u32)x[i], ftz));
        return true;
    default:
        return false;
    }
}

bool approximate_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    switch (in->type) {
    case TYPE_F32:
        return f32_approximate(in, d, a, mask);
    case TYPE_F64:
        return f64_approximate(in, d, a, mask);
    default:
        return half_approximate(in, d, a, mask);
    }
}
