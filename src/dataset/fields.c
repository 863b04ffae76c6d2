/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dataset with other fields: some left out, in another order, of other names and types. The inner
 * dataset prepares all its fields. What stays as it is goes straight to its place; what is dropped
 * or cast goes to memory of the thread, some samples at a time.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "dataset/view.h"

#define AT_A_TIME 8          /* samples that the memory of a thread has room for */
#define DIRECT    UINT64_MAX /* no memory of the thread: the value goes to its place */

/* Which field is which. Of one block: the arrays lie behind it. */
typedef struct field_map {
    uint32_t num, num_inner;
    stk_field *fields;
    uint64_t *scratch; /* of each inner field: where its value goes; DIRECT */
    uint64_t bytes;    /* of the memory of a thread, for one sample */
    uint32_t *outer;   /* of each inner field: its number here; UINT32_MAX: dropped */
    uint32_t *inner;   /* of each field: its number there */
    char *names;
} field_map;

/* ---- Threads ---- */

typedef struct thread_room {
    void *inner;       /* what the inner dataset keeps */
    stk_value *values; /* AT_A_TIME times those of the inner dataset */
    char *scratch;
} thread_room;

static uint64_t room_bytes(const field_map *m)
{
    return sizeof(thread_room) + AT_A_TIME * (m->num_inner * sizeof(stk_value) + m->bytes) +
           STK_CACHE_LINE;
}

static thread_room *room_open(stk_dataset *dataset)
{
    const field_map *m = ((const stk__view *)dataset)->extra;
    thread_room *room = stk__alloc_buffer(dataset->context, room_bytes(m));

    if (!room)
        return NULL;
    room->inner = NULL;
    room->values = (stk_value *)(room + 1);
    room->scratch =
        (char *)room + stk__round_up(sizeof *room + AT_A_TIME * m->num_inner * sizeof *room->values,
                                     STK_CACHE_LINE);
    return room;
}

static stk_status fields_worker_open(stk_dataset *dataset, void **worker)
{
    stk_dataset *inner = ((stk__view *)dataset)->inner;
    thread_room *room = room_open(dataset);

    if (!room)
        return STK_ENOMEM;
    const stk_status status =
        inner->ops->worker_open ? inner->ops->worker_open(inner, &room->inner) : STK_OK;
    if (status != STK_OK)
        stk__free(dataset->context, room);
    else
        *worker = room;
    return status;
}

static void fields_worker_close(stk_dataset *dataset, void *worker)
{
    stk_dataset *inner = ((stk__view *)dataset)->inner;
    thread_room *room = worker;

    if (room->inner)
        inner->ops->worker_close(inner, room->inner);
    stk__free(dataset->context, room);
}

/* ---- Needs ---- */

typedef struct renamed {
    stk_locator base;
    stk_locator *to;
    const field_map *map;
} renamed;

static stk_status renamed_add(stk_locator *self, size_t i, const stk_need *need)
{
    renamed *r = (renamed *)self;
    stk_need own = *need;

    if (need->in_place) {
        own.in_place = need->field < r->map->num_inner && r->map->scratch[need->field] == DIRECT;
        own.field = own.in_place ? r->map->outer[need->field] : 0;
    }
    return r->to->add(r->to, i, &own);
}

static void renamed_cost(stk_locator *self, size_t i, double nanoseconds)
{
    renamed *r = (renamed *)self;

    r->to->cost(r->to, i, nanoseconds);
}

static void renamed_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    renamed *r = (renamed *)self;

    if (field < r->map->num_inner && r->map->outer[field] != UINT32_MAX)
        r->to->bytes(r->to, i, r->map->outer[field], bytes);
}

static bool renamed_same(stk_locator *self, size_t i, size_t like)
{
    renamed *r = (renamed *)self;

    return r->to->same(r->to, i, like);
}

static stk_status fields_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                                stk_locator *to, stk_error *err)
{
    const stk__view *view = (const stk__view *)dataset;
    renamed locator = {{sizeof locator.base, renamed_add, renamed_cost, renamed_bytes,
                        to->same ? renamed_same : NULL, to->blocks, to->mixed, NULL},
                       to,
                       view->extra};

    return view->inner->ops->locate(view->inner, indices, n, &locator.base, err);
}

static stk_status fields_decode(stk_dataset *dataset, const stk_need *need, const void *data,
                                void *out, void *worker, const char **reason)
{
    const stk__view *view = (const stk__view *)dataset;
    const field_map *m = view->extra;
    stk_need own = *need;

    own.field = need->in_place && need->field < m->num ? m->inner[need->field] : 0;
    return view->inner->ops->decode(view->inner, &own, data, out,
                                    worker ? ((thread_room *)worker)->inner : NULL, reason);
}

