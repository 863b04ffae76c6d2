/* SPDX-License-Identifier: Apache-2.0 */
/* Locating: what is in a step and what it needs, before anything is read. */
#include <stdio.h>

#include "base/random.h"
#include "loader/planner.h"

const char stk__ragged_too_large[] =
    "its values and those before it in the batch do not fit the memory_budget";

/* ---- Locating ---- */

typedef struct collector {
    stk_locator seam;
    stk__planner *planner;
    stk__step *step;
    const uint32_t *map; /* row of each index of the call; NULL: the same */
    stk__extra *extra;   /* instead of the step's needs, for a substitute */
    uint32_t num_extra, room_extra;
    uint32_t begun; /* rows before it have entries, where there may be runs */
    size_t last;    /* sample that added last: they come in order */
    uint64_t bytes; /* of all needs, where they are added up */
} collector;

static uint32_t row_of(const collector *c, size_t i)
{
    return c->map ? c->map[i] : (uint32_t)i;
}

static void begin_row(stk__step *step, uint32_t r)
{
    step->rows[r] = (stk__row){.index = step->indices[r], .position = step->positions[r]};
}

static void begin_rows(collector *c, uint32_t end)
{
    for (; c->begun < end; c->begun++)
        begin_row(c->step, c->begun);
}

static stk_status grow_needs(stk_context *ctx, stk__step *step)
{
    uint32_t room = step->room_needs ? step->room_needs * 2 : STK_MAX(step->num_rows, 16);
    stk__need_entry *needs = stk__realloc(ctx, step->needs, (uint64_t)room * sizeof *needs);

    if (!needs)
        return STK_ENOMEM;
    step->needs = needs;
    stk_slice *slices = stk__realloc(ctx, step->slices, (uint64_t)room * sizeof *slices);
    if (!slices)
        return STK_ENOMEM;
    step->slices = slices;
    step->room_needs = room;
    return STK_OK;
}

static stk_status collect(stk_locator *seam, size_t i, const stk_need *need)
{
    collector *c = (collector *)seam;
    stk__step *step = c->step;
    uint32_t row = row_of(c, i);

    if (i < c->last)
        return STK_EINVAL;
    c->last = i;
    begin_rows(c, row + 1);
    if (step->num_needs == step->room_needs)
        STK_TRY(grow_needs(c->planner->ctx, step));
    step->needs[step->num_needs] = (stk__need_entry){.need = *need, .step = step, .row = row};
    step->slices[step->num_needs] = (stk_slice){.data = "", .size = 0};
    step->num_needs++;
    step->rows[row].num_needs++;
    return STK_OK;
}

static stk_status collect_extra(stk_locator *seam, size_t i, const stk_need *need)
{
    collector *c = (collector *)seam;

    (void)i;
    if (c->num_extra == c->room_extra)
        return STK_ELIMIT;
    c->extra->needs[c->num_extra] =
        (stk__need_entry){.need = *need, .step = c->step, .row = c->map[0]};
    c->extra->slices[c->num_extra++] = (stk_slice){.data = "", .size = 0};
    return STK_OK;
}

/* A sample with the needs of another joins its group. */
static bool collect_same(stk_locator *seam, size_t i, size_t like)
{
    collector *c = (collector *)seam;

    if (like >= i || i < c->last)
        return false;
    const uint32_t first = row_of(c, like), r = row_of(c, i);
    begin_rows(c, r + 1);
    stk__row *leader = &c->step->rows[first], *row = &c->step->rows[r];
    if (leader->follows || !leader->num_needs || row->num_needs || leader->run > 1 ||
        leader->group == STK__GROUP_ROWS)
        return false;
    c->last = i;
    leader->group = STK_MAX(leader->group, 1) + 1;
    row->follows = first + 1;
    row->follower = leader->follower;
    leader->follower = r + 1;
    c->step->has_groups = true;
    return true;
}

