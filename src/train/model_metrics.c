/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics of a model of layers that no mean over batches gives: sums over all rows of a loader, and
 * of all ranks, then one formula. F1 is 2 hits / (predicted + there) of each class, R2 is 1 -
 * squares of the errors / squares of the targets about their mean, of each output, accuracy of
 * logits the share of all values that are right, as torchmetrics defines them.
 */
#include "train/model_metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/items.h"
#include "base/text.h"
#include "base/url.h"
#include "train/trainer.h"

enum {
    MAX_CONFUSED = 2048, /* classes of a confusion matrix */
    MAX_PRINTED = 20     /* of one that is printed */
};

/* What outputs are. */
typedef enum outputs { CLASSES, NUMBERS, LOGITS } outputs;

static const struct {
    const char *name, *val, *test;
    outputs of;
} known[STK__METRIC_COUNT] = {
    [STK__METRIC_ACCURACY] = {"accuracy", NULL, NULL, CLASSES},
    [STK__METRIC_F1] = {"f1", "val_f1", "test_f1", CLASSES},
    [STK__METRIC_F1_MICRO] = {"f1_micro", "val_f1_micro", "test_f1_micro", CLASSES},
    [STK__METRIC_CONFUSION] = {"confusion_matrix", NULL, NULL, CLASSES},
    [STK__METRIC_MAE] = {"mae", "val_mae", "test_mae", NUMBERS},
    [STK__METRIC_RMSE] = {"rmse", "val_rmse", "test_rmse", NUMBERS},
    [STK__METRIC_R2] = {"r2", "val_r2", "test_r2", NUMBERS},
    [STK__METRIC_LOGITS] = {"accuracy", "val_acc", "test_acc", LOGITS},
};

/* Of each kind: all names, and those that are wanted where none is given. */
static const struct {
    const char *names;
    uint32_t initial;
} kinds[] = {
    [CLASSES] = {"accuracy, f1, f1_micro and confusion_matrix", 1 << STK__METRIC_ACCURACY},
    [NUMBERS] = {"mae, rmse and r2", 1 << STK__METRIC_MAE | 1 << STK__METRIC_RMSE},
    [LOGITS] = {"accuracy", 1 << STK__METRIC_LOGITS},
};

static outputs outputs_of(int32_t loss)
{
    return loss == STK_LOSS_CROSS_ENTROPY     ? CLASSES
           : loss == STK_LOSS_BCE_WITH_LOGITS ? LOGITS
                                              : NUMBERS;
}

/* ---- Which ----------------------------------------------------------------------------------- */

static stk_status add(stk__model_metrics *m, const char *name, outputs of, stk_error *err)
{
    for (uint32_t i = 0; i < STK__METRIC_COUNT; i++)
        if (strcmp(known[i].name, name) == 0 && known[i].of == of) {
            m->wanted |= UINT32_C(1) << i;
            return STK_OK;
        }
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "module.metrics", STK_NO_OFFSET,
                        "module.metrics: '%.60s' is none of this loss, which has %s", name,
                        kinds[of].names);
}

static stk_status choose(stk__model_metrics *m, const char *list, outputs of, stk_error *err)
{
    static const stk__items_kind kind = {.stage = STK_STAGE_OPTIONS,
                                         .list = "module.metrics",
                                         .item = "metric",
                                         .form = "name",
                                         .most = 32};
    stk__items items;

    if (!list) {
        m->wanted = kinds[of].initial;
        return STK_OK;
    }
    STK_TRY(stk__items_parse(m->ctx, &kind, list, &items, err));
    stk_status status = STK_OK;
    for (uint32_t i = 0; i < items.count && status == STK_OK; i++) {
        const stk__item *item = &items.items[i];
        if (item->count)
            status =
                stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "module.metrics", STK_NO_OFFSET,
                             "module.metrics: '%.60s' takes no arguments", item->name);
        else if (strcmp(item->name, "none") != 0 || items.count > 1)
            status = add(m, item->name, of, err);
    }
    stk__items_release(m->ctx, &items);
    return status;
}

