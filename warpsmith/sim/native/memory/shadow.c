/* The shadow of memory: every run of bytes knows its last writer and the readers since, and every access
   is checked against them. An access that is not known to its rival, by the clock of the thread
   that makes it, is a race whatever order the schedule happened to run them in. */
#include "machine/machine.h"

#include <stdio.h>

u32 who_of(const cta *c, u32 agent, u32 lane) {
    return c->index << (AGENT_BITS + 5) | agent << 5 | lane;
}

static u32 agent_of_channel(const warp *w, int channel) { return 1 + w->index * CHANNELS + channel; }

actor actor_thread(warp *w, u32 lane, i32 pc) {
    return (actor){.m = w->m, .by = w, .lane = lane, .time = w->time, .pc = (u32)pc,
                   .who = who_of(w->cta, agent_of_channel(w, CHANNEL_THREADS), lane)};
}

actor actor_channel(warp *w, u32 lane, i32 pc, int channel, u32 time) {
    actor a = actor_thread(w, lane, pc);
    a.who = who_of(w->cta, agent_of_channel(w, channel), lane);
    a.time = time;
    a.async = channel != CHANNEL_CP_ASYNC;
    return a;
}

static int channel_of(const machine *m, u32 agent) {
    return agent - 1 < m->warps_per_cta * CHANNELS ? (int)((agent - 1) % CHANNELS) : CHANNELS;
}

/* Is everything that `lanes` did up to `time` within `full`, or within the part known of them? */
static bool within(u32 time, u32 lanes, u32 full, u32 part, u32 known_lanes) {
    return time <= full || (time <= part && !(lanes & ~known_lanes));
}

static bool fenced(const actor *a, const knowledge *k, u32 lanes, u32 time) {
    return a->global ? within(time, lanes, k->global_full, k->global_part, k->global_lanes)
                     : within(time, lanes, k->async_full, k->async_part, k->async_lanes);
}

static order_known known_by(const vclock *clock, const actor *a, u32 who, u32 lanes, u32 time) {
    u32 cta_index = who >> (AGENT_BITS + 5), agent = who >> 5 & (MAX_AGENTS - 1);
    const knowledge *k = clock_look(clock, cta_index, agent);
    int channel = channel_of(a->m, agent);
    bool threads = channel == CHANNEL_THREADS;
    if (!threads) {
        if (!within(time, lanes, k->full, k->part, k->lanes)) return UNKNOWN;
        return !a->async || channel != CHANNEL_CP_ASYNC || fenced(a, k, lanes, time) ? KNOWN : UNFENCED;
    }
    bool mine = cta_index == a->by->cta->index && agent == agent_of_channel(a->by, CHANNEL_THREADS);
    u32 others = mine ? lanes & ~(1u << a->lane) : lanes; /* a lane knows what it did itself */
    if (others && !within(time, others, k->full, k->part, k->lanes)) return UNKNOWN;
    if (!a->async) return KNOWN;
    return fenced(a, k, lanes, time) ? KNOWN : UNFENCED;
}

order_known known_lanes(const actor *a, u32 who, u32 lanes, u32 time) {
    if (who & WHO_FLIGHT) return UNKNOWN;
    const warp *w = a->by;
    order_known best = known_by(&w->known, a, who, lanes, time);
    for (u32 i = 0; best != KNOWN && i < w->lane_clock_count; i++) {
        if (!lane_in(w->lane_clocks[i].lanes, (int)a->lane)) continue;
        order_known other = known_by(&w->lane_clocks[i].clock, a, who, lanes, time);
        if (other == KNOWN || (other == UNFENCED && best == UNKNOWN)) best = other;
    }
    return best;
}

order_known known_to(const actor *a, u32 who, u32 time) {
    return known_lanes(a, who, 1u << (who & 31), time);
}

/* The same for a write behind what is over: loads, and copies that a barrier has counted. They are over
   before an arrival that is ordered behind them in its CTA, and so before what is done by who heard of
   the arrival, in whatever CTA. What threads wrote may still be on its way. */
static order_known known_over(const actor *a, bool wrote, u32 who, u32 lanes, u32 time) {
    order_known how = known_lanes(a, who, lanes, time);
    const warp *w = a->by;
    if (how == KNOWN || who & WHO_FLIGHT || !lane_in(w->reader_lanes, (int)a->lane)) return how;
    if (wrote && channel_of(a->m, who >> 5 & (MAX_AGENTS - 1)) != CHANNELS) return how;
    order_known other = known_by(&w->known_reads, a, who, lanes, time);
    return other == UNKNOWN ? how : other;
}

