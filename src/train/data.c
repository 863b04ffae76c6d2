/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders of a task: made from datasets, with the trainer's seed and sizes, and read so that a stop
 * is heard. */
#include <inttypes.h>

#include "base/sized.h"
#include "train/trainer.h"

enum { LOOK_MS = 100 /* between two looks at the stop flag */ };

stk__feeds *stk__feeds_of(stk_trainer *t, stk_phase phase)
{
    switch (phase) {
    case STK_PHASE_TRAIN:
        return &t->train;
    case STK_PHASE_TEST:
        return &t->test;
    case STK_PHASE_PREDICT:
        return &t->predict;
    default:
        return &t->val;
    }
}

static const stk_loader_source *sources_of(const stk_trainer *t, stk_phase phase, uint32_t *n)
{
    const stk_trainer_data *data = &t->data_copy;

    switch (phase) {
    case STK_PHASE_TRAIN:
        *n = data->train ? 1 : 0;
        return data->train;
    case STK_PHASE_TEST:
        *n = data->num_test;
        return data->test;
    case STK_PHASE_PREDICT:
        *n = data->num_predict;
        return data->predict;
    default:
        *n = data->num_val;
        return data->val;
    }
}

static const stk__limit *limit_of(const stk_trainer *t, stk_phase phase, const char **option)
{
    const stk__settings *s = &t->settings;

    *option = s->overfit                   ? "overfit_batches"
              : phase == STK_PHASE_TRAIN   ? "limit_train_batches"
              : phase == STK_PHASE_TEST    ? "limit_test_batches"
              : phase == STK_PHASE_PREDICT ? "limit_predict_batches"
                                           : "limit_val_batches";
    return phase == STK_PHASE_TRAIN     ? &s->train
           : phase == STK_PHASE_TEST    ? &s->test
           : phase == STK_PHASE_PREDICT ? &s->predict
                                        : &s->val;
}

/* A loader of a dataset, with what the trainer's options change. */
static stk_status make_loader(stk_trainer *t, stk_phase phase, const stk_loader_source *source,
                              stk_loader **out, stk_error *err)
{
    stk_loader_options o;

    stk_loader_options_init(&o);
    if (source->options)
        STK_TRY(stk__sized_read(&o, sizeof o, source->options, "stk_loader_options",
                                STK_STAGE_TRAIN, err));
    if (t->options.seed_everything >= 0)
        o.seed = (uint64_t)t->options.seed_everything;
    if (phase != STK_PHASE_TRAIN && t->options.val_batch_size) {
        o.batch_size = t->options.val_batch_size;
        o.global_batch_size = 0;
    }
    if (t->settings.overfit)
        o.shuffle = STK_SHUFFLE_NONE;
    o.rank = t->ranks.strategy.rank;
    o.world_size = t->ranks.strategy.world_size;
    if (phase != STK_PHASE_TRAIN)
        o.epochs = 0;
    if (!o.device)
        o.device = t->device;
    return stk_loader_create(source->dataset, &o, out, err);
}

static stk_status check_source(const stk_trainer *t, stk_phase phase,
                               const stk_loader_source *source, stk_error *err)
{
    const int ways = (source->dataset != NULL) + (source->open != NULL) + (source->loader != NULL);

    if (ways != 1)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "a source of batches is a dataset, or a function that makes loaders, or a "
                         "loader: %d of them are given",
                         ways);
    if (source->options && !source->dataset)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "the options of a source have no effect without its dataset");
    if (!source->dataset && t->settings.overfit && phase == STK_PHASE_TRAIN)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "overfit_batches", STK_NO_OFFSET,
                            "trainer.overfit_batches: the order of a loader that the trainer does "
                            "not make cannot be changed; give a dataset and options");
    if (!source->dataset && t->options.val_batch_size && phase != STK_PHASE_TRAIN)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "val_batch_size", STK_NO_OFFSET,
                            "trainer.val_batch_size: it has no effect on a loader that the trainer "
                            "does not make; give a dataset and options");
    if (source->loader && t->options.reload_dataloaders_every_n_epochs && phase == STK_PHASE_TRAIN)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "reload_dataloaders_every_n_epochs",
                            STK_NO_OFFSET,
                            "trainer.reload_dataloaders_every_n_epochs: a ready loader cannot be "
                            "made again; give a dataset or a function");
    return STK_OK;
}

static stk_status open_feed(stk_trainer *t, stk_phase phase, const stk_loader_source *source,
                            stk__feed *feed, stk_error *err)
{
    const char *option;
    const stk__limit *limit = limit_of(t, phase, &option);

    *feed = (stk__feed){.loader = source->loader, .own = source->loader == NULL};
    STK_TRY(check_source(t, phase, source, err));
    if (source->open)
        STK_TRY(source->open(source->user, &feed->loader, err));
    else if (source->dataset)
        STK_TRY(make_loader(t, phase, source, &feed->loader, err));
    return stk__limit_apply(option, limit, stk_loader_steps(feed->loader), &feed->batches, err);
}