static size_t collect_run(stk_locator *seam, size_t i, size_t n)
{
    collector *c = (collector *)seam;
    const uint32_t r = row_of(c, i);

    if (i != c->last || c->begun != r + 1 || !c->step->rows[r].num_needs || c->step->rows[r].group)
        return 1;
    n = STK_MIN(STK_MIN(n, (size_t)STK__RUN_ROWS), (size_t)(c->step->num_rows - r));
    c->step->rows[r].run = (uint32_t)n;
    c->begun = r + (uint32_t)n;
    c->last = i + n - 1;
    return n;
}

static void collect_cost(stk_locator *seam, size_t i, double nanoseconds)
{
    collector *c = (collector *)seam;

    begin_rows(c, row_of(c, i) + 1);
    c->step->rows[row_of(c, i)].cost = (float)nanoseconds;
    c->step->has_costs = true;
}

static void collect_bytes(stk_locator *seam, size_t i, uint32_t field, uint64_t bytes)
{
    collector *c = (collector *)seam;
    const stk__ring *ring = c->planner->ring;

    for (uint32_t k = 0; k < ring->num_columns; k++)
        if (ring->columns[k].source == (int32_t)field && ring->columns[k].field.layout != STK_FIXED)
            c->step->ragged_bound[(uint64_t)row_of(c, i) * ring->num_ragged +
                                  ring->columns[k].ragged] = bytes;
}

/* A substitute's turn, and the room of its ragged values, are those of the sample it replaces. */
static void keep_cost(stk_locator *seam, size_t i, double nanoseconds)
{
    (void)seam;
    (void)i;
    (void)nanoseconds;
}

static void keep_bytes(stk_locator *seam, size_t i, uint32_t field, uint64_t bytes)
{
    (void)seam;
    (void)i;
    (void)field;
    (void)bytes;
}

/*
 * Whether a row can ever be admitted: judged by what it needs alone. What the cache holds or other
 * rows read depends on timing, and which samples are bad must not.
 */
static void bound_reads(const stk__budget *budget, stk__row *row)
{
    uint64_t cost = 0;

    for (uint32_t i = 0; i < row->num_needs; i++)
        cost += STK_MIN(stk__need_most(&row->needs[i].need), UINT64_MAX / 4 - cost);
    if (cost <= budget->most_row)
        return;
    stk__row_fail(row, STK_EBUDGET, "its reads do not fit the memory_budget");
    row->wanted = cost;
    row->left = budget->most_row;
}

static void tie_follower(const stk__step *step, stk__row *row)
{
    const stk__row *leader = &step->rows[row->follows - 1]; /* it stands before the row */

    row->needs = leader->needs;
    row->slices = leader->slices;
    row->num_needs = leader->num_needs;
    if (leader->status == STK_OK)
        return;
    row->status = leader->status;
    row->stage = leader->stage;
    row->reason = leader->reason;
    row->wanted = leader->wanted;
    row->left = leader->left;
}

/* Give the rows of a located step their needs, and the ragged values their bounds. */
static void tie_needs(const stk__planner *p, stk__step *step)
{
    const uint32_t ragged = p->ring->num_ragged;
    uint32_t at = 0;

    if (p->keeping->cache && !stk__keeps_samples(p->keeping))
        for (uint32_t i = 0; i < step->num_needs; i++)
            stk__cache_prefetch(p->keeping->cache, step->needs[i].need.object,
                                step->needs[i].need.offset);
    for (uint32_t r = 0; r < step->num_rows; r = stk__row_behind(step, r)) {
        stk__row *row = &step->rows[r];
        uint64_t bytes = 0;
        if (row->follows) {
            tie_follower(step, row);
        } else {
            if (row->num_needs) { /* else the cache may have given it slices */
                row->needs = step->needs + at;
                row->slices = step->slices + at;
            }
            at += row->num_needs;
            bound_reads(p->budget, row);
        }
        for (uint32_t i = 0; ragged && i < row->num_needs; i++)
            bytes += STK_MIN(row->needs[i].need.length, INT64_MAX / 1024);
        for (uint32_t k = 0; k < ragged; k++)
            if (step->ragged_bound[(uint64_t)r * ragged + k] == UINT64_MAX)
                step->ragged_bound[(uint64_t)r * ragged + k] = bytes;
    }
}

