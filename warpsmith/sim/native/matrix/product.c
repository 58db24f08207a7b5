/* Dot products with the accuracy of the hardware.

   A tensor core multiplies exactly, shifts all summands of one step (the products and the
   accumulator) to the greatest exponent among them, cuts off what lies more than `fraction` bits
   below it, adds the rest exactly and truncates the sum to a float (or rounds it to the nearest
   half). Exponents of products are sums of exponents: no normalization comes in between, and a
   zero has none. Recorded on an H200, where this gives the same bits: tests/sim/native. */
#include "matrix/product.h"

#include <math.h>
#include <string.h>

#include "arithmetic/alu.h"
#include "arithmetic/patterns.h"

/* Exponents that a float's scale can make up for, and one below those of all products. */
enum { FLOAT_FRACTION = 23, SCALABLE = -100, LOWEST = -300 };

static inline double power_of_two(int exponent) { return double_of((u64)(exponent + 1023) << 52); }

/* Toward zero, to `fraction` bits behind the point or, below 2^-126, to a multiple of
   2^(-126 - fraction); never -0. */
static inline float truncate_to(double value, int fraction) {
    if (fabs(value) >= 0x1p-126)
        return (float)double_of(bits_of_double(value) & ~((1ull << (52 - fraction)) - 1));
    const int places = 126 + fraction;
    return (float)(trunc(value * power_of_two(places)) * power_of_two(-places)) + 0.0f;
}

/* To the nearest half, ties to even: through a float whose last bit is sticky; never -0. */
static float round_to_half(double value) {
    float cut = truncate_to(value, FLOAT_FRACTION);
    if ((double)cut != value) {
        const u32 bits = bits_of(cut) | 1;
        memcpy(&cut, &bits, sizeof cut);
    }
    return half_to_float(float_to_half(cut, ROUND_RN)) + 0.0f;
}

/* One step for eight columns: what is summed. */
typedef struct {
    const float *a, *b;
    const i16 *a_exponent, *b_exponent;
    int pitch, depth; /* of b */
} step;

/* The greatest exponent of the summands of each column. */
static void find_top(const step *in, bool half, const float *c, i16 top[PRODUCT_BLOCK]) {
    const int least = half ? -14 : -126; /* of an accumulator's subnormal numbers */
    for (int j = 0; j < PRODUCT_BLOCK; j++) {
        const u32 magnitude = bits_of(c[j]) & 0x7fffffff;
        const int exponent = (int)(magnitude >> 23) - 127;
        const int clamped = exponent < least ? least : exponent;
        top[j] = (i16)(magnitude ? clamped : LOWEST);
    }
    for (int k = 0; k < in->depth; k++) {
        const i16 *line = in->b_exponent + k * in->pitch;
        const i16 left = in->a_exponent[k];
        for (int j = 0; j < PRODUCT_BLOCK; j++) {
            const i16 sum = (i16)(left + line[j]);
            top[j] = top[j] > sum ? top[j] : sum;
        }
    }
}

enum { PART = 8 }; /* summands that 32 bits can hold */

/* The sums in units of the last bit that is kept. */
static void sum_doubles(const step *in, const float *c, const double *scale, double *total) {
    for (int j = 0; j < PRODUCT_BLOCK; j++) total[j] = (double)(i32)(c[j] * scale[j]);
    for (int start = 0; start < in->depth; start += PART) {
        const int end = start + PART < in->depth ? start + PART : in->depth;
        i32 part[PRODUCT_BLOCK] = {0};
        for (int k = start; k < end; k++) {
            const float *line = in->b + k * in->pitch;
            const double left = in->a[k];
            for (int j = 0; j < PRODUCT_BLOCK; j++)
                part[j] += (i32)(left * (double)line[j] * scale[j]);
        }
        for (int j = 0; j < PRODUCT_BLOCK; j++) total[j] += (double)part[j];
    }
}

typedef float floats __attribute__((vector_size(16)));
typedef i32 integers __attribute__((vector_size(16)));

