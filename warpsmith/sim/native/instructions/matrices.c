/* Matrix instructions: ldmatrix, stmatrix, mma.sync, and wgmma with its groups. */
#include "machine/machine.h"
#include "matrix/mma.h"

#include <stdlib.h>
#include <string.h>

enum { ROW_BYTES = 16, MATRIX_ROWS = 8 };

static bool row_place(warp *w, const insn *in, u32 i, u32 lane, place *at) {
    u64 address = generic_address(in->space == SPACE_GENERIC ? SPACE_GENERIC : SPACE_SHARED,
                                  address_of(w, in, i, lane));
    i32 pc = pc_of(w, in);
    if (address % ROW_BYTES) {
        report(w->m, FINDING_MISALIGNED, w, (i32)lane, pc,
               "a matrix row at 0x%llx, which is not a multiple of 16", (unsigned long long)address);
        return false;
    }
    *at = memory_find(w->m, w->cta, address, ROW_BYTES);
    if (!at->in || at->in->kind != REGION_SHARED) {
        report(w->m, FINDING_OUT_OF_BOUNDS, w, (i32)lane, pc,
               "a matrix row of 16 bytes at 0x%llx, which is not in shared memory",
               (unsigned long long)address);
        return false;
    }
    return true;
}

/* Which lane and which half of its register hold element `column` of row `r`. */
static void fragment(bool transposed, u32 r, u32 column, u32 *lane, u32 *half) {
    u32 major = transposed ? column : r, minor = transposed ? r : column;
    *lane = major * 4 + minor / 2;
    *half = minor % 2;
}

static step load_matrix(warp *w, const insn *in, u32 mask) {
    u32 count = in->vector, undefined[4] = {0};
    bool transposed = in->flags & FLAG_TRANSPOSE;
    require_defined(w, in, count, mask, "the address of a matrix row");
    row values[4];
    memset(values, 0, sizeof values);
    for (u32 i = 0; i < count * MATRIX_ROWS; i++) {
        place at;
        u16 elements[8] = {0};
        bool bad = true;
        if (row_place(w, in, count, i, &at)) {
            actor a = actor_thread(w, i, pc_of(w, in));
            bad = shadow_read(&a, at.in, at.offset, ROW_BYTES);
            memcpy(elements, at.in->data + at.offset, ROW_BYTES);
            w->m->stats.shared_read += ROW_BYTES;
        }
        for (u32 column = 0; column < 8; column++) {
            u32 lane, half;
            fragment(transposed, i % 8, column, &lane, &half);
            values[i / 8][lane] |= (u64)elements[column] << half * 16;
            if (bad) undefined[i / 8] |= 1u << lane;
        }
    }
    for (u32 i = 0; i < count; i++) {
        u64 *d = destination(w, in, i);
        if (d) memcpy(d, values[i], sizeof values[i]);
        define(w, in, i, mask, undefined[i], (u32)pc_of(w, in));
    }
    return STEP_NEXT;
}

static step store_matrix(warp *w, const insn *in, u32 mask) {
    u32 count = in->vector;
    bool transposed = in->flags & FLAG_TRANSPOSE;
    require_defined(w, in, 0, mask, "the address of a matrix row");
    w->time++;
    for (u32 i = 0; i < count * MATRIX_ROWS; i++) {
        place at;
        if (!row_place(w, in, 0, i, &at)) continue;
        row scratch;
        const u64 *b = source(w, in, 1 + i / 8, scratch, mask);
        u32 undefined = undefined_of(w, in, 1 + i / 8);
        u16 elements[8];
        bool poison[8], any = false;
        for (u32 column = 0; column < 8; column++) {
            u32 lane, half;
            fragment(transposed, i % 8, column, &lane, &half);
            elements[column] = (u16)(b[lane] >> half * 16);
            u32 known = known_half_of(w, in, 1 + i / 8, half);
            any |= poison[column] = lane_in(undefined & ~known, (int)lane);
        }
        actor a = actor_thread(w, i, pc_of(w, in));
        if (!any) shadow_write(&a, at.in, at.offset, ROW_BYTES, false);
        for (u32 column = 0; any && column < 8; column++)
            shadow_write(&a, at.in, at.offset + 2 * column, 2, poison[column]);
        memcpy(at.in->data + at.offset, elements, ROW_BYTES);
        w->m->stats.shared_written += ROW_BYTES;
    }
    w->m->progress++;
    return STEP_NEXT;
}

/* ---- mma.sync ---- */

