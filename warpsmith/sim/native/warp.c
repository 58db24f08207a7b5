/* A warp: its lanes in splits that run together, how they part at branches and meet again at the
   immediate post-dominator, and the instructions that touch registers only. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

#include "alu.h"

void warp_start(cta *c, u32 index) {
    machine *m = c->m;
    warp *w = &c->warps[index];
    u32 threads = m->threads - index * LANES;
    u32 lanes = threads >= LANES ? ~0u : (1u << threads) - 1;
    *w = (warp){.m = m, .cta = c, .index = index, .live = lanes, .initial = lanes, .time = 1};
    w->splits[0] = (split){.mask = lanes, .join = -1};
    w->split_count = 1;
    u32 registers = m->register_count + 1;
    w->registers = aligned_alloc(64, registers * sizeof(row));
    memset(w->registers, 0xa5, registers * sizeof(row));
    w->undefined = malloc(registers * sizeof(u32));
    memset(w->undefined, 0xff, registers * sizeof(u32));
    w->origin = calloc(registers, sizeof(u32));
    if (m->has_wgmma) {
        w->busy = calloc(registers, sizeof(u32));
        w->touched = calloc(registers, sizeof(u32));
    }
    if (m->local_bytes) {
        w->local = malloc((size_t)m->local_bytes * LANES);
        memset(w->local, 0xa5, (size_t)m->local_bytes * LANES);
        w->local_undefined = malloc((size_t)m->local_bytes * LANES);
        memset(w->local_undefined, 1, (size_t)m->local_bytes * LANES);
    }
    w->cp_number = 1;
    w->register_count = m->entry_registers;
}

void warp_free(warp *w) {
    free(w->registers);
    free(w->undefined);
    free(w->origin);
    free(w->busy);
    free(w->touched);
    free(w->local);
    free(w->local_undefined);
    free(w->joins);
    w->registers = NULL;
    w->undefined = w->origin = w->busy = w->touched = NULL;
    w->local = w->local_undefined = NULL;
    w->joins = NULL;
    clock_free(&w->known);
    clock_free(&w->released_by_fence);
    for (u32 i = 0; i < 3; i++) clock_free(&w->to_acquire[i]);
    clock_free(&w->inits);
    for (u32 i = 0; i < w->lane_clock_count; i++) clock_free(&w->lane_clocks[i].clock);
    w->lane_clock_count = 0;
}

/* ---- Divergence ---- */

static i32 join_new(warp *w, i32 pc, u32 expected, u32 tainted, i32 parent) {
    u32 i = 0;
    while (i < w->join_count && w->joins[i].used) i++;
    if (i == w->join_count) {
        w->joins = realloc(w->joins, (w->join_count + 8) * sizeof *w->joins);
        memset(w->joins + w->join_count, 0, 8 * sizeof *w->joins);
        w->join_count += 8;
    }
    w->joins[i] = (join_point){.expected = expected, .tainted = tainted, .pc = pc,
                               .parent = parent, .used = true};
    return (i32)i;
}

static void split_remove(warp *w, split *s) {
    *s = w->splits[--w->split_count];
    w->current = 0;
}

/* A split that stands at its join waits there for the others; the last one goes on for all. */
static bool meet(warp *w, split *s) {
    while (s->join >= 0 && s->pc == w->joins[s->join].pc) {
        join_point *j = &w->joins[s->join];
        j->arrived |= s->mask;
        if (j->arrived != j->expected) {
            split_remove(w, s);
            return false;
        }
        s->mask = j->arrived;
        s->tainted = j->tainted & s->mask;
        s->join = j->parent;
        j->used = false;
    }
    return true;
}

