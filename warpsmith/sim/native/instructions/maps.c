/* Tensor maps that the device changes. A map in memory is read through a proxy of its own: who
   uses one that was written in this launch needs fence.proxy.tensormap on its address. */
#include <stdlib.h>
#include <string.h>

#include "instructions/copies.h"
#include "tensor/tensor.h"

struct map_fence {
    u64 address;
    u32 writer, written; /* whose write it covers */
    u32 who, time; /* whose fence */
};

static u32 last_writer(const place *at, u32 *time) {
    u32 who = WHO_NOBODY;
    *time = 0;
    for (u32 i = 0; i < TENSOR_MAP_BYTES; i++) {
        const cell *c = cell_of(at->in, at->offset + i);
        if (c->who == WHO_NOBODY || (who != WHO_NOBODY && c->time < *time)) continue;
        who = c->who;
        *time = c->time;
    }
    return who;
}

static actor toucher(warp *w, u32 lane, i32 pc) { return actor_thread(w, lane, pc); }

void map_fence(warp *w, const insn *in, u32 mask) {
    machine *m = w->m;
    if (!in->operand_count) return; /* the release side: the release that follows carries it */
    FOR_LANES(lane, mask) {
        u64 address = address_of(w, in, 0, (u32)lane);
        place at = memory_find(m, w->cta, address, TENSOR_MAP_BYTES);
        if (!at.in) continue;
        actor a = toucher(w, (u32)lane, pc_of(w, in));
        struct map_fence f = {.address = address, .who = a.who, .time = a.time};
        f.writer = last_writer(&at, &f.written);
        m->map_fences = realloc(m->map_fences, (m->map_fence_count + 1) * sizeof f);
        m->map_fences[m->map_fence_count++] = f;
    }
    w->time++;
}

void map_fence_check(warp *w, u32 lane, i32 pc, const place *at, u64 address) {
    machine *m = w->m;
    actor a = toucher(w, lane, pc);
    shadow_read(&a, at->in, at->offset, TENSOR_MAP_BYTES);
    u32 time, who = last_writer(at, &time);
    if (who == WHO_NOBODY) return;
    for (u32 i = 0; i < m->map_fence_count; i++) {
        const struct map_fence *f = &m->map_fences[i];
        bool covers = f->address == address && f->writer == who && f->written == time;
        if (covers && known_to(&a, f->who, f->time) == KNOWN) return;
    }
    finding *found = report(m, FINDING_PROXY_FENCE, w, (i32)lane, pc,
                            "uses a tensor map that was written in this launch with no "
                            "fence.proxy.tensormap acquire on it in between");
    if (found) found->address = address;
}

static step replace(warp *w, const insn *in, u32 mask) {
    FOR_LANES(lane, mask) {
        u64 address = generic_address(in->space, address_of(w, in, 0, (u32)lane));
        place at = memory_find(w->m, w->cta, address, TENSOR_MAP_BYTES);
        tensor_map map;
        if (!at.in || !tensor_map_decode(at.in->data + at.offset, &map)) {
            report(w->m, FINDING_ILLEGAL_ARGUMENT, w, lane, pc_of(w, in),
                   "tensormap.replace at an address where no tensor map is");
            continue;
        }
        bool indexed = in->operand_count > 2;
        u32 ordinal = indexed ? (u32)scalar(w, in, 1, (u32)lane) : 0;
        u64 value = scalar(w, in, indexed ? 2 : 1, (u32)lane);
        if (!tensor_map_replace(&map, in->mode, ordinal, value)) {
            report(w->m, FINDING_ILLEGAL_ARGUMENT, w, lane, pc_of(w, in),
                   "tensormap.replace with ordinal %u and value 0x%llx, which the field cannot hold",
                   ordinal, (unsigned long long)value);
            continue;
        }
        w->time++;
        actor a = actor_thread(w, (u32)lane, pc_of(w, in));
        shadow_write(&a, at.in, at.offset, TENSOR_MAP_BYTES, false);
        tensor_map_encode(&map, at.in->data + at.offset);
        w->m->progress++;
    }
    return STEP_NEXT;
}

/* tensormap.cp_fenceproxy: copy a map from shared to global memory; it fences the copy. */
static step copy_map(warp *w, const insn *in, u32 mask) {
    u32 lane = (u32)first_lane(mask), time;
    u64 from = generic_address(SPACE_SHARED, address_of(w, in, 1, lane));
    place to = memory_find(w->m, w->cta, address_of(w, in, 0, lane), TENSOR_MAP_BYTES);
    place at = memory_find(w->m, w->cta, from, TENSOR_MAP_BYTES);
    if (!to.in || !at.in) {
        report(w->m, FINDING_OUT_OF_BOUNDS, w, (i32)lane, pc_of(w, in),
               "tensormap.cp_fenceproxy of 128 bytes that are not all in memory");
        return STEP_NEXT;
    }
    /* The warp copies as one: what a lane of it wrote is there. Triton puts no bar.warp.sync between
       the lane that changes the map and the copy. */
    u32 writer = last_writer(&at, &time), mine = actor_thread(w, 0, 0).who;
    if ((writer & ~31u) == mine && lane_in(mask, (int)(writer & 31))) lane = writer & 31;
    w->time++;
    const actor a = actor_thread(w, lane, pc_of(w, in));
    shadow_read(&a, at.in, at.offset, TENSOR_MAP_BYTES);
    shadow_write(&a, to.in, to.offset, TENSOR_MAP_BYTES, false);
    memcpy(to.in->data + to.offset, at.in->data + at.offset, TENSOR_MAP_BYTES);
    w->m->progress++;
    return STEP_NEXT;
}

step run_map(warp *w, split *s, const insn *in, u32 mask) {
    if (in->op == OP_TENSORMAP_REPLACE) return replace(w, in, mask);
    mask = gather_warp(w, s, in, mask, "tensormap.cp_fenceproxy");
    return mask ? copy_map(w, in, mask) : STEP_BLOCKED;
}
