/* Which element of a matrix each register of each lane holds: one rule for all warp products.

   The lanes of a warp form eight groups of four. A register of A holds consecutive elements of
   one row, registers alternate between the upper and lower eight rows and go along k in steps of
   four lanes; a register of B holds consecutive elements of one column; registers of C and D hold
   two neighbours of a row, apart or packed into one. */
#pragma once
#include "sim.h"

typedef struct {
    int row, column;
} place;

/* Element `i` of register `index` of A (m rows); `packed` elements a register. */
static inline place place_a(int m, int packed, int lane, int index, int i) {
    const int half = m == 16 ? index & 1 : 0, step = m == 16 ? index >> 1 : index;
    return (place){lane / 4 + 8 * half, (step * 4 + lane % 4) * packed + i};
}

/* Element `i` of register `index` of B: row is along k. */
static inline place place_b(int packed, int lane, int index, int i) {
    return (place){(index * 4 + lane % 4) * packed + i, lane / 4};
}

/* Element `i` of register `index` of C or D, 16 rows (8 where index stays below 2) and any number
   of columns: four elements, two above and two below, for every eight columns. */
static inline place place_d(int packed, int lane, int index, int i) {
    const int element = index * packed + i;
    return (place){lane / 4 + 8 * (element >> 1 & 1),
                   8 * (element >> 2) + 2 * (lane % 4) + (element & 1)};
}
