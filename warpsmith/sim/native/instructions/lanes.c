/* Lanes of one warp together: shuffles, votes, matches, elections and warp-level barriers. */
#include "machine/machine.h"

/* The splits that wait at an instruction for one set of members: those that can execute it with
   `s` now, by lanes. */
static u32 waiting_with(const warp *w, const split *s, const insn *in) {
    u32 together = 0;
    for (u32 i = 0; i < w->split_count; i++) {
        const split *other = &w->splits[i];
        if (other->state != SPLIT_MEMBERS || other->wait_id != s->wait_id) continue;
        const insn *at = &w->m->code[other->pc];
        bool meets = other->pc == s->pc || (at->op == OP_WARP_SYNC && in->op == OP_WARP_SYNC);
        if (meets) together |= other->wait_generation;
    }
    return together;
}

u32 gather_members(warp *w, split *s, const insn *in, u32 mask, u32 members) {
    u32 needed = members & w->live;
    if ((mask & needed) == needed) return mask;
    s->state = SPLIT_MEMBERS;
    s->wait_id = members;
    s->wait_generation = mask;
    u32 together = waiting_with(w, s, in);
    if ((together & needed) != needed) return 0;
    for (u32 i = 0; i < w->split_count; i++) {
        split *other = &w->splits[i];
        if (other == s || other->state != SPLIT_MEMBERS || other->wait_id != members) continue;
        if (!(other->wait_generation & together)) continue;
        other->state = SPLIT_READY;
        if (other->pc == s->pc) split_merge(w, s, other);
        else other->released = true; /* this execution does its work, too */
    }
    s->state = SPLIT_READY;
    return together;
}

u32 gather_warp(warp *w, split *s, const insn *in, u32 mask, const char *what) {
    if (mask == w->live) return mask;
    u32 together = s->mask == w->live ? 0 : gather_members(w, s, in, mask, w->live);
    if (together || s->mask != w->live) return together;
    report(w->m, FINDING_DIVERGENT, w, first_lane(mask), pc_of(w, in),
           "%s is executed by lanes 0x%08x of a warp whose lanes are 0x%08x", what, mask, w->live);
    return mask;
}

static void shuffle(warp *w, const insn *in, u32 mask) {
    u32 first = in->flags & FLAG_PREDICATE ? 2 : 1;
    row sa, sb, sc, taken, inside;
    const u64 *a = source(w, in, first, sa, mask), *b = source(w, in, first + 1, sb, mask),
              *c = source(w, in, first + 2, sc, mask);
    u32 undefined_source = undefined_of(w, in, first), undefined = 0;
    require_defined(w, in, first + 1, mask, "the lane of a shuffle");
    FOR_LANES(lane, mask) {
        u32 segment = (u32)c[lane] >> 8 & 31, clamp = (u32)c[lane] & 31, by = (u32)b[lane] & 31;
        i32 low = lane & (i32)segment, high = low | (i32)(clamp & ~segment), from = lane;
        bool ok = true;
        switch (in->mode) {
        case MODE_UP: from = lane - (i32)by; ok = from >= high; break;
        case MODE_DOWN: from = lane + (i32)by; ok = from <= high; break;
        case MODE_BFLY: from = lane ^ (i32)by; ok = from <= high; break;
        default: from = low | (i32)(by & ~segment); ok = from <= high; break;
        }
        if (!ok) from = lane;
        taken[lane] = a[from & 31];
        inside[lane] = ok;
        bool absent = !lane_in(mask, from);
        if (absent || lane_in(undefined_source, from)) undefined |= 1u << lane;
    }
    u64 *d = destination(w, in, 0), *p = first == 2 ? destination(w, in, 1) : NULL;
    FOR_LANES(lane, mask) {
        if (d) d[lane] = taken[lane];
        if (p) p[lane] = inside[lane];
    }
    define(w, in, 0, mask, undefined, (u32)pc_of(w, in));
    if (first == 2) define(w, in, 1, mask, 0, 0);
}

static u32 true_lanes(warp *w, const insn *in, u32 i, u32 mask) {
    row scratch;
    const u64 *p = source(w, in, i, scratch, mask);
    u32 lanes = 0;
    FOR_LANES(lane, mask) if (p[lane] & 1) lanes |= 1u << lane;
    return lanes;
}

