/* SPDX-License-Identifier: Apache-2.0 */
/* GradientAccumulationScheduler: how many batches make a step, by epoch. */
#include <inttypes.h>
#include <stdlib.h>

#include "train/callbacks/callback.h"

enum { MAX_CHANGES = 64 };

typedef struct schedule_options {
    uint32_t struct_size;
    const char *scheduling;
} schedule_options;

typedef struct schedule {
    stk_callback base;
    struct {
        uint64_t epoch, batches;
    } changes[MAX_CHANGES];
    size_t n;
} schedule;

static const stk_option options[] = {
    {"scheduling", STK_OPTION_STRING, offsetof(schedule_options, scheduling), NULL, 0, 0, NULL,
     "LIST", "From which epoch on how many batches make a step: \"0:8, 4:4, 8:1\"."},
};

static const stk_option_table table = {.name = "accumulation_schedule",
                                       .doc = "Changes accumulate_grad_batches by epoch.",
                                       .struct_size = sizeof(schedule_options),
                                       .options = options,
                                       .count = STK_COUNT(options)};

static const char *read_number(const char *at, uint64_t *out)
{
    char *end;

    at += strspn(at, " ");
    if (*at < '0' || *at > '9')
        return NULL;
    *out = strtoull(at, &end, 10);
    return *out <= STK__MOST_COUNTED ? end + strspn(end, " ") : NULL;
}

static bool parse(schedule *self, const char *at)
{
    while (at && *at && self->n < MAX_CHANGES) {
        at = read_number(at, &self->changes[self->n].epoch);
        at = at && *at == ':' ? read_number(at + 1, &self->changes[self->n].batches) : NULL;
        if (!at || self->changes[self->n].batches == 0 ||
            (self->n && self->changes[self->n].epoch <= self->changes[self->n - 1].epoch))
            return false;
        self->n++;
        if (*at == ',')
            at++;
        else if (*at)
            return false;
    }
    return at && !*at && self->n > 0;
}

static stk_status create(stk_context *ctx, const void *given, stk_callback **out, stk_error *err)
{
    schedule *self = stk__callback_new(ctx, &stk__callback_accumulation, sizeof *self);

    if (!self)
        return stk__callback_no_memory("accumulation_schedule", err);
    if (!parse(self, ((const schedule_options *)given)->scheduling)) {
        stk__free(ctx, self);
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "scheduling", STK_NO_OFFSET,
                            "accumulation_schedule.scheduling: it takes rising epochs, each with "
                            "a number of batches: \"0:8, 4:4, 8:1\"");
    }
    *out = &self->base;
    return STK_OK;
}

static void destroy(stk_callback *callback)
{
    stk__free(callback->context, callback);
}

/* A checkpoint within a window has its gradients. */
static uint64_t copies(const stk_callback *callback, const stk_state_bytes *of, uint64_t *saved)
{
    *saved = of->gradients;
    return 0;
}

static stk_status setup(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                        stk_error *err)
{
    const schedule *self = (const schedule *)callback;

    for (size_t i = 0; i < self->n; i++)
        if (!stk_trainer_set_accumulate(t, self->changes[i].epoch, self->changes[i].batches))
            return stk__fail(err, STK_ELIMIT, STK_STAGE_OPTIONS,
                             "accumulation_schedule: with those of others, %zu changes are more "
                             "than a trainer takes",
                             self->n);
    if (stk_trainer_get_options(t)->accumulate_grad_batches == 1)
        return STK_OK;
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "accumulate_grad_batches",
                        STK_NO_OFFSET,
                        "trainer.accumulate_grad_batches: the callback accumulation_schedule sets "
                        "it; leave it at 1");
}

const stk_callback_ops stk__callback_accumulation = {
    .struct_size = sizeof(stk_callback_ops),
    .name = "accumulation_schedule",
    .doc = "changes accumulate_grad_batches by epoch",
    .options = &table,
    .create = create,
    .destroy = destroy,
    .setup = setup,
    .copies = copies,
    .roles = STK_ROLE_NO_METRICS,
};
