/* Lanes part at branches and meet again at the immediate post-dominator, or before it where an
   instruction needs them together. */
#include "machine/machine.h"

#include <stdlib.h>
#include <string.h>

static i32 join_new(warp *w, i32 pc, u32 expected, i32 parent) {
    u32 i = 0;
    while (i < w->join_count && w->joins[i].used) i++;
    if (i == w->join_count) {
        w->joins = realloc(w->joins, (w->join_count + 8) * sizeof *w->joins);
        memset(w->joins + w->join_count, 0, 8 * sizeof *w->joins);
        w->join_count += 8;
    }
    w->joins[i] = (join_point){.expected = expected, .pc = pc, .parent = parent, .used = true};
    return (i32)i;
}

static void split_remove(warp *w, split *s) {
    *s = w->splits[--w->split_count];
    w->current = 0;
}

/* A split that stands at its join waits there for the others; the last one goes on for all. */
bool split_meet(warp *w, split *s) {
    while (s->join >= 0 && s->pc == w->joins[s->join].pc) {
        join_point *j = &w->joins[s->join];
        j->arrived |= s->mask;
        if (j->arrived != j->expected) {
            split_remove(w, s);
            return false;
        }
        s->mask = j->arrived;
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
        *s = (split){.mask = j->arrived, .pc = j->pc, .join = j->parent};
        split_meet(w, s);
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
    s->join = common;
    other->mask = 0; /* swept away before the next step */
    other->state = SPLIT_JOIN;
}

void splits_sweep(warp *w) {
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
static i32 join_for(warp *w, const split *s, const insn *in) {
    bool has = s->join >= 0 && w->joins[s->join].pc == in->reconverge;
    if (in->reconverge < 0 || has) return s->join;
    return join_new(w, in->reconverge, s->mask, s->join);
}

step run_branch(warp *w, split *s, const insn *in, u32 taken) {
    u32 rest = s->mask & ~taken;
    if (!taken) return STEP_NEXT;
    if (!rest) {
        s->pc = in->target;
        return STEP_JUMPED;
    }
    i32 join = join_for(w, s, in);
    split *other = &w->splits[w->split_count++];
    *other = (split){.mask = taken, .pc = in->target, .join = join};
    s->mask = rest;
    s->join = join;
    s->pc++;
    u32 here = (u32)(s - w->splits);
    split_meet(w, other);
    return here < w->split_count && split_meet(w, &w->splits[here]) ? STEP_JUMPED : STEP_GONE;
}

/* brx.idx: one branch for each target that some lane takes; lanes that its guard holds back go on. */
step run_branch_indexed(warp *w, split *s, const insn *in, u32 mask) {
    u32 here = (u32)(s - w->splits);
    row scratch;
    const u64 *index = source(w, in, 0, scratch, mask);
    require_defined(w, in, 0, mask, "the index of a branch");
    u32 left = mask, rest = s->mask & ~mask;
    bool diverges = rest;
    FOR_LANES(lane, mask) diverges |= index[lane] != index[first_lane(mask)];
    i32 join = diverges ? join_for(w, s, in) : s->join;
    if (rest) w->splits[w->split_count++] = (split){.mask = rest, .pc = s->pc + 1, .join = join};
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
        if (i == here || w->splits[i].state == SPLIT_READY) split_meet(w, &w->splits[i]);
    return STEP_GONE;
}
