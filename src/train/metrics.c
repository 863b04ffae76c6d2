/* SPDX-License-Identifier: Apache-2.0 */
/* What is logged: slots found by the address of the name, means over the epoch, and the values that
 * callbacks, bar and loggers see. Nothing is allocated once every name was seen. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "train/trainer.h"

/* A new name is compared with all others: their number bounds the time. As many columns as a CSV
 * has. */
enum { MAX_METRICS = 16384, MAX_NAME = 256 };

stk_status stk__metrics_init(stk_trainer *t)
{
    return pthread_mutex_init(&t->metrics.lock, NULL) ? STK_ENOMEM : STK_OK;
}

void stk__metrics_release(stk_trainer *t)
{
    stk__metrics *m = &t->metrics;

    for (size_t i = 0; i < m->num_slots; i++) {
        stk__free(t->ctx, m->slots[i].key.name);
        if (m->slots[i].device_sums)
            t->device->ops->free(t->device, m->slots[i].device_sums);
    }
    for (size_t i = 0; i < m->num_items; i++) {
        stk__free(t->ctx, m->items[i]->name);
        stk__free(t->ctx, m->items[i]);
    }
    stk__free(t->ctx, m->slots);
    stk__free(t->ctx, m->items);
    stk__free(t->ctx, m->line);
    pthread_mutex_destroy(&m->lock);
}

static stk_status no_room(const stk_trainer *t, const char *name, stk_error *err)
{
    if (t->metrics.num_items >= MAX_METRICS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN,
                         "'%.100s' would be one metric more than MAX_METRICS, %d; log fewer names",
                         name, MAX_METRICS);
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to log '%s'", name);
}

/* ---- Metrics: values under names ------------------------------------------------------------- */

static stk__metric *metric_find(stk_trainer *t, const char *name)
{
    for (size_t i = 0; i < t->metrics.num_items; i++)
        if (strcmp(t->metrics.items[i]->name, name) == 0)
            return t->metrics.items[i];
    return NULL;
}

static int32_t find_item(stk_trainer *t, const char *name)
{
    for (size_t i = 0; i < t->metrics.num_items; i++)
        if (strcmp(t->metrics.items[i]->name, name) == 0)
            return (int32_t)i;
    return -1;
}

/* Room for one more item and for a line of all of them. */
static bool grow_items(stk_trainer *t)
{
    stk__metrics *m = &t->metrics;
    size_t room = m->item_room * 2 + 32;

    if (m->num_items < m->item_room)
        return true;
    stk_metric *line = stk__realloc(t->ctx, m->line, (room + 1) * sizeof *line);
    if (!line)
        return false;
    m->line = line;
    m->line_room = room + 1;
    pthread_mutex_lock(&m->lock);
    stk__metric **items = stk__realloc(t->ctx, m->items, room * sizeof(stk__metric *));
    if (items) {
        m->items = items;
        m->item_room = room;
    }
    pthread_mutex_unlock(&m->lock);
    return items != NULL;
}

/* The number of the metric of a name, made if need be; -1: no room. */
static int32_t item_of(stk_trainer *t, const char *name, bool prog_bar)
{
    stk__metrics *m = &t->metrics;
    int32_t found = find_item(t, name);

    if (found >= 0)
        return found;
    if (m->num_items >= MAX_METRICS || !grow_items(t))
        return -1;
    stk__metric *item = stk__calloc(t->ctx, 1, sizeof *item);
    char *copy = stk__strdup(t->ctx, name);
    if (!item || !copy) {
        stk__free(t->ctx, item);
        stk__free(t->ctx, copy);
        return -1;
    }
    item->name = copy;
    item->prog_bar = prog_bar;
    m->items[m->num_items++] = item;
    atomic_store(&m->num_shown, m->num_items);
    return (int32_t)m->num_items - 1;
}

static inline void set_item(stk_trainer *t, int32_t which, double value)
{
    stk__metric *item = t->metrics.items[which];

    /* The sign of what is no number says nothing, and would be printed: "-nan". */
    atomic_store_explicit(&item->value, isnan(value) ? NAN : value, memory_order_relaxed);
    atomic_store_explicit(&item->set, true, memory_order_relaxed);
}

