/* Undefined bits: how far they reach. A register, or a byte of local memory, is undefined where what
   it is made of was, or the guard; that is a finding only when something else depends on it. */
#include <string.h>

#include "arithmetic/alu.h"
#include "machine/machine.h"

/* Undefined bits that cannot reach the result do not count: the arm of selp that is not taken, what
   a defined operand masks out of a bitwise operation, a comparison that `combine` overrules. */
u32 reaching_result(warp *w, const insn *in, u32 first, const u64 *const *a, u32 mask, u32 undefined) {
    u32 of[3];
    for (u32 i = 0; i < 3; i++) of[i] = a[i] ? undefined_of(w, in, first + i) : 0;
    if (in->op == OP_SELP) {
        u32 chosen = 0;
        FOR_LANES(lane, mask) if (a[2][lane] & 1) chosen |= 1u << lane;
        return ((of[0] & chosen) | (of[1] & ~chosen) | of[2]) & mask;
    }
    if (in->op == OP_SETP && (in->combine == COMBINE_AND || in->combine == COMBINE_OR)) {
        bool overruled = in->combine == COMBINE_OR;
        FOR_LANES(lane, undefined & ~of[2])
            if ((a[2][lane] & 1) == overruled && !(in->flags & FLAG_PREDICATE))
                undefined &= ~(1u << lane);
        return undefined;
    }
    if (in->op != OP_AND && in->op != OP_OR && (in->op != OP_LOP3 || in->mode != MODE_NONE))
        return undefined;
    /* Every filling of the undefined operands must give one result. */
    row filled[3], result, before;
    u32 fillings = 8, half = type_bytes(in->type) * 4;
    u64 below = (1ull << half) - 1;
    for (u32 filling = 0; filling < fillings; filling++) {
        const u64 *b[5] = {a[0], a[1], a[2], a[3], a[4]};
        for (u32 i = 0; i < 3; i++) {
            if (!(of[i] & undefined)) continue;
            memcpy(filled[i], a[i], sizeof filled[i]);
            u32 low = known_half_of(w, in, first + i, 0), high = known_half_of(w, in, first + i, 1);
            FOR_LANES(lane, of[i] & undefined) {
                u64 bits = (lane_in(low, lane) ? 0 : below) | (lane_in(high, lane) ? 0 : ~below);
                filled[i][lane] = (a[i][lane] & ~bits) | (filling >> i & 1 ? bits : 0);
            }
            b[i] = filled[i];
        }
        u32 carry = w->carry;
        alu_run(in, result, NULL, b, undefined, &carry);
        if (filling) FOR_LANES(lane, undefined & mask) if (result[lane] != before[lane]) goto differs;
        memcpy(before, result, sizeof before);
    }
    return 0;
differs:;
    /* Some lane depends on what is undefined: look at each lane by itself. */
    u32 depends = 0;
    if (!(undefined & (undefined - 1))) return undefined;
    FOR_LANES(lane, undefined) depends |= reaching_result(w, in, first, a, 1u << lane, 1u << lane);
    return depends;
}

/* Does it only write registers? Then undefined lanes spoil no more than its result. */
static bool only_registers(const insn *in) {
    return in->op < OP_BRA || in->op == OP_LD || in->op == OP_MAPA || in->op == OP_GETCTARANK ||
           in->op == OP_POLICY || in->op == OP_NANOSLEEP || in->op == OP_ACTIVEMASK;
}

u32 judge_guard(warp *w, const insn *in, u32 mask) {
    u32 bad = w->undefined_guard;
    if (only_registers(in) || (in->op == OP_ST && in->space == SPACE_LOCAL)) return mask | bad;
    finding *f = report(w->m, FINDING_UNINITIALIZED, w, first_lane(bad), pc_of(w, in),
                        "the guard of an instruction holds bits that nobody wrote");
    if (f) f->other_pc = (i32)w->origin[in->guard];
    return mask;
}
