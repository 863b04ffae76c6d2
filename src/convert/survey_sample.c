/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/survey_sample.h"

#include <stdio.h>

#include "dataset/dataset.h"

typedef struct locator {
    stk_locator seam;
    stk__survey_sample *to;
} locator;

static stk_status add_need(stk_locator *seam, size_t i, const stk_need *need)
{
    stk__survey_sample *s = ((locator *)seam)->to;

    (void)i;
    if (s->num_needs == STK__SURVEY_NEEDS)
        return STK_ELIMIT;
    s->needs[s->num_needs] = *need;
    if (s->most && !need->decoded)
        s->needs[s->num_needs].length = STK_MIN(need->length, s->most);
    s->num_needs++;
    return STK_OK;
}

stk_status stk__survey_sample_init(stk__survey_sample *sample, stk_dataset *dataset,
                                   stk__share *memory)
{
    stk_context *ctx = dataset->context;
    uint64_t bytes = 0;

    *sample = (stk__survey_sample){.dataset = dataset, .memory = memory};
    for (uint32_t f = 0; f < dataset->num_fields; f++)
        bytes += stk__round_up(stk_field_bytes(&dataset->fields[f]), STK_CACHE_LINE);
    sample->values = stk__calloc(ctx, dataset->num_fields, sizeof *sample->values);
    sample->fixed = stk__alloc_buffer(ctx, bytes);
    return sample->values && sample->fixed ? STK_OK : STK_ENOMEM;
}

void stk__survey_sample_release(stk__survey_sample *sample)
{
    stk__free(sample->dataset->context, sample->values);
    stk__free(sample->dataset->context, sample->fixed);
}

/* Room for all that the sample needs, each range with its readable tail. */
static stk_status make_room(stk__survey_sample *s, const char **reason)
{
    uint64_t bytes = 0;

    for (uint32_t k = 0; k < s->num_needs; k++) {
        const uint64_t slack = STK_CACHE_LINE + STK_TAIL, decoded = s->needs[k].decoded;
        if (!stk__add_size(bytes, s->needs[k].length, &bytes) ||
            !stk__add_size(bytes, decoded, &bytes) ||
            !stk__add_size(bytes, decoded ? 2 * slack : slack, &bytes))
            bytes = UINT64_MAX;
    }
    stk_status status = stk__share_take(s->memory, bytes, s->reason);
    if (status != STK_OK) {
        *reason = s->reason;
        return status;
    }
    s->room = bytes;
    s->bytes = stk__alloc_buffer(s->dataset->context, bytes);
    return s->bytes ? STK_OK : STK_ENOMEM;
}

static stk_status read_needs(stk__survey_sample *s, uint64_t index, const char **reason,
                             stk_error *err)
{
    locator at = {.seam = stk__locator_of_needs(add_need), .to = s};
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;
    uint64_t offset = 0;

    STK_TRY(s->dataset->ops->locate(s->dataset, &index, 1, &at.seam, err));
    if (!s->num_needs)
        return STK_OK;
    (void)s->dataset->ops->object(s->dataset, s->needs[0].object, &store, key, sizeof key);
    snprintf(s->key, sizeof s->key, "%.*s", (int)sizeof s->key - 1, key);
    STK_TRY(make_room(s, reason));
    for (uint32_t k = 0; k < s->num_needs; k++) {
        stk_need *need = &s->needs[k];
        const uint8_t *read = s->bytes + offset;

        STK_TRY(stk__need_read(s->dataset, need, s->bytes + offset, err));
        s->slices[k] = (stk_slice){.data = read, .size = need->length};
        offset += stk__round_up(need->length + STK_TAIL, STK_CACHE_LINE);
        if (!need->decoded)
            continue;
        STK_TRY(stk__need_decode(s->dataset, need, read, s->bytes + offset, NULL, reason));
        s->slices[k] = (stk_slice){.data = s->bytes + offset, .size = need->decoded};
        offset += stk__round_up(need->decoded + STK_TAIL, STK_CACHE_LINE);
    }
    return STK_OK;
}

stk_status stk__survey_sample_take(stk__survey_sample *sample, uint64_t index, const char **reason,
                                   stk_error *err)
{
    stk_dataset *dataset = sample->dataset;
    stk_sample taken = {.struct_size = sizeof taken,
                        .value_size = sizeof(stk_value),
                        .index = index,
                        .needs = sample->slices,
                        .values = sample->values};
    char *room = sample->fixed;

    *reason = NULL;
    sample->num_needs = 0;
    sample->key[0] = '\0';
    if (dataset->ops->locate)
        STK_TRY(read_needs(sample, index, reason, err));
    for (uint32_t f = 0; f < dataset->num_fields; f++) {
        uint64_t bytes = stk_field_bytes(&dataset->fields[f]);

        sample->values[f] =
            (stk_value){.out = bytes ? room : NULL, .capacity = bytes, .data = room, .size = bytes};
        room += stk__round_up(bytes, STK_CACHE_LINE);
    }
    dataset->ops->prepare(dataset, &taken, 1);
    *reason = taken.reason;
    return taken.status;
}

void stk__survey_sample_drop(stk__survey_sample *sample)
{
    stk__free(sample->dataset->context, sample->bytes);
    sample->bytes = NULL;
    if (sample->room)
        stk__share_give(sample->memory, sample->room);
    sample->room = 0;
}
