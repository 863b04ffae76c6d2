/* SPDX-License-Identifier: Apache-2.0 */
/* The members of a sample -> the values of its fields. */
#include "dataset/records/webdataset_fields.h"
#include "dataset/tar_header.h"

#define NO_LABEL       INT64_C(-1)           /* where a label is missing and may be */
#define INFLATER_BYTES (UINT64_C(128) << 10) /* that an inflater keeps, nearly */

/* What a thread keeps for arrays that are inflated. */
typedef struct inflating {
    stk__codec_state *state;
    uint64_t size;
    unsigned char room[]; /* `size` bytes */
} inflating;

/* ---- Samples --------------------------------------------------------------------------------- */

static void set_bad(stk_sample *s, stk_status status, const char *reason)
{
    s->status = status;
    s->reason = reason;
}

/* Decimal digits with a sign, and space around them. */
static bool read_label(const stk_slice *bytes, int64_t *out)
{
    const char *at = bytes->data, *end = at + bytes->size;
    uint64_t value = 0;
    bool any = false;

    while (at < end && (*at == ' ' || (*at >= '\t' && *at <= '\r')))
        at++;
    const bool negative = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    for (; at < end && *at >= '0' && *at <= '9'; at++, any = true)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value) || value > INT64_MAX)
            return false;
    while (at < end && (*at == ' ' || (*at >= '\t' && *at <= '\r')))
        at++;
    *out = negative ? -(int64_t)value : (int64_t)value;
    return any && at == end;
}

static void give_label(stk_value *value, int64_t label)
{
    memcpy(value->out, &label, sizeof label);
    value->data = value->out;
    value->size = sizeof label;
}

/* Type and shape as those of the first, but for the first dimension of a ragged one. */
static bool same_kind(const stk_field *field, const stk__npy_header *a, const stk__npy_header *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (uint32_t i = field->layout == STK_RAGGED; i < a->rank; i++)
        if (a->shape[i] != b->shape[i])
            return false;
    return !b->fortran || b->rank < 2;
}

/* An npy file of `length` bytes; `stays`: it lives as long as the sample is on its way. */
static void give_npy(stk_sample *s, const stk_field *field, const stk__webdataset_field *state,
                     const void *file, uint64_t length, bool stays, stk_value *value)
{
    stk__npy_header h;
    uint64_t header = 0;

    if (stk__npy_measure(file, STK_MIN(length, STK_NPY_PREAMBLE), length, "", &header, NULL) !=
            STK_OK ||
        stk__npy_parse(file, header, length, false, "", &h, NULL) != STK_OK) {
        set_bad(s, STK_EFORMAT, "a member .npy is no sound npy file");
        return;
    }
    if (!same_kind(field, &state->npy, &h)) {
        set_bad(s, STK_EFORMAT, "a member .npy has another type or shape than the first sample's");
        return;
    }
    const unsigned char *data = (const unsigned char *)file + h.offset;
    value->data = data;
    value->size = h.bytes;
    if (h.swap)
        stk__npy_swap(data, value->out, h.bytes, h.swap);
    else if (!stays && h.bytes)
        memcpy(value->out, data, h.bytes);
    if (h.swap || !stays)
        value->data = value->out;
}

/* ---- Arrays of npz archives ------------------------------------------------------------------ */

uint64_t stk__webdataset_worker_bytes(const stk__webdataset *w)
{
    return w->inflated_most ? sizeof(inflating) + w->inflated_most + INFLATER_BYTES : 0;
}

static inflating *inflating_open(stk_dataset *dataset)
{
    const stk__webdataset *w = ((const stk__records *)dataset)->state;
    inflating *in = stk__alloc(dataset->context, sizeof *in + w->inflated_most);

    if (!in)
        return NULL;
    in->size = w->inflated_most;
    if (stk__codec_state_create(dataset->context, &in->state, NULL) == STK_OK)
        return in;
    stk__free(dataset->context, in);
    return NULL;
}

void stk__webdataset_worker_close(stk_dataset *dataset, void *worker)
{
    inflating *in = worker;

    if (!in)
        return;
    stk__codec_state_destroy(&in->state);
    stk__free(dataset->context, in);
}

stk_status stk__webdataset_worker_open(stk_dataset *dataset, void **worker)
{
    const stk__webdataset *w = ((const stk__records *)dataset)->state;

    *worker = w->inflated_most ? inflating_open(dataset) : NULL;
    return *worker || !w->inflated_most ? STK_OK : STK_ENOMEM;
}

