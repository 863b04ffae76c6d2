/* SPDX-License-Identifier: Apache-2.0 */
/* What the objects of a pickle mean: torch._utils and torch.serialization, for tensors. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/pickle.h"
#include "checkpoint/pth/pth.h"

#define REMEDY "save the weights alone, torch.save(model.state_dict(), FILE)"

enum { STORAGE = STK__PICKLE_OWN, TENSOR };

/* Names that tensors need. */
typedef enum pth_global {
    ORDERED_DICT,
    TENSOR_V2,
    TENSOR_V3,
    PARAMETER,
    STORAGE_CLASS, /* of a type of elements, or of none */
    DTYPE
} pth_global;

static const stk__pickle_name known[] = {
    {"collections", "OrderedDict", ORDERED_DICT, STK_DTYPE_NONE},
    {"torch._utils", "_rebuild_tensor_v2", TENSOR_V2, STK_DTYPE_NONE},
    {"torch._utils", "_rebuild_tensor_v3", TENSOR_V3, STK_DTYPE_NONE},
    {"torch._utils", "_rebuild_parameter", PARAMETER, STK_DTYPE_NONE},
    {"torch.storage", "UntypedStorage", STORAGE_CLASS, STK_DTYPE_NONE},
    {"torch", "FloatStorage", STORAGE_CLASS, STK_FLOAT32},
    {"torch", "DoubleStorage", STORAGE_CLASS, STK_FLOAT64},
    {"torch", "HalfStorage", STORAGE_CLASS, STK_FLOAT16},
    {"torch", "BFloat16Storage", STORAGE_CLASS, STK_BFLOAT16},
    {"torch", "LongStorage", STORAGE_CLASS, STK_INT64},
    {"torch", "IntStorage", STORAGE_CLASS, STK_INT32},
    {"torch", "ShortStorage", STORAGE_CLASS, STK_INT16},
    {"torch", "CharStorage", STORAGE_CLASS, STK_INT8},
    {"torch", "ByteStorage", STORAGE_CLASS, STK_UINT8},
    {"torch", "BoolStorage", STORAGE_CLASS, STK_BOOL},
    {"torch", "ComplexFloatStorage", STORAGE_CLASS, STK_COMPLEX64},
    {"torch", "ComplexDoubleStorage", STORAGE_CLASS, STK_COMPLEX128},
    {"torch", "uint16", DTYPE, STK_UINT16},
    {"torch", "uint32", DTYPE, STK_UINT32},
    {"torch", "uint64", DTYPE, STK_UINT64},
};

static stk_status no_tensor(stk__pickle *m)
{
    return stk__pickle_fail(m, STK_EFORMAT, "is damaged: a tensor of it is none (byte %" PRIu64 ")",
                            stk__pickle_offset(m));
}

/* ("storage", class, key, location, elements) */
static stk_status persistent(stk__pickle *m, uint32_t id, uint32_t *out)
{
    const stk__pickle_value *t = &m->values[id];
    const stk__pickle_value *word = stk__pickle_item(m, t, 0, STK__PICKLE_TEXT);
    const stk__pickle_value *type = stk__pickle_item(m, t, 1, STK__PICKLE_GLOBAL);
    const stk__pickle_value *count = stk__pickle_item(m, t, 4, STK__PICKLE_INT);

    if (t->kind != STK__PICKLE_TUPLE || t->items.count != 5 || !word ||
        !stk__pickle_is(word->text, "storage") || !type || type->global != STORAGE_CLASS ||
        !stk__pickle_item(m, t, 2, STK__PICKLE_TEXT) || !count || count->number < 0)
        return no_tensor(m);
    return stk__pickle_make(m, (stk__pickle_value){.kind = STORAGE, .index = id}, out);
}

/* A tuple of sizes or steps. */
static bool take_sides(const stk__pickle *m, const stk__pickle_value *tuple,
                       uint64_t out[STK_MAX_RANK])
{
    for (uint32_t i = 0; i < tuple->items.count; i++) {
        const stk__pickle_value *side = stk__pickle_item(m, tuple, i, STK__PICKLE_INT);
        if (!side || side->number < 0)
            return false;
        out[i] = (uint64_t)side->number;
    }
    return true;
}

/* Torch's metadata of a tensor: {} or None, or what has to be done to the elements when they are
 * read. */
