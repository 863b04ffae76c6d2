/* SPDX-License-Identifier: Apache-2.0 */
/* The text of layers: items of the common language, with labels and a "from". */
#include "nn/text.h"

#include <stdio.h>

#include "nn/graph.h"

const stk__items_kind stk__layer_items = {.stage = STK_STAGE_TRAIN,
                                          .list = "layers",
                                          .item = "layer",
                                          .form = "name=layer(argument, option=value)",
                                          .most = STK__MAX_NODES,
                                          .labels = true};

const char *stk__layer_from(stk__item *item)
{
    const char *from = NULL;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < item->count; i++) {
        const stk__argument *argument = &item->arguments[i];
        if (argument->name && stk__option_same(argument->name, strlen(argument->name), "from", 4))
            from = argument->value;
        else
            item->arguments[kept++] = *argument;
    }
    item->count = kept;
    return from;
}

stk_status stk__layer_options_read(const stk__item *item, const stk_option_table *table,
                                   const char *places, uint32_t full, void *options, stk_error *err)
{
    uint32_t by_place = 0;

    for (uint32_t i = 0; i < item->count; i++)
        by_place += item->arguments[i].name == NULL;
    if (by_place < full) {
        places += strcspn(places, " ");
        places += *places == ' ';
    }
    return stk__item_options(item, table, places, options, err);
}

stk_status stk__whole_read(const char *who, const char *argument, const char *text, int64_t min,
                           int64_t max, int64_t *out, uint32_t capacity, uint32_t *count,
                           stk_error *err)
{
    const stk__numbers numbers = {.stage = STK_STAGE_TRAIN,
                                  .who = who,
                                  .argument = argument,
                                  .text = text,
                                  .min = (double)min,
                                  .max = (double)max,
                                  .whole = true,
                                  .by_x = true};
    double values[STK__MAX_WHOLE];

    STK_TRY(stk__numbers_read(&numbers, values, STK_MIN(capacity, (uint32_t)STK__MAX_WHOLE), count,
                              err));
    for (uint32_t i = 0; i < *count; i++)
        out[i] = (int64_t)values[i];
    return STK_OK;
}

stk_status stk__pair_read(const char *who, const char *argument, const char *text, int64_t min,
                          int64_t max, int64_t out[2], stk_error *err)
{
    char name[STK__MAX_NODE_NAME + 8];
    uint32_t count;

    snprintf(name, sizeof name, "layer %s", who);
    STK_TRY(stk__whole_read(name, argument, text, min, max, out, 2, &count, err));
    if (count == 1)
        out[1] = out[0];
    return STK_OK;
}
