/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that nest -> a tree of them, with times. A loop makes the same calls in the same order, so
 * the place behind the last one is tried first. */
#include "train/profilers/profiler.h"

static bool same(const stk__profile_entry *entry, const char *owner, const char *what)
{
    return strcmp(entry->what, what) == 0 && strcmp(entry->owner, owner) == 0;
}

static enum stk__profile_role role_of(const char *owner, const char *what)
{
    static const struct {
        const char *what;
        enum stk__profile_role role;
    } steps[] = {{"training_step", STK__ROLE_FORWARD},    {"backward", STK__ROLE_BACKWARD},
                 {"optimizer_step", STK__ROLE_OPTIMIZER}, {"validation_step", STK__ROLE_EVALUATE},
                 {"test_step", STK__ROLE_EVALUATE},       {"predict_step", STK__ROLE_EVALUATE}};

    if (!*owner && strcmp(what, "[_TrainingEpochLoop].train_dataloader_next") == 0)
        return STK__ROLE_NEXT;
    if (!*owner && strcmp(what, "run_training_batch") == 0)
        return STK__ROLE_BATCH;
    if (strcmp(owner, STK__PROFILE_STRATEGY) != 0)
        return STK__ROLE_NONE;
    for (size_t i = 0; i < STK_COUNT(steps); i++)
        if (strcmp(what, steps[i].what) == 0)
            return steps[i].role;
    return STK__ROLE_NONE;
}

static void release_entry(stk_context *ctx, stk__profile_entry *entry)
{
    stk__free(ctx, entry->owner);
    stk__free(ctx, entry->what);
    stk__free(ctx, entry->name);
}

/* Number of the action of a name, made if need be; UINT32_MAX: no memory. */
static uint32_t find_entry(stk_profile *p, const char *owner, const char *what)
{
    for (size_t i = 0; i < p->num_entries; i++)
        if (same(&p->entries[i], owner, what))
            return (uint32_t)i;
    stk__profile_entry *list =
        stk__grow(p->ctx, p->entries, &p->entry_room, p->num_entries + 1, sizeof *list);
    if (!list)
        return UINT32_MAX;
    p->entries = list;
    stk__profile_entry entry = {.owner = stk__strdup(p->ctx, owner),
                                .what = stk__strdup(p->ctx, what),
                                .name =
                                    stk__format(p->ctx, "%s%s%s", owner, *owner ? "." : "", what),
                                .role = role_of(owner, what)};
    if (!entry.owner || !entry.what || !entry.name) {
        release_entry(p->ctx, &entry);
        return UINT32_MAX;
    }
    p->entries[p->num_entries] = entry;
    return (uint32_t)p->num_entries++;
}

static bool make_room(stk_profile *p)
{
    if (p->num_calls < p->call_room)
        return true;
    const size_t room = p->call_room * 2 + 128;
    stk__profile_call *list =
        room > 2 * STK__PROFILE_CALLS ? NULL : stk__realloc(p->ctx, p->calls, room * sizeof *list);
    if (!list)
        return false;
    p->calls = list;
    p->call_room = room;
    if (p->num_calls == 0) { /* the root */
        list[0] = (stk__profile_call){.entry = UINT32_MAX};
        p->num_calls = 1;
    }
    return true;
}

static uint32_t add_child(stk_profile *p, uint32_t parent, const char *owner, const char *what)
{
    const uint32_t entry = find_entry(p, owner, what);

    if (entry == UINT32_MAX || !make_room(p)) {
        stk__profile_trouble(p, STK_ENOMEM,
                             "the profile is not complete: no memory, or too many different calls");
        return 0;
    }
    const uint32_t made = (uint32_t)p->num_calls++;
    p->calls[made] = (stk__profile_call){.entry = entry, .parent = parent};
    stk__profile_call *above = &p->calls[parent];
    if (above->last)
        p->calls[above->last].next = made;
    else
        above->first = made;
    above->last = above->cursor = made;
    return made;
}