void stk__metric_publish(stk_trainer *t, int32_t which, int32_t plain, double value)
{
    set_item(t, which, value);
    if (plain != which)
        set_item(t, plain, value);
}

stk_status stk__metric_set(stk_trainer *t, const char *name, double value, bool prog_bar,
                           stk_error *err)
{
    const int32_t item = item_of(t, name, prog_bar);

    if (item < 0)
        return no_room(t, name, err);
    set_item(t, item, value);
    return STK_OK;
}

bool stk_trainer_metric(stk_trainer *t, const char *name, double *value)
{
    const stk__metric *item = metric_find(t, name);

    if (!item || !atomic_load_explicit(&item->set, memory_order_relaxed))
        return false;
    *value = atomic_load_explicit(&item->value, memory_order_relaxed);
    return true;
}

bool stk_trainer_metric_at(stk_trainer *t, size_t i, stk_metric *out)
{
    for (size_t k = 0; k < t->metrics.num_items; k++) {
        stk__metric *item = t->metrics.items[k];
        if (!atomic_load_explicit(&item->set, memory_order_relaxed) || i-- > 0)
            continue;
        *out = (stk_metric){item->name, atomic_load_explicit(&item->value, memory_order_relaxed)};
        return true;
    }
    return false;
}

bool stk_trainer_bar_metric(const stk_trainer *t, size_t i, stk_metric *out)
{
    stk__metrics *m = (stk__metrics *)&t->metrics;
    bool found = false;

    if (stk__context_forked(t->ctx))
        return false;
    pthread_mutex_lock(&m->lock);
    for (size_t k = 0, n = atomic_load(&m->num_shown); k < n && !found; k++) {
        stk__metric *item = m->items[k];
        found =
            item->prog_bar && atomic_load_explicit(&item->set, memory_order_relaxed) && i-- == 0;
        if (found)
            *out =
                (stk_metric){item->name, atomic_load_explicit(&item->value, memory_order_relaxed)};
    }
    pthread_mutex_unlock(&m->lock);
    return found;
}

/* ---- Slots: what is logged under a name in a loop -------------------------------------------- */

static stk__metric_group group_of(stk_phase phase)
{
    return phase == STK_PHASE_TRAIN  ? STK__METRICS_TRAIN
           : phase == STK_PHASE_TEST ? STK__METRICS_TEST
                                     : STK__METRICS_VAL;
}

/* Flags in full: the defaults of where it is logged. */
static uint32_t full_flags(const stk_trainer *t, uint32_t flags)
{
    if (flags & (STK_ON_STEP | STK_ON_EPOCH))
        return flags;
    return flags | (t->at.phase == STK_PHASE_TRAIN && !t->epoch_hook ? STK_ON_STEP : STK_ON_EPOCH);
}

const char *stk__metric_form(const char *name, int form, int64_t loader,
                             char text[STK__METRIC_FORM_NAME])
{
    static const char *const suffixes[STK__METRIC_FORMS] = {"", "_step", "_epoch"};
    char of[40] = "";

    if (loader >= 0)
        snprintf(of, sizeof of, "/dataloader_idx_%" PRId64, loader);
    snprintf(text, STK__METRIC_FORM_NAME, "%.*s%s%s", MAX_NAME, name, suffixes[form], of);
    return text;
}

/* Make the metrics of a slot: "name", and "name_step" and "name_epoch" where it is both. */
static bool name_items(stk_trainer *t, stk__metric_slot *slot, bool many_loaders)
{
    const bool bar = slot->flags & STK_PROG_BAR;
    const int forms = stk__metric_forms(slot->flags);
    const bool both = forms > 1;
    char name[STK__METRIC_FORM_NAME];
    int32_t items[STK__METRIC_FORMS] = {-1, -1, -1};

    for (int i = 0; i < forms; i++) {
        stk__metric_form(slot->key.name, i, many_loaders ? (int64_t)slot->key.dataloader_idx : -1,
                         name);
        items[i] = item_of(t, name, bar && (i > 0 || !both));
        if (items[i] < 0)
            return false;
    }
    slot->plain = items[0];
    slot->step = both ? items[1] : items[0];
    slot->epoch = both ? items[2] : items[0];
    return true;
}