/* Strong accesses do not race with each other, unless their scopes leave the other out. */
static bool both_strong(const actor *a, u32 who, u32 pc) {
    if (!(a->pc & SHADOW_ATOMIC) || !(pc & SHADOW_ATOMIC)) return false;
    bool narrow = (a->pc | pc) & SHADOW_CTA_SCOPE;
    return !narrow || who >> (AGENT_BITS + 5) == a->who >> (AGENT_BITS + 5);
}

/* Bytes that an access touches, and that had the same accesses before. */
typedef struct {
    region *in;
    u64 offset;
    u32 length;
    cell *cell;
} run;

static void complain(const actor *a, const run *at, order_known how, bool writes, u32 who, u32 time,
                     u32 pc, bool wrote) {
    machine *m = a->m;
    u32 agent = who >> 5 & (MAX_AGENTS - 1);
    bool wgmma = !(who & WHO_FLIGHT) && channel_of(m, agent) == CHANNEL_WGMMA;
    finding_kind kind = how == UNFENCED ? FINDING_PROXY_FENCE
                        : wgmma         ? FINDING_WGMMA_OVERWRITE
                                        : FINDING_RACE;
    if (reported_before(m, kind, (i32)(a->pc & SHADOW_PC))) return;
    char mine[160], other[160];
    describe_who(m, a->who, a->time, mine, sizeof mine);
    describe_who(m, who, time, other, sizeof other);
    bool lanes = how == UNKNOWN && !(who & WHO_FLIGHT) && (who ^ a->who) < 32;
    const unfenced *signal = how == UNKNOWN ? signal_between(a, who, time) : NULL;
    char why[400] = ", with nothing that orders the two";
    if (signal) {
        char from[160];
        describe_who(m, signal->who, 0, from, sizeof from);
        snprintf(why, sizeof why,
                 ", with nothing that orders the two: the fences stood in other threads than %s, "
                 "which signals at line %u, and a fence publishes what its own thread knows by then; "
                 "put a fence, or a release, into that thread behind the barrier",
                 from, m->code[signal->pc].line);
    }
    finding *f = report(
        m, kind, a->by, (i32)a->lane, (i32)(a->pc & SHADOW_PC), "%s %s what %s %s%s", mine,
        writes ? "writes" : "reads", other, wrote ? "wrote" : "reads",
        how == UNFENCED ? ", ordered but with no fence.proxy.async between the two proxies"
        : who & WHO_FLIGHT ? " while that copy is in flight"
        : wgmma           ? " before its wgmma group was waited for"
        : lanes           ? ", with no warp-level synchronization between the lanes"
                          : why);
    if (!f) return;
    f->other_pc = (i32)(pc & SHADOW_PC);
    split_who(m, who, &f->other_cta, &f->other_warp, &f->other_lane);
    const region *r = at->in;
    f->address = r->kind == REGION_BUFFER ? at->offset : r->base + at->offset;
    f->buffer = r->kind == REGION_BUFFER ? (i32)r->id : -1;
}

static u32 access_new(machine *m, const actor *a, u32 flags, u32 next) {
    u32 index = access_take(m);
    bool flight = a->who & WHO_FLIGHT;
    m->accesses[index] = (shadow_access){flight ? a->who : a->who & ~31u,
                                         flight ? 1 : 1u << (a->who & 31), a->time, a->pc | flags, next};
    return index;
}

static void check_writer(const actor *a, const run *at, bool writes) {
    const cell *c = at->cell;
    if (c->who == WHO_NOBODY || a->silent || both_strong(a, c->who, c->pc)) return;
    bool same = c->who == a->who;
    if (same && !(a->async && writes)) return;
    order_known how = writes ? known_over(a, true, c->who, 1u << (c->who & 31), c->time)
                             : known_to(a, c->who, c->time);
    if (how != KNOWN) complain(a, at, how, writes, c->who, c->time, c->pc, true);
}

/* Check a run against the access in `a`; entries of the list that it outdates go when it will be
   recorded. Returns true when the list holds this very access already, by other lanes. */
static bool visit(const actor *a, const run *at, bool writes, bool record) {
    machine *m = a->m;
    check_writer(a, at, writes);
    bool strong = a->pc & SHADOW_ATOMIC, joined = false;
    bool flight = a->who & WHO_FLIGHT;
    u32 agent = flight ? a->who : a->who & ~31u, lane = flight ? 1 : 1u << (a->who & 31);
    for (u32 *link = &at->cell->list; *link;) {
        shadow_access *e = &m->accesses[*link];
        bool wrote = e->pc & SHADOW_WRITE;
        bool clashes = (writes || wrote) && !a->silent && !both_strong(a, e->who, e->pc);
        u32 rivals = e->who == agent && !a->async ? e->lanes & ~lane : e->lanes;
        if (clashes && rivals) {
            order_known how = writes ? known_over(a, wrote, e->who, rivals, e->time)
                                     : known_lanes(a, e->who, rivals, e->time);
            u32 who = e->who & WHO_FLIGHT ? e->who : e->who | (u32)first_lane(rivals);
            if (how != KNOWN) complain(a, at, how, writes, who, e->time, e->pc, wrote);
        }
        if (record) {
            bool same = e->who == agent && wrote == (writes && strong);
            bool twin = same && e->time == a->time && (e->pc & ~(u32)SHADOW_WRITE) == a->pc;
            if (twin) e->lanes |= lane;
            else if (same) e->lanes &= ~lane; /* who knows of this access knows of the older one */
            joined |= twin;
            if ((writes && !strong) || !e->lanes) {
                u32 gone = *link;
                *link = e->next;
                access_drop(m, gone);
                continue;
            }
        }
        link = &e->next;
    }
    return joined;
}