/* Lanes that will not come to a join: those that wait there may be all that are left. */
static void leave_join(warp *w, i32 index, u32 lanes) {
    join_point *j = &w->joins[index];
    if (!j->used) return;
    j->expected &= ~lanes;
    if (j->expected && j->arrived == j->expected) {
        j->used = false;
        split *s = &w->splits[w->split_count++];
        *s = (split){.mask = j->arrived, .tainted = j->tainted & j->arrived, .pc = j->pc,
                     .join = j->parent};
        meet(w, s);
    } else if (!j->expected) {
        j->used = false;
    }
}

static bool is_above(const warp *w, i32 join, i32 below) {
    while (below >= 0 && below != join) below = w->joins[below].parent;
    return join < 0 || below == join;
}

/* Splits that meet before their post-dominator go on as one: each leaves the joins that the other
   does not have. */
void split_merge(warp *w, split *s, split *other) {
    i32 common = s->join;
    while (!is_above(w, common, other->join)) common = w->joins[common].parent;
    for (i32 j = s->join; j != common;) {
        i32 parent = w->joins[j].parent;
        leave_join(w, j, s->mask);
        j = parent;
    }
    for (i32 j = other->join; j != common;) {
        i32 parent = w->joins[j].parent;
        leave_join(w, j, other->mask);
        j = parent;
    }
    s->mask |= other->mask;
    s->tainted |= other->tainted;
    s->join = common;
    other->mask = 0; /* swept away before the next step */
    other->state = SPLIT_JOIN;
}

static void sweep(warp *w) {
    u32 kept = 0;
    for (u32 i = 0; i < w->split_count; i++)
        if (w->splits[i].mask) w->splits[kept++] = w->splits[i];
    if (kept != w->split_count) w->current = 0;
    w->split_count = kept;
}

static void lanes_leave(warp *w, u32 lanes) {
    for (u32 i = 0; i < w->join_count; i++) leave_join(w, (i32)i, lanes);
}

void warp_exit(warp *w, split *s, u32 lanes, i32 pc) {
    effects_exit_check(w, lanes, pc);
    matrices_exit_check(w, lanes, pc);
    w->live &= ~lanes;
    w->m->progress++;
    s->mask &= ~lanes;
    if (!s->mask) split_remove(w, s);
    lanes_leave(w, lanes);
    if (w->live) return;
    trace_exit(w, pc);
    w->cta->live_warps--;
    named_barriers_recheck(w->cta);
    cluster_barrier_recheck(w->cta);
}

/* A join for the lanes of `s` at the branch's point of reconvergence, unless they have it. */
static i32 join_for(warp *w, const split *s, const insn *in, u32 doubtful) {
    bool has = s->join >= 0 && w->joins[s->join].pc == in->reconverge;
    if (in->reconverge < 0 || (has && !doubtful)) return s->join;
    return join_new(w, in->reconverge, s->mask, s->tainted, s->join);
}

/* `doubtful` lanes branch on undefined bits. */
static step branch(warp *w, split *s, const insn *in, u32 taken, u32 doubtful) {
    u32 rest = s->mask & ~taken;
    if (doubtful & ~s->tainted) {
        s->join = join_for(w, s, in, doubtful);
        s->tainted |= doubtful;
    }
    if (!taken) return STEP_NEXT;
    if (!rest) {
        s->pc = in->target;
        return STEP_JUMPED;
    }
    i32 join = join_for(w, s, in, 0);
    split *other = &w->splits[w->split_count++];
    *other = (split){.mask = taken, .tainted = s->tainted & taken, .pc = in->target, .join = join};
    s->mask = rest;
    s->tainted &= rest;
    s->join = join;
    s->pc++;
    u32 here = (u32)(s - w->splits);
    meet(w, other);
    return here < w->split_count && meet(w, &w->splits[here]) ? STEP_JUMPED : STEP_GONE;
}