stk_status stk__model_metrics_init(stk__model_metrics *m, stk_context *ctx, const char *list,
                                   const stk_model_options *model, const stk__model_fields *fields,
                                   stk_error *err)
{
    uint64_t elements = 1;

    *m = (stk__model_metrics){.ctx = ctx, .ignore_index = model->ignore_index};
    STK_TRY(choose(m, list, outputs_of(model->loss), err));
    for (uint32_t i = 0; i < fields->rank; i++)
        elements *= (uint64_t)fields->shape[i];
    m->inner = fields->rank ? (uint64_t)fields->shape[0] : 1;
    m->stride = elements / STK_MAX(m->inner, 1u);
    if (!(m->wanted & ~(UINT32_C(1) << STK__METRIC_ACCURACY)))
        return STK_OK;
    const bool confusion = stk__model_metrics_has(m, STK__METRIC_CONFUSION);
    if (confusion && m->inner > MAX_CONFUSED)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_OPTIONS, "module.metrics", STK_NO_OFFSET,
                            "module.metrics: a confusion matrix has %d classes at most, and the "
                            "model gives %" PRIu64,
                            MAX_CONFUSED, m->inner);
    if (model->loss == STK_LOSS_CROSS_ENTROPY) {
        m->num_counts = m->inner * (3 + (confusion ? m->inner : 0));
        m->counts = stk__calloc(ctx, m->num_counts, sizeof *m->counts);
    } else {
        m->columns = stk__calloc(ctx, m->inner, sizeof *m->columns);
    }
    return m->counts || m->columns
               ? STK_OK
               : stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the metrics");
}

void stk__model_metrics_release(stk__model_metrics *m)
{
    stk__free(m->ctx, m->counts);
    stk__free(m->ctx, m->columns);
    m->counts = NULL;
    m->columns = NULL;
}

const char *stk__model_metrics_name(const stk__model_metrics *m, bool test, size_t i)
{
    for (uint32_t k = 0; k < STK__METRIC_COUNT; k++)
        if (stk__model_metrics_has(m, k) && known[k].val && i-- == 0)
            return test ? known[k].test : known[k].val;
    return NULL;
}

/* ---- Counting -------------------------------------------------------------------------------- */

static bool counts(const stk_model_batch *batch, uint64_t i)
{
    return !batch->target_mask || batch->target_mask[i];
}

static double element(const void *data, uint64_t i, stk_dtype dtype)
{
    return stk__element_as_double((const char *)data + i * stk_dtype_size(dtype), dtype);
}

/* The likeliest class of a place; the first of several. */
static uint64_t likeliest(const stk_state_tensor *output, uint64_t first, uint64_t classes,
                          uint64_t stride)
{
    double most = element(output->data, first, output->dtype);
    uint64_t which = 0;

    for (uint64_t k = 1; k < classes; k++) {
        const double value = element(output->data, first + k * stride, output->dtype);
        if (value > most) {
            most = value;
            which = k;
        }
    }
    return which;
}

static void count_classes(stk__model_metrics *m, const stk_model_batch *batch,
                          const stk_state_tensor *output)
{
    double *hits = m->counts, *predicted = hits + m->inner, *there = predicted + m->inner;
    double *confused = m->num_counts > 3 * m->inner ? there + m->inner : NULL;

    for (uint64_t i = 0; i < batch->count * m->stride; i++) {
        const double label = element(batch->target, i, batch->target_dtype);
        if (!counts(batch, i) || label == (double)m->ignore_index)
            continue;
        /* The loss has refused those that are no class. */
        const uint64_t is = (uint64_t)label;
        const uint64_t first = i / m->stride * m->inner * m->stride + i % m->stride;
        const uint64_t said = likeliest(output, first, m->inner, m->stride);
        hits[is] += said == is;
        predicted[said]++;
        there[is]++;
        if (confused)
            confused[is * m->inner + said]++;
    }
}

static void count_numbers(stk__model_metrics *m, const stk_model_batch *batch,
                          const stk_state_tensor *output)
{
    for (uint64_t i = 0; i < batch->count * m->inner * m->stride; i++) {
        if (!counts(batch, i))
            continue;
        stk__output_sums *c = &m->columns[i / m->stride % m->inner];
        const double target = element(batch->target, i, batch->target_dtype);
        const double off = element(output->data, i, output->dtype) - target;
        const double before = target - c->mean;
        c->n++;
        c->absolute += fabs(off);
        c->square += off * off;
        c->mean += before / c->n;
        c->m2 += before * (target - c->mean);
    }
}

/* Yes is a number above 0, where the probability is above a half. */
static void count_logits(stk__model_metrics *m, const stk_model_batch *batch,
                         const stk_state_tensor *output)
{
    for (uint64_t i = 0; i < batch->count * m->inner * m->stride; i++) {
        if (!counts(batch, i))
            continue;
        stk__output_sums *c = &m->columns[i / m->stride % m->inner];
        const bool yes = element(batch->target, i, batch->target_dtype) > 0.5;
        c->n++;
        c->absolute += (element(output->data, i, output->dtype) > 0) != yes;
    }
}

