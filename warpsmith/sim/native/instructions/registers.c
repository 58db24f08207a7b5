/* Instructions that touch registers only: arithmetic, moves, packing, addresses. */
#include "arithmetic/alu.h"
#include "machine/machine.h"

#include <string.h>

static bool has_second(const insn *in) {
    return (in->op == OP_SETP && in->flags & FLAG_PREDICATE) ||
           (in->op == OP_LOP3 && in->mode != MODE_NONE);
}

void run_alu(warp *w, const insn *in, u32 mask) {
    enum { MOST = 5 };
    row scratch[MOST];
    const u64 *a[MOST] = {0};
    bool second = has_second(in);
    u32 first = 1 + second, count = in->operand_count - first, undefined = 0, origin = 0;
    u32 of[MOST] = {0};
    for (u32 i = 0; i < count && i < MOST; i++) {
        a[i] = source(w, in, first + i, scratch[i], mask);
        u32 bad = of[i] = undefined_of(w, in, first + i) & mask;
        if (bad) origin = w->origin[operand_at(w, in, first + i)->index];
        undefined |= bad;
    }
    if (undefined) undefined = reaching_result(w, in, first, a, mask, undefined);
    row sink, sink2;
    u64 *d = destination(w, in, 0);
    u64 *d2 = second ? destination(w, in, 1) : NULL;
    if (!alu_run(in, d ? d : sink, second ? (d2 ? d2 : sink2) : NULL, a, mask, &w->carry)) {
        report(w->m, FINDING_UNSUPPORTED, w, -1, pc_of(w, in),
               "this form of the instruction is not simulated");
        w->m->stopped = true;
    }
    define(w, in, 0, mask, undefined, origin);
    if (second) define(w, in, 1, mask, undefined, origin);
    bool pair = in->op == OP_CVT && (in->type == TYPE_F16X2 || in->type == TYPE_BF16X2);
    for (u32 half = 0; pair && count == 2 && half < 2; half++) /* the first operand is the high one */
        define_half(w, in, 0, mask, half, undefined & ~of[1 - half]);
}

void run_mov(warp *w, const insn *in, u32 mask) {
    row scratch;
    const operand *from = operand_at(w, in, 1), *to = operand_at(w, in, 0);
    const u64 *a = source(w, in, 1, scratch, mask);
    u64 *d = destination(w, in, 0);
    if (!d) return;
    u32 bytes = type_bytes(in->type);
    u64 bits = in->type == TYPE_PRED ? 1 : bytes >= 8 ? ~0ull : (1ull << bytes * 8) - 1;
    FOR_LANES(lane, mask) d[lane] = a[lane] & bits;
    bool reg = from->kind == KIND_REGISTER;
    u32 busy = w->busy && reg ? w->busy[from->index] : 0;
    if (busy > w->wgmma_waited) {
        /* A copy of an accumulator in flight is another name for it: ptxas gives it the same
           hardware register. Using it is judged where it is used. */
        w->busy[to->index] = busy;
        w->touched[to->index] = w->touched[from->index];
        w->undefined[to->index] = w->undefined[from->index];
        return;
    }
    u32 known[2] = {known_half_of(w, in, 1, 0), known_half_of(w, in, 1, 1)};
    define(w, in, 0, mask, undefined_of(w, in, 1), reg ? w->origin[from->index] : 0);
    for (u32 half = 0; half < 2; half++) define_half(w, in, 0, mask, half, known[half]);
}

void run_pack(warp *w, const insn *in, u32 mask) {
    bool pack = in->op == OP_PACK;
    u32 parts = in->operand_count - 1;
    u32 whole = type_bytes(in->type) * 8, width = whole / parts;
    u64 part_mask = width >= 64 ? ~0ull : (1ull << width) - 1;
    if (pack) {
        row packed = {0};
        u32 undefined = 0, origin = 0, halves[2] = {0};
        for (u32 p = 0; p < parts; p++) {
            row scratch;
            const u64 *a = source(w, in, 1 + p, scratch, mask);
            for (int lane = 0; lane < LANES; lane++)
                packed[lane] |= (a[lane] & part_mask) << p * width;
            u32 bad = undefined_of(w, in, 1 + p);
            if (bad) origin = w->origin[operand_at(w, in, 1 + p)->index];
            undefined |= bad;
            halves[p * width * 2 / whole] |= bad;
        }
        u64 *d = destination(w, in, 0);
        if (d) FOR_LANES(lane, mask) d[lane] = packed[lane];
        define(w, in, 0, mask, undefined, origin);
        for (u32 half = 0; half < 2; half++)
            define_half(w, in, 0, mask, half, undefined & ~halves[half]);
        return;
    }
    row scratch, copy;
    memcpy(copy, source(w, in, parts, scratch, mask), sizeof copy);
    u32 undefined = undefined_of(w, in, parts);
    u32 known[2] = {known_half_of(w, in, parts, 0), known_half_of(w, in, parts, 1)};
    const operand *from = operand_at(w, in, parts);
    u32 origin = from->kind == KIND_REGISTER ? w->origin[from->index] : 0;
    for (u32 p = 0; p < parts; p++) {
        u64 *d = destination(w, in, p);
        if (d) FOR_LANES(lane, mask) d[lane] = copy[lane] >> p * width & part_mask;
        define(w, in, p, mask, undefined & ~known[p * width * 2 / whole], origin);
    }
}

static u64 window_of(int space) {
    switch (space) {
    case SPACE_SHARED:
    case SPACE_SHARED_CLUSTER: return WINDOW_SHARED;
    case SPACE_LOCAL: return WINDOW_LOCAL;
    case SPACE_PARAM: return WINDOW_PARAM;
    default: return 0;
    }
}

static bool in_space(u64 address, int space) {
    switch (space) {
    case SPACE_SHARED:
    case SPACE_SHARED_CLUSTER: return address >> 32 == WINDOW_SHARED >> 32;
    case SPACE_LOCAL: return address >> 32 == WINDOW_LOCAL >> 32;
    case SPACE_PARAM: return address >> 32 == WINDOW_PARAM >> 32;
    case SPACE_CONST: return address >> 32 == WINDOW_CONST >> 32;
    default: return address >= WINDOW_MODULE;
    }
}

void run_address(warp *w, const insn *in, u32 mask) {
    row scratch;
    const u64 *a = source(w, in, 1, scratch, mask);
    u64 *d = destination(w, in, 0);
    FOR_LANES(lane, mask) {
        if (!d) break;
        u64 window = window_of(in->space), value = a[lane];
        if (in->op == OP_ISSPACEP) d[lane] = in_space(value, in->space);
        else if (in->op == OP_CVTA) d[lane] = in->flags & FLAG_TO ? value - window : value + window;
        else if (in->op == OP_MAPA) {
            u64 rank = scalar(w, in, 2, (u32)lane);
            u32 offset = (u32)value & 0xffffff;
            d[lane] = (in->space == SPACE_GENERIC ? WINDOW_SHARED : 0) + ((rank + 1) << 24 | offset);
        } else { /* getctarank */
            u32 rank = (u32)value >> 24;
            d[lane] = rank ? rank - 1 : w->cta->rank;
        }
    }
    const operand *from = operand_at(w, in, 1);
    define(w, in, 0, mask, undefined_of(w, in, 1),
           from->kind == KIND_REGISTER ? w->origin[from->index] : 0);
}