/* brx.idx: one branch for each target that some lane takes. */
static step branch_indexed(warp *w, split *s, const insn *in, u32 mask) {
    u32 here = (u32)(s - w->splits);
    i32 parent = s->join, join = parent;
    row scratch;
    const u64 *index = source(w, in, 0, scratch, mask);
    require_defined(w, in, 0, mask, "the index of a branch");
    u32 left = mask;
    bool diverges = false;
    FOR_LANES(lane, mask) diverges |= index[lane] != index[first_lane(mask)];
    if (diverges && in->reconverge >= 0 && (parent < 0 || w->joins[parent].pc != in->reconverge))
        join = join_new(w, in->reconverge, s->mask, s->tainted, parent);
    while (left) {
        u64 chosen = index[first_lane(left)];
        u32 together = 0;
        FOR_LANES(lane, left) if (index[lane] == chosen) together |= 1u << lane;
        left &= ~together;
        if (chosen >= in->target_count) {
            report(w->m, FINDING_ILLEGAL_ARGUMENT, w, first_lane(together), pc_of(w, in),
                   "brx.idx has %u targets and its index is %llu", in->target_count,
                   (unsigned long long)chosen);
            chosen = 0;
        }
        i32 pc = w->m->targets[in->first_target + chosen];
        if (!left) {
            w->splits[here].mask = together;
            w->splits[here].pc = pc;
            w->splits[here].join = join;
        } else {
            w->splits[w->split_count++] = (split){.mask = together, .pc = pc, .join = join};
        }
    }
    for (u32 i = w->split_count; i-- > 0;)
        if (i == here || w->splits[i].state == SPLIT_READY) meet(w, &w->splits[i]);
    return STEP_GONE;
}

/* ---- Registers only ---- */

static bool has_second(const insn *in) {
    return (in->op == OP_SETP && in->flags & FLAG_PREDICATE) ||
           (in->op == OP_LOP3 && in->mode != MODE_NONE);
}

