/* SPDX-License-Identifier: Apache-2.0 */
/* All groups and datasets of a file; lengths of dimensions that several datasets share. */
#include <stdio.h>

#include "array/hdf5/netcdf.h"

#define LEAST_SEEN 64u

/* Where a walk is. Groups that it has been in are remembered, as links may lead in circles. */
typedef struct walking {
    stk__hdf5_node_fn *each;
    void *user;
    uint64_t *seen; /* by address, NONE where a slot is empty; a power of two of slots */
    uint64_t num_seen, room;
    uint32_t level;
    size_t length;
    char path[STK_MAX_OBJECT_KEY];
} walking;

static stk_status enter(stk__hdf5 *f, walking *w, stk__hdf5_object *group);

/* The slot of an address: the first from its own on that has it or is empty. */
static uint64_t *find_slot(uint64_t *seen, uint64_t room, uint64_t address)
{
    const uint64_t mixed = address * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t at = (mixed ^ mixed >> 32) & (room - 1);

    while (seen[at] != STK__HDF5_NONE && seen[at] != address)
        at = (at + 1) & (room - 1);
    return &seen[at];
}

/* Twice the slots, and at most half of them taken. */
static stk_status grow_seen(stk__hdf5 *f, walking *w)
{
    const uint64_t room = w->room ? 2 * w->room : LEAST_SEEN;
    void *memory = NULL;

    STK_TRY(stk__hdf5_take(f, room * sizeof *w->seen, &memory));
    uint64_t *seen = memory;
    memset(seen, 0xff, room * sizeof *seen);
    for (uint64_t i = 0; i < w->room; i++)
        if (w->seen[i] != STK__HDF5_NONE)
            *find_slot(seen, room, w->seen[i]) = w->seen[i];
    stk__hdf5_give(f, w->seen, w->room * sizeof *seen);
    w->seen = seen;
    w->room = room;
    return STK_OK;
}

/* Note an object, which lies in the file; *again: it has been there. */
static stk_status note(stk__hdf5 *f, walking *w, uint64_t address, bool *again)
{
    if (2 * w->num_seen >= w->room)
        STK_TRY(grow_seen(f, w));
    uint64_t *slot = find_slot(w->seen, w->room, address);
    *again = *slot == address;
    w->num_seen += !*again;
    *slot = address;
    return STK_OK;
}

static stk_status visit(stk__hdf5 *f, walking *w, uint64_t address)
{
    stk__hdf5_node node = {.path = w->path, .address = address};
    stk__hdf5_object o;
    bool again = false;

    stk_status status = stk__hdf5_object_begin(f, address, &o);
    if (status == STK_EKIND) { /* what is not read hides nothing of the others */
        stk__hdf5_object_end(f, &o);
        return STK_OK;
    }
    node.object = &o;
    node.is_array = stk__hdf5_has(&o, STK__HDF5_LAYOUT) && stk__hdf5_has(&o, STK__HDF5_DATASPACE);
    const bool group = !node.is_array && stk__hdf5_is_group(&o);
    if (status == STK_OK && group)
        status = note(f, w, address, &again);
    if (status == STK_OK && (node.is_array || group) && !again)
        status = w->each(f, &node, w->user);
    if (status == STK_OK && group && !again)
        status = enter(f, w, &o);
    stk__hdf5_object_end(f, &o);
    return status;
}

static stk_status take_link(stk__hdf5 *f, const stk__hdf5_link *link, void *user)
{
    walking *w = user;
    const size_t before = w->length, length = strlen(link->name);

    /* A name that no path can have is one that no path leads to. */
    if (link->kind != STK__HDF5_HARD || strchr(link->name, '/') || !strcmp(link->name, ".") ||
        !strcmp(link->name, "..") || before + 1 + length >= sizeof w->path)
        return STK_OK;
    snprintf(w->path + before, sizeof w->path - before, "%s%s", before ? "/" : "", link->name);
    w->length = strlen(w->path);
    const stk_status status = visit(f, w, link->address);
    w->length = before;
    w->path[before] = 0;
    return status;
}

static stk_status enter(stk__hdf5 *f, walking *w, stk__hdf5_object *group)
{
    if (w->level == STK__HDF5_MAX_LEVELS)
        return stk__hdf5_refuse(f, group->address,
                                "groups in groups of so many levels are not "
                                "read");
    w->level++;
    const stk_status status = stk__hdf5_links(f, group, take_link, w);
    w->level--;
    return status;
}

stk_status stk__hdf5_walk(stk__hdf5 *f, uint64_t group, stk__hdf5_node_fn *each, void *user)
{
    void *memory = NULL;
    stk__hdf5_object o;
    bool again;

    STK_TRY(stk__hdf5_take(f, sizeof(walking), &memory));
    walking *w = memory;
    w->each = each;
    w->user = user;
    stk_status status = stk__hdf5_object_begin(f, group, &o);
    if (status == STK_OK)
        status = note(f, w, group, &again);
    if (status == STK_OK)
        status = enter(f, w, &o);
    stk__hdf5_object_end(f, &o);
    stk__hdf5_give(f, w->seen, w->room * sizeof *w->seen);
    stk__hdf5_give(f, w, sizeof *w);
    return status;
}

/* ---- Lengths ---- */

typedef struct lengthening {
    uint64_t scale[STK_ARRAY_MAX_RANK]; /* of each unlimited dimension; NONE: of another */
    stk__hdf5_space *space;
} lengthening;

static stk_status lengthen(stk__hdf5 *f, const stk__hdf5_node *node, void *user)
{
    const lengthening *l = user;
    const stk__hdf5_message *m;
    stk__netcdf_marks marks;
    stk__hdf5_space other;

    if (!node->is_array)
        return STK_OK;
    STK_TRY(stk__hdf5_message_find(f, node->object, STK__HDF5_DATASPACE, &m));
    STK_TRY(stk__hdf5_space_read(f, m, &other));
    bool unlimited = false;
    for (uint32_t d = 0; d < other.rank; d++)
        unlimited |= other.most[d] == UINT64_MAX;
    if (!unlimited)
        return STK_OK;
    const stk_status status = stk__netcdf_marks_read(f, node->object, &marks);
    if (status == STK_EKIND)
        return STK_OK;
    STK_TRY(status);
    for (uint32_t e = 0; e < other.rank; e++) {
        const uint64_t scale = marks.scale && other.rank == 1 ? node->address
                               : e < marks.num_scales         ? marks.scales[e]
                                                              : STK__HDF5_NONE;
        for (uint32_t d = 0; scale != STK__HDF5_NONE && d < l->space->rank; d++)
            if (l->scale[d] == scale)
                l->space->shape[d] = STK_MAX(l->space->shape[d], other.shape[e]);
    }
    return STK_OK;
}

stk_status stk__netcdf_lengths(stk__hdf5 *f, uint64_t address, const stk__netcdf_marks *marks,
                               stk__hdf5_space *space)
{
    lengthening l = {.space = space};
    bool any = false;

    for (uint32_t d = 0; d < space->rank; d++) {
        l.scale[d] = STK__HDF5_NONE;
        if (space->most[d] != UINT64_MAX)
            continue;
        if (marks->scale && space->rank == 1)
            l.scale[d] = address;
        else if (d < marks->num_scales)
            l.scale[d] = marks->scales[d];
        any = any || l.scale[d] != STK__HDF5_NONE;
    }
    return any ? stk__hdf5_walk(f, f->root, lengthen, &l) : STK_OK;
}
