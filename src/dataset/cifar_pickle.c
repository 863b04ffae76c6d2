/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/cifar_pickle.h"

#include <inttypes.h>

#include "base/bytes.h"
#include "base/pickle.h"

#define MAX_VALUES (1u << 20)  /* CIFAR-100 has 50,000 pictures: two labels and a name for each */
#define MAX_BYTES  (16u << 20) /* beside the pictures: some 2 MB */
#define UNPACK     "unpack the archive again"

enum { ARRAY = STK__PICKLE_OWN, TYPE };

/* Names that an array needs [numpy/_core/src/multiarray/methods.c, array_reduce]. */
enum { RECONSTRUCT, NDARRAY, DTYPE };

static const stk__pickle_name known[] = {
    {"numpy.core.multiarray", "_reconstruct", RECONSTRUCT, 0},
    {"numpy._core.multiarray", "_reconstruct", RECONSTRUCT, 0},
    {"numpy", "ndarray", NDARRAY, 0},
    {"numpy", "dtype", DTYPE, 0},
};

static stk_status no_array(stk__pickle *m)
{
    return stk__pickle_fail(m, STK_EFORMAT,
                            "is damaged: an array of it is none (byte %" PRIu64 "); " UNPACK,
                            stk__pickle_offset(m));
}

/* _reconstruct(ndarray, (0,), "b"), dtype("u1", False, True): their states follow. */
static stk_status reduce(stk__pickle *m, uint32_t global, uint32_t arguments, uint32_t *out)
{
    const stk__pickle_value *of = &m->values[global], *t = &m->values[arguments];
    char shown[STK__PICKLE_SHOWN];

    if (of->kind != STK__PICKLE_GLOBAL || t->kind != STK__PICKLE_TUPLE)
        return no_array(m);
    if (of->global == RECONSTRUCT) {
        const stk__pickle_value *class = stk__pickle_item(m, t, 0, STK__PICKLE_GLOBAL);
        if (!class || class->global != NDARRAY)
            return no_array(m);
        return stk__pickle_make(m, (stk__pickle_value){.kind = ARRAY}, out);
    }
    const stk__pickle_value *name = stk__pickle_item(m, t, 0, STK__PICKLE_TEXT);
    if (of->global != DTYPE || !name)
        return no_array(m);
    if (!stk__pickle_is(name->text, "u1"))
        return stk__pickle_fail(m, STK_EKIND,
                                "has an array of type '%s' (byte %" PRIu64
                                "): pictures are of bytes, 'u1'; " UNPACK,
                                stk__pickle_show(name->text, shown), stk__pickle_offset(m));
    return stk__pickle_make(m, (stk__pickle_value){.kind = TYPE}, out);
}

/* That of bytes says nothing more. */
static stk_status build(stk__pickle *m, uint32_t object, uint32_t state)
{
    stk__pickle_value *v = &m->values[object];

    if ((v->kind != ARRAY && v->kind != TYPE) || m->values[state].kind != STK__PICKLE_TUPLE)
        return no_array(m);
    v->state = state;
    return STK_OK;
}

static const stk__pickle_meaning meaning = {
    .stage = STK_STAGE_DATASET,
    .max_values = MAX_VALUES,
    .max_bytes = MAX_BYTES,
    .more = "holds more than pictures and labels",
    .remedy = UNPACK,
    .protocol = "CIFAR's files are of protocol 2; " UNPACK,
    .again = UNPACK,
    .names = known,
    .num_names = STK_COUNT(known),
    .reduce = reduce,
    .build = build,
};

/* ---- Reading ---- */

typedef struct place {
    stk_store *store;
    const stk__object *file;
} place;

static stk_status read_place(void *user, uint64_t offset, uint64_t length, void *to, stk_error *err)
{
    const place *p = user;

    return stk__object_read(p->store, p->file, offset, length, to, err);
}

/* Run a file; *dict is the dictionary that it is. The machine is released in any case by the
 * caller. */
static stk_status run(stk__pickle *m, const stk__pickle_value **dict)
{
    uint32_t root = 0;

    STK_TRY(stk__pickle_run(m, &root));
    *dict = &m->values[root];
    if ((*dict)->kind != STK__PICKLE_DICT)
        return stk__pickle_fail(m, STK_EFORMAT, "is no dictionary; " UNPACK);
    return STK_OK;
}

/* The list of a dictionary, which has `count` items. */
static stk_status find_list(stk__pickle *m, const stk__pickle_value *dict, const char *key,
                            uint64_t count, const stk__pickle_value **list)
{
    *list = stk__pickle_find(m, dict, key);
    if (!*list || (*list)->kind != STK__PICKLE_LIST)
        return stk__pickle_fail(m, STK_EFORMAT, "has no list '%s'; " UNPACK, key);
    if ((*list)->items.count != count)
        return stk__pickle_fail(m, STK_EFORMAT,
                                "has %" PRIu32 " '%s' where %" PRIu64 " belong; " UNPACK,
                                (*list)->items.count, key, count);
    return STK_OK;
}

