/* Arithmetic: everything from one row of registers to another, lane by lane. */
#pragma once
#include "sim.h"

/* Run one arithmetic, logic, comparison or conversion instruction for the lanes in `mask`.

   `d` is the first destination row and `d2` the second (predicate q of setp, p of lop3), NULL
   when there is none; `a` are the source rows in PTX order, predicates as 0 or 1 with negation
   already applied. `carry` holds the condition code CC.CF, one bit a lane. A destination may be
   the same row as a source. LOP3 with a predicate has a fifth source: its table is a[3], q is a[4].
   Sources that an instruction does not have are NULL. PACK and UNPACK are not run here. Returns
   false when the combination of operation, types and modifiers is not one that PTX has. */
bool alu_run(const insn *in, u64 *d, u64 *d2, const u64 *const a[4], u32 mask, u32 *carry);

/* Half, bfloat16 and eight-bit formats, for everyone: bits to float (exact) and back, rounded as
   `round` (ROUND_RN, RZ, RNA, RM or RP) says. `saturate` is .satfinite. */
float half_to_float(u16 bits);
float bfloat16_to_float(u16 bits);
float e4m3_to_float(u8 bits);
float e5m2_to_float(u8 bits);
u16 float_to_half(float value, int round);
u16 float_to_bfloat16(float value, int round);
u8 float_to_e4m3(float value, bool saturate);
u8 float_to_e5m2(float value, bool saturate);
u32 float_to_tf32(float value, int round); /* bits of a float whose low 13 bits are zero */

/* One atomic or reducing operation on a value of `type` in memory: returns the new value, with
   `old` the one in memory, `b` (and `c`, for CAS: compare b, swap c) the operands. */
u64 atomic_apply(int mode, int type, u64 old, u64 b, u64 c);