static stk_status make_slot(stk_trainer *t, const char *name, uint32_t flags, size_t *out,
                            stk_error *err)
{
    stk__metrics *m = &t->metrics;
    const stk__metric_group group = group_of(t->at.phase);

    if (!*name || strlen(name) > MAX_NAME || strpbrk(name, "\n\r\t"))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "a metric needs a name of 1 to %d bytes on one line", MAX_NAME);
    if (m->num_slots == m->slot_room) {
        size_t room = m->slot_room * 2 + 32;
        stk__metric_slot *slots = stk__realloc(t->ctx, m->slots, room * sizeof *slots);
        if (!slots)
            return no_room(t, name, err);
        m->slots = slots;
        m->slot_room = room;
    }
    stk__metric_slot *slot = &m->slots[m->num_slots];
    *slot = (stk__metric_slot){.key = {.pointer = name,
                                       .name = stk__strdup(t->ctx, name),
                                       .group = group,
                                       .dataloader_idx = t->at.dataloader_idx},
                               .flags = flags};
    const uint32_t loaders = group == STK__METRICS_VAL    ? t->val.n
                             : group == STK__METRICS_TEST ? t->test.n
                                                          : 1;
    if (!slot->key.name || !name_items(t, slot, loaders > 1)) {
        stk__free(t->ctx, slot->key.name);
        return no_room(t, name, err);
    }
    *out = m->num_slots++;
    return STK_OK;
}

/* Names come in the same order step after step: the next slot is the first to look at. */
stk_status stk__metrics_slot(stk_trainer *t, const char *name, uint32_t flags,
                             stk__metric_slot **out, stk_error *err)
{
    stk__metrics *m = &t->metrics;
    const stk__metric_group group = group_of(t->at.phase);
    size_t found = SIZE_MAX;

    for (size_t k = 0; k < m->num_slots && found == SIZE_MAX; k++) {
        size_t i = m->cursor + k < m->num_slots ? m->cursor + k : m->cursor + k - m->num_slots;
        const stk__slot_key *key = &m->slots[i].key;
        if (key->group == group && key->dataloader_idx == t->at.dataloader_idx &&
            key->pointer == name && strcmp(key->name, name) == 0)
            found = i;
    }
    for (size_t i = 0; i < m->num_slots && found == SIZE_MAX; i++) {
        const stk__slot_key *key = &m->slots[i].key;
        if (key->group == group && key->dataloader_idx == t->at.dataloader_idx &&
            strcmp(key->name, name) == 0)
            found = i;
    }
    if (found == SIZE_MAX)
        STK_TRY(make_slot(t, name, flags, &found, err));
    m->slots[found].key.pointer = name;
    m->cursor = found + 1 < m->num_slots ? found + 1 : 0;
    *out = &m->slots[found];
    if ((*out)->flags != flags)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "'%s' was logged with other flags before: use one name for one thing",
                         name);
    return STK_OK;
}

static void fold(stk__metric_slot *slot, double value, double weight)
{
    const bool first = slot->weight == 0;

    if (slot->flags & STK_REDUCE_SUM)
        slot->sum += value;
    else if (slot->flags & STK_REDUCE_MIN)
        slot->sum = first || value < slot->sum ? value : slot->sum;
    else if (slot->flags & STK_REDUCE_MAX)
        slot->sum = first || value > slot->sum ? value : slot->sum;
    else
        slot->sum += value * weight;
    slot->weight += weight;
}

/* Have the device go on with the sums of a slot: those of a checkpoint, mostly none. */
static stk_status move_to_device(stk_trainer *t, stk__metric_slot *slot, stk_error *err)
{
    const stk_device_ops *ops = t->device->ops;
    const double sums[4] = {slot->last, slot->sum, slot->weight, slot->last_weight};

    if (slot->on_device)
        return STK_OK;
    if (!slot->device_sums) {
        void *memory = NULL;
        STK_TRY(ops->alloc(t->device, sizeof sums, &memory, err));
        slot->device_sums = memory;
    }
    if (slot->weight == 0) {
        STK_TRY(ops->fill(t->stream, slot->device_sums, 0, sizeof sums, err));
    } else {
        STK_TRY(ops->copy(t->stream, slot->device_sums, sums, sizeof sums, STK_COPY_HOST_TO_DEVICE,
                          err));
        STK_TRY(stk__synchronize(t, err));
    }
    slot->on_device = true;
    return STK_OK;
}