static void fail_rows(const stk__planner *p, stk__step *step, stk_status status, const char *reason)
{
    for (uint32_t r = 0; r < step->num_rows; r++) {
        if (p->runs)
            begin_row(step, r);
        step->rows[r] = (stk__row){.index = step->rows[r].index,
                                   .position = step->positions[r],
                                   .status = status,
                                   .stage = STK_STAGE_DATASET,
                                   .reason = reason};
    }
    step->num_needs = 0;
    step->has_groups = false;
}

/* Those of a group that are good stay together: the first of them leads from now on. What is read
 * for others is no concern of a row that failed. */
static void part_group(stk__step *step, uint32_t first)
{
    stk__row *rows = step->rows, *leader = NULL;
    uint32_t lead = first + 1;

    while (lead && rows[lead - 1].status != STK_OK)
        lead = rows[lead - 1].follower;
    for (uint32_t at = first + 1, next; at; at = next) {
        stk__row *row = &rows[at - 1];
        next = row->follower;
        row->follows = at == lead ? 0 : lead;
        row->follower = row->group = 0;
        row->apart = row->status != STK_OK;
        if (at == lead)
            leader = row;
        if (row->apart || at == lead)
            continue;
        leader->group = STK_MAX(leader->group, 1) + 1;
        row->follower = leader->follower;
        leader->follower = at;
    }
    for (uint32_t i = 0; leader && i < leader->num_needs; i++)
        leader->needs[i].row = lead - 1;
}

/* Rows that failed before anything is read leave their groups: so a group is good as a whole. */
static void part_groups(stk__step *step)
{
    bool any = false;

    for (uint32_t r = 0; r < step->num_rows; r = stk__row_behind(step, r))
        any |= step->rows[r].status != STK_OK;
    for (uint32_t r = 0; any && r < step->num_rows; r = stk__row_behind(step, r))
        if (!step->rows[r].follows && step->rows[r].follower)
            part_group(step, r);
}

static stk_status add_length(stk_locator *seam, size_t i, const stk_need *need)
{
    (void)i;
    ((collector *)seam)->bytes += STK_MIN(need->length, INT64_MAX / 1024);
    return STK_OK;
}

/* The room of a sample that the cache has is what it would be without: which ones fit with it
 * must not depend on the cache. */
static void bound_kept(stk__planner *p, stk__step *step, uint32_t r)
{
    const uint32_t ragged = p->ring->num_ragged;
    collector c = {.seam = {.add = add_length, .cost = keep_cost, .bytes = collect_bytes},
                   .planner = p,
                   .step = step,
                   .map = &r};

    stk_status status = p->dataset->ops->locate(p->dataset, &step->rows[r].index, 1, &c.seam, NULL);
    if (status != STK_OK)
        stk__row_fail(&step->rows[r], status, NULL);
    for (uint64_t k = 0; k < ragged; k++)
        if (step->ragged_bound[(uint64_t)r * ragged + k] == UINT64_MAX)
            step->ragged_bound[(uint64_t)r * ragged + k] = c.bytes;
}

