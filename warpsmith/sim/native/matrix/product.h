/* Sums of products as the tensor cores of sm_90 form them, without fragments or memory. */
#pragma once
#include "sim.h"

enum { PRODUCT_ROWS = 16, PRODUCT_COLUMNS = 256, PRODUCT_DEPTH = 32, PRODUCT_BLOCK = 8 };
enum { PRODUCT_NUMBERS = PRODUCT_DEPTH * PRODUCT_COLUMNS };

/* A or B as numbers: A is rows x depth, B is depth x columns, each line `pitch` apart. `exponent`
   is that of each number as its format has it: a subnormal number has the least exponent, a zero
   one below all. `special` marks the rows of A, or the blocks of eight columns of B, that hold an
   infinity or a NaN. */
typedef struct {
    float value[PRODUCT_NUMBERS];
    i16 exponent[PRODUCT_NUMBERS];
    u8 special[PRODUCT_COLUMNS / PRODUCT_BLOCK];
    int pitch;
    bool near_one; /* all numbers but zeros lie within 2^-50 and 2^50 */
} factor;

/* Fill a factor with `lines` lines of `pitch` numbers of an operand type (f16, bf16, tf32, e4m3,
   e5m2), given as bits. `least` is the exponent of subnormal numbers. */
void factor_fill(factor *to, bool is_b, int type, const u32 *bits, int lines, int pitch,
                 int least);

/* How a kind of product adds up. */
typedef struct {
    int depth;    /* products that are summed at once, with the accumulator */
    int fraction; /* bits kept below the greatest exponent of the summands; more are cut off */
    bool half;    /* the result is rounded to the nearest half, else truncated to a float */
} summation;

/* c[row * columns + column] += a x b; columns a multiple of 8. */
void product_float(const summation *how, const factor *a, const factor *b, int rows, int columns,
                   int depth, float *c);