static bool is_plain(const stk__pickle_value *metadata)
{
    return !metadata || metadata->kind == STK__PICKLE_NONE ||
           (metadata->kind == STK__PICKLE_DICT && metadata->items.count == 0);
}

/* (storage, offset, sizes, steps, requires_grad, hooks[, metadata]); v3 has the type before the
 * metadata. The name stays as it is. */
static stk_status rebuild(stk__pickle *m, const stk__pickle_value *tensor, stk__pth_tensor *out)
{
    const bool v3 = tensor->global == TENSOR_V3;
    const stk__pickle_value *t = &m->values[tensor->index];
    const stk__pickle_value *storage = stk__pickle_item(m, t, 0, STORAGE);
    const stk__pickle_value *offset = stk__pickle_item(m, t, 1, STK__PICKLE_INT);
    const stk__pickle_value *sizes = stk__pickle_item(m, t, 2, STK__PICKLE_TUPLE);
    const stk__pickle_value *steps = stk__pickle_item(m, t, 3, STK__PICKLE_TUPLE);
    const stk__pickle_value *type = v3 ? stk__pickle_item(m, t, 6, STK__PICKLE_GLOBAL) : NULL;
    char shown[STK__PICKLE_SHOWN];

    if (!storage || !offset || offset->number < 0 || !sizes || !steps ||
        sizes->items.count != steps->items.count || (v3 && !type) ||
        (type && type->global != DTYPE))
        return no_tensor(m);
    if (sizes->items.count > STK_MAX_RANK)
        return stk__pickle_fail(m, STK_EKIND,
                                "has a tensor of %" PRIu32 " dimensions; %d are the most",
                                sizes->items.count, STK_MAX_RANK);
    if (!is_plain(stk__pickle_any_item(m, t, v3 ? 7 : 6)))
        return stk__pickle_fail(m, STK_EKIND,
                                "has the tensor '%s' conjugated or negated: save "
                                "tensor.resolve_conj().resolve_neg()",
                                stk__pickle_show(out->name, shown));
    const stk__pickle_value *id = &m->values[storage->index];
    const stk__pickle_value *class = stk__pickle_item(m, id, 1, STK__PICKLE_GLOBAL);
    out->key = stk__pickle_any_item(m, id, 2)->text;
    out->dtype = type ? type->dtype : class->dtype;
    out->rank = sizes->items.count;
    out->offset = (uint64_t)offset->number;
    out->storage_bytes = (uint64_t)stk__pickle_any_item(m, id, 4)->number;
    if (class->dtype != STK_DTYPE_NONE &&
        !stk__mul_size(out->storage_bytes, stk_dtype_size(class->dtype), &out->storage_bytes))
        return no_tensor(m);
    if (out->dtype == STK_DTYPE_NONE || !take_sides(m, sizes, out->shape) ||
        !take_sides(m, steps, out->stride))
        return no_tensor(m);
    return STK_OK;
}

static stk_status reduce(stk__pickle *m, uint32_t global, uint32_t arguments, uint32_t *out)
{
    const stk__pickle_value *of = &m->values[global], *t = &m->values[arguments];

    if (of->kind != STK__PICKLE_GLOBAL || t->kind != STK__PICKLE_TUPLE)
        return no_tensor(m);
    switch (of->global) {
    case ORDERED_DICT:
        if (t->items.count)
            return no_tensor(m);
        return stk__pickle_make(m, (stk__pickle_value){.kind = STK__PICKLE_DICT}, out);
    case TENSOR_V2:
    case TENSOR_V3:
        return stk__pickle_make(
            m, (stk__pickle_value){.kind = TENSOR, .global = of->global, .index = arguments}, out);
    case PARAMETER: /* (tensor, requires_grad, hooks) */
        if (!stk__pickle_item(m, t, 0, TENSOR))
            return no_tensor(m);
        *out = m->cells[t->items.first].value;
        return STK_OK;
    default:
        return no_tensor(m);
    }
}

/* ---- What the pickle is ---- */

