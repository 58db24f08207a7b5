/* Sums of products as the tensor cores of sm_90 form them, without fragments or memory. */
#pragma once
#include "sim.h"

enum { PRODUCT_ROWS = 16, PRODUCT_COLUMNS = 256, PRODUCT_DEPTH = 32, PRODUCT_BLOCK = 8 };

/* A or B as numbers: A is rows x depth, B is depth x columns, each line `pitch` apart. `exponent`
   is that of each number as its format has it; a subnormal number has the least exponent. */
typedef struct {
    double value[PRODUCT_DEPTH * PRODUCT_COLUMNS];
    i16 exponent[PRODUCT_DEPTH * PRODUCT_COLUMNS];
    int pitch;
    bool special; /* an infinity or a NaN is among the numbers */
} factor;

/* How a kind of product adds up. */
typedef struct {
    int depth;    /* products that are summed at once, with the accumulator */
    int fraction; /* bits kept below the greatest exponent of the summands; more are cut off */
    bool half;    /* the result is rounded to the nearest half, else truncated to a float */
} summation;

void factor_set(factor *to, int index, double value, int least_exponent);

/* c[row * columns + column] += a x b; columns a multiple of 8. */
void product_float(const summation *how, const factor *a, const factor *b, int rows, int columns,
                   int depth, float *c);

/* What both kinds of product say about types. B has the type of A unless the record's `vector`
   names another: u8 with s8, e4m3 with e5m2. */
int type_of_b(const insn *in);
int bits_of_type(int type);
int elements_per_register(int type);
u64 element_bits(u64 slot, int type, int i);

/* A number of an operand type (f16, bf16, tf32, e4m3, e5m2) from its bits, and the exponent of
   the type's subnormal numbers. Integers (s8, u8) likewise. */
double number_from_bits(int type, u32 bits);
int least_exponent(int type);
int integer_from_bits(int type, u32 bits);

/* The accumulator: a float or a half from and to bits; an integer sum wraps or saturates. */
float sum_from_bits(bool half, u32 bits);
u32 sum_to_bits(bool half, float value);
u32 integer_sum(i64 sum, bool saturate);