/* ---- Types ---- */

static bool may_cast_to(stk_dtype type)
{
    return type == STK_INT32 || type == STK_INT64 || type == STK_FLOAT32 || type == STK_FLOAT64;
}

/* The integer of one element; false: it has none, or it does not fit. */
static bool as_integer(const char *at, stk_dtype from, int64_t *out)
{
    if (from == STK_INT64 || from == STK_UINT64) {
        memcpy(out, at, sizeof *out);
        return from == STK_INT64 || *out >= 0;
    }
    const double value = stk__element_as_double(at, from);
    if (!(value > -0x1p63 && value < 0x1p63))
        return false;
    *out = (int64_t)value;
    return true;
}

static bool to_integers(void *to, stk_dtype type, const char *from, stk_dtype from_type, uint64_t n)
{
    const size_t size = stk_dtype_size(from_type);

    for (uint64_t i = 0; i < n; i++) {
        int64_t value;
        if (!as_integer(from + i * size, from_type, &value) ||
            (type == STK_INT32 && (value < INT32_MIN || value > INT32_MAX)))
            return false;
        if (type == STK_INT32)
            ((int32_t *)to)[i] = (int32_t)value;
        else
            ((int64_t *)to)[i] = value;
    }
    return true;
}

/* Cast the value of one field of one sample into its place. */
static void cast_value(const stk_field *field, const stk_field *inner, const stk_value *from,
                       stk_sample *sample, stk_value *to)
{
    const uint64_t n = stk_field_bytes(field) / stk_dtype_size(field->dtype);

    if (from->size != n * stk_dtype_size(inner->dtype)) {
        sample->status = STK_EINVAL;
        sample->reason = "the value of a field that is cast has another size than the field";
        return;
    }
    if (stk__dtype_is_float(field->dtype)) {
        stk__elements_to(to->out, field->dtype, from->data, inner->dtype, n);
    } else if (!to_integers(to->out, field->dtype, from->data, inner->dtype, n)) {
        sample->status = STK_EFORMAT;
        sample->reason = "a value does not fit the type that the field is cast to";
        return;
    }
    to->data = to->out;
    to->size = stk_field_bytes(field);
}

/* ---- Samples ---- */

static void lend_values(const stk__view *view, thread_room *room, const stk_sample *sample,
                        size_t i)
{
    const field_map *m = view->extra;
    stk_value *values = room->values + i * m->num_inner;

    for (uint32_t f = 0; f < m->num_inner; f++) {
        if (m->scratch[f] == DIRECT && m->outer[f] != UINT32_MAX) {
            values[f] = sample->values[m->outer[f]];
            continue;
        }
        const uint64_t bytes = stk_field_bytes(&view->inner->fields[f]);
        char *out = bytes ? room->scratch + i * m->bytes + m->scratch[f] : NULL;
        values[f] = (stk_value){.out = out, .capacity = bytes, .data = out, .size = bytes};
    }
}

static void take_values(const stk__view *view, const stk_value *values, stk_sample *sample)
{
    const field_map *m = view->extra;

    for (uint32_t f = 0; sample->status == STK_OK && f < m->num; f++) {
        const uint32_t inner = m->inner[f];
        if (m->scratch[inner] == DIRECT)
            sample->values[f] = values[inner];
        else
            cast_value(&m->fields[f], &view->inner->fields[inner], &values[inner], sample,
                       &sample->values[f]);
    }
}

static void prepare_some(const stk__view *view, thread_room *room, stk_sample *samples, size_t n)
{
    const field_map *m = view->extra;
    stk_sample taken[AT_A_TIME];

    for (size_t i = 0; i < n; i++) {
        lend_values(view, room, &samples[i], i);
        taken[i] = samples[i];
        taken[i].values = room->values + i * m->num_inner;
        taken[i].value_size = sizeof(stk_value);
        taken[i].worker = room->inner;
    }
    view->inner->ops->prepare(view->inner, taken, n);
    for (size_t i = 0; i < n; i++) {
        samples[i].status = taken[i].status;
        samples[i].reason = taken[i].reason;
        samples[i].line = taken[i].line;
        take_values(view, taken[i].values, &samples[i]);
    }
}

