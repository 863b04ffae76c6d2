/* SPDX-License-Identifier: Apache-2.0 */
/* The setting that was found as YAML, with the reason for each value. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/config.h"
#include "base/options.h"
#include "bench/tune.h"

#define WIDTH     96 /* of a line of a comment */
#define STEP_TIME "bench.train_step_time"

/* ---- The configuration ------------------------------------------------------------------------
 */

static bool is_real_step(const stk_tune *tune)
{
    const char *step = tune->plan->settings[0].bench.step;

    return step && strncmp(step, "train:", 6) == 0;
}

/* Whether an option's section goes into the file: what a bench takes. */
static bool is_kept(const stk_tune *tune, const char *key)
{
    static const char *const sections[] = {"loader.", "bench.", "python.", "context."};

    for (size_t i = 0; i < STK_COUNT(sections); i++)
        if (strncmp(key, sections[i], strlen(sections[i])) == 0)
            return i == 0 || !is_real_step(tune);
    return !strchr(key, '.') && !is_real_step(tune);
}

/* The tables that the configuration was read by, so that it is written by them. */
static stk_status apply_tables(const stk_config *from, stk_config *to, stk_error *err)
{
    stk_status status = STK_OK;

    for (size_t i = 0; i < from->num_tables && status == STK_OK; i++) {
        const stk_option_table *table = from->tables[i];
        void *scratch = stk__calloc(to->context, 1, table->struct_size);
        if (!scratch)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the options of %s",
                             table->name);
        stk_options_init(table, scratch, table->struct_size);
        status = stk_config_apply(to, table, 0, scratch, err);
        stk__free(to->context, scratch);
    }
    return status;
}

/* A copy with the values of setting `best`. */
static stk_status copy_config(const stk_tune *tune, size_t best, stk_config *to, stk_error *err)
{
    const stk_config *from = tune->plan->config;
    const char *dataset = tune->plan->settings[best].setting.dataset;
    const stk_option_table *table = stk_option_table_find("loader");
    const stk_loader_options *loader = &tune->plan->settings[best].loader;
    char value[64];

    for (size_t i = 0; i < from->count; i++) {
        const stk__entry *e = &from->entries[i];
        if (e->count && is_kept(tune, e->key) && e->place.source != stk__tune_short)
            STK_TRY(stk__config_put(to, e->key, &e->place, e->values, e->count, 0, err));
    }
    /* Without it a bench would take whatever it takes by default. */
    if (!tune->plan->settings[best].bench.step && !stk_config_count(to, STEP_TIME)) {
        stk_options_format(stk_options_find(&stk__bench_option_table, "train_step_time"),
                           &tune->plan->settings[best].bench, value, sizeof value);
        STK_TRY(stk_config_set(to, STEP_TIME, value, false, err));
    }
    if (!stk_config_count(to, "dataset") && !is_real_step(tune) && dataset)
        STK_TRY(stk_config_set(to, "dataset", dataset, false, err));
    for (size_t k = 0; k < STK__TUNE_OWN; k++) {
        if (!stk_config_count(from, stk__tune_keys[k]))
            continue;
        stk_options_format(stk_options_find(table, stk__tune_name(k)), loader, value, sizeof value);
        STK_TRY(stk_config_set(to, stk__tune_keys[k], value, false, err));
    }
    return apply_tables(from, to, err);
}

/* ---- Comments ---------------------------------------------------------------------------------
 */

typedef struct writer {
    const stk_tune *tune;
    stk_config_line *line;
    void *user;
    bool loader; /* within that section */
} writer;

/* A comment in lines of WIDTH bytes. */
static void comment(const writer *w, const char *indent, const char *text)
{
    char line[2 * WIDTH];

    while (*text) {
        size_t length = strlen(text), room = WIDTH - strlen(indent) - 2;
        if (length > room) {
            length = room;
            while (length && text[length] != ' ')
                length--;
            length = length ? length : room;
        }
        snprintf(line, sizeof line, "%s# %.*s", indent, (int)length, text);
        w->line(w->user, line);
        text += length;
        text += strspn(text, " ");
    }
}

static void put_head(const writer *w, const stk_tune_answer *a)
{
    char text[512], reach[64] = "";
    const stk_tune *tune = w->tune;

    comment(w, "", a->text);
    if (!isnan(a->model_error))
        snprintf(reach, sizeof reach, "; predictions were off by %.0f %% in the mean",
                 100 * a->model_error);
    snprintf(text, sizeof text,
             "Found by stoker tune: of %zu settings %" PRIu64 " were predicted and %" PRIu64
             " run, in %" PRIu64 " run%s%s.",
             tune->count, a->predicted, a->measured, a->runs, a->runs == 1 ? "" : "s", reach);
    comment(w, "", text);
    comment(w, "",
            "Not tried: batch_size, shuffle, cache, transforms and how the data are stored, all of "
            "which are as given. Another machine, storage or step may want other values.");
}

/* A line of the configuration, with the reason in front of what was found. */
static void put_line(void *user, const char *text)
{
    writer *w = user;
    char reason[1024];

    if (*text != ' ' && *text != '-')
        w->loader = strcmp(text, "loader:") == 0;
    for (size_t k = 0; k < STK__TUNE_OWN && w->loader; k++) {
        const char *name = stk__tune_name(k);
        const size_t length = strlen(name);
        if (strncmp(text, "  ", 2) != 0 || strncmp(text + 2, name, length) != 0 ||
            text[2 + length] != ':')
            continue;
        stk_tune_reason(w->tune, name, reason, sizeof reason);
        comment(w, "  ", reason);
    }
    w->line(w->user, text);
}

stk_status stk_tune_write(const stk_tune *tune, stk_config_line *line, void *user, stk_error *err)
{
    stk_tune_answer a = {.struct_size = sizeof a};
    writer w = {.tune = tune, .line = line, .user = user};
    stk_config *config = NULL;

    STK_TRY(stk__context_check(tune->ctx, err));
    stk_tune_answer_get(tune, &a);
    if (a.best == STK_BENCH_NONE)
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "there is no setting to write: none was run, or none is within the "
                         "limits; raise max_memory or max_cores");
    STK_TRY(stk_config_create(tune->ctx, &config, err));
    stk_status status = copy_config(tune, a.best, config, err);
    if (status == STK_OK) {
        put_head(&w, &a);
        status = stk_config_write(config, put_line, &w, err);
    }
    stk_config_destroy(&config);
    return status;
}
