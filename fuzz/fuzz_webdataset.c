/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shard of webdataset: the first byte says what becomes of samples that lack a member; from 128
 * on, an index of wds2idx follows, with its length in two bytes in front; the rest is a tar.
 * Whatever it holds: no crash, no leak; every part that is found lies within the shard, and every
 * value within a part or in the room that it was given.
 */
#include "dataset/records/records.h"
#include "fuzz_support.h"

#define MOST_NEEDS STK__RECORDS_MAX_KINDS
#define MOST_OUT   (UINT64_C(1) << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One sample on its way. */
typedef struct taking {
    stk_locator base;
    stk_dataset *dataset;
    stk_slice needs[MOST_NEEDS];
    void *memory[MOST_NEEDS];
    uint64_t bounds[MOST_NEEDS];
    uint32_t count;
} taking;

static stk_status add(stk_locator *self, size_t i, const stk_need *need)
{
    taking *t = (taking *)self;
    stk_store *store = NULL;
    char key[64];

    FUZZ_CHECK(i == 0 && t->count < MOST_NEEDS && need->object == 0);
    t->dataset->ops->object(t->dataset, need->object, &store, key, sizeof key);
    void *memory = calloc(1, need->length + FUZZ_TAIL);
    FUZZ_CHECK(memory != NULL);
    t->memory[t->count] = memory;
    t->needs[t->count++] = (stk_slice){memory, need->length};
    FUZZ_CHECK(!need->length ||
               stk_store_read(store, key, need->offset, need->length, memory, NULL) == STK_OK);
    return STK_OK;
}

static void bound(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    taking *t = (taking *)self;

    (void)i;
    FUZZ_CHECK(field < t->dataset->num_fields);
    t->bounds[field] = bytes;
}

static unsigned take(stk_dataset *d, uint64_t index)
{
    taking *t = calloc(1, sizeof *t);
    stk_value *values = calloc(d->num_fields, sizeof *values);
    unsigned sum = 0;
    stk_error err;

    FUZZ_CHECK(t && values);
    t->base = (stk_locator){
        .struct_size = sizeof(stk_locator), .add = add, .cost = fuzz_cost, .bytes = bound};
    t->dataset = d;
    FUZZ_CHECK(d->ops->locate(d, &index, 1, &t->base, &err) == STK_OK);
    for (uint32_t f = 0; f < d->num_fields; f++) {
        const uint64_t fixed = stk_field_bytes(&d->fields[f]);
        const uint64_t room = fixed ? fixed : t->bounds[f];
        void *out = room <= MOST_OUT ? malloc(room ? room : 1) : NULL;
        values[f] = (stk_value){out, room, NULL, fixed};
    }
    stk_sample sample = {.index = index, .needs = t->needs, .values = values};
    d->ops->prepare(d, &sample, 1);
    for (uint32_t f = 0; f < d->num_fields; f++) {
        if (sample.status == STK_OK) {
            FUZZ_CHECK(values[f].data && values[f].size <= values[f].capacity);
            sum += fuzz_sum(values[f].data, values[f].size);
        }
        free(values[f].out);
    }
    for (uint32_t k = 0; k < t->count; k++)
        free(t->memory[k]);
    free(values);
    free(t);
    return sum;
}

/* Whether the fields are small enough to be given room. */
static bool is_small(const stk_dataset *d)
{
    for (uint32_t f = 0; f < d->num_fields; f++)
        if (stk_field_bytes(&d->fields[f]) > MOST_OUT)
            return false;
    return true;
}

/* Some samples, and what the description says. */
static unsigned open_shard(const fuzz_room *room, const char *spec)
{
    stk_dataset *d = NULL;
    unsigned sum = 0;
    stk_error err;

    if (stk_dataset_open(room->ctx, spec, &d, &err) != STK_OK)
        return 0;
    for (uint64_t i = 0; is_small(d) && i < d->size && i < FUZZ_CALLS; i++)
        sum += take(d, i);
    FUZZ_CHECK(stk_dataset_describe(d, fuzz_line, &sum, &err) == STK_OK);
    stk_dataset_close(&d);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const specs[] = {"webdataset:mem://fuzz/a.tar?index=auto",
                                        "webdataset:mem://fuzz/a.tar?index=auto&missing=bad",
                                        "webdataset:mem://fuzz/a.tar?index=auto&missing=empty"};
    fuzz_room room = fuzz_open("mem://fuzz");

    if (size) {
        const char *spec = specs[data[0] % 128 % 3];
        const bool indexed = *data++ >= 128;
        size_t length = 0;
        size--;
        if (indexed) {
            const uint8_t *index = fuzz_take(&data, &size, &length);
            fuzz_put(room.store, "a.idx", index, length);
        }
        fuzz_put(room.store, "a.tar", data, size);
        fuzz_ready(&room);
        open_shard(&room, spec);
        open_shard(&room, "webdataset:mem://fuzz/a.tar?fields=__key__");
    } else {
        fuzz_ready(&room);
    }
    fuzz_close(&room);
    return 0;
}