/* No file has one name twice. */
static stk_status check_names(stk__pickle *m, const stk__pth_tensors *tensors)
{
    char shown[STK__PICKLE_SHOWN];
    stk_status status = STK_OK;

    stk__pickle_text *names = stk__calloc(m->ctx, tensors->count + 1, sizeof *names);
    if (!names)
        return stk__pickle_fail(m, STK_ENOMEM, "has more tensors than there is memory for");
    for (size_t i = 0; i < tensors->count; i++)
        names[i] = tensors->all[i].name;
    qsort(names, tensors->count, sizeof *names, stk__pth_text_compare);
    for (size_t i = 1; i < tensors->count && status == STK_OK; i++)
        if (stk__pth_text_compare(&names[i - 1], &names[i]) == 0)
            status = stk__pickle_fail(m, STK_EFORMAT, "has two tensors '%s'",
                                      stk__pickle_show(names[i], shown));
    stk__free(m->ctx, names);
    return status;
}

static stk_status take(stk__pickle *m, const stk__pickle_value *dict, stk__pth_tensors *out)
{
    char shown[STK__PICKLE_SHOWN];
    uint32_t cell = dict->items.first;

    for (uint32_t i = 0; i < dict->items.count; i += 2) {
        const stk__pickle_value *k = &m->values[m->cells[cell].value];
        cell = m->cells[cell].next;
        const stk__pickle_value *v = &m->values[m->cells[cell].value];
        cell = m->cells[cell].next;
        const stk__pickle_text name =
            k->kind == STK__PICKLE_TEXT ? k->text : (stk__pickle_text){"", 0};
        if (v->kind != TENSOR || name.length == 0)
            return stk__pickle_fail(m, STK_EKIND,
                                    "has '%s' among its weights, which is no tensor"
                                    "; " REMEDY,
                                    stk__pickle_show(name, shown));
        if (memchr(name.at, 0, name.length) || !stk__utf8_valid(name.at, name.length))
            return stk__pickle_fail(m, STK_EFORMAT, "has a tensor whose name '%s' is no text",
                                    stk__pickle_show(name, shown));
        out->all[out->count].name = name;
        STK_TRY(rebuild(m, v, &out->all[out->count]));
        out->count++;
    }
    return check_names(m, out);
}

static stk_status select_tensors(stk__pickle *m, uint32_t root, stk__pth_tensors *out)
{
    static const char *const keys[] = {"state_dict", "model_state_dict", "model"};
    const stk__pickle_value *dict = &m->values[root], *inner = NULL;

    if (dict->kind != STK__PICKLE_DICT)
        return stk__pickle_fail(m, STK_EKIND,
                                "is no dictionary of tensors"
                                "; " REMEDY);
    for (size_t i = 0; i < STK_COUNT(keys) && !inner; i++) {
        inner = stk__pickle_find(m, dict, keys[i]);
        if (inner && inner->kind != STK__PICKLE_DICT)
            inner = NULL;
    }
    if (inner)
        dict = inner;
    if (dict->items.count / 2 > STK__PTH_MAX_TENSORS)
        return stk__pickle_fail(m, STK_ELIMIT, "has more than %" PRIu32 " tensors",
                                STK__PTH_MAX_TENSORS);
    out->all = stk__calloc(m->ctx, (uint64_t)dict->items.count / 2 + 1, sizeof *out->all);
    if (!out->all)
        return stk__pickle_fail(m, STK_ENOMEM, "has more tensors than there is memory for");
    const stk_status status = take(m, dict, out);
    if (status != STK_OK) {
        stk__free(m->ctx, out->all);
        *out = (stk__pth_tensors){0};
    }
    return status;
}

static const stk__pickle_meaning meaning = {
    .stage = STK_STAGE_TRAIN,
    .max_values = STK__PTH_MAX_VALUES,
    .more = "holds more than tensors",
    .remedy = REMEDY,
    .protocol = "save it with the protocol of torch.save, 2",
    .again = "copy it again",
    .names = known,
    .num_names = STK_COUNT(known),
    .reduce = reduce,
    .persistent = persistent,
};

stk_status stk__pth_pickle_parse(stk_context *ctx, const uint8_t *bytes, size_t length,
                                 const char *path, stk__pth_tensors *out, stk_error *err)
{
    stk__pickle m = {.ctx = ctx,
                     .of = &meaning,
                     .begin = bytes,
                     .at = bytes,
                     .end = bytes + length,
                     .path = path,
                     .err = err};
    uint32_t root = 0;

    *out = (stk__pth_tensors){0};
    stk_status status = stk__pickle_run(&m, &root);
    if (status == STK_OK)
        status = select_tensors(&m, root, out);
    stk__pickle_release(&m);
    return status;
}
