/* Asynchronous copies: what issuing one checks, and the groups that wait for them. */
#include "machine/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "instructions/copies.h"
#include "tensor/tensor.h"

static effect *effect_new(warp *w, const insn *in, u32 lane, effect_kind kind) {
    machine *m = w->m;
    effect *e = calloc(1, sizeof *e);
    *e = (effect){.kind = kind, .number = ++m->flight_number, .by = w, .lane = lane,
                  .pc = (u32)pc_of(w, in), .mode = in->mode, .type = in->type,
                  .issued_cycle = w->cycle, .ready_cycle = w->cycle + 600};
    if (kind == EFFECT_LOAD) see_into(w, 1u << lane, &e->seen);
    m->issuing = e;
    return e;
}

static void launch(machine *m, effect *e) {
    if (m->flight_count == m->flight_capacity) {
        m->flight_capacity = m->flight_capacity ? m->flight_capacity * 2 : 64;
        m->flights = realloc(m->flights, m->flight_capacity * sizeof *m->flights);
    }
    e->ready_cycle += e->total_bytes / 16;
    m->flights[m->flight_count++] = e;
    m->issuing = NULL;
    if (m->flight_count > m->stats.max_in_flight) m->stats.max_in_flight = m->flight_count;
    e->by->issued_copies++;
    m->progress++;
}

void effect_free(effect *e) {
    if (e->by->m->issuing == e) e->by->m->issuing = NULL;
    clock_free(&e->seen);
    free(e->runs);
    free(e->payload);
    free(e->map);
    free(e);
}

static bool refuse(warp *w, const insn *in, u32 lane, finding_kind kind, const char *what, u64 value,
                   const char *rule) {
    finding *f = report(w->m, kind, w, (i32)lane, pc_of(w, in), "%s is 0x%llx: %s", what,
                        (unsigned long long)value, rule);
    if (f) f->address = value;
    return false;
}

static bool aligned(warp *w, const insn *in, u32 lane, const char *what, u64 value, u32 to) {
    if (value % to == 0) return true;
    char rule[64];
    snprintf(rule, sizeof rule, "it must be a multiple of %u", to);
    return refuse(w, in, lane, FINDING_MISALIGNED, what, value, rule);
}

/* A range of memory that a copy touches; NULL region after a report. */
static place range_of(warp *w, const insn *in, u32 lane, const char *what, u64 address, u32 bytes) {
    place at = memory_find(w->m, w->cta, address, bytes);
    if (!at.in) {
        finding *f = report(w->m, FINDING_OUT_OF_BOUNDS, w, (i32)lane, pc_of(w, in),
                            "%s: %u bytes at 0x%llx are not all in one buffer or in shared memory",
                            what, bytes, (unsigned long long)address);
        if (f && address >= WINDOW_BUFFERS) {
            f->buffer = (i32)((address - WINDOW_BUFFERS) >> 32) - 1;
            f->address = address & 0xffffffff;
        }
    } else if (at.in->kind == REGION_SHARED && w->m->ctas[at.in->id].exited) {
        report(w->m, FINDING_EXIT_OUTSTANDING, w, (i32)lane, pc_of(w, in),
               "%s: shared memory of CTA %u, which has exited", what, at.in->id);
        at.in = NULL;
    }
    return at;
}

static void run_add(effect *e, u64 global, u32 shared, u32 bytes, bool inside) {
    e->runs = realloc(e->runs, (e->run_count + 1) * sizeof *e->runs);
    e->runs[e->run_count++] = (copy_run){global, shared, bytes, inside};
}

static actor flight_actor(const effect *e) {
    actor a = actor_thread(e->by, e->lane, (i32)e->pc);
    a.who = WHO_FLIGHT | e->number;
    a.time = e->number;
    a.async = true;
    return a;
}

/* ---- Loads into shared memory ---- */

