/* The elements of matrix operands: widths, and numbers from bits and back. */
#pragma once
#include "sim.h"

/* B has the type of A unless the record's `vector` names another: u8 with s8, e4m3 with e5m2. */
int type_of_b(const insn *in);
int bits_of_type(int type);
int elements_per_register(int type);
u64 element_bits(u64 slot, int type, int i);

/* The exponent of the subnormal numbers of f16, bf16, tf32, e4m3 and e5m2. */
int least_exponent(int type);
int integer_from_bits(int type, u32 bits); /* s8, u8 */

/* Accumulators: floats or halves from and to bits; an integer sum wraps or saturates. */
void sums_from_bits(bool half, const u32 *bits, int count, float *to);
void sums_to_bits(bool half, const float *sums, int count, u32 *to);
u32 integer_sum(i64 sum, bool saturate);