/* Which samples stand in the step. */
static void begin_step(stk__planner *p, stk__step *step, uint64_t serial)
{
    const stk__order *order = p->order;
    const uint32_t ragged = p->ring->num_ragged;

    step->serial = serial;
    step->epoch = serial / order->steps;
    step->step = serial % order->steps;
    step->planned_ns = stk__stamp();
    step->room_ns = 0;
    step->path = (stk__path){0};
    stk__order_epoch_set(&p->epoch, step->epoch);
    step->num_rows = (uint32_t)stk__order_positions(order, step->step, step->positions);
    stk__order_indices(&p->epoch, step->positions, step->indices, step->num_rows);
    step->admitted = step->done = step->ready_first = step->num_ready = step->num_needs = 0;
    step->complete = step->has_costs = step->has_units = step->has_holes = step->reserved = false;
    step->has_groups = false;
    if (!p->runs)
        stk__rows_begin(step);
    for (uint64_t i = 0; i < (uint64_t)step->num_rows * ragged; i++)
        step->ragged_bound[i] = UINT64_MAX;
}

/* Whether the cache has a sample: its fields, or its needs. */
static bool find_sample(const stk__keeping *keeping, stk__row *row, uint64_t *size)
{
    const void *blob = stk__cache_get(keeping->cache, 0, row->index, size);

    if (keeping->encoded)
        row->slices = (stk_slice *)blob;
    else
        row->decoded = blob;
    return blob;
}

/* Rows that the cache has; the indices of the others stay in step->indices, their rows in the map.
 */
static uint32_t find_kept(stk__planner *p, stk__step *step)
{
    const bool samples =
        stk__keeps_samples(p->keeping) && (!p->keeping->encoded || p->dataset->ops->locate);
    uint32_t n = 0;

    for (uint32_t r = 0; !samples && r < step->num_rows; r++)
        p->map[r] = r;
    if (!samples)
        return step->num_rows;
    for (uint32_t r = 0; r < step->num_rows; r++)
        stk__cache_prefetch(p->keeping->cache, 0, step->indices[r]);
    for (uint32_t r = 0; r < step->num_rows; r++) {
        uint64_t size = 0;
        const bool kept = find_sample(p->keeping, &step->rows[r], &size);
        p->cache_hits += kept;
        p->cache_hit_bytes += kept ? size : 0;
        p->cache_misses += !kept;
        if (kept) {
            if (p->ring->num_ragged && p->dataset->ops->locate)
                bound_kept(p, step, r);
            continue;
        }
        p->map[n] = r;
        step->indices[n++] = step->indices[r];
    }
    return n;
}

/* A substitute takes the room of the sample it replaces: let each row have that of the largest.
 */
static void even_bounds(const stk__planner *p, stk__step *step, uint64_t most)
{
    const uint64_t n = (uint64_t)step->num_rows * p->ring->num_ragged;
    uint64_t largest = 0;

    for (uint64_t i = 0; i < n; i++)
        if (step->ragged_bound[i] != UINT64_MAX && step->ragged_bound[i] <= most)
            largest = STK_MAX(largest, stk__round_up(step->ragged_bound[i], 16));
    for (uint64_t i = 0; largest && largest <= most / n && i < n; i++)
        if (step->ragged_bound[i] == UINT64_MAX || step->ragged_bound[i] < largest)
            step->ragged_bound[i] = largest;
}

/* What one more value takes: of a field that is filled up the rows of all samples grow with it. */
static uint64_t ragged_room(const stk__planner *p, const stk__step *step, uint32_t k,
                            uint64_t bytes)
{
    const stk__pad *pad = p->pads[k];
    const uint64_t before = pad ? stk__pad_bytes(pad, p->pad_most[k]) : 0;
    uint64_t room = 0;

    if (!pad)
        return stk__round_up(bytes, 16);
    if (bytes <= p->pad_most[k])
        return 0;
    return stk__mul_size(stk__pad_bytes(pad, bytes) - before, step->num_rows, &room)
               ? room + 16
               : UINT64_MAX / 4;
}

/* Bound the ragged values of a step: what goes beyond their share is bad, in order of
 * position. */