/* Check and mark every byte that a load reads and writes. */
static bool mark_load(effect *e, const insn *in) {
    warp *w = e->by;
    machine *m = w->m;
    actor a = flight_actor(e), writes = a;
    if (e->mode != MODE_NONE) writes.pc |= SHADOW_ATOMIC;
    for (u32 i = 0; i < e->run_count; i++) {
        copy_run *r = &e->runs[i];
        if (r->inside && !e->payload) {
            u64 from = e->from_shared ? WINDOW_SHARED + r->global : r->global;
            place at = range_of(w, in, e->lane, "the source of a copy", from, r->bytes);
            if (!at.in) return false;
            shadow_read(&a, at.in, at.offset, r->bytes);
        }
        for (u32 d = 0; d < e->destination_count; d++) {
            region *to = &m->ctas[e->destination_cta[d]].shared;
            if (r->shared < to->start || r->shared + r->bytes > to->size) {
                report(m, FINDING_OUT_OF_BOUNDS, w, (i32)e->lane, (i32)e->pc,
                       "the destination of a copy: %u bytes at shared address 0x%x, of %llu", r->bytes,
                       r->shared, (unsigned long long)to->size);
                return false;
            }
            if (e->mode != MODE_NONE && shadow_undefined(to, r->shared, r->bytes))
                report(m, FINDING_UNINITIALIZED, w, (i32)e->lane, (i32)e->pc,
                       "a reduction updates shared memory at 0x%x that nobody wrote", r->shared);
            shadow_write(&writes, to, r->shared, r->bytes, false);
        }
    }
    return true;
}

/* Which CTAs a load writes to: that of its address, or those of the multicast mask. */
static bool destinations(effect *e, const insn *in, u64 address, u32 mask_operand, u32 *shared) {
    warp *w = e->by;
    place at = range_of(w, in, e->lane, "the destination of a copy", address, 1);
    if (!at.in || at.in->kind != REGION_SHARED) return false;
    *shared = (u32)at.offset;
    if (!(in->flags & FLAG_MULTICAST)) {
        e->destination_cta[e->destination_count++] = at.in->id;
    } else {
        u32 mask = (u32)scalar(w, in, mask_operand, e->lane) & 0xffff;
        u32 base = w->cta->index - w->cta->rank;
        if (mask >> w->m->cluster_size || !mask)
            return refuse(w, in, e->lane, FINDING_ILLEGAL_ARGUMENT, "the multicast mask", mask,
                          "it must name CTAs of the cluster");
        for (u32 rank = 0; rank < 16; rank++)
            if (mask >> rank & 1) e->destination_cta[e->destination_count++] = base + rank;
    }
    for (u32 d = 0; d < e->destination_count; d++)
        if (w->m->ctas[e->destination_cta[d]].exited || !w->m->ctas[e->destination_cta[d]].started) {
            report(w->m, FINDING_EXIT_OUTSTANDING, w, (i32)e->lane, (i32)e->pc,
                   "a copy into shared memory of CTA %u, which is not running", e->destination_cta[d]);
            return false;
        }
    return true;
}

static bool barrier_of(effect *e, const insn *in, u32 operand_index) {
    warp *w = e->by;
    u64 generic = generic_address(SPACE_SHARED, address_of(w, in, operand_index, e->lane));
    place at = range_of(w, in, e->lane, "the mbarrier of a copy", generic, 8);
    if (!at.in || at.in->kind != REGION_SHARED) return false;
    e->barrier_address = (u32)at.offset;
    bool fine = true;
    for (u32 d = 0; d < e->destination_count; d++)
        fine &= mbarrier_check_copy(w, e->lane, &w->m->ctas[e->destination_cta[d]], e->barrier_address,
                                    (i32)e->pc);
    return fine;
}

/* What the kernel before may write is copied behind the wait for it. */
static void check_source(warp *w, const insn *in, u32 lane, place from) {
    if (!from.in || !from.in->settled) check_start(w, pc_of(w, in), 1u << lane, "copies", -1);
}