static void give(warp *w, const insn *in, u32 i, u32 mask, u64 value) {
    u64 *d = destination(w, in, i);
    if (d) FOR_LANES(lane, mask) d[lane] = value;
    define(w, in, i, mask, 0, 0);
}

static void vote(warp *w, const insn *in, u32 mask) {
    require_defined(w, in, 1, mask, "the predicate of a vote");
    u32 yes = true_lanes(w, in, 1, mask);
    switch (in->mode) {
    case MODE_ALL: give(w, in, 0, mask, yes == mask); break;
    case MODE_ANY: give(w, in, 0, mask, yes != 0); break;
    case MODE_UNI: give(w, in, 0, mask, yes == mask || yes == 0); break;
    default: give(w, in, 0, mask, yes); break;
    }
}

static void match(warp *w, const insn *in, u32 mask) {
    u32 first = in->flags & FLAG_PREDICATE ? 2 : 1;
    row scratch, found;
    const u64 *a = source(w, in, first, scratch, mask);
    require_defined(w, in, first, mask, "the value of a match");
    FOR_LANES(lane, mask) {
        u32 same = 0;
        FOR_LANES(other, mask) if (a[other] == a[lane]) same |= 1u << other;
        found[lane] = in->mode == MODE_ANY || same == mask ? same : 0;
    }
    u64 *d = destination(w, in, 0), *p = first == 2 ? destination(w, in, 1) : NULL;
    FOR_LANES(lane, mask) {
        if (d) d[lane] = found[lane];
        if (p) p[lane] = found[lane] != 0;
    }
    define(w, in, 0, mask, 0, 0);
    if (first == 2) define(w, in, 1, mask, 0, 0);
}

static void reduce(warp *w, const insn *in, u32 mask) {
    row scratch;
    const u64 *a = source(w, in, 1, scratch, mask);
    require_defined(w, in, 1, mask, "the value of a warp reduction");
    bool is_signed = in->type == TYPE_S32;
    u32 result = (u32)a[first_lane(mask)];
    FOR_LANES(lane, mask & (mask - 1)) {
        u32 v = (u32)a[lane];
        bool less = is_signed ? (i32)v < (i32)result : v < result;
        switch (in->mode) {
        case MODE_ADD: result += v; break;
        case MODE_MIN: result = less ? v : result; break;
        case MODE_MAX: result = less ? result : v; break;
        case MODE_AND: result &= v; break;
        case MODE_OR: result |= v; break;
        default: result ^= v; break;
        }
    }
    give(w, in, 0, mask, result);
}

static void elect(warp *w, const insn *in, u32 mask) {
    /* The leader is the same for the same lanes; which one it is, PTX leaves open. */
    u32 leader = (u32)first_lane(mask);
    give(w, in, 0, mask, leader);
    u64 *p = destination(w, in, 1);
    if (p) FOR_LANES(lane, mask) p[lane] = (u32)lane == leader;
    define(w, in, 1, mask, 0, 0);
}

step run_lanes(warp *w, split *s, const insn *in, u32 mask) {
    if (in->op == OP_ACTIVEMASK) {
        give(w, in, 0, mask, mask);
        return STEP_NEXT;
    }
    if (s->released) return STEP_NEXT;
    u32 members = (u32)scalar(w, in, in->operand_count - 1u, (u32)first_lane(mask));
    require_defined(w, in, in->operand_count - 1u, mask, "the member mask of a warp instruction");
    if (mask & ~members)
        report(w->m, FINDING_ILLEGAL_ARGUMENT, w, first_lane(mask & ~members), pc_of(w, in),
               "lanes 0x%08x execute a warp instruction whose members are 0x%08x", mask, members);
    u32 together = gather_members(w, s, in, mask, members);
    if (!together) return STEP_BLOCKED;
    switch (in->op) {
    case OP_SHFL: shuffle(w, in, together); break;
    case OP_VOTE: vote(w, in, together); break;
    case OP_MATCH: match(w, in, together); break;
    case OP_REDUX: reduce(w, in, together); break;
    case OP_ELECT: elect(w, in, together); break;
    default: warp_synchronize(w, together); break;
    }
    return STEP_NEXT;
}