static stk_status fold_on_device(stk_trainer *t, stk__metric_slot *slot, const stk_scalar *scalar,
                                 double weight, stk_error *err)
{
    const bool sums = slot->flags & STK_REDUCE_SUM;
    const stk_scalar alone = {.data = scalar->data, .dtype = scalar->dtype};

    if (slot->flags & (STK_REDUCE_MIN | STK_REDUCE_MAX))
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                         "'%s' lies in the device's memory, where no least or greatest value is "
                         "kept: log its mean or sum, or bring it to the host",
                         slot->key.name);
    STK_TRY(move_to_device(t, slot, err));
    slot->fresh = true;
    return t->device->ops->fold(t->stream, slot->device_sums, sums ? &alone : scalar,
                                sums ? 1 : weight, err);
}

/* A mean of no rows says nothing; but other ranks may have some. */
static stk_status no_rows(stk_trainer *t, stk__metric_slot *slot, stk_error *err)
{
    if (stk__is_alone(t))
        return STK_OK;
    STK_TRY(stk__metrics_fetch(t, slot, err));
    slot->on_device = false;
    slot->last_weight = 0;
    slot->fresh = true;
    return STK_OK;
}

static stk_status check_place(stk_trainer *t, const char *name, uint32_t flags, stk_error *err)
{
    if (!t->may_log)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "'%s' cannot be logged here: log in steps and in hooks of training, "
                         "validation and test",
                         name);
    if (t->epoch_hook && (flags & STK_ON_STEP))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "'%s' cannot be logged on_step in a hook of an epoch: there is no step",
                         name);
    return STK_OK;
}

stk_status stk_trainer_log_scalar(stk_trainer *t, const char *name, const stk_scalar *scalar,
                                  uint32_t flags, uint64_t batch_size, stk_error *err)
{
    STK_TRY(stk__context_check(t->ctx, err));
    stk__metric_slot *slot;

    if (t->options.barebones)
        return STK_OK;
    flags = full_flags(t, flags);
    if (!t->may_log || t->epoch_hook)
        STK_TRY(check_place(t, name, flags, err));
    STK_TRY(stk__metrics_slot(t, name, flags, &slot, err));
    double weight = batch_size    ? (double)batch_size
                    : t->at.batch ? (double)stk_batch_count(t->at.batch)
                                  : 1;
    if (scalar->data && !t->host_memory)
        return fold_on_device(t, slot, scalar, weight, err);
    if (scalar->data && scalar->weight)
        weight = stk__element_as_double(scalar->weight, scalar->dtype);
    if (weight == 0 && !(flags & STK_REDUCE_SUM))
        return no_rows(t, slot, err);
    STK_TRY(stk__metrics_fetch(t, slot, err));
    slot->on_device = false;
    const double value =
        scalar->data ? stk__element_as_double(scalar->data, scalar->dtype) : scalar->value;
    slot->last = value;
    slot->last_weight = weight;
    slot->fresh = true;
    if (flags & STK_ON_EPOCH)
        fold(slot, value, weight);
    if (flags & STK_ON_STEP)
        stk__metric_publish(t, slot->step, slot->plain, value);
    return STK_OK;
}

stk_status stk_trainer_log(stk_trainer *t, const char *name, double value, uint32_t flags,
                           uint64_t batch_size, stk_error *err)
{
    return stk_trainer_log_scalar(t, name, &(stk_scalar){.value = value}, flags, batch_size, err);
}

/* ---- At the ends of epochs ------------------------------------------------------------------- */

stk_status stk__metrics_fetch(stk_trainer *t, stk__metric_slot *slot, stk_error *err)
{
    const stk_device_ops *ops = t->device->ops;
    double sums[4];

    if (!slot->on_device)
        return STK_OK;
    STK_TRY(
        ops->copy(t->stream, sums, slot->device_sums, sizeof sums, STK_COPY_DEVICE_TO_HOST, err));
    STK_TRY(stk__synchronize(t, err));
    slot->last = sums[0];
    slot->sum = sums[1];
    slot->weight = sums[2];
    slot->last_weight = sums[3];
    if (slot->flags & STK_ON_STEP)
        set_item(t, slot->step, slot->last);
    return STK_OK;
}