/* cp.async.bulk from global or shared memory to shared memory, and its reductions there. */
static void bulk_load(warp *w, const insn *in, u32 lane) {
    effect *e = effect_new(w, in, lane, EFFECT_LOAD);
    u64 to = generic_address(SPACE_SHARED, address_of(w, in, 0, lane)), from = address_of(w, in, 1, lane);
    u32 bytes = (u32)scalar(w, in, 2, lane), behind = 0, shared;
    e->from_shared = in->op != OP_BULK_LOAD;
    if (e->from_shared) {
        place at = range_of(w, in, lane, "the source of a copy", generic_address(SPACE_SHARED, from), bytes);
        if (!at.in) goto failed;
        from = generic_address(SPACE_SHARED, from) - WINDOW_SHARED;
    } else {
        from = generic_address(SPACE_GLOBAL, from);
        behind = bytes_behind(w->m, from, bytes);
        check_source(w, in, lane, memory_find(w->m, w->cta, from, 1));
    }
    if (!aligned(w, in, lane, "the size of a bulk copy", bytes, 16) ||
        !aligned(w, in, lane, "the source of a bulk copy", from, 16) ||
        !aligned(w, in, lane, "the destination of a bulk copy", to, 16) ||
        !destinations(e, in, to, 4, &shared) || !barrier_of(e, in, 3))
        goto failed;
    e->total_bytes = bytes;
    if (bytes) run_add(e, from, shared, bytes - behind, true);
    if (behind) run_add(e, 0, shared + bytes - behind, behind, false);
    if (!mark_load(e, in)) goto failed;
    launch(w->m, e);
    return;
failed:
    effect_free(e);
}

/* st.async and red.async: the values travel with the instruction. */
static void store_async(warp *w, const insn *in, u32 lane) {
    effect *e = effect_new(w, in, lane, EFFECT_LOAD);
    u64 to = generic_address(SPACE_SHARED, address_of(w, in, 0, lane));
    u32 count = in->operand_count - 2u, size = type_bytes(in->type), shared;
    e->payload = calloc(count, 8);
    for (u32 i = 0; i < count; i++) {
        u64 value = scalar(w, in, 1 + i, lane);
        require_defined(w, in, 1 + i, 1u << lane, "a value stored to a peer");
        memcpy(e->payload + (size_t)i * size, &value, size);
    }
    e->total_bytes = count * size;
    bool fine = aligned(w, in, lane, "the destination of st.async", to, e->total_bytes) &&
                destinations(e, in, to, 0, &shared) && barrier_of(e, in, in->operand_count - 1u);
    if (fine) {
        run_add(e, 0, shared, e->total_bytes, true);
        fine = mark_load(e, in);
    }
    if (fine) launch(w->m, e);
    else effect_free(e);
}

/* ---- Stores from shared memory ---- */

static bool mark_store(effect *e, const insn *in) {
    warp *w = e->by;
    e->group = w->bulk_committed + 1;
    actor reads = actor_channel(w, e->lane, (i32)e->pc, CHANNEL_BULK_READ, e->group);
    actor writes = actor_channel(w, e->lane, (i32)e->pc, CHANNEL_BULK_WRITE, e->group);
    if (e->kind == EFFECT_REDUCE) writes.pc |= SHADOW_ATOMIC;
    for (u32 i = 0; i < e->run_count; i++) {
        copy_run *r = &e->runs[i];
        if (!r->inside) continue;
        place from = range_of(w, in, e->lane, "the source of a bulk store", WINDOW_SHARED + r->shared,
                              r->bytes);
        place to = range_of(w, in, e->lane, "the destination of a bulk store", r->global, r->bytes);
        if (!from.in || !to.in) return false;
        if (shadow_read(&reads, from.in, from.offset, r->bytes))
            report(w->m, FINDING_UNINITIALIZED, w, (i32)e->lane, (i32)e->pc,
                   "a bulk store reads shared memory at 0x%x that nobody wrote", r->shared);
        shadow_write(&writes, to.in, to.offset, r->bytes, false);
    }
    w->bulk_lanes |= 1u << e->lane;
    w->bulk_open |= 1u << e->lane;
    w->bulk_issued = e->group;
    return true;
}

static void bulk_store(warp *w, const insn *in, u32 lane) {
    effect *e = effect_new(w, in, lane, in->op == OP_BULK_STORE ? EFFECT_STORE : EFFECT_REDUCE);
    u64 to = address_of(w, in, 0, lane);
    place from = range_of(w, in, lane, "the source of a bulk store",
                          generic_address(SPACE_SHARED, address_of(w, in, 1, lane)), 1);
    u32 bytes = (u32)scalar(w, in, 2, lane);
    bool fine = from.in && aligned(w, in, lane, "the size of a bulk copy", bytes, 16) &&
                aligned(w, in, lane, "the source of a bulk copy", from.offset, 16) &&
                aligned(w, in, lane, "the destination of a bulk copy", to, 16);
    if (fine) {
        e->total_bytes = bytes;
        if (bytes) run_add(e, to, (u32)from.offset, bytes, true);
        fine = mark_store(e, in);
    }
    if (fine) launch(w->m, e);
    else effect_free(e);
}

