/* The machine's program records, as warpsmith/sim/load.py packs them, and the types of rows. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isa.h" /* printed by warpsmith/sim/isa.py */

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;

enum { LANES = 32 };

/* One value of one register for each lane of a warp. */
typedef u64 row[LANES];

/* warpsmith.sim.program.Operand */
typedef struct {
    u8 kind; /* KIND_* */
    u8 negated;
    u16 unused;
    i32 index;
    i64 value;
} operand;

enum { MAX_GROUPS = 8 };

/* warpsmith.sim.program.Instruction */
typedef struct {
    u16 op; /* OP_* */
    u8 type, type2; /* TYPE_* */
    u32 flags; /* FLAG_* */
    u8 mode, round, compare, combine;
    u8 space, semantics, scope, vector;
    u8 groups[MAX_GROUPS]; /* operands of each PTX operand */
    u8 group_count, guard_negated;
    u16 operand_count;
    u16 m, n, k; /* shape of a matrix product */
    u16 unused;
    i32 guard; /* register of the guard, or -1 */
    u32 first_operand; /* index into the program's operands */
    i32 target, reconverge;
    u32 first_target, target_count; /* of brx.idx, in the program's targets */
    u32 line; /* of the PTX */
} insn;

static inline bool lane_in(u32 mask, int lane) { return mask >> lane & 1; }

#define FOR_LANES(lane, mask) \
    for (u32 rest_ = (mask); rest_; rest_ &= rest_ - 1) \
        for (int lane = __builtin_ctz(rest_), once_ = 1; once_; once_ = 0)