/* The rows: (version, (pictures, row), type, in Fortran's order, bytes) is the array's state. */
static stk_status find_pixels(stk__pickle *m, const stk__pickle_value *dict, uint32_t row,
                              stk__cifar_batch *out)
{
    const stk__pickle_value *data = stk__pickle_find(m, dict, "data");

    if (!data || data->kind != ARRAY || !data->state)
        return stk__pickle_fail(m, STK_EFORMAT, "has no array 'data'; " UNPACK);
    const stk__pickle_value *state = &m->values[data->state];
    const stk__pickle_value *shape = stk__pickle_item(m, state, 1, STK__PICKLE_TUPLE);
    const stk__pickle_value *fortran = stk__pickle_item(m, state, 3, STK__PICKLE_NONE);
    const stk__pickle_value *bytes = stk__pickle_item(m, state, 4, STK__PICKLE_FAR);
    const stk__pickle_value *count = shape ? stk__pickle_item(m, shape, 0, STK__PICKLE_INT) : NULL;
    const stk__pickle_value *side = shape ? stk__pickle_item(m, shape, 1, STK__PICKLE_INT) : NULL;
    if (!count || !side || shape->items.count != 2 || side->number != row ||
        !stk__pickle_item(m, state, 2, TYPE) || !fortran || fortran->number || !bytes ||
        bytes->far.length % row || count->number != bytes->far.length / row)
        return stk__pickle_fail(
            m, STK_EFORMAT,
            "has an array 'data' that is not of bytes, in rows of %" PRIu32 "; " UNPACK, row);
    out->pixels = bytes->far.offset;
    out->count = (uint64_t)count->number;
    return STK_OK;
}

static stk_status take_labels(stk__pickle *m, const stk__pickle_value *list, const char *key,
                              uint32_t classes, uint8_t *labels)
{
    uint32_t cell = list->items.first;

    for (uint32_t i = 0; i < list->items.count; i++) {
        const stk__pickle_value *v = &m->values[m->cells[cell].value];
        if (v->kind != STK__PICKLE_INT || v->number < 0 || v->number >= classes)
            return stk__pickle_fail(m, STK_EFORMAT,
                                    "has '%s' of which number %" PRIu32
                                    " is no label of 0 to %" PRIu32 "; " UNPACK,
                                    key, i, classes - 1);
        labels[i] = (uint8_t)v->number;
        cell = m->cells[cell].next;
    }
    return STK_OK;
}

static stk_status take_batch(stk__pickle *m, uint32_t row, const char *key, uint32_t classes,
                             stk__cifar_batch *out)
{
    const stk__pickle_value *dict = NULL, *list = NULL;

    STK_TRY(run(m, &dict));
    STK_TRY(find_pixels(m, dict, row, out));
    STK_TRY(find_list(m, dict, key, out->count, &list));
    out->labels = stk__alloc(m->ctx, (size_t)out->count);
    if (!out->labels)
        return stk__pickle_fail(m, STK_ENOMEM, "has more labels than there is memory for");
    return take_labels(m, list, key, classes, out->labels);
}

stk_status stk__cifar_read_batch(stk_store *store, const stk__object *file, uint32_t row,
                                 const char *key, uint32_t classes, stk__cifar_batch *out,
                                 stk_error *err)
{
    place p = {store, file};
    const stk__pickle_source source = {.read = read_place, .user = &p, .length = file->size};
    stk__pickle m = {
        .ctx = store->context, .of = &meaning, .path = file->key, .err = err, .source = &source};

    *out = (stk__cifar_batch){0};
    const stk_status status = take_batch(&m, row, key, classes, out);
    stk__pickle_release(&m);
    if (status != STK_OK) {
        stk__free(store->context, out->labels);
        *out = (stk__cifar_batch){0};
    }
    return status;
}

static stk_status take_names(stk__pickle *m, const char *key, uint32_t classes, char *room,
                             size_t size, const char **names)
{
    const stk__pickle_value *dict = NULL, *list = NULL;

    STK_TRY(run(m, &dict));
    STK_TRY(find_list(m, dict, key, classes, &list));
    uint32_t cell = list->items.first;
    for (uint32_t i = 0; i < classes; i++) {
        const stk__pickle_value *v = &m->values[m->cells[cell].value];
        if (v->kind != STK__PICKLE_TEXT || v->text.length >= size ||
            memchr(v->text.at, 0, v->text.length) || !stk__utf8_valid(v->text.at, v->text.length))
            return stk__pickle_fail(
                m, STK_EFORMAT, "has '%s' of which number %" PRIu32 " is no name; " UNPACK, key, i);
        names[i] = memcpy(room, v->text.at, v->text.length);
        room[v->text.length] = 0;
        room += v->text.length + 1;
        size -= v->text.length + 1;
        cell = m->cells[cell].next;
    }
    return STK_OK;
}

stk_status stk__cifar_read_names(stk_store *store, const stk__object *file, const char *key,
                                 uint32_t classes, char *room, size_t size, const char **names,
                                 stk_error *err)
{
    place p = {store, file};
    const stk__pickle_source source = {.read = read_place, .user = &p, .length = file->size};
    stk__pickle m = {
        .ctx = store->context, .of = &meaning, .path = file->key, .err = err, .source = &source};

    const stk_status status = take_names(&m, key, classes, room, size, names);
    stk__pickle_release(&m);
    return status;
}