/* ---- Tensor copies ---- */

static bool map_of(warp *w, const insn *in, u32 lane, u32 operand_index, tensor_map *map) {
    u64 address = address_of(w, in, operand_index, lane);
    place at = range_of(w, in, lane, "a tensor map", address, TENSOR_MAP_BYTES);
    if (!at.in || !aligned(w, in, lane, "the address of a tensor map", address, 64)) return false;
    if (!tensor_map_decode(at.in->data + at.offset, map))
        return refuse(w, in, lane, FINDING_ILLEGAL_ARGUMENT, "the tensor map at", address,
                      "its 128 bytes are not a tensor map");
    map_fence_check(w, lane, pc_of(w, in), &at, address);
    char text[200];
    const char *error = tensor_map_error(map, text, sizeof text);
    if (!error) return true;
    report(w->m, FINDING_ILLEGAL_ARGUMENT, w, (i32)lane, pc_of(w, in), "the tensor map: %s", error);
    return false;
}

static void tensor_copy(warp *w, const insn *in, u32 lane) {
    bool loads = in->op == OP_TENSOR_LOAD;
    effect *e = effect_new(w, in, lane,
                           loads                        ? EFFECT_LOAD
                           : in->op == OP_TENSOR_STORE ? EFFECT_STORE
                                                       : EFFECT_REDUCE);
    u32 rank = in->vector, map_operand = loads ? 1 : 0, shared = 0;
    u32 shared_operand = loads ? 0 : 1 + rank, barrier_operand = 2 + rank;
    tensor_map map;
    i32 coordinates[MAX_RANK];
    segment *segments = NULL;
    if (!map_of(w, in, lane, map_operand, &map)) goto failed;
    if (loads) check_source(w, in, lane, memory_find(w->m, w->cta, map.address, 1));
    if (map.rank != rank) {
        report(w->m, FINDING_ILLEGAL_ARGUMENT, w, (i32)lane, pc_of(w, in),
               "a tensor copy of rank %u with a tensor map of rank %u", rank, map.rank);
        goto failed;
    }
    for (u32 i = 0; i < rank; i++) {
        require_defined(w, in, map_operand + 1 + i, 1u << lane, "a coordinate of a tensor copy");
        coordinates[i] = (i32)scalar(w, in, map_operand + 1 + i, lane);
    }
    u64 address = generic_address(SPACE_SHARED, address_of(w, in, shared_operand, lane));
    if (!aligned(w, in, lane, "the shared address of a tensor copy", address, 128)) goto failed;
    if (loads) {
        if (!destinations(e, in, address, 3 + rank, &shared) || !barrier_of(e, in, barrier_operand))
            goto failed;
    } else {
        place at = range_of(w, in, lane, "the source of a tensor store", address, 1);
        if (!at.in) goto failed;
        shared = (u32)at.offset;
    }
    char text[200];
    const char *error = tensor_copy_error(&map, coordinates, shared, !loads, text, sizeof text);
    if (error) {
        report(w->m, FINDING_ILLEGAL_ARGUMENT, w, (i32)lane, pc_of(w, in), "a tensor copy: %s", error);
        goto failed;
    }
    size_t count = tensor_segments(&map, coordinates, shared, NULL, 0);
    segments = malloc((count + 1) * sizeof *segments);
    tensor_segments(&map, coordinates, shared, segments, count);
    e->runs = malloc((count + 1) * sizeof *e->runs);
    e->run_count = (u32)count;
    for (size_t i = 0; i < count; i++)
        e->runs[i] = (copy_run){segments[i].global, segments[i].shared, segments[i].bytes,
                                segments[i].inside || (!loads && segments[i].spills)};
    free(segments);
    segments = NULL;
    e->total_bytes = tensor_box_bytes(&map);
    e->map = malloc(sizeof map);
    *e->map = map;
    if (!(loads ? mark_load(e, in) : mark_store(e, in))) goto failed;
    launch(w->m, e);
    return;
failed:
    effect_free(e);
}

/* ---- cp.async ---- */