static void run_alu(warp *w, const insn *in, u32 mask) {
    enum { MOST = 5 };
    row scratch[MOST];
    const u64 *a[MOST] = {0};
    bool second = has_second(in);
    u32 first = 1 + second, count = in->operand_count - first, undefined = 0, origin = 0;
    for (u32 i = 0; i < count && i < MOST; i++) {
        a[i] = source(w, in, first + i, scratch[i], mask);
        u32 bad = undefined_of(w, in, first + i) & mask;
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
}

static void run_mov(warp *w, const insn *in, u32 mask) {
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
    define(w, in, 0, mask, undefined_of(w, in, 1), reg ? w->origin[from->index] : 0);
}

static void run_pack(warp *w, const insn *in, u32 mask) {
    bool pack = in->op == OP_PACK;
    u32 parts = in->operand_count - 1;
    u32 whole = type_bytes(in->type) * 8, width = whole / parts;
    u64 part_mask = width >= 64 ? ~0ull : (1ull << width) - 1;
    if (pack) {
        row packed = {0};
        u32 undefined = 0, origin = 0;
        for (u32 p = 0; p < parts; p++) {
            row scratch;
            const u64 *a = source(w, in, 1 + p, scratch, mask);
            for (int lane = 0; lane < LANES; lane++)
                packed[lane] |= (a[lane] & part_mask) << p * width;
            u32 bad = undefined_of(w, in, 1 + p);
            if (bad) origin = w->origin[operand_at(w, in, 1 + p)->index];
            undefined |= bad;
        }
        u64 *d = destination(w, in, 0);
        if (d) FOR_LANES(lane, mask) d[lane] = packed[lane];
        define(w, in, 0, mask, undefined, origin);
        return;
    }
    row scratch, copy;
    memcpy(copy, source(w, in, parts, scratch, mask), sizeof copy);
    u32 undefined = undefined_of(w, in, parts);
    const operand *from = operand_at(w, in, parts);
    u32 origin = from->kind == KIND_REGISTER ? w->origin[from->index] : 0;
    for (u32 p = 0; p < parts; p++) {
        u64 *d = destination(w, in, p);
        if (d) FOR_LANES(lane, mask) d[lane] = copy[lane] >> p * width & part_mask;
        define(w, in, p, mask, undefined, origin);
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

static void run_address(warp *w, const insn *in, u32 mask) {
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

static step run_trap(warp *w, const insn *in, u32 mask) {
    report(w->m, FINDING_TRAP, w, first_lane(mask), pc_of(w, in), "the kernel trapped");
    w->m->stopped = true;
    return STEP_YIELD;
}

static step run(warp *w, split *s, const insn *in, u32 mask) {
    if (!mask) return STEP_NEXT;
    switch (in->op) {
    case OP_NOP:
    case OP_GRIDDEP: return STEP_NEXT;
    case OP_BRX: return branch_indexed(w, s, in, mask);
    case OP_EXIT: {
        bool gone = mask == s->mask;
        warp_exit(w, s, mask, pc_of(w, in));
        return gone ? STEP_GONE : STEP_NEXT;
    }
    case OP_TRAP:
    case OP_BRKPT: return run_trap(w, in, mask);
    case OP_ASSERT: return run_assert(w, in, mask);
    case OP_NANOSLEEP: return STEP_YIELD;
    case OP_PRINTF: return run_printf(w, in, mask);
    case OP_MOV: run_mov(w, in, mask); return STEP_NEXT;
    case OP_PACK:
    case OP_UNPACK: run_pack(w, in, mask); return STEP_NEXT;
    case OP_CVTA:
    case OP_ISSPACEP:
    case OP_MAPA:
    case OP_GETCTARANK: run_address(w, in, mask); return STEP_NEXT;
    case OP_POLICY: {
        u64 *d = destination(w, in, 0);
        if (d) FOR_LANES(lane, mask) d[lane] = 0;
        define(w, in, 0, mask, 0, 0);
        return STEP_NEXT;
    }
    case OP_SETMAXNREG: return run_setmaxnreg(w, s, in, mask);
    default: break;
    }
    if (in->op < OP_MOV || in->op == OP_CVT || in->op == OP_CVT_PACK) {
        run_alu(w, in, mask);
        return STEP_NEXT;
    }
    if (in->op == OP_LDMATRIX || in->op == OP_STMATRIX || (in->op >= OP_MMA && in->op <= OP_WGMMA_WAIT))
        return run_matrix(w, s, in, mask);
    if (in->op >= OP_ST_ASYNC && in->op <= OP_TENSORMAP_COPY) return run_copy(w, s, in, mask);
    if (in->op < OP_ST_ASYNC) return run_access(w, s, in, mask);
    if (in->op <= OP_WARP_SYNC) return run_lanes(w, s, in, mask);
    if (in->op >= OP_MBARRIER_INIT && in->op <= OP_MBARRIER_PENDING)
        return run_mbarrier(w, s, in, mask);
    return run_barrier(w, s, in, mask);
}

/* ---- Who can run ---- */

static bool split_ready(warp *w, split *s) {
    bool ready = false;
    switch (s->state) {
    case SPLIT_READY: return true;
    case SPLIT_BARRIER: ready = barrier_ready(w, s); break;
    case SPLIT_MBARRIER: ready = mbarrier_ready(w, s); break;
    case SPLIT_CLUSTER: ready = cluster_ready(w, s); break;
    case SPLIT_GROUP: ready = group_ready(w, s); break;
    case SPLIT_REGISTERS: ready = registers_ready(w, s); break;
    default: return false;
    }
    if (ready) {
        s->state = SPLIT_READY;
        s->released = true;
    }
    return ready;
}

bool warp_runnable(warp *w) {
    if (w->spinning) {
        if (w->idle_since == w->m->progress) return false;
        w->spinning = false;
    }
    for (u32 i = 0; i < w->split_count; i++)
        if (split_ready(w, &w->splits[i])) return true;
    return false;
}

/* Meeting again is not what lanes may count on, or be held up by: each makes progress by itself. */
bool warp_part(warp *w) {
    bool parted = false;
    for (u32 i = 0; w->live && w->spinning && i < w->join_count; i++) {
        join_point *j = &w->joins[i];
        u32 waiting = j->used ? j->arrived : 0;
        if (!waiting || w->split_count == 2 * LANES) continue;
        j->expected &= ~waiting;
        j->arrived = 0;
        split *s = &w->splits[w->split_count++];
        *s = (split){.mask = waiting, .tainted = j->tainted & waiting, .pc = j->pc, .join = j->parent};
        meet(w, s);
        parted = true;
    }
    if (parted) w->m->progress++;
    return parted;
}

/* A loop that comes back with the same registers, while nothing anywhere changed, never ends. The
   registers are looked at rarely: a few times in a row, then at twice as many instructions. */
static void watch_spin(warp *w, const split *s) {
    enum { PATIENCE = 1024, LOOKS = 16 };
    if (w->idle < PATIENCE) {
        w->spin_check = PATIENCE;
        return;
    }
    if (w->idle < w->spin_check) return;
    u64 hash = 14695981039346656037ull ^ s->mask;
    const u64 *values = (const u64 *)w->registers;
    for (u32 i = 0; i < w->m->register_count * LANES; i++) hash = (hash ^ values[i]) * 1099511628211ull;
    if (w->spin_looks && w->spin_pc == s->pc && w->spin_hash == hash) w->spinning = true;
    if (!w->spin_looks) {
        w->spin_pc = s->pc;
        w->spin_hash = hash;
    }
    if (++w->spin_looks < LOOKS && !w->spinning) return;
    w->spin_looks = 0;
    w->spin_check = w->idle * 2;
}

bool warp_step(warp *w) {
    machine *m = w->m;
    u32 tried = 0;
    sweep(w);
    if (w->current >= w->split_count) w->current = 0;
    while (tried < w->split_count && !split_ready(w, &w->splits[w->current])) {
        w->current = (w->current + 1) % w->split_count;
        tried++;
    }
    if (tried == w->split_count) return false;
    split *s = &w->splits[w->current];
    const insn *in = &m->code[s->pc];
    i32 pc = s->pc;
    u32 mask = s->mask;
    u32 doubtful = 0; /* lanes whose guard is undefined */
    if (in->guard >= 0) {
        const u64 *p = w->registers[in->guard];
        u32 taken = 0;
        FOR_LANES(lane, mask) if ((p[lane] & 1) != in->guard_negated) taken |= 1u << lane;
        doubtful = w->undefined[in->guard] & mask;
        mask = taken;
    }
    w->doubtful = doubtful | s->tainted;
    if (w->doubtful) mask = judge_doubt(w, s, in, mask, doubtful);
    w->serial++;
    w->executed++;
    w->cycle++;
    m->stats.instructions++;
    if (w->idle_since != m->progress) {
        w->idle_since = m->progress;
        w->idle = 0;
    }
    w->idle++;
    u32 here = w->current;
    u64 begin = w->cycle;
    step result = in->op == OP_BRA ? branch(w, s, in, mask, doubtful) : run(w, s, in, mask);
    s = &w->splits[here];
    switch (result) {
    case STEP_NEXT:
    case STEP_YIELD:
        if (w->cycle > begin && in->op != OP_WGMMA) {
            m->stats.wait_cycles += w->cycle - begin;
            trace_wait(w, s, begin);
        }
        s->released = false;
        s->pc++;
        meet(w, s);
        if (result == STEP_YIELD && w->split_count) w->current = (here + 1) % w->split_count;
        return true;
    case STEP_JUMPED:
        if (s->pc <= pc) {
            watch_spin(w, s);
            if (w->split_count > 1 && w->idle > 64) w->current = (here + 1) % w->split_count;
        }
        meet(w, s);
        return true;
    case STEP_BLOCKED:
        w->current = (here + 1) % w->split_count;
        w->serial--;
        w->executed--;
        w->cycle--;
        m->stats.instructions--;
        return true;
    default: return true;
    }
}