static step multiply(warp *w, const insn *in, u32 mask) {
    enum { MOST = 32 };
    u64 *d[MOST];
    const u64 *sources[3][MOST];
    u32 poison[3 * MOST], d_poison[MOST] = {0}, next = in->groups[0], p = 0;
    row scratch[MOST];
    u32 used = 0, origin = 0;
    for (u32 g = 1; g <= 3; g++)
        for (u32 i = 0; i < in->groups[g]; i++, next++) {
            sources[g - 1][i] = source(w, in, next, scratch[used], mask);
            if (sources[g - 1][i] == scratch[used]) used++;
            poison[p] = undefined_of(w, in, next);
            if (poison[p++]) origin = w->origin[operand_at(w, in, next)->index];
        }
    for (u32 i = 0; i < in->groups[0]; i++) d[i] = destination(w, in, i);
    if (!mma_run(in, d, sources[0], sources[1], sources[2], poison, d_poison)) {
        report(w->m, FINDING_UNSUPPORTED, w, -1, pc_of(w, in), "this shape of mma is not simulated");
        w->m->stopped = true;
    }
    for (u32 i = 0; i < in->groups[0]; i++) define(w, in, i, mask, d_poison[i], origin);
    return STEP_NEXT;
}

/* ---- wgmma ---- */

static wgmma_chunks *read_operand(warp *w, const insn *in, bool is_b, bool transposed, u64 descriptor,
                                  u8 *data, u8 *poison) {
    static _Thread_local wgmma_chunks chunks[2];
    wgmma_chunks *at = &chunks[is_b];
    wgmma_locate(in, is_b, transposed, descriptor, (int)(w->index & 3), at);
    region *shared = &w->cta->shared;
    actor a = actor_channel(w, 0, pc_of(w, in), CHANNEL_WGMMA, w->wgmma_committed + 1);
    for (u32 i = 0; i < at->count; i++) {
        u32 offset = at->address[i];
        if (offset < shared->start || offset + ROW_BYTES > shared->size) {
            report(w->m, FINDING_OUT_OF_BOUNDS, w, -1, pc_of(w, in),
                   "operand %s of a wgmma: 16 bytes at shared address 0x%x, of %llu", is_b ? "B" : "A",
                   offset, (unsigned long long)shared->size);
            return NULL;
        }
        poison[i] = shadow_read(&a, shared, offset, ROW_BYTES);
        memcpy(data + (size_t)i * ROW_BYTES, shared->data + offset, ROW_BYTES);
    }
    w->m->stats.shared_read += (u64)at->count * ROW_BYTES;
    return at;
}

/* Registers that wgmma takes must not have been touched since the last wgmma.fence. */
static void check_fence(warp *w, const insn *in, u32 i, const char *what) {
    const operand *o = operand_at(w, in, i);
    if (o->kind != KIND_REGISTER) return;
    if (w->busy[o->index] > w->wgmma_waited) return; /* chained accumulators */
    if (w->touched[o->index] < w->fence_serial || !w->touched[o->index]) return;
    report(w->m, FINDING_WGMMA_REGISTER, w, -1, pc_of(w, in),
           "%s was touched by another instruction and no wgmma.fence stands between", what);
}