static void copy_small(warp *w, const insn *in, u32 lane) {
    u64 to = generic_address(SPACE_SHARED, address_of(w, in, 0, lane)), from = address_of(w, in, 1, lane);
    u32 bytes = (u32)scalar(w, in, 2, lane), taken = bytes;
    if (in->flags & FLAG_ZERO_FILL) {
        u32 given = (u32)scalar(w, in, 3, lane);
        taken = in->flags & FLAG_PREDICATE ? (given & 1 ? 0 : bytes) : given;
        if (taken > bytes) {
            refuse(w, in, lane, FINDING_ILLEGAL_ARGUMENT, "the source size of cp.async", taken,
                   "it must not exceed the size of the copy");
            taken = bytes;
        }
    }
    if (!aligned(w, in, lane, "the destination of cp.async", to, bytes) ||
        !aligned(w, in, lane, "the source of cp.async", from, bytes))
        return;
    place destination_at = range_of(w, in, lane, "the destination of cp.async", to, bytes);
    if (!destination_at.in) return;
    effect *e = effect_new(w, in, lane, EFFECT_CP_ASYNC);
    e->group = w->cp_number;
    e->total_bytes = bytes;
    actor a = actor_channel(w, lane, pc_of(w, in), CHANNEL_CP_ASYNC, e->group);
    bool poison = false;
    if (taken) {
        place source_at = range_of(w, in, lane, "the source of cp.async", from, taken);
        if (!source_at.in) {
            effect_free(e);
            return;
        }
        check_source(w, in, lane, source_at);
        poison = shadow_read(&a, source_at.in, source_at.offset, taken);
        run_add(e, from, (u32)destination_at.offset, taken, true);
    }
    if (taken < bytes)
        run_add(e, 0, (u32)destination_at.offset + taken, bytes - taken, false);
    shadow_write(&a, destination_at.in, destination_at.offset, bytes, poison);
    e->destination_cta[e->destination_count++] = destination_at.in->id;
    w->cp_open = true;
    w->cp_lanes |= 1u << lane;
    launch(w->m, e);
}

static void copy_arrive(warp *w, const insn *in, u32 mask) {
    u32 lane = (u32)first_lane(mask);
    place at = range_of(w, in, lane, "an mbarrier",
                        generic_address(in->space, address_of(w, in, 0, lane)), 8);
    mbarrier *b = at.in && at.in->kind == REGION_SHARED ? mbarrier_find(w->cta, (u32)at.offset) : NULL;
    if (!b) {
        report(w->m, FINDING_UNINITIALIZED_BARRIER, w, (i32)lane, pc_of(w, in),
               "cp.async.mbarrier.arrive where no mbarrier is live");
        return;
    }
    effect *e = effect_new(w, in, lane, EFFECT_CP_ARRIVE);
    e->group = w->cp_number++;
    e->barrier_address = b->address;
    e->arrive_lanes = mask;
    e->noinc = in->flags & FLAG_NOINC;
    if (!e->noinc) b->pending += (u32)__builtin_popcount(mask);
    launch(w->m, e);
}

/* ---- Groups ---- */

/* Groups belong to the threads that issued them: `lanes` learn of their own only. */
static void learn_channel(warp *w, u32 lanes, u32 issuers, int channel, u32 number) {
    if (!lanes) return;
    vclock learned = {0};
    knowledge *k = clock_at(&learned, w->cta->index, 1 + w->index * CHANNELS + (u32)channel);
    if (!(issuers & ~lanes)) k->full = number;
    else *k = (knowledge){.part = number, .lanes = lanes};
    acquire(w, lanes, &learned);
    clock_free(&learned);
}

static bool landed(const warp *w, bool bulk, u32 number) {
    const machine *m = w->m;
    for (u32 i = 0; i < m->flight_count; i++) {
        const effect *e = m->flights[i];
        bool is_bulk = e->kind == EFFECT_STORE || e->kind == EFFECT_REDUCE;
        bool is_small = e->kind == EFFECT_CP_ASYNC || e->kind == EFFECT_CP_ARRIVE;
        if (e->by == w && (bulk ? is_bulk : is_small) && e->group <= number) return false;
    }
    return true;
}

static u32 target_group(const warp *w, const insn *in) {
    u32 n = in->operand_count ? (u32)operand_at(w, in, 0)->value : 0;
    if (in->op == OP_BULK_WAIT) return w->bulk_committed > n ? w->bulk_committed - n : 0;
    if (in->flags & FLAG_ALL) return w->cp_number;
    if (w->cp_commits <= n) return 0;
    return w->cp_commit_number[(w->cp_commits - n - 1) % 64];
}

