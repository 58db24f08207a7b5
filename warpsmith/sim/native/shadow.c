/* The shadow of memory: every byte knows its last writer and the readers since, and every access
   is checked against them. An access that is not known to its rival, by the clock of the thread
   that makes it, is a race whatever order the schedule happened to run them in. */
#include "machine.h"

#include <stdlib.h>

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

static order_known known_by(const vclock *clock, const actor *a, u32 who, u32 time, bool own) {
    u32 cta_index = who >> (AGENT_BITS + 5), agent = who >> 5 & (MAX_AGENTS - 1), lane = who & 31;
    const knowledge *k = clock_look(clock, cta_index, agent);
    int channel = channel_of(a->m, agent);
    bool threads = channel == CHANNEL_THREADS;
    bool ordered = own || time <= k->full || (threads && lane_in(k->lanes, lane) && time <= k->part);
    if (!ordered) return UNKNOWN;
    if (!a->async || (!threads && channel != CHANNEL_CP_ASYNC)) return KNOWN;
    bool fenced = time <= k->async_full || (lane_in(k->async_lanes, lane) && time <= k->async_part);
    return fenced ? KNOWN : UNFENCED;
}

order_known known_to(const actor *a, u32 who, u32 time) {
    if (who & WHO_FLIGHT) return UNKNOWN;
    const warp *w = a->by;
    u32 threads = who_of(w->cta, agent_of_channel(w, CHANNEL_THREADS), a->lane);
    order_known best = known_by(&w->known, a, who, time, who == threads);
    for (u32 i = 0; best != KNOWN && i < w->lane_clock_count; i++) {
        if (!lane_in(w->lane_clocks[i].lanes, a->lane)) continue;
        order_known other = known_by(&w->lane_clocks[i].clock, a, who, time, false);
        if (other == KNOWN || (other == UNFENCED && best == UNKNOWN)) best = other;
    }
    return best;
}

/* Strong accesses do not race with each other, unless their scopes leave the other out. */
static bool both_strong(const actor *a, u32 who, u32 pc) {
    if (!(a->pc & SHADOW_ATOMIC) || !(pc & SHADOW_ATOMIC)) return false;
    bool narrow = (a->pc | pc) & SHADOW_CTA_SCOPE;
    return !narrow || who >> (AGENT_BITS + 5) == a->who >> (AGENT_BITS + 5);
}

static void complain(const actor *a, const region *r, u64 offset, order_known how, bool writes,
                     u32 who, u32 time, u32 pc, bool wrote) {
    machine *m = a->m;
    u32 agent = who >> 5 & (MAX_AGENTS - 1);
    bool wgmma = !(who & WHO_FLIGHT) && channel_of(m, agent) == CHANNEL_WGMMA;
    finding_kind kind = how == UNFENCED ? FINDING_PROXY_FENCE
                        : wgmma         ? FINDING_WGMMA_OVERWRITE
                                        : FINDING_RACE;
    char mine[160], other[160];
    describe_who(m, a->who, a->time, mine, sizeof mine);
    describe_who(m, who, time, other, sizeof other);
    bool lanes = how == UNKNOWN && !(who & WHO_FLIGHT) && (who ^ a->who) < 32;
    finding *f = report(
        m, kind, a->by, (i32)a->lane, (i32)(a->pc & SHADOW_PC), "%s %s what %s %s%s", mine,
        writes ? "writes" : "reads", other, wrote ? "wrote" : "reads",
        how == UNFENCED ? ", ordered but with no fence.proxy.async between the two proxies"
        : who & WHO_FLIGHT ? " while that copy is in flight"
        : wgmma           ? " before its wgmma group was waited for"
        : lanes           ? ", with no warp-level synchronization between the lanes"
                          : ", with nothing that orders the two");
    if (!f) return;
    f->other_pc = (i32)(pc & SHADOW_PC);
    split_who(m, who, &f->other_cta, &f->other_warp, &f->other_lane);
    f->address = r->kind == REGION_BUFFER ? offset : r->base + offset;
    f->buffer = r->kind == REGION_BUFFER ? (i32)r->id : -1;
}

static u32 access_new(machine *m, const actor *a, u32 flags, u32 next) {
    u32 index = m->access_free;
    if (index) {
        m->access_free = m->accesses[index].next;
    } else {
        if (m->access_count == m->access_capacity) {
            m->access_capacity = m->access_capacity ? m->access_capacity * 2 : 4096;
            m->accesses = realloc(m->accesses, m->access_capacity * sizeof *m->accesses);
        }
        if (!m->access_count) m->access_count = 1; /* index 0 means none */
        index = m->access_count++;
    }
    m->accesses[index] = (shadow_access){a->who, a->time, a->pc | flags, next};
    return index;
}

static void access_drop(machine *m, u32 index) {
    m->accesses[index].next = m->access_free;
    m->access_free = index;
}