stk_status stk__feeds_open(stk_trainer *t, stk_phase phase, stk_error *err)
{
    stk__feeds *feeds = stk__feeds_of(t, phase);
    uint32_t n;
    const stk_loader_source *sources = sources_of(t, phase, &n);

    stk__feeds_close(t, phase);
    if (n > STK__MAX_SOURCES)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN,
                         "%" PRIu32 " loaders for one loop; %d is the most", n, STK__MAX_SOURCES);
    for (uint32_t i = 0; i < n; i++) {
        stk_loader_source source = {0};
        stk__sized_copy(&source, sizeof source, stk__sized_at(sources, i));
        stk_status status = open_feed(t, phase, &source, &feeds->feeds[i], err);
        feeds->n = i + 1;
        if (status != STK_OK) {
            stk__feeds_close(t, phase);
            return status;
        }
    }
    feeds->open = true;
    return STK_OK;
}

/* Samples that were left out are never silent: how many, why, and where they are listed. */
static void tell_bad(stk_trainer *t, stk_phase phase, const stk_loader *loader)
{
    const char *of = phase == STK_PHASE_TRAIN     ? "training"
                     : phase == STK_PHASE_TEST    ? "testing"
                     : phase == STK_PHASE_PREDICT ? "prediction"
                                                  : "validation";
    stk_bad_samples bad = {.struct_size = sizeof bad};
    char text[1400];

    stk_loader_get_bad_samples(loader, &bad);
    if (stk_bad_samples_format(&bad, text, sizeof text) > 0)
        stk__message(t->ctx, STK_MESSAGE_WARNING, "the data of %s had %s", of, text);
}

void stk__feeds_close(stk_trainer *t, stk_phase phase)
{
    stk__feeds *feeds = stk__feeds_of(t, phase);

    for (uint32_t i = 0; i < feeds->n; i++)
        if (feeds->feeds[i].loader)
            tell_bad(t, phase, feeds->feeds[i].loader);
    for (uint32_t i = 0; i < feeds->n; i++)
        if (feeds->feeds[i].own)
            stk_loader_destroy(&feeds->feeds[i].loader);
    *feeds = (stk__feeds){0};
}

/* The next batch of this rank, in time or not at all (STK_EAGAIN). */
static stk_status wait_for_batch(stk__feed *feed, stk_batch **out, int *ends, stk_error *err)
{
    stk_status status;

    /* The end of the epoch before may still be to be told; a second one is the last. */
    do
        status = stk_loader_next(feed->loader, LOOK_MS, out, err);
    while (status == STK_EOS && (*ends)++ == 0);
    if (status == STK_EOS)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "the loader has no more epochs: its option `epochs` has to be 0 or at "
                         "least max_epochs");
    return status;
}

stk_status stk__feed_next(stk_trainer *t, stk__feed *feed, stk_batch **out, stk_error *err)
{
    stk_status status = STK_OK;
    bool ready, stop;
    int ends = 0;

    *out = NULL;
    for (;;) {
        if (!*out)
            status = wait_for_batch(feed, out, &ends, err);
        if (status != STK_OK && status != STK_EAGAIN)
            return status;
        ready = status == STK_OK;
        stop = atomic_load(&t->stop);
        /* Of several ranks none begins a step alone, and none waits alone. One that has its batch
         * waits for the others: that is part of the step, and says nothing of its own data. */
        if (ready && !stk__is_alone(t))
            stk__ledger_mark(&t->ledger, STK__PART_DATA_WAIT);
        status = stk__agree_ready(t, &ready, &stop, err);
        if (status == STK_OK && ready)
            return STK_OK;
        if (status == STK_OK && stop)
            status =
                stk__fail(err, STK_ECANCELED, STK_STAGE_TRAIN, "stopped while waiting for data");
        if (status != STK_OK) {
            stk_batch_release(out);
            return status;
        }
    }
}

stk_status stk__feed_compare(stk_trainer *t, stk_error *err)
{
    stk_error differs;

    if (!t->loop.total_done)
        return STK_OK;
    const stk_status status =
        stk_loader_compare(t->train.feeds[0].loader, &t->loader_state, &differs);
    if (status == STK_OK)
        return STK_OK;
    return stk__fail_at(err, status, STK_STAGE_TRAIN, t->restart.path, STK_NO_OFFSET,
                        "the checkpoint '%.300s' is at the beginning of an epoch: %.500s "
                        "(on_state_mismatch: warn begins it as the loader is now)",
                        t->restart.path, differs.text);
}