static u8 *flags_of_page(region *r, u64 offset) { return &r->page_flags[offset / PAGE]; }

/* The same actor in this memory. */
static actor actor_in(const actor *a, const region *r) {
    actor here = *a;
    here.global = r->kind != REGION_SHARED;
    return here;
}

/* The next run of an access that ends at `end`. */
static run next_run(machine *m, region *r, u64 offset, u64 end) {
    run at = {.in = r, .offset = offset};
    at.cell = run_at(m, r, offset, end, &at.length);
    return at;
}

/* Whether a run without entries of its list needs no look, since the one before it had the same writer. */
static bool alike(const cell *before, const cell *c) {
    return c->who == before->who && c->time == before->time && c->pc == before->pc && !c->list &&
           !before->list;
}

bool shadow_read(const actor *by, region *r, u64 offset, u32 bytes) {
    if (r->read_only) return false;
    const actor here = actor_in(by, r), *a = &here;
    bool undefined = false;
    cell before = {.who = ~0u};
    run at;
    for (u64 end = offset + bytes; offset < end; offset += at.length) {
        at = next_run(a->m, r, offset, end);
        cell *c = at.cell;
        u8 *flags = flags_of_page(r, offset);
        bool tracked = r->kind != REGION_BUFFER || *flags & PAGE_TRACKED;
        if (!tracked) *flags |= PAGE_READ;
        bool same = alike(&before, c);
        before = *c;
        undefined |= c->who == WHO_NOBODY ? !r->defined : c->pc & SHADOW_POISON;
        bool joined = !same && visit(a, &at, false, tracked);
        if (tracked && !joined) c->list = access_new(a->m, a, 0, c->list);
    }
    return undefined;
}

void shadow_write(const actor *by, region *r, u64 offset, u32 bytes, bool poison) {
    const actor here = actor_in(by, r), *a = &here;
    cell before = {.who = ~0u};
    bool strong = a->pc & SHADOW_ATOMIC;
    const u64 begin = offset, end = offset + bytes;
    run at;
    for (; offset < end; offset += at.length) {
        at = next_run(a->m, r, offset, end);
        cell *c = at.cell;
        u8 *flags = flags_of_page(r, offset);
        if (r->kind == REGION_BUFFER && *flags & PAGE_READ && !(*flags & PAGE_TRACKED)) {
            *flags |= PAGE_TRACKED;
            a->m->rerun = true;
        }
        bool same = alike(&before, c);
        before = *c;
        bool joined = !same && visit(a, &at, true, true);
        if (strong && c->who != WHO_NOBODY && !(c->pc & SHADOW_POISON)) {
            if (!joined) c->list = access_new(a->m, a, SHADOW_WRITE, c->list);
            continue;
        }
        c->who = a->who;
        c->time = a->time;
        c->pc = a->pc | (poison ? SHADOW_POISON : 0);
    }
    if (!strong) runs_join(r, begin, end);
}

void shadow_land(machine *m, region *r, u64 offset, u32 bytes, u32 number, u32 who, u32 time,
                 bool poison) {
    u32 flight = WHO_FLIGHT | number;
    run at;
    for (u64 end = offset + bytes; offset < end; offset += at.length) {
        at = next_run(m, r, offset, end);
        cell *c = at.cell;
        if (c->who == flight) {
            c->who = who;
            c->time = time;
            if (poison) c->pc |= SHADOW_POISON;
        }
        for (u32 e = c->list; e; e = m->accesses[e].next)
            if (m->accesses[e].who == flight) {
                m->accesses[e].who = who & ~31u;
                m->accesses[e].time = time;
            }
    }
}

bool shadow_undefined(const region *r, u64 offset, u32 bytes) {
    bool undefined = false;
    for (u64 end = offset + bytes, next; offset < end; offset = next) {
        const cell *c = run_of(r, offset, &next);
        undefined |= c->who == WHO_NOBODY ? !r->defined : c->pc & SHADOW_POISON;
    }
    return undefined;
}
