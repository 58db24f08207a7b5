/* Dot products with the accuracy of the hardware.

   A tensor core multiplies exactly, shifts all summands of one step (the products and the
   accumulator) to the greatest exponent among them, cuts off what lies more than `fraction` bits
   below it, adds the rest exactly and truncates the sum to a float (or rounds it to the nearest
   half). Exponents of products are sums of exponents: no normalization comes in between. */
#include "product.h"

#include <math.h>
#include <string.h>

#include "alu.h"

/* A zero does not raise the greatest exponent, whatever it is multiplied with. */
enum { NO_EXPONENT = -2000, LOWEST = -300, FLOAT_FRACTION = 23 };

static u64 bits_of(double value) {
    u64 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of(u64 bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double power_of_two(int exponent) { return double_of((u64)(exponent + 1023) << 52); }

static inline int exponent_of(double value) { return (int)(bits_of(value) >> 52 & 0x7ff) - 1023; }

void factor_set(factor *to, int index, double value, int least) {
    const int exponent = exponent_of(value);
    to->value[index] = value;
    to->exponent[index] = (i16)(exponent < least ? least : exponent);
    if (value == 0) to->exponent[index] = NO_EXPONENT;
    if (exponent == 1024) to->special = true;
}

/* Toward zero, to `fraction` bits behind the point or, below 2^-126, to a multiple of
   2^(-126 - fraction); never -0. */
static float truncate_to(double value, int fraction) {
    if (fabs(value) >= 0x1p-126)
        return (float)double_of(bits_of(value) & ~((1ull << (52 - fraction)) - 1));
    const int places = 126 + fraction;
    return (float)(trunc(value * power_of_two(places)) * power_of_two(-places)) + 0.0f;
}

/* To the nearest half, ties to even: through a float whose last bit is sticky. */
static float round_to_half(double value) {
    float cut = truncate_to(value, FLOAT_FRACTION);
    if ((double)cut != value) {
        u32 bits;
        memcpy(&bits, &cut, sizeof bits);
        bits |= 1;
        memcpy(&cut, &bits, sizeof cut);
    }
    return half_to_float(float_to_half(cut, ROUND_RN)) + 0.0f; /* never -0 */
}

/* One step for eight columns: c += a[0..depth) x b[0..depth)[8]. All numbers are finite. */
static void sum_block(const summation *how, const double *a, const i16 *a_exponent,
                      const double *b, const i16 *b_exponent, int pitch, int depth, float *c) {
    enum { PART = 8 }; /* summands that 32 bits can hold */
    const int kept = how->fraction < FLOAT_FRACTION ? how->fraction : FLOAT_FRACTION;
    const int least = how->half ? -14 : -126; /* of an accumulator's subnormal numbers */
    i16 top[PRODUCT_BLOCK];
    double scale[PRODUCT_BLOCK], total[PRODUCT_BLOCK];
    for (int j = 0; j < PRODUCT_BLOCK; j++) {
        const int exponent = exponent_of(c[j]);
        top[j] = (i16)(c[j] == 0 ? LOWEST : exponent < least ? least : exponent);
    }
    for (int k = 0; k < depth; k++) {
        const i16 *line = b_exponent + k * pitch;
        const i16 left = a_exponent[k];
        for (int j = 0; j < PRODUCT_BLOCK; j++) {
            const i16 sum = (i16)(left + line[j]);
            top[j] = top[j] > sum ? top[j] : sum;
        }
    }
    for (int j = 0; j < PRODUCT_BLOCK; j++) {
        scale[j] = power_of_two(how->fraction - top[j]);
        total[j] = (double)(i32)(c[j] * scale[j]);
    }
    for (int start = 0; start < depth; start += PART) {
        const int end = start + PART < depth ? start + PART : depth;
        i32 part[PRODUCT_BLOCK] = {0};
        for (int k = start; k < end; k++) {
            const double *line = b + k * pitch;
            const double left = a[k];
            for (int j = 0; j < PRODUCT_BLOCK; j++) part[j] += (i32)(left * line[j] * scale[j]);
        }
        for (int j = 0; j < PRODUCT_BLOCK; j++) total[j] += (double)part[j];
    }
    for (int j = 0; j < PRODUCT_BLOCK; j++) {
        const double sum = total[j] * power_of_two(top[j] - how->fraction);
        c[j] = how->half ? round_to_half(sum) : truncate_to(sum, kept);
    }
}

static float quiet_nan(void) {
    const u32 bits = 0x7fffffff;
    float nan_value;
    memcpy(&nan_value, &bits, sizeof nan_value);
    return nan_value;
}

/* The same where numbers may be infinite or NaN: such sums follow IEEE 754, the others are formed
   without the special numbers of their neighbours. */
static void sum_special(const summation *how, const double *a, const i16 *a_exponent,
                        const double *b, const i16 *b_exponent, int pitch, int depth, float *c) {
    double left[PRODUCT_DEPTH], right[PRODUCT_DEPTH * PRODUCT_BLOCK];
    i16 right_exponent[PRODUCT_DEPTH * PRODUCT_BLOCK], left_exponent[PRODUCT_DEPTH];
    float finite[PRODUCT_BLOCK];
    double plain[PRODUCT_BLOCK];
    for (int j = 0; j < PRODUCT_BLOCK; j++) {
        plain[j] = c[j];
        finite[j] = isfinite(c[j]) ? c[j] : 0;
    }
    for (int k = 0; k < depth; k++) {
        left[k] = isfinite(a[k]) ? a[k] : 0;
        left_exponent[k] = isfinite(a[k]) ? a_exponent[k] : NO_EXPONENT;
        for (int j = 0; j < PRODUCT_BLOCK; j++) {
            const double value = b[k * pitch + j];
            const int to = k * PRODUCT_BLOCK + j;
            plain[j] += a[k] * value;
            right[to] = isfinite(value) ? value : 0;
            right_exponent[to] = isfinite(value) ? b_exponent[k * pitch + j] : NO_EXPONENT;
        }
    }
    sum_block(how, left, left_exponent, right, right_exponent, PRODUCT_BLOCK, depth, finite);
    for (int j = 0; j < PRODUCT_BLOCK; j++) {
        if (isnan(plain[j])) c[j] = quiet_nan();
        else c[j] = isinf(plain[j]) ? (float)plain[j] : finite[j];
    }
}

static bool all_finite(const float *values) {
    for (int j = 0; j < PRODUCT_BLOCK; j++)
        if (!isfinite(values[j])) return false;
    return true;
}

void product_float(const summation *how, const factor *a, const factor *b, int rows, int columns,
                   int depth, float *c) {
    for (int start = 0; start < depth; start += how->depth) {
        const int count = start + how->depth < depth ? how->depth : depth - start;
        for (int i = 0; i < rows; i++) {
            const double *left = a->value + i * a->pitch + start;
            const i16 *left_exponent = a->exponent + i * a->pitch + start;
            for (int j = 0; j < columns; j += PRODUCT_BLOCK) {
                float *to = c + i * columns + j;
                const int at = start * b->pitch + j;
                const bool special = a->special || b->special || !all_finite(to);
                (special ? sum_special : sum_block)(how, left, left_exponent, b->value + at,
                                                    b->exponent + at, b->pitch, count, to);
            }
        }
    }
}