static void fields_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const stk__view *view = (const stk__view *)dataset;
    thread_room *own = n && !samples[0].worker ? room_open(dataset) : NULL;

    for (size_t done = 0; done < n; done += AT_A_TIME) {
        thread_room *room = samples[done].worker ? samples[done].worker : own;
        const size_t count = STK_MIN(n - done, (size_t)AT_A_TIME);
        for (size_t i = 0; !room && i < count; i++)
            samples[done + i].status = STK_ENOMEM;
        if (room)
            prepare_some(view, room, samples + done, count);
    }
    stk__free(dataset->context, own);
}

/* ---- What the options say ---- */

/* "a,b" or "a:b,c:d": the next entry. */
typedef struct entry {
    const char *name, *value;
    size_t name_length, value_length;
} entry;

static bool next_entry(const char **at, entry *e)
{
    if (!*at || !**at)
        return false;
    const size_t length = strcspn(*at, ",");
    const char *colon = memchr(*at, ':', length);
    *e = (entry){.name = *at, .name_length = colon ? (size_t)(colon - *at) : length};
    e->value = colon ? colon + 1 : *at + length;
    e->value_length = length - (size_t)(e->value - *at);
    *at += length + ((*at)[length] == ',');
    return true;
}

static bool is_text(const char *text, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

/* The field of a name, which an option gives. */
static stk_status find_field(const stk_field *fields, uint32_t n, const char *option,
                             const entry *e, uint32_t *out, stk_error *err)
{
    char names[200] = "";

    for (uint32_t f = 0; f < n; f++) {
        if (is_text(e->name, e->name_length, fields[f].name)) {
            *out = f;
            return STK_OK;
        }
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", f ? ", " : "", fields[f].name);
    }
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option, STK_NO_OFFSET,
                        "%s: there is no field '%.*s'; the fields are %s", option,
                        (int)STK_MIN(e->name_length, 60), e->name, names);
}

static stk_status choose(field_map *m, const stk_dataset *d, const char *keep, const char *drop,
                         stk_error *err)
{
    const char *at = keep ? keep : drop;
    uint32_t f = 0;
    entry e;

    for (uint32_t i = 0; i < m->num_inner; i++)
        m->outer[i] = keep ? UINT32_MAX : 0;
    while (next_entry(&at, &e)) {
        STK_TRY(find_field(d->fields, d->num_fields, keep ? "keep" : "drop", &e, &f, err));
        if (keep && m->outer[f] != UINT32_MAX)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "keep", STK_NO_OFFSET,
                                "keep: the field '%s' stands twice", d->fields[f].name);
        if (keep) {
            m->outer[f] = m->num;
            m->inner[m->num++] = f;
        } else {
            m->outer[f] = UINT32_MAX;
        }
    }
    for (uint32_t i = 0; !keep && i < m->num_inner; i++)
        if (m->outer[i] != UINT32_MAX) {
            m->outer[i] = m->num;
            m->inner[m->num++] = i;
        }
    for (uint32_t i = 0; i < m->num; i++)
        m->fields[i] = d->fields[m->inner[i]];
    return m->num ? STK_OK
                  : stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, keep ? "keep" : "drop",
                                 STK_NO_OFFSET, "%s leaves no field", keep ? "keep" : "drop");
}

static stk_status give_names(field_map *m, const stk_dataset *d, const char *rename, stk_error *err)
{
    const char *at = rename;
    char *to = m->names;
    uint32_t f = 0;
    entry e;

    while (next_entry(&at, &e)) {
        STK_TRY(find_field(d->fields, d->num_fields, "rename", &e, &f, err));
        if (e.value_length == 0 || m->outer[f] == UINT32_MAX)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "rename", STK_NO_OFFSET,
                                "rename: the field '%s' %s", d->fields[f].name,
                                e.value_length ? "is dropped" : "gets no name; write OLD:NEW");
        memcpy(to, e.value, e.value_length);
        to[e.value_length] = 0;
        m->fields[m->outer[f]].name = to;
        to += e.value_length + 1;
    }
    for (uint32_t i = 0; i < m->num; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(m->fields[i].name, m->fields[k].name) == 0)
                return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "rename", STK_NO_OFFSET,
                                    "rename: two fields are called '%.60s'; drop or rename one",
                                    m->fields[i].name);
    return STK_OK;
}