/* Check one byte against the access in `a`; with `record`, leave its mark. */
static void visit(const actor *a, region *r, u64 offset, cell *c, bool writes, bool record) {
    machine *m = a->m;
    if (c->who != WHO_NOBODY && c->who != a->who && !a->silent && !both_strong(a, c->who, c->pc)) {
        order_known how = known_to(a, c->who, c->time);
        if (how != KNOWN) complain(a, r, offset, how, writes, c->who, c->time, c->pc, true);
    } else if (c->who == a->who && a->async && !a->silent && c->who != WHO_NOBODY) {
        order_known how = known_to(a, c->who, c->time);
        if (how != KNOWN && writes)
            complain(a, r, offset, how, writes, c->who, c->time, c->pc, true);
    }
    bool strong = a->pc & SHADOW_ATOMIC;
    u32 *link = &c->list;
    while (*link) {
        shadow_access *e = &m->accesses[*link];
        bool wrote = e->pc & SHADOW_WRITE;
        bool same = e->who == a->who;
        bool drop = false;
        if (same && wrote == writes) {
            drop = !writes || strong;
        } else if (writes || wrote) {
            order_known how = a->silent || (same && !a->async) || both_strong(a, e->who, e->pc)
                                  ? KNOWN
                                  : known_to(a, e->who, e->time);
            if (how != KNOWN) complain(a, r, offset, how, writes, e->who, e->time, e->pc, wrote);
            drop = writes && !strong;
        } else {
            drop = !strong && known_to(a, e->who, e->time) == KNOWN;
        }
        if (drop && record) {
            u32 gone = *link;
            *link = e->next;
            access_drop(m, gone);
        } else {
            link = &e->next;
        }
    }
}

static u8 *flags_of_page(region *r, u64 offset) { return &r->page_flags[offset / PAGE]; }

bool shadow_read(const actor *a, region *r, u64 offset, u32 bytes) {
    if (r->read_only) return false;
    bool undefined = false, tracked = true;
    cell before = {.who = ~0u};
    cell *c = NULL;
    for (u32 i = 0; i < bytes; i++, c++) {
        if (!i || (offset + i) % PAGE == 0) {
            c = region_cells(r, offset + i);
            u8 *flags = flags_of_page(r, offset + i);
            tracked = r->kind == REGION_SHARED || *flags & PAGE_TRACKED;
            if (!tracked) *flags |= PAGE_READ;
        }
        bool same = c->who == before.who && c->time == before.time && c->pc == before.pc &&
                    !c->list && !before.list;
        before = *c;
        undefined |= c->who == WHO_NOBODY ? !r->defined : c->pc & SHADOW_POISON;
        if (!same) visit(a, r, offset + i, c, false, tracked);
        if (tracked) c->list = access_new(a->m, a, 0, c->list);
    }
    return undefined;
}

void shadow_write(const actor *a, region *r, u64 offset, u32 bytes, bool poison) {
    cell before = {.who = ~0u};
    cell *c = NULL;
    bool strong = a->pc & SHADOW_ATOMIC;
    for (u32 i = 0; i < bytes; i++, c++) {
        if (!i || (offset + i) % PAGE == 0) {
            c = region_cells(r, offset + i);
            u8 *flags = flags_of_page(r, offset + i);
            if (r->kind != REGION_SHARED && *flags & PAGE_READ && !(*flags & PAGE_TRACKED)) {
                *flags |= PAGE_TRACKED;
                a->m->rerun = true;
            }
            *flags |= PAGE_WRITTEN;
        }
        bool same = c->who == before.who && c->time == before.time && c->pc == before.pc &&
                    !c->list && !before.list;
        before = *c;
        if (!same) visit(a, r, offset + i, c, true, true);
        if (strong && c->who != WHO_NOBODY && !(c->pc & SHADOW_POISON)) {
            c->list = access_new(a->m, a, SHADOW_WRITE, c->list);
            continue;
        }
        c->who = a->who;
        c->time = a->time;
        c->pc = a->pc | (poison ? SHADOW_POISON : 0);
    }
}

void shadow_land(machine *m, region *r, u64 offset, u32 bytes, u32 number, u32 who, u32 time,
                 bool poison) {
    u32 flight = WHO_FLIGHT | number;
    for (u32 i = 0; i < bytes; i++) {
        cell *c = region_cells(r, offset + i);
        if (c->who == flight) {
            c->who = who;
            c->time = time;
            if (poison) c->pc |= SHADOW_POISON;
        }
        for (u32 e = c->list; e; e = m->accesses[e].next)
            if (m->accesses[e].who == flight) {
                m->accesses[e].who = who;
                m->accesses[e].time = time;
            }
    }
}

bool shadow_undefined(region *r, u64 offset, u32 bytes) {
    bool undefined = false;
    for (u32 i = 0; i < bytes; i++) {
        const cell *c = region_cells(r, offset + i);
        undefined |= c->who == WHO_NOBODY ? !r->defined : c->pc & SHADOW_POISON;
    }
    return undefined;
}