static inline floats load(const float *from) {
    floats value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline integers truncated(floats value) { return __builtin_convertvector(value, integers); }

/* The same where no product leaves the range of floats, in which products have room, too. */
static void sum_floats(const step *in, const float *c, const float *scale, double *total) {
    const floats low_scale = load(scale), high_scale = load(scale + 4);
    for (int j = 0; j < PRODUCT_BLOCK; j++) total[j] = (double)(i32)(c[j] * scale[j]);
    for (int start = 0; start < in->depth; start += PART) {
        const int end = start + PART < in->depth ? start + PART : in->depth;
        integers low = {0}, high = {0};
        for (int k = start; k < end; k++) {
            const float *line = in->b + k * in->pitch;
            low += truncated(in->a[k] * load(line) * low_scale);
            high += truncated(in->a[k] * load(line + 4) * high_scale);
        }
        for (int j = 0; j < 4; j++) {
            total[j] += (double)low[j];
            total[j + 4] += (double)high[j];
        }
    }
}

/* All numbers are finite. */
static void sum_block(const summation *how, const step *in, bool near_one, float *c) {
    i16 top[PRODUCT_BLOCK], low = 0;
    double scale[PRODUCT_BLOCK], total[PRODUCT_BLOCK];
    find_top(in, how->half, c, top);
    for (int j = 0; j < PRODUCT_BLOCK; j++) {
        low = top[j] < low ? top[j] : low;
        scale[j] = power_of_two(how->fraction - top[j]);
    }
    if (near_one && low >= SCALABLE) {
        float narrow[PRODUCT_BLOCK];
        for (int j = 0; j < PRODUCT_BLOCK; j++) narrow[j] = (float)scale[j];
        sum_floats(in, c, narrow, total);
    } else {
        sum_doubles(in, c, scale, total);
    }
    const int kept = how->fraction < FLOAT_FRACTION ? how->fraction : FLOAT_FRACTION;
    for (int j = 0; j < PRODUCT_BLOCK; j++) {
        const double sum = total[j] * power_of_two(top[j] - how->fraction);
        c[j] = how->half ? round_to_half(sum) : truncate_to(sum, kept);
    }
}

/* The same where numbers may be infinite or NaN: such sums follow IEEE 754, the others are formed
   without the special numbers of their neighbours. */
static void sum_special(const summation *how, const step *in, float *c) {
    enum { ZERO_EXPONENT = -2000 };
    float left[PRODUCT_DEPTH], right[PRODUCT_DEPTH * PRODUCT_BLOCK], finite[PRODUCT_BLOCK];
    i16 left_exponent[PRODUCT_DEPTH], right_exponent[PRODUCT_DEPTH * PRODUCT_BLOCK];
    double plain[PRODUCT_BLOCK];
    for (int j = 0; j < PRODUCT_BLOCK; j++) {
        plain[j] = c[j];
        finite[j] = isfinite(c[j]) ? c[j] : 0;
    }
    for (int k = 0; k < in->depth; k++) {
        const bool usable = isfinite(in->a[k]);
        left[k] = usable ? in->a[k] : 0;
        left_exponent[k] = usable ? in->a_exponent[k] : ZERO_EXPONENT;
        for (int j = 0; j < PRODUCT_BLOCK; j++) {
            const float value = in->b[k * in->pitch + j];
            const int to = k * PRODUCT_BLOCK + j;
            plain[j] += (double)in->a[k] * value;
            right[to] = isfinite(value) ? value : 0;
            right_exponent[to] =
                isfinite(value) ? in->b_exponent[k * in->pitch + j] : ZERO_EXPONENT;
        }
    }
    const step rest = {left, right, left_exponent, right_exponent, PRODUCT_BLOCK, in->depth};
    sum_block(how, &rest, false, finite);
    for (int j = 0; j < PRODUCT_BLOCK; j++)
        c[j] = isfinite(plain[j]) ? finite[j] : (float)plain[j];
}

static bool all_finite(const float *values) {
    u32 greatest = 0;
    for (int j = 0; j < PRODUCT_BLOCK; j++) {
        const u32 exponent = bits_of(values[j]) & 0x7f800000;
        greatest = exponent > greatest ? exponent : greatest;
    }
    return greatest < 0x7f800000;
}

void product_float(const summation *how, const factor *a, const factor *b, int rows, int columns,
                   int depth, float *c) {
    const bool near_one = a->near_one && b->near_one;
    for (int start = 0; start < depth; start += how->depth) {
        const int count = start + how->depth < depth ? how->depth : depth - start;
        for (int i = 0; i < rows; i++) {
            const int left = i * a->pitch + start;
            for (int j = 0; j < columns; j += PRODUCT_BLOCK) {
                const int right = start * b->pitch + j;
                const step now = {a->value + left,    b->value + right, a->exponent + left,
                                  b->exponent + right, b->pitch,        count};
                float *to = c + i * columns + j;
                if (a->special[i] || b->special[j / PRODUCT_BLOCK] || !all_finite(to))
                    sum_special(how, &now, to);
                else sum_block(how, &now, near_one, to);
            }
        }
    }
}