static uint32_t find_child(stk_profile *p, uint32_t parent, const char *owner, const char *what)
{
    if (!make_room(p))
        return 0;
    stk__profile_call *above = &p->calls[parent];
    const uint32_t next = above->cursor ? p->calls[above->cursor].next : 0;
    const uint32_t likely = next ? next : above->first;
    if (likely && same(&p->entries[p->calls[likely].entry], owner, what))
        return above->cursor = likely;
    for (uint32_t i = above->first; i; i = p->calls[i].next)
        if (same(&p->entries[p->calls[i].entry], owner, what))
            return above->cursor = i;
    return add_child(p, parent, owner, what);
}

/* The innermost call that is recorded. */
static uint32_t top_of(const stk_profile *p)
{
    for (uint32_t i = p->depth; i-- > 0;)
        if (p->frames[i].call)
            return p->frames[i].call;
    return 0;
}

static void count(stk_profile *p, uint32_t call, uint64_t ns)
{
    stk__profile_call *c = &p->calls[call];
    stk__profile_entry *entry = &p->entries[c->entry];

    c->calls++;
    c->total_ns += ns;
    p->calls[c->parent].inner_ns += ns;
    entry->calls++;
    entry->total_ns += ns;
    entry->own_ns += ns;
    if (c->parent)
        p->entries[p->calls[c->parent].entry].own_ns -= ns;
}

uint32_t stk__profile_add(stk_profile *p, const char *owner, const char *what, uint64_t start_ns,
                          uint64_t end_ns)
{
    const uint32_t call = find_child(p, top_of(p), owner, what);

    if (call)
        count(p, call, end_ns - start_ns);
    return call;
}

/* ---- Batches --------------------------------------------------------------------------------- */

static void keep_batch(stk_profile *p)
{
    if (p->num_batches == p->batch_room) {
        const size_t room = STK_MIN(p->batch_room * 2 + 1024, (size_t)STK_PROFILE_MAX_BATCHES);
        stk_profile_batch *list = p->num_batches == STK_PROFILE_MAX_BATCHES
                                      ? NULL
                                      : stk__realloc(p->ctx, p->batches, room * sizeof *list);
        if (!list) {
            if (p->num_batches < STK_PROFILE_MAX_BATCHES)
                stk__profile_trouble(p, STK_ENOMEM, "no memory for the list of batches");
            return;
        }
        p->batches = list;
        p->batch_room = room;
    }
    p->batches[p->num_batches++] = p->batch;
}

/* What the loader was asked for, or else the most rows that it gave. */
static void note_batch_size(stk_profile *p)
{
    const stk_loader_source *source = stk_trainer_get_data(p->trainer)->train;

    if (source && source->options)
        p->batch_size = source->options->batch_size;
    else
        p->batch_size = STK_MAX(p->batch_size, p->batch.samples);
}

/* The breakdown of the batch at hand goes on, or is complete. */
static void break_down(stk_profile *p, enum stk__profile_role role, uint64_t start, uint64_t end)
{
    const stk_moment *at = stk_trainer_moment(p->trainer);
    stk_profile_batch *b = &p->batch;

    switch (role) {
    case STK__ROLE_NEXT:
        *b = (stk_profile_batch){.data = end - start};
        p->next_ns = start;
        break;
    case STK__ROLE_FORWARD:
        b->forward += end - start;
        break;
    case STK__ROLE_BACKWARD:
        b->backward += end - start;
        break;
    case STK__ROLE_OPTIMIZER:
        b->optimizer_steps++;
        break;
    case STK__ROLE_BATCH:
        if (!at->batch || !p->next_ns)
            break;
        b->epoch = at->epoch;
        b->batch_idx = at->batch_idx;
        b->samples = stk_batch_count(at->batch);
        b->other = end - p->next_ns - STK_MIN(b->data + b->forward + b->backward, end - p->next_ns);
        note_batch_size(p);
        keep_batch(p);
        p->next_ns = 0;
        break;
    default:
        break;
    }
}

/* ---- Start and stop -------------------------------------------------------------------------- */