/* ---- Over the ranks -------------------------------------------------------------------------- */

/* First what adds up; then the squares about the mean of all. */
static stk_status reduce_columns(stk__model_metrics *m, stk_trainer *t, stk_error *err)
{
    const size_t n = (size_t)m->inner;
    double *values = stk__calloc(m->ctx, 4 * n, sizeof *values);

    if (!values)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the metrics");
    for (size_t i = 0; i < n; i++) {
        const stk__output_sums *c = &m->columns[i];
        const double own[] = {c->n, c->absolute, c->square, c->n * c->mean};
        memcpy(&values[4 * i], own, sizeof own);
    }
    stk_status status = stk__reduce(t, values, 4 * n, STK_COMBINE_SUM, err);
    for (size_t i = 0; i < n; i++) {
        stk__output_sums *c = &m->columns[i];
        const double *all = &values[4 * i], mean = all[0] > 0 ? all[3] / all[0] : 0;
        c->m2 += c->n * (c->mean - mean) * (c->mean - mean);
        *c = (stk__output_sums){all[0], all[1], all[2], mean, c->m2};
    }
    for (size_t i = 0; i < n; i++)
        values[i] = m->columns[i].m2;
    if (status == STK_OK)
        status = stk__reduce(t, values, n, STK_COMBINE_SUM, err);
    for (size_t i = 0; i < n; i++)
        m->columns[i].m2 = values[i];
    stk__free(m->ctx, values);
    return status;
}

static stk_status reduce(stk__model_metrics *m, stk_trainer *t, stk_error *err)
{
    if (stk__is_alone(t))
        return STK_OK;
    return m->counts ? stk__reduce(t, m->counts, (size_t)m->num_counts, STK_COMBINE_SUM, err)
                     : reduce_columns(m, t, err);
}

/* ---- What they come to ----------------------------------------------------------------------- */

static double f1(const stk__model_metrics *m, bool micro)
{
    const double *hits = m->counts, *predicted = hits + m->inner, *there = predicted + m->inner;
    double all_hits = 0, all = 0, sum = 0, classes = 0;

    for (uint64_t i = 0; i < m->inner; i++) {
        const double both = predicted[i] + there[i];
        all_hits += hits[i];
        all += there[i];
        classes += both > 0;
        sum += both > 0 ? 2 * hits[i] / both : 0;
    }
    return micro ? all_hits / all : sum / classes;
}

/* The mean over the outputs. Of targets that are all the same it is 1 where all are met, else 0. */
static double r2(const stk__model_metrics *m)
{
    double sum = 0, columns = 0;

    for (uint64_t i = 0; i < m->inner; i++) {
        const stk__output_sums *c = &m->columns[i];
        if (c->n == 0)
            continue;
        columns++;
        sum += c->m2 > 0 ? 1 - c->square / c->m2 : c->square == 0;
    }
    return sum / columns;
}

static double error_of(const stk__model_metrics *m, bool squares)
{
    double sum = 0, n = 0;

    for (uint64_t i = 0; i < m->inner; i++) {
        n += m->columns[i].n;
        sum += squares ? m->columns[i].square : m->columns[i].absolute;
    }
    return squares ? sqrt(sum / n) : sum / n;
}

static double value_of(const stk__model_metrics *m, stk__model_metric which)
{
    switch (which) {
    case STK__METRIC_F1:
    case STK__METRIC_F1_MICRO:
        return f1(m, which == STK__METRIC_F1_MICRO);
    case STK__METRIC_R2:
        return r2(m);
    case STK__METRIC_LOGITS:
        return 1 - error_of(m, false);
    default:
        return error_of(m, which == STK__METRIC_RMSE);
    }
}

/* ---- The confusion matrix -------------------------------------------------------------------- */

/* A row for each class that is there, a column for each that was predicted. */
static void write_matrix(const stk__model_metrics *m, stk__text *text)
{
    const double *confused = m->counts + 3 * m->inner;

    stk__text_add(text, "class");
    for (uint64_t k = 0; k < m->inner; k++)
        stk__text_add(text, ",%" PRIu64, k);
    for (uint64_t i = 0; i < m->inner; i++) {
        stk__text_add(text, "\n%" PRIu64, i);
        for (uint64_t k = 0; k < m->inner; k++)
            stk__text_add(text, ",%.0f", confused[i * m->inner + k]);
    }
    stk__text_add(text, "\n");
}