static void bound_ragged(const stk__planner *p, stk__step *step)
{
    const uint32_t ragged = p->ring->num_ragged;
    const uint64_t most = p->budget->most_ragged;
    uint64_t total = 0;

    if (p->replaces)
        even_bounds(p, step, most);
    memset(p->pad_most, 0, ragged * sizeof *p->pad_most);
    for (uint32_t r = 0; r < step->num_rows; r++)
        for (uint32_t k = 0; k < ragged; k++) {
            uint64_t *bound = &step->ragged_bound[(uint64_t)r * ragged + k];
            if (*bound == UINT64_MAX)
                *bound = 0;
            if (*bound > most || total + ragged_room(p, step, k, *bound) > most) {
                if (step->rows[r].status == STK_OK) {
                    stk__row_fail(&step->rows[r], STK_EBUDGET, stk__ragged_too_large);
                    step->rows[r].wanted = total + STK_MIN(*bound, UINT64_MAX / 4);
                    step->rows[r].left = most;
                }
                *bound = 0;
            }
            total += ragged_room(p, step, k, *bound);
            p->pad_most[k] = STK_MAX(p->pad_most[k], *bound);
        }
}

/* What locate() said, for rows that keep no text of their own: it stays as it is once it is there,
 * as they may be looked at long after. Of what fails in many other ways the status says enough. */
static const char *keep_reason(stk__planner *p, const stk_error *said)
{
    for (size_t i = 0; *said->text && i < STK__REASONS; i++) {
        if (!*p->reasons[i])
            snprintf(p->reasons[i], sizeof p->reasons[i], "%s", said->text);
        if (strcmp(p->reasons[i], said->text) == 0)
            return p->reasons[i];
    }
    return NULL;
}

/* Each of `n` samples by itself, since one of them failed: the others are not bad for it. */
static void locate_each(stk__planner *p, stk__step *step, collector *c, uint32_t n)
{
    const uint32_t ragged = p->ring->num_ragged;
    stk_error said;

    step->num_needs = 0;
    step->has_groups = false;
    c->seam.same = NULL;
    c->seam.run = NULL;
    for (uint32_t r = 0; p->runs && r < step->num_rows; r++)
        begin_row(step, r);
    c->begun = step->num_rows;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t r = p->map[i], before = step->num_needs;
        stk__row *row = &step->rows[r];
        const char *reason = NULL;
        c->map = &p->map[i];
        c->last = 0;
        row->num_needs = 0;
        row->follows = row->follower = row->group = 0;
        for (uint32_t k = 0; k < ragged; k++)
            step->ragged_bound[(uint64_t)r * ragged + k] = UINT64_MAX;
        stk_error_init(&said);
        stk_status status = p->dataset->ops->locate(p->dataset, &row->index, 1, &c->seam, &said);
        status = stk__dataset_failure(status, &reason);
        if (status == STK_OK)
            continue;
        row->status = status;
        row->stage = STK_STAGE_DATASET;
        row->reason = reason ? reason : keep_reason(p, &said);
        row->num_needs = 0;
        step->num_needs = before;
    }
}

/* Forget what was located of the rows of a call. */
static void forget_needs(const stk__planner *p, stk__step *step, uint32_t n)
{
    const uint32_t ragged = p->ring->num_ragged;

    for (uint32_t i = 0; i < n; i++) {
        stk__row *row = &step->rows[p->map[i]];
        if (!p->runs)
            *row = (stk__row){.index = row->index, .position = row->position};
        for (uint64_t k = 0; k < ragged; k++)
            step->ragged_bound[(uint64_t)p->map[i] * ragged + k] = UINT64_MAX;
    }
    step->num_needs = 0;
    step->has_costs = step->has_groups = false;
}