static uint64_t begin_of(const stk_profile *p)
{
    stk_trainer_times times = {.struct_size = sizeof times};

    stk_trainer_get_times(p->trainer, &times);
    return times.begin ? times.begin : stk__now_ns();
}

void stk__profile_start(void *user, const char *owner, const char *what)
{
    stk_profile *p = user;

    if (p->depth == 0) {
        const stk_task task = stk_trainer_moment(p->trainer)->task;
        if (p->task != STK_TASK_NONE && p->task != task) {
            stk_error err;
            if (stk_profile_finish(p, &err) != STK_OK)
                stk__profile_trouble(p, err.status, err.text);
        }
        p->task_begin_ns = begin_of(p);
        if (p->task == STK_TASK_NONE)
            p->begin_ns = p->task_begin_ns;
        p->task = task;
    }
    stk__profile_layers_watch(p);
    if (p->depth == STK__PROFILE_DEPTH) {
        stk__profile_trouble(p, STK_EINVAL, "actions of a profile are nested too deeply");
        return;
    }
    const uint32_t call = find_child(p, top_of(p), owner, what);
    if (call && p->entries[p->calls[call].entry].running++)
        stk__profile_trouble(p, STK_EINVAL, "an action of a profile was started twice");
    if (call)
        stk__profile_steady_start(p, p->entries[p->calls[call].entry].role);
    p->frames[p->depth++] = (stk__profile_frame){.call = call, .start_ns = stk__now_ns()};
}

static void pop(stk_profile *p, uint64_t end)
{
    const stk__profile_frame *frame = &p->frames[--p->depth];
    const stk_moment *at = stk_trainer_moment(p->trainer);

    p->last_ns = end;
    if (!frame->call)
        return;
    const uint32_t number = p->calls[frame->call].entry;
    stk__profile_entry *entry = &p->entries[number];
    entry->running--;
    count(p, frame->call, end - frame->start_ns);
    if (entry->role != STK__ROLE_NONE) {
        break_down(p, entry->role, frame->start_ns, end);
        stk__profile_steady_stop(p, entry->role, end - frame->start_ns);
    }
    if (!(p->kinds & STK__PROFILE_TRACE))
        return;
    stk__trace_event event = {
        .start_ns = frame->start_ns, .end_ns = end, .kind = STK__TRACE_CALL, .lane = number};
    if (entry->role == STK__ROLE_BATCH && at->batch) {
        event.a = stk_batch_epoch(at->batch);
        event.b = stk_batch_step(at->batch);
        event.c = stk_batch_count(at->batch);
    }
    stk__trace_add(p, &event);
}

/* Whether a frame is of an action; one that could not be recorded may be of any. */
static bool is_frame_of(const stk_profile *p, const stk__profile_frame *frame, const char *owner,
                        const char *what)
{
    return !frame->call || same(&p->entries[p->calls[frame->call].entry], owner, what);
}

void stk__profile_stop(void *user, const char *owner, const char *what)
{
    const uint64_t end = stk__now_ns();
    stk_profile *p = user;
    uint32_t depth = p->depth;

    while (depth && !is_frame_of(p, &p->frames[depth - 1], owner, what))
        depth--;
    if (depth == 0) {
        stk__profile_trouble(p, STK_EINVAL, "an action of a profile was stopped, but not started");
        return;
    }
    if (depth < p->depth)
        stk__profile_trouble(p, STK_EINVAL, "actions of a profile do not nest");
    while (p->depth >= depth)
        pop(p, end);
}

void stk__profile_calls_reset(stk_profile *p)
{
    for (size_t i = 0; i < p->num_entries; i++)
        release_entry(p->ctx, &p->entries[i]);
    p->num_entries = p->num_calls = p->num_batches = 0;
    stk__free(p->ctx, p->entries);
    stk__free(p->ctx, p->calls);
    stk__free(p->ctx, p->batches);
    p->entries = NULL;
    p->calls = NULL;
    p->batches = NULL;
    p->entry_room = p->call_room = p->batch_room = 0;
    p->depth = 0;
    p->next_ns = p->batch_size = 0;
    p->steady = (stk__profile_steady){0};
}