static step multiply_group(warp *w, const insn *in, u32 mask) {
    enum { MOST = 128 };
    static _Thread_local u8 a_data[WGMMA_MAX_CHUNKS * ROW_BYTES], b_data[WGMMA_MAX_CHUNKS * ROW_BYTES];
    static _Thread_local u8 a_poison[WGMMA_MAX_CHUNKS], b_poison[WGMMA_MAX_CHUNKS];
    i32 pc = pc_of(w, in);
    u32 outputs = in->groups[0], next = outputs;
    bool from_registers = in->flags & FLAG_A_REGISTERS;
    u64 *d[MOST];
    u32 d_poison[MOST], row_poison[4];
    const u64 *a_rows[4] = {0};
    row scratch[4];
    wgmma_operands o = {.a_data = a_data, .b_data = b_data, .a_poison = a_poison, .b_poison = b_poison,
                        .a_rows = a_rows, .a_row_poison = row_poison};
    if (mask != ~0u || (w->cta->warp_count & ~3u) <= (w->index & ~3u))
        report(w->m, FINDING_DIVERGENT, w, first_lane(mask), pc,
               "wgmma needs all 128 threads of a warp group; lanes 0x%08x of warp %u execute it", mask,
               w->index);
    if (!w->fence_serial && !w->wgmma_total)
        report(w->m, FINDING_WGMMA_REGISTER, w, -1, pc,
               "the first wgmma of a warp, and no wgmma.fence stands before it");
    u64 a_descriptor = 0;
    if (from_registers) {
        for (u32 i = 0; i < in->groups[1] && i < 4; i++, next++) {
            check_fence(w, in, next, "an A register of a wgmma");
            const operand *r = operand_at(w, in, next);
            a_rows[i] = r->kind == KIND_REGISTER ? w->registers[r->index]
                                                 : source(w, in, next, scratch[i], mask);
            row_poison[i] = undefined_of(w, in, next);
        }
    } else {
        require_defined(w, in, next, mask, "a matrix descriptor");
        a_descriptor = scalar(w, in, next++, 0);
    }
    require_defined(w, in, next, mask, "a matrix descriptor");
    u64 b_descriptor = scalar(w, in, next++, 0);
    o.scale_d = scalar(w, in, next++, 0) & 1;
    o.scale_a = in->operand_count > next ? (int)scalar(w, in, next++, 0) : 1;
    o.scale_b = in->operand_count > next ? (int)scalar(w, in, next++, 0) : 1;
    u32 left = in->operand_count - next;
    if (left == 2) o.a_transposed = scalar(w, in, next++, 0) & 1;
    if (left) o.b_transposed = scalar(w, in, next, 0) & 1;
    for (u32 i = 0; i < outputs && i < MOST; i++) {
        check_fence(w, in, i, "an accumulator of a wgmma");
        d[i] = destination(w, in, i);
        d_poison[i] = undefined_of(w, in, i);
    }
    bool fine = from_registers || read_operand(w, in, false, o.a_transposed, a_descriptor, a_data, a_poison);
    fine = read_operand(w, in, true, o.b_transposed, b_descriptor, b_data, b_poison) && fine;
    if (fine && !wgmma_run(in, &o, d, d_poison)) {
        report(w->m, FINDING_UNSUPPORTED, w, -1, pc, "this shape of wgmma is not simulated");
        w->m->stopped = true;
    }
    u32 group = w->wgmma_committed + 1;
    for (u32 i = 0; i < outputs && i < MOST; i++) {
        i32 reg = operand_at(w, in, i)->index;
        w->undefined[reg] = d_poison[i];
        w->origin[reg] = (u32)pc;
        w->busy[reg] = group;
    }
    for (u32 i = 0; from_registers && i < 4; i++) {
        const operand *r = operand_at(w, in, outputs + i);
        if (r->kind == KIND_REGISTER) w->busy[r->index] = group;
    }
    w->wgmma_issued = group;
    w->wgmma_total++;
    w->cycle += in->n / 2;
    return STEP_NEXT;
}

static step wait_groups(warp *w, const insn *in, u32 mask) {
    u32 n = (u32)operand_at(w, in, 0)->value;
    u32 number = w->wgmma_committed > n ? w->wgmma_committed - n : 0;
    if (number > w->wgmma_waited) w->wgmma_waited = number;
    vclock learned = {0};
    clock_at(&learned, w->cta->index, 1 + w->index * CHANNELS + CHANNEL_WGMMA)->full = w->wgmma_waited;
    acquire(w, mask, &learned);
    clock_free(&learned);
    return STEP_NEXT;
}

void matrices_exit_check(warp *w, u32 lanes, i32 pc) {
    if (w->wgmma_issued > w->wgmma_waited)
        report(w->m, FINDING_EXIT_OUTSTANDING, w, first_lane(lanes), pc,
               "exits while a wgmma that it issued is in flight (group %u; wait_group has covered %u)",
               w->wgmma_issued, w->wgmma_waited);
}

/* All four warps of a group execute every wgmma. */
void matrices_finish_check(cta *c) {
    for (u32 i = 0; i < c->warp_count; i++) {
        const warp *w = &c->warps[i], *first = &c->warps[i & ~3u];
        if (w->wgmma_total != first->wgmma_total)
            report(c->m, FINDING_DIVERGENT, w, -1, -1,
                   "warp %u has executed %u wgmma and warp %u of its warp group %u", w->index,
                   w->wgmma_total, first->index, first->wgmma_total);
    }
}

step run_matrix(warp *w, split *s, const insn *in, u32 mask) {
    mask = gather_warp(w, s, in, mask, "a matrix instruction");
    if (!mask) return STEP_BLOCKED;
    switch (in->op) {
    case OP_LDMATRIX: return load_matrix(w, in, mask);
    case OP_STMATRIX: return store_matrix(w, in, mask);
    case OP_MMA: return multiply(w, in, mask);
    case OP_WGMMA: return multiply_group(w, in, mask);
    case OP_WGMMA_FENCE: w->fence_serial = w->serial; return STEP_NEXT;
    case OP_WGMMA_COMMIT: w->wgmma_committed++; return STEP_NEXT;
    default: return wait_groups(w, in, mask);
    }
}