static stk_status cast_fields(field_map *m, const char *cast, stk_error *err)
{
    const char *at = cast;
    uint32_t f = 0;
    entry e;

    while (next_entry(&at, &e)) {
        char name[24] = "";
        STK_TRY(find_field(m->fields, m->num, "cast", &e, &f, err));
        memcpy(name, e.value, STK_MIN(e.value_length, sizeof name - 1));
        const stk_dtype type = stk_dtype_parse(name);
        if (!may_cast_to(type))
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "cast", STK_NO_OFFSET,
                                "cast: '%s' is none of int32, int64, float32 and float64; write "
                                "FIELD:TYPE, as label:int64",
                                name);
        if (m->fields[f].layout != STK_FIXED || m->fields[f].dtype >= STK_COMPLEX64)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "cast", STK_NO_OFFSET,
                                "cast: the field '%.60s' has no fixed number of real numbers",
                                m->fields[f].name);
        m->fields[f].dtype = type;
        m->fields[f].picture = m->fields[f].mask = false;
    }
    return STK_OK;
}

/* Where the values of the inner fields go. What is copied is of known size; what is encoded is
 * pointed at. */
static stk_status place_values(field_map *m, const stk_dataset *d, stk_error *err)
{
    for (uint32_t i = 0; i < m->num_inner; i++) {
        const stk_field *field = &d->fields[i];
        const bool stays =
            m->outer[i] != UINT32_MAX && m->fields[m->outer[i]].dtype == field->dtype;
        m->scratch[i] = stays ? DIRECT : m->bytes;
        if (stays)
            continue;
        if (field->layout != STK_FIXED && !field->codec[0])
            return stk__fail_at(
                err, STK_ENOTSUP, STK_STAGE_OPTIONS, "drop", STK_NO_OFFSET,
                "the field '%.60s' is of any length, and can't be dropped; keep it, or "
                "leave its column out of a table by columns=COLUMN,...",
                field->name);
        if (!stk__add_size(m->bytes, stk__round_up(stk_field_bytes(field), STK_CACHE_LINE),
                           &m->bytes) ||
            m->bytes > UINT32_MAX)
            return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                             "fields of more than 4 GiB are dropped or cast");
    }
    return STK_OK;
}

static field_map *make_map(const stk_dataset *d, const char *rename)
{
    const uint64_t n = d->num_fields;
    field_map *m = stk__calloc(d->context, 1,
                               sizeof *m + n * (sizeof *m->fields + 8 + 4 + 4) +
                                   (rename ? strlen(rename) : 0) + 1);

    if (!m)
        return NULL;
    m->num_inner = d->num_fields;
    m->fields = (stk_field *)(m + 1);
    m->scratch = (uint64_t *)(m->fields + n);
    m->outer = (uint32_t *)(m->scratch + n);
    m->inner = m->outer + n;
    m->names = (char *)(m->inner + n);
    return m;
}

static void set_ops(stk__view *view, const stk_dataset *d, const field_map *m)
{
    view->ops.prepare = fields_prepare;
    view->ops.prepare_rows = NULL;
    view->ops.worker_open = fields_worker_open;
    view->ops.worker_close = fields_worker_close;
    if (view->ops.locate)
        view->ops.locate = fields_locate;
    if (view->ops.decode)
        view->ops.decode = fields_decode;
    view->base.fields = m->fields;
    view->base.num_fields = m->num;
    view->base.worker_bytes += room_bytes(m);
    stk__view_same_indices(view, d);
}

stk_status stk__dataset_fields(stk_dataset **dataset, const char *keep, const char *drop,
                               const char *rename, const char *cast, stk_error *err)
{
    const char *const texts[] = {keep, drop, rename, cast};
    stk__view *view = NULL;

    if (keep && drop)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "drop", STK_NO_OFFSET,
                            "keep and drop both say which fields there are; give one of them");
    STK_TRY(stk__view_create(*dataset, (*dataset)->size, "fields", &view, err));
    field_map *m = view->extra = make_map(*dataset, rename);
    stk_status status = m ? choose(m, *dataset, keep, drop, err)
                          : stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for fields");
    if (status == STK_OK)
        status = give_names(m, *dataset, rename, err);
    if (status == STK_OK)
        status = cast_fields(m, cast, err);
    if (status == STK_OK)
        status = place_values(m, *dataset, err);
    if (status != STK_OK) {
        stk__free((*dataset)->context, m);
        stk__free((*dataset)->context, view);
        return status;
    }
    set_ops(view, *dataset, m);
    for (size_t i = 0; i < STK_COUNT(texts); i++)
        view->base.fingerprint = stk__fingerprint(view->base.fingerprint, texts[i] ? texts[i] : "",
                                                  texts[i] ? strlen(texts[i]) + 1 : 1);
    snprintf(view->text, sizeof view->text, "%u of %u", m->num, m->num_inner);
    stk__view_finish(view, dataset);
    return STK_OK;
}