static void give_zipped(stk_sample *s, const stk_field *field, const stk__webdataset_field *state,
                        const stk_slice *bytes, inflating *in, stk_value *value)
{
    stk__webdataset_zipped zipped;

    if (!stk__webdataset_unzip(bytes->data, bytes->size, &zipped)) {
        set_bad(s, STK_EFORMAT, "an array in its npz has a damaged header");
        return;
    }
    if (zipped.deflated && field->layout == STK_RAGGED) {
        set_bad(s, STK_EKIND,
                "an array in its npz is deflated, and others of it have other "
                "lengths; write such ones with numpy.savez()");
        return;
    }
    if (zipped.deflated && in && zipped.size > in->size) {
        set_bad(s, STK_EFORMAT, "a deflated array in its npz is larger than the first sample's");
        return;
    }
    if (zipped.deflated && !in) {
        set_bad(s, STK_ENOMEM, "there is no memory to inflate an array of its npz");
        return;
    }
    const void *file = stk__webdataset_inflate(&zipped, in ? in->state : NULL, in ? in->room : NULL,
                                               &s->status, &s->reason);
    if (file)
        give_npy(s, field, state, file, zipped.size, !zipped.deflated, value);
}

static void give_part(const stk__webdataset *w, stk_sample *s, uint32_t field,
                      const stk_slice *bytes, inflating *in)
{
    stk_value *value = &s->values[field];
    int64_t label;

    switch (w->states[field].form) {
    case STK__WEBDATASET_NPY:
        if (w->states[field].zipped)
            give_zipped(s, &w->fields[field], &w->states[field], bytes, in, value);
        else
            give_npy(s, &w->fields[field], &w->states[field], bytes->data, bytes->size, true,
                     value);
        return;
    case STK__WEBDATASET_LABEL:
        if (read_label(bytes, &label))
            give_label(value, label);
        else
            set_bad(s, STK_EFORMAT, "its member .cls holds no number; write decimal digits");
        return;
    case STK__WEBDATASET_IMAGE:
        if (!bytes->size)
            set_bad(s, STK_ETRUNCATED, "its picture is empty; pack the shard again");
        break;
    case STK__WEBDATASET_BYTES:
        break;
    }
    value->data = bytes->data;
    value->size = bytes->size;
}

/* The key of a sample whose first member has this header, which has been read before. */
static void give_key(stk_sample *s, const stk_slice *bytes, stk_value *value)
{
    stk__tar_head head;
    const char *what, *name = head.name;

    if (bytes->size != STK__TAR_BLOCK || stk__tar_head_read(bytes->data, &head, &what) != STK_OK) {
        set_bad(s, STK_EFORMAT, "the header of its first member is damaged");
        return;
    }
    while (name[0] == '.' && name[1] == '/')
        name += 2 + strspn(name + 2, "/");
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    value->size = (uint64_t)(base - name) + strcspn(base, ".");
    memcpy(value->out, name, value->size);
    value->data = value->out;
}

/* What a sample lacks. */
static void give_missing(const stk__webdataset *w, stk_sample *s, const bool *there)
{
    for (uint32_t i = 0; i < w->count; i++) {
        if (there[i])
            continue;
        if (w->missing != STK__WEBDATASET_EMPTY || w->fields[i].codec[0]) {
            set_bad(s, STK_ENOENT, "it lacks a member that other samples have");
            return;
        }
        if (w->states[i].form == STK__WEBDATASET_LABEL) {
            give_label(&s->values[i], NO_LABEL);
        } else {
            s->values[i].data = "";
            s->values[i].size = 0;
        }
    }
}

void stk__webdataset_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const stk__records *set = (const stk__records *)dataset;
    const stk__webdataset *w = set->state;
    bool there[STK__RECORDS_MAX_KINDS];
    inflating *own = n && w->inflated_most && !samples[0].worker ? inflating_open(dataset) : NULL;

    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        inflating *in = s->worker ? s->worker : own;
        uint32_t count, need = 0;
        const stk__record_part *parts = stk__records_parts(set, s->index, &count);
        memset(there, 0, w->count);
        for (uint32_t k = 0; k < count && s->status == STK_OK; k++) {
            const int field = set->field_of[parts[k].kind];
            if (field < 0)
                continue;
            there[field] = true;
            if ((int)parts[k].kind == w->key_header)
                give_key(s, &s->needs[need++], &s->values[field]);
            else
                give_part(w, s, (uint32_t)field, &s->needs[need++], in);
        }
        if (!w->whole && s->status == STK_OK)
            give_missing(w, s, there);
    }
    stk__webdataset_worker_close(dataset, own);
}