/* Locate the rows that the cache does not have. False: some needs are too large. */
static bool locate_rows(stk__planner *p, stk__step *step, uint32_t n, bool blocks)
{
    collector c = {.seam = {.add = collect, .cost = collect_cost, .bytes = collect_bytes},
                   .planner = p,
                   .step = step,
                   .begun = p->runs ? 0 : step->num_rows,
                   .map = p->map};
    stk_status status = STK_OK;
    bool fits = true;
    stk_error said;

    c.seam.blocks = blocks;
    c.seam.mixed = p->order->shuffle == STK_SHUFFLE_BLOCK;
    /* A picture that is larger than was known is put back alone. */
    if (!p->decodes)
        c.seam.same = collect_same;
    if (p->runs)
        c.seam.run = collect_run;
    stk_error_init(&said);
    if (p->dataset->ops->locate && n)
        status = p->dataset->ops->locate(p->dataset, step->indices, n, &c.seam, &said);
    begin_rows(&c, step->num_rows);
    const char *reason = NULL;
    status = stk__dataset_failure(status, &reason);
    reason = status != STK_OK && !reason ? keep_reason(p, &said) : reason;
    const bool some = status != STK_OK && n > 1 && stk_status_fault(status) == STK_FAULT_SAMPLE;
    if (some)
        locate_each(p, step, &c, n);
    if (status == STK_OK || some)
        tie_needs(p, step);
    else
        fail_rows(p, step, status, reason);
    for (uint32_t r = 0; r < step->num_rows; r = stk__row_behind(step, r))
        fits &= step->rows[r].status != STK_EBUDGET;
    return fits;
}

void stk__step_locate(stk__planner *p, stk__step *step, uint64_t serial)
{
    begin_step(p, step, serial);
    p->rows += step->num_rows;
    const uint32_t n = find_kept(p, step);
    if (!locate_rows(p, step, n, p->blocks) && p->blocks) {
        forget_needs(p, step, n);
        (void)locate_rows(p, step, n, false);
    }
    if (p->ring->num_ragged)
        bound_ragged(p, step);
    if (step->has_groups)
        part_groups(step);
}

/* The sample that takes the place of a bad one: drawn from (seed, epoch, position) and the number
 * of the try. */
static uint64_t substitute(const stk__planner *p, const stk__step *step, const stk__row *row)
{
    uint32_t words[2 * STK__REPLACE_TRIES];
    uint32_t n = 2u * row->tries;

    stk__draw(p->order->seed, (uint32_t)step->epoch, row->position, STK_DRAW_REPLACE, words, n);
    uint64_t word = (uint64_t)words[n - 1] << 32 | words[n - 2];
    return (uint64_t)((unsigned __int128)word * p->dataset->size >> 64);
}

stk_status stk__row_locate_substitute(stk__planner *p, stk__step *step, uint32_t r)
{
    stk__row *row = &step->rows[r];
    const uint32_t room = STK_MAX(4 * row->num_needs, 64);
    collector c = {.seam = {.add = collect_extra, .cost = keep_cost, .bytes = keep_bytes},
                   .planner = p,
                   .step = step,
                   .map = &r,
                   .room_extra = room};

    row->tries++;
    row->decoded = NULL;
    row->index = substitute(p, step, row);
    row->status = STK_OK;
    row->reason = NULL;
    row->line = 0;
    row->wanted = row->reserve = 0;
    row->num_needs = row->bad_need = 0;
    row->follows = row->follower = row->group = 0;
    row->apart = false;
    if (!p->dataset->ops->locate)
        return STK_OK;
    c.extra =
        stk__alloc(p->ctx, sizeof *c.extra + room * (sizeof *c.extra->needs + sizeof(stk_slice)));
    if (!c.extra)
        return STK_ENOMEM;
    c.extra->slices = (stk_slice *)(c.extra->needs + room);
    pthread_mutex_lock(&p->ring->lock);
    c.extra->next = step->extras;
    step->extras = c.extra;
    pthread_mutex_unlock(&p->ring->lock);
    STK_TRY(stk__dataset_failure(p->dataset->ops->locate(p->dataset, &row->index, 1, &c.seam, NULL),
                                 &row->reason));
    row->needs = c.extra->needs;
    row->slices = c.extra->slices;
    row->num_needs = c.num_extra;
    bound_reads(p->budget, row);
    return STK_OK;
}