void stk__metrics_reset(stk_trainer *t, stk__metric_group group, bool published)
{
    for (size_t i = 0; i < t->metrics.num_slots; i++) {
        stk__metric_slot *slot = &t->metrics.slots[i];
        if (slot->key.group != group)
            continue;
        slot->sum = slot->weight = slot->all_sum = slot->all_weight = 0;
        slot->fresh = slot->on_device = false;
        if (published)
            for (int k = 0; k < 3; k++)
                atomic_store(
                    &t->metrics.items[k == 0   ? slot->plain
                                      : k == 1 ? slot->step
                                               : slot->epoch]
                         ->set,
                    false);
    }
}

void stk__metrics_forget(stk_trainer *t)
{
    for (int group = 0; group < STK__METRICS_GROUPS; group++)
        stk__metrics_reset(t, (stk__metric_group)group, false);
    for (size_t i = 0; i < t->metrics.num_items; i++)
        atomic_store(&t->metrics.items[i]->set, false);
}

static bool has_epoch_value(const stk__metric_slot *slot, stk__metric_group group)
{
    return slot->key.group == group && (slot->flags & STK_ON_EPOCH) && slot->all_weight > 0;
}

stk_status stk__metrics_publish(stk_trainer *t, stk__metric_group group, stk_error *err)
{
    STK_TRY(stk__metrics_reduce(t, group, err));
    for (size_t i = 0; i < t->metrics.num_slots; i++) {
        stk__metric_slot *slot = &t->metrics.slots[i];
        if (!has_epoch_value(slot, group))
            continue;
        const bool mean = !(slot->flags & (STK_REDUCE_SUM | STK_REDUCE_MIN | STK_REDUCE_MAX));
        double value = mean ? slot->all_sum / slot->all_weight : slot->all_sum;
        stk__metric_publish(t, slot->epoch, slot->plain, value);
    }
    return STK_OK;
}

/* Hand `n` metrics of `line` to the loggers, with the epoch. */
static stk_status log_line(stk_trainer *t, size_t n, int64_t step, stk_error *err)
{
    if (n == 0)
        return STK_OK;
    t->metrics.line[n++] = (stk_metric){"epoch", (double)t->loop.epoch};
    return stk__log_line(t, t->metrics.line, n, step, err);
}

static size_t add_item(stk_trainer *t, size_t n, int32_t which)
{
    const stk__metric *item = t->metrics.items[which];

    for (size_t i = 0; i < n; i++)
        if (t->metrics.line[i].name == item->name)
            return n;
    t->metrics.line[n] = (stk_metric){item->name, atomic_load(&item->value)};
    return n + 1;
}

stk_status stk__metrics_flush(stk_trainer *t, stk__metric_group group, int64_t step, stk_error *err)
{
    size_t n = 0;

    STK_TRY(stk__metrics_publish(t, group, err));
    for (size_t i = 0; i < t->metrics.num_slots; i++) {
        const stk__metric_slot *slot = &t->metrics.slots[i];
        if (has_epoch_value(slot, group) && !(slot->flags & STK_NO_LOGGER))
            n = add_item(t, n, slot->epoch);
    }
    stk_status status = log_line(t, n, step, err);
    stk__metrics_reset(t, group, false);
    return status;
}

stk_status stk__metrics_log_step(stk_trainer *t, int64_t step, stk_error *err)
{
    size_t n = 0;

    STK_TRY(stk__metrics_reduce_step(t, err));
    for (size_t i = 0; i < t->metrics.num_slots; i++) {
        stk__metric_slot *slot = &t->metrics.slots[i];
        if (!stk__metric_logs_step(slot))
            continue;
        STK_TRY(stk__metrics_fetch(t, slot, err));
        n = add_item(t, n, slot->step);
    }
    return log_line(t, n, step, err);
}

stk_status stk_trainer_log_metrics(stk_trainer *t, const stk_metric *metrics, size_t n,
                                   stk_error *err)
{
    STK_TRY(stk__context_check(t->ctx, err));
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t item = item_of(t, metrics[i].name, false);
        if (item < 0)
            return no_room(t, metrics[i].name, err);
        set_item(t, item, metrics[i].value);
        used = add_item(t, used, item);
    }
    return log_line(t, used, (int64_t)t->loop.stepped, err);
}
