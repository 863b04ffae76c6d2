/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that were written without some of the array's codecs, as a filter of HDF5 may leave a
 * chunk as it is. For each set of codecs left out there is a chain of its own, made when it is
 * first met: steps of a compiled chain are fused, and their sizes follow from each other.
 */
#include "array/skipping.h"

#define MOST_CHAINS 64u /* sets of codecs left out that one array has */

struct stk__skipping {
    const stk_array *array; /* which outlives it */
    char *codecs;           /* the list, JSON */
    pthread_mutex_t mutex;  /* guards the rest */
    uint32_t count;
    struct {
        uint32_t skipped;
        stk__chain *chain;
    } made[MOST_CHAINS];
};

stk_status stk__skipping_create(const stk_array *a, const char *codecs, stk__skipping **out,
                                stk_error *err)
{
    stk__skipping *s = stk__calloc(a->context, 1, sizeof *s);

    *out = s;
    if (!s)
        return stk__array_no_memory(a, err);
    s->array = a;
    pthread_mutex_init(&s->mutex, NULL);
    s->codecs = stk__strdup(a->context, codecs);
    return s->codecs ? STK_OK : stk__array_no_memory(a, err);
}

const char *stk__array_codecs(const stk_array *a)
{
    return a->skipping ? a->skipping->codecs : NULL;
}

void stk__skipping_destroy(stk__skipping **skipping)
{
    stk__skipping *s = *skipping;

    if (!s)
        return;
    *skipping = NULL;
    for (uint32_t i = 0; i < s->count; i++)
        stk__chain_destroy(&s->made[i].chain);
    pthread_mutex_destroy(&s->mutex);
    stk__free(s->array->context, s->codecs);
    stk__free(s->array->context, s);
}

/* The list without the codecs whose bits are set. False: one of them makes bytes of elements, or
 * there is none of that number. */
static bool leave_out(json_t *list, uint32_t skipped)
{
    for (uint32_t i = 32; i-- > 0;) {
        const json_t *name = json_object_get(json_array_get(list, i), "name");
        if (!(skipped >> i & 1))
            continue;
        if (i >= json_array_size(list) || !json_is_string(name) ||
            !strcmp(json_string_value(name), "bytes") || json_array_remove(list, i) != 0)
            return false;
    }
    return true;
}

static stk_status make(const stk__skipping *s, uint32_t skipped, stk__chain **out)
{
    const stk_array *a = s->array;
    stk__json list = {0};
    stk__chain_spec spec;

    STK_TRY(
        stk__json_parse(a->context, s->codecs, strlen(s->codecs), a->metadata_key, &list, NULL));
    stk__chain_spec_init(&spec);
    stk__array_chain_spec(a, &spec);
    spec.codecs = list.value;
    /* Leading transposes are strides of the chunk, not steps of a chain. */
    const stk_status status = a->order == 'C' && leave_out(list.value, skipped)
                                  ? stk__chain_create(a->context, &spec, out, NULL)
                                  : STK_EKIND;
    stk__json_drop(a->context, &list);
    return status;
}

static stk_status find_locked(stk__skipping *s, uint32_t skipped, const stk__chain **out)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->made[i].skipped == skipped) {
            *out = s->made[i].chain;
            return STK_OK;
        }
    }
    if (s->count == MOST_CHAINS)
        return STK_ELIMIT;
    STK_TRY(make(s, skipped, &s->made[s->count].chain));
    s->made[s->count].skipped = skipped;
    *out = s->made[s->count++].chain;
    return STK_OK;
}

stk_status stk__skipping_chain(stk__skipping *s, uint32_t skipped, const stk__chain **out,
                               const char **reason)
{
    stk_status status = STK_EKIND;

    if (s) {
        pthread_mutex_lock(&s->mutex);
        status = find_locked(s, skipped, out);
        pthread_mutex_unlock(&s->mutex);
    }
    *reason = status == STK_ENOMEM   ? "no memory for its codecs; use fewer workers"
              : status == STK_ELIMIT ? "its array has chunks of more than 64 sets of filters "
                                       "(MOST_CHAINS); write it again"
                                     : "it was written without codecs that cannot be left out; "
                                       "write it again";
    return status;
}
