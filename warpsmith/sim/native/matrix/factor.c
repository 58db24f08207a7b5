/* Operand numbers from their bits, many at once: plain loops that the compiler vectorizes. */
#include <string.h>

#include "arithmetic/patterns.h"
#include "matrix/product.h"

enum { NO_EXPONENT = -2000, NEAR = 50 };

/* A narrow number becomes a float when its exponent and mantissa move to their places and the
   difference of the biases is made up for; `top` are the magnitudes that are infinite or NaN. */
static inline float widen(u32 bits, int width, int mantissa, float scale, u32 top) {
    const u32 sign = 1u << (width - 1), magnitude = bits & (sign - 1);
    const u32 special = magnitude >= top ? 0x7f800000 : 0;
    const u32 wide = bits_of(float_of(magnitude << (23 - mantissa)) * scale) | special;
    return float_of(wide | (bits & sign) << (32 - width));
}

static void widen_all(int type, const u32 *bits, int count, float *to) {
    switch (type) {
    case TYPE_F16:
        for (int i = 0; i < count; i++) to[i] = widen(bits[i], 16, 10, 0x1p112f, 0x7c00);
        break;
    case TYPE_E4M3:
        for (int i = 0; i < count; i++) to[i] = widen(bits[i], 8, 3, 0x1p120f, 0x7f);
        break;
    case TYPE_E5M2:
        for (int i = 0; i < count; i++) to[i] = widen(bits[i], 8, 2, 0x1p112f, 0x7c);
        break;
    case TYPE_BF16:
        for (int i = 0; i < count; i++) to[i] = float_of(bits[i] << 16);
        break;
    default: /* tf32: the hardware ignores the low 13 bits */
        for (int i = 0; i < count; i++) to[i] = float_of(bits[i] & ~0x1fffu);
    }
}

/* Exponents, and the least and greatest of those of numbers that are not zero. */
typedef struct {
    int low, high;
} range;

static range find_exponents(const float *values, int count, int least, i16 *to) {
    range found = {0, 0};
    for (int i = 0; i < count; i++) {
        const u32 magnitude = bits_of(values[i]) & 0x7fffffff;
        int exponent = (int)(magnitude >> 23) - 127;
        exponent = exponent < least ? least : exponent;
        const int seen = magnitude ? exponent : 0;
        found.low = seen < found.low ? seen : found.low;
        found.high = seen > found.high ? seen : found.high;
        to[i] = (i16)(magnitude ? exponent : NO_EXPONENT);
    }
    return found;
}

void factor_fill(factor *to, bool is_b, int type, const u32 *bits, int lines, int pitch,
                 int least) {
    const int count = lines * pitch;
    to->pitch = pitch;
    memset(to->special, 0, sizeof to->special);
    widen_all(type, bits, count, to->value);
    const range found = find_exponents(to->value, count, least, to->exponent);
    to->near_one = found.low >= -NEAR && found.high <= NEAR;
    if (found.high < 128) return;
    for (int i = 0; i < count; i++)
        if (to->exponent[i] == 128) to->special[is_b ? i % pitch / PRODUCT_BLOCK : i / pitch] = 1;
}