bool group_ready(const warp *w, const split *s) {
    const insn *in = &w->m->code[s->pc];
    return landed(w, in->op == OP_BULK_WAIT, target_group(w, in));
}

static step wait_groups(warp *w, split *s, const insn *in, u32 mask) {
    u32 number = target_group(w, in);
    bool bulk = in->op == OP_BULK_WAIT;
    if (!landed(w, bulk, number)) {
        s->state = SPLIT_GROUP;
        return STEP_BLOCKED;
    }
    if (w->landed_cycle > w->cycle) w->cycle = w->landed_cycle;
    if (!bulk) {
        if (in->flags & FLAG_ALL) w->cp_commit_number[w->cp_commits++ % 64] = w->cp_number++;
        learn_channel(w, mask, w->cp_lanes, CHANNEL_CP_ASYNC, number);
        return STEP_NEXT;
    }
    u32 lanes = mask & w->bulk_lanes;
    if (lanes && number > w->bulk_read_waited) w->bulk_read_waited = number;
    learn_channel(w, lanes, w->bulk_lanes, CHANNEL_BULK_READ, number);
    if (!(in->flags & FLAG_READ)) learn_channel(w, lanes, w->bulk_lanes, CHANNEL_BULK_WRITE, number);
    return STEP_NEXT;
}

void effects_exit_check(warp *w, u32 lanes, i32 pc) {
    if (w->bulk_lanes & lanes && w->bulk_issued > w->bulk_read_waited)
        report(w->m, FINDING_EXIT_OUTSTANDING, w, first_lane(w->bulk_lanes & lanes), pc,
               "exits while a bulk store that it issued may still read shared memory (group %u; "
               "wait_group has covered %u)",
               w->bulk_issued, w->bulk_read_waited);
    if (w->cp_open && !landed(w, false, w->cp_number))
        report(w->m, FINDING_EXIT_OUTSTANDING, w, first_lane(lanes), pc,
               "exits while a cp.async that it issued is in flight");
}

step run_copy(warp *w, split *s, const insn *in, u32 mask) {
    switch (in->op) {
    case OP_FENCE: map_fence(w, in, mask); return STEP_NEXT;
    case OP_CP_ASYNC: FOR_LANES(lane, mask) copy_small(w, in, (u32)lane); return STEP_NEXT;
    case OP_CP_ASYNC_ARRIVE: copy_arrive(w, in, mask); return STEP_NEXT;
    case OP_CP_ASYNC_COMMIT:
        w->cp_commit_number[w->cp_commits++ % 64] = w->cp_number++;
        return STEP_NEXT;
    case OP_CP_ASYNC_WAIT:
    case OP_BULK_WAIT: return wait_groups(w, s, in, mask);
    case OP_BULK_COMMIT: /* of what other lanes have issued it closes nothing */
        if (mask & w->bulk_lanes && (!w->bulk_open || mask & w->bulk_open)) w->bulk_committed++;
        w->bulk_open &= ~mask;
        return STEP_NEXT;
    case OP_RED_ASYNC:
    case OP_ST_ASYNC: FOR_LANES(lane, mask) store_async(w, in, (u32)lane); return STEP_YIELD;
    case OP_BULK_LOAD:
    case OP_BULK_COPY: FOR_LANES(lane, mask) bulk_load(w, in, (u32)lane); return STEP_YIELD;
    case OP_BULK_STORE:
    case OP_BULK_REDUCE: {
        bool to_peer = in->op == OP_BULK_REDUCE && in->space == SPACE_SHARED_CLUSTER;
        FOR_LANES(lane, mask) (to_peer ? bulk_load : bulk_store)(w, in, (u32)lane);
        return STEP_YIELD;
    }
    case OP_TENSOR_LOAD:
    case OP_TENSOR_STORE:
    case OP_TENSOR_REDUCE: FOR_LANES(lane, mask) tensor_copy(w, in, (u32)lane); return STEP_YIELD;
    case OP_TENSORMAP_REPLACE:
    case OP_TENSORMAP_COPY: return run_map(w, s, in, mask);
    default:
        report(w->m, FINDING_UNSUPPORTED, w, -1, pc_of(w, in), "this instruction is not simulated");
        w->m->stopped = true;
        return STEP_NEXT;
    }
}