/* Of several loaders each has a matrix of its own, told apart as their metrics are: behind `first`;
 * of one it has no name. */
static void name_loader(stk_trainer *t, const stk_moment *at, const char *first, char text[40])
{
    *text = 0;
    if (stk__feeds_of(t, at->phase)->n > 1)
        snprintf(text, 40, "%sdataloader_idx_%" PRIu32, first, at->dataloader_idx);
}

/* A file of the run, of the last evaluation of its kind. */
static stk_status keep_matrix(const stk__model_metrics *m, stk_trainer *t, const stk_moment *at,
                              stk_error *err)
{
    const char *folder = stk_trainer_log_dir(t);
    char name[80], loader[40];
    stk__text text = {.ctx = m->ctx};

    if (!folder)
        return STK_OK;
    name_loader(t, at, "_", loader);
    snprintf(name, sizeof name, "confusion_matrix_%s%s.csv",
             at->phase == STK_PHASE_TEST ? "test" : "val", loader);
    char *path = stk__url_below(m->ctx, folder, name);
    write_matrix(m, &text);
    stk_status status =
        path && !text.failed
            ? stk_put_bytes(m->ctx, path, text.bytes, text.length, NULL, err)
            : stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the confusion matrix");
    stk__text_release(&text);
    stk__free(m->ctx, path);
    return status;
}

static void print_matrix(const stk__model_metrics *m, stk_trainer *t, const stk_moment *at)
{
    const double *confused = m->counts + 3 * m->inner;
    char line[16 * (MAX_PRINTED + 2)], loader[40];

    if (m->inner > MAX_PRINTED)
        return;
    name_loader(t, at, " of ", loader);
    stk__say(t, "Confusion matrix%s: a row for each class, a column for each that was predicted",
             loader);
    for (uint64_t i = 0; i <= m->inner; i++) {
        size_t used = (size_t)(i ? snprintf(line, sizeof line, "%7" PRIu64 " |", i - 1)
                                 : snprintf(line, sizeof line, "%9s", "|"));
        for (uint64_t k = 0; k < m->inner; k++)
            used += (size_t)(i ? snprintf(line + used, sizeof line - used, " %7.0f",
                                          confused[(i - 1) * m->inner + k])
                               : snprintf(line + used, sizeof line - used, " %7" PRIu64, k));
        stk__say(t, "%s", line);
    }
}

/* ---- The way of a loader --------------------------------------------------------------------- */

static stk_status log_all(stk__model_metrics *m, stk_trainer *t, const stk_moment *at,
                          stk_error *err)
{
    const bool test = at->phase == STK_PHASE_TEST;
    double n = 0;

    STK_TRY(reduce(m, t, err));
    for (uint64_t i = 0; i < m->inner; i++)
        n += m->counts ? m->counts[2 * m->inner + i] : m->columns[i].n;
    for (uint32_t i = 0; i < STK__METRIC_COUNT && n > 0; i++)
        if (stk__model_metrics_has(m, i) && known[i].val)
            STK_TRY(stk_trainer_log(t, test ? known[i].test : known[i].val, value_of(m, i),
                                    STK_ON_EPOCH, 1, err));
    if (!stk__model_metrics_has(m, STK__METRIC_CONFUSION) || at->phase == STK_PHASE_SANITY ||
        t->ranks.strategy.rank != 0)
        return STK_OK;
    if (test)
        print_matrix(m, t, at);
    return keep_matrix(m, t, at, err);
}

stk_status stk__model_metrics_take(stk__model_metrics *m, stk_trainer *t, const stk_moment *at,
                                   const stk_model_batch *batch, const stk_state_tensor *output,
                                   stk_error *err)
{
    if (!m->counts && !m->columns)
        return STK_OK;
    if (at->batch_idx == 0 && m->counts)
        memset(m->counts, 0, (size_t)m->num_counts * sizeof *m->counts);
    else if (at->batch_idx == 0)
        memset(m->columns, 0, (size_t)m->inner * sizeof *m->columns);
    if (output && m->counts)
        count_classes(m, batch, output);
    else if (output && stk__model_metrics_has(m, STK__METRIC_LOGITS))
        count_logits(m, batch, output);
    else if (output)
        count_numbers(m, batch, output);
    return at->last_batch ? log_all(m, t, at, err) : STK_OK;
}
