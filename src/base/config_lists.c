/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of PyTorch's arguments that are another thing here: `betas` is two options, `milestones`
 * one text. Any other list is several values of an option, of which a training takes one. */
#include <stdio.h>

#include "base/config.h"
#include "base/options.h"

static stk_status refuse(const stk__config_place *place, const char *key, const char *what,
                         stk_error *err)
{
    char where[224];

    stk__place_format(place, where, sizeof where);
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, key, STK_NO_OFFSET, "%s%s: %s", where,
                        key, what);
}

static stk_status put_betas(stk_config *config, const char *key, const stk__config_place *place,
                            const stk__config_value *values, size_t count, uint64_t load,
                            stk_error *err)
{
    static const char *const keys[] = {"optimizer.beta1", "optimizer.beta2"};

    if (count && count != STK_COUNT(keys))
        return refuse(place, key, "it takes a list of two numbers, [0.9, 0.999]", err);
    for (size_t i = 0; i < STK_COUNT(keys); i++) {
        const stk__entry *entry = stk__config_find(config, keys[i]);
        if (entry && load && entry->load == load)
            return refuse(place, key, "beta1 and beta2 are given already; keep one of them", err);
    }
    for (size_t i = 0; i < STK_COUNT(keys); i++)
        STK_TRY(stk__config_put(config, keys[i], place, count ? &values[i] : NULL, count > 0, load,
                                err));
    return STK_OK;
}

static stk_status put_milestones(stk_config *config, const char *key,
                                 const stk__config_place *place, const stk__config_value *values,
                                 size_t count, uint64_t load, stk_error *err)
{
    stk__text text = {.ctx = config->context};
    stk__config_value joined = values[0];

    for (size_t i = 0; i < count; i++)
        stk__text_add(&text, "%s%s", i ? ", " : "", values[i].text);
    joined.text = text.failed ? NULL : stk__config_copy(config, text.bytes, text.length);
    stk__text_release(&text);
    if (!joined.text)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_OPTIONS, key, STK_NO_OFFSET,
                            "no memory for %s", key);
    return stk__config_put(config, key, place, &joined, 1, load, err);
}

/* A list of steps is one value; one of texts with several steps each, "30, 80", is a sweep. */
static bool is_sweep(const stk__config_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strchr(values[i].text, ','))
            return true;
    return count == 0;
}

static stk_status check_steps(const char *key, const stk__config_value *values, size_t count,
                              stk_error *err)
{
    char what[160], shown[STK_OPTION_SHOWN];

    for (size_t i = 0; i < count; i++) {
        const char *text = values[i].text;
        if (*text && text[strspn(text, "0123456789")] == 0)
            continue;
        stk__option_show(shown, text);
        snprintf(what, sizeof what, "'%s' is no whole number of steps; it takes a list, [30, 80]",
                 shown);
        return refuse(&values[i].place, key, what, err);
    }
    return STK_OK;
}

#define BETAS      "optimizer.betas"
#define MILESTONES "lr_scheduler.milestones"

bool stk__config_is_list(const char *key)
{
    return strcmp(key, BETAS) == 0 || strcmp(key, MILESTONES) == 0;
}

stk_status stk__config_put_list(stk_config *config, const char *key, const stk__config_place *place,
                                const stk__config_value *values, size_t count, uint64_t load,
                                stk_error *err)
{
    if (strcmp(key, BETAS) == 0)
        return put_betas(config, key, place, values, count, load, err);
    if (strcmp(key, MILESTONES) == 0 && !is_sweep(values, count)) {
        STK_TRY(check_steps(key, values, count, err));
        return put_milestones(config, key, place, values, count, load, err);
    }
    return stk__config_put(config, key, place, values, count, load, err);
}
