/* SPDX-License-Identifier: Apache-2.0 */
/* What the objects of a pickle mean: torch._utils and torch.serialization, for tensors. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "checkpoint/pth/machine.h"

static const struct {
    const char *module, *name;
    stk__pth_global global;
    stk_dtype dtype;
} globals[] = {
    {"collections", "OrderedDict", STK__PTH_ORDERED_DICT, STK_DTYPE_NONE},
    {"torch._utils", "_rebuild_tensor_v2", STK__PTH_TENSOR_V2, STK_DTYPE_NONE},
    {"torch._utils", "_rebuild_tensor_v3", STK__PTH_TENSOR_V3, STK_DTYPE_NONE},
    {"torch._utils", "_rebuild_parameter", STK__PTH_PARAMETER, STK_DTYPE_NONE},
    {"torch.storage", "UntypedStorage", STK__PTH_STORAGE_CLASS, STK_DTYPE_NONE},
    {"torch", "FloatStorage", STK__PTH_STORAGE_CLASS, STK_FLOAT32},
    {"torch", "DoubleStorage", STK__PTH_STORAGE_CLASS, STK_FLOAT64},
    {"torch", "HalfStorage", STK__PTH_STORAGE_CLASS, STK_FLOAT16},
    {"torch", "BFloat16Storage", STK__PTH_STORAGE_CLASS, STK_BFLOAT16},
    {"torch", "LongStorage", STK__PTH_STORAGE_CLASS, STK_INT64},
    {"torch", "IntStorage", STK__PTH_STORAGE_CLASS, STK_INT32},
    {"torch", "ShortStorage", STK__PTH_STORAGE_CLASS, STK_INT16},
    {"torch", "CharStorage", STK__PTH_STORAGE_CLASS, STK_INT8},
    {"torch", "ByteStorage", STK__PTH_STORAGE_CLASS, STK_UINT8},
    {"torch", "BoolStorage", STK__PTH_STORAGE_CLASS, STK_BOOL},
    {"torch", "ComplexFloatStorage", STK__PTH_STORAGE_CLASS, STK_COMPLEX64},
    {"torch", "ComplexDoubleStorage", STK__PTH_STORAGE_CLASS, STK_COMPLEX128},
    {"torch", "uint16", STK__PTH_DTYPE, STK_UINT16},
    {"torch", "uint32", STK__PTH_DTYPE, STK_UINT32},
    {"torch", "uint64", STK__PTH_DTYPE, STK_UINT64},
};

static bool is(stk__pth_text text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.at, word, text.length) == 0;
}

stk_status stk__pth_find_global(stk__pth_machine *m, stk__pth_text module, stk__pth_text name,
                                stk__pth_value *out)
{
    char a[STK__PTH_SHOWN], b[STK__PTH_SHOWN];

    for (size_t i = 0; i < STK_COUNT(globals); i++)
        if (is(module, globals[i].module) && is(name, globals[i].name)) {
            *out = (stk__pth_value){.kind = STK__PTH_GLOBAL,
                                    .global = (uint8_t)globals[i].global,
                                    .dtype = (uint8_t)globals[i].dtype};
            return STK_OK;
        }
    return stk__pth_fail(m, STK_EKIND,
                         "holds more than tensors: it names '%s.%s', which is neither looked up "
                         "nor run" STK__PTH_REMEDY,
                         stk__pth_show(module.at, module.length, a),
                         stk__pth_show(name.at, name.length, b));
}

static stk_status no_tensor(stk__pth_machine *m)
{
    return stk__pth_fail(m, STK_EFORMAT, "is damaged: a tensor of it is none (byte %" PRIu64 ")",
                         (uint64_t)(m->at - m->begin));
}

/* Item `i` where it is of a kind. */
static const stk__pth_value *item(const stk__pth_machine *m, const stk__pth_value *of, uint32_t i,
                                  stk__pth_kind kind)
{
    const stk__pth_value *v = stk__pth_item(m, of, i);

    return v && v->kind == kind ? v : NULL;
}

/* ("storage", class, key, location, elements) */
stk_status stk__pth_persistent(stk__pth_machine *m, uint32_t id, uint32_t *out)
{
    const stk__pth_value *t = &m->values[id];
    const stk__pth_value *word = item(m, t, 0, STK__PTH_TEXT);
    const stk__pth_value *type = item(m, t, 1, STK__PTH_GLOBAL);
    const stk__pth_value *count = item(m, t, 4, STK__PTH_INT);

    if (t->kind != STK__PTH_TUPLE || t->items.count != 5 || !word || !is(word->text, "storage") ||
        !type || type->global != STK__PTH_STORAGE_CLASS || !item(m, t, 2, STK__PTH_TEXT) ||
        !count || count->number < 0)
        return no_tensor(m);
    return stk__pth_make(m, (stk__pth_value){.kind = STK__PTH_STORAGE, .index = id}, out);
}

/* A tuple of sizes or steps. */
static bool take_sides(const stk__pth_machine *m, const stk__pth_value *tuple,
                       uint64_t out[STK_MAX_RANK])
{
    for (uint32_t i = 0; i < tuple->items.count; i++) {
        const stk__pth_value *side = item(m, tuple, i, STK__PTH_INT);
        if (!side || side->number < 0)
            return false;
        out[i] = (uint64_t)side->number;
    }
    return true;
}

/* Torch's metadata of a tensor: {} or None, or what has to be done to the elements when they are
 * read. */
static bool is_plain(const stk__pth_value *metadata)
{
    return !metadata || metadata->kind == STK__PTH_NONE ||
           (metadata->kind == STK__PTH_DICT && metadata->items.count == 0);
}

/* (storage, offset, sizes, steps, requires_grad, hooks[, metadata]); v3 has the type before the
 * metadata. The name stays as it is. */
static stk_status rebuild(stk__pth_machine *m, const stk__pth_value *tensor, stk__pth_tensor *out)
{
    const bool v3 = tensor->global == STK__PTH_TENSOR_V3;
    const stk__pth_value *t = &m->values[tensor->index];
    const stk__pth_value *storage = item(m, t, 0, STK__PTH_STORAGE);
    const stk__pth_value *offset = item(m, t, 1, STK__PTH_INT);
    const stk__pth_value *sizes = item(m, t, 2, STK__PTH_TUPLE);
    const stk__pth_value *steps = item(m, t, 3, STK__PTH_TUPLE);
    const stk__pth_value *type = v3 ? item(m, t, 6, STK__PTH_GLOBAL) : NULL;
    char shown[STK__PTH_SHOWN];

    if (!storage || !offset || offset->number < 0 || !sizes || !steps ||
        sizes->items.count != steps->items.count || (v3 && !type) ||
        (type && type->global != STK__PTH_DTYPE))
        return no_tensor(m);
    if (sizes->items.count > STK_MAX_RANK)
        return stk__pth_fail(m, STK_EKIND,
                             "has a tensor of %" PRIu32 " dimensions; %d are the most",
                             sizes->items.count, STK_MAX_RANK);
    if (!is_plain(stk__pth_item(m, t, v3 ? 7 : 6)))
        return stk__pth_fail(m, STK_EKIND,
                             "has the tensor '%s' conjugated or negated: save "
                             "tensor.resolve_conj().resolve_neg()",
                             stk__pth_show(out->name.at, out->name.length, shown));
    const stk__pth_value *id = &m->values[storage->index];
    const stk__pth_value *class = item(m, id, 1, STK__PTH_GLOBAL);
    out->key = stk__pth_item(m, id, 2)->text;
    out->dtype = type ? type->dtype : class->dtype;
    out->rank = sizes->items.count;
    out->offset = (uint64_t)offset->number;
    out->storage_bytes = (uint64_t)stk__pth_item(m, id, 4)->number;
    if (class->dtype != STK_DTYPE_NONE &&
        !stk__mul_size(out->storage_bytes, stk_dtype_size(class->dtype), &out->storage_bytes))
        return no_tensor(m);
    if (out->dtype == STK_DTYPE_NONE || !take_sides(m, sizes, out->shape) ||
        !take_sides(m, steps, out->stride))
        return no_tensor(m);
    return STK_OK;
}

stk_status stk__pth_reduce(stk__pth_machine *m, uint32_t global, uint32_t arguments, uint32_t *out)
{
    const stk__pth_value *of = &m->values[global], *t = &m->values[arguments];

    if (of->kind != STK__PTH_GLOBAL || t->kind != STK__PTH_TUPLE)
        return no_tensor(m);
    switch (of->global) {
    case STK__PTH_ORDERED_DICT:
        if (t->items.count)
            return no_tensor(m);
        return stk__pth_make(m, (stk__pth_value){.kind = STK__PTH_DICT}, out);
    case STK__PTH_TENSOR_V2:
    case STK__PTH_TENSOR_V3:
        return stk__pth_make(
            m, (stk__pth_value){.kind = STK__PTH_TENSOR, .global = of->global, .index = arguments},
            out);
    case STK__PTH_PARAMETER: /* (tensor, requires_grad, hooks) */
        if (!item(m, t, 0, STK__PTH_TENSOR))
            return no_tensor(m);
        *out = m->cells[t->items.first].value;
        return STK_OK;
    default:
        return no_tensor(m);
    }
}

/* ---- What the pickle is ---- */

/* The value of a key; NULL: there is none, or no text. */
static const stk__pth_value *find(const stk__pth_machine *m, const stk__pth_value *dict,
                                  const char *key)
{
    uint32_t cell = dict->items.first;

    for (uint32_t i = 0; i < dict->items.count; i += 2) {
        const stk__pth_cell *k = &m->cells[cell], *v = &m->cells[k->next];
        if (m->values[k->value].kind == STK__PTH_TEXT && is(m->values[k->value].text, key))
            return &m->values[v->value];
        cell = v->next;
    }
    return NULL;
}

/* No file has one name twice. */
static stk_status check_names(stk__pth_machine *m, const stk__pth_tensors *tensors)
{
    char shown[STK__PTH_SHOWN];
    stk_status status = STK_OK;

    stk__pth_text *names = stk__calloc(m->ctx, tensors->count + 1, sizeof *names);
    if (!names)
        return stk__pth_fail(m, STK_ENOMEM, "has more tensors than there is memory for");
    for (size_t i = 0; i < tensors->count; i++)
        names[i] = tensors->all[i].name;
    qsort(names, tensors->count, sizeof *names, stk__pth_text_compare);
    for (size_t i = 1; i < tensors->count && status == STK_OK; i++)
        if (stk__pth_text_compare(&names[i - 1], &names[i]) == 0)
            status = stk__pth_fail(m, STK_EFORMAT, "has two tensors '%s'",
                                   stk__pth_show(names[i].at, names[i].length, shown));
    stk__free(m->ctx, names);
    return status;
}

static stk_status take(stk__pth_machine *m, const stk__pth_value *dict, stk__pth_tensors *out)
{
    char shown[STK__PTH_SHOWN];
    uint32_t cell = dict->items.first;

    for (uint32_t i = 0; i < dict->items.count; i += 2) {
        const stk__pth_value *k = &m->values[m->cells[cell].value];
        cell = m->cells[cell].next;
        const stk__pth_value *v = &m->values[m->cells[cell].value];
        cell = m->cells[cell].next;
        const stk__pth_text name = k->kind == STK__PTH_TEXT ? k->text : (stk__pth_text){"", 0};
        if (v->kind != STK__PTH_TENSOR || name.length == 0)
            return stk__pth_fail(m, STK_EKIND,
                                 "has '%s' among its weights, which is no tensor" STK__PTH_REMEDY,
                                 stk__pth_show(name.at, name.length, shown));
        if (memchr(name.at, 0, name.length) || !stk__utf8_valid(name.at, name.length))
            return stk__pth_fail(m, STK_EFORMAT, "has a tensor whose name '%s' is no text",
                                 stk__pth_show(name.at, name.length, shown));
        out->all[out->count].name = name;
        STK_TRY(rebuild(m, v, &out->all[out->count]));
        out->count++;
    }
    return check_names(m, out);
}

stk_status stk__pth_select(stk__pth_machine *m, uint32_t root, stk__pth_tensors *out)
{
    static const char *const keys[] = {"state_dict", "model_state_dict", "model"};
    const stk__pth_value *dict = &m->values[root], *inner = NULL;

    if (dict->kind != STK__PTH_DICT)
        return stk__pth_fail(m, STK_EKIND, "is no dictionary of tensors" STK__PTH_REMEDY);
    for (size_t i = 0; i < STK_COUNT(keys) && !inner; i++) {
        inner = find(m, dict, keys[i]);
        if (inner && inner->kind != STK__PTH_DICT)
            inner = NULL;
    }
    if (inner)
        dict = inner;
    if (dict->items.count / 2 > STK__PTH_MAX_TENSORS)
        return stk__pth_fail(m, STK_ELIMIT, "has more than %" PRIu32 " tensors",
                             STK__PTH_MAX_TENSORS);
    out->all = stk__calloc(m->ctx, (uint64_t)dict->items.count / 2 + 1, sizeof *out->all);
    if (!out->all)
        return stk__pth_fail(m, STK_ENOMEM, "has more tensors than there is memory for");
    const stk_status status = take(m, dict, out);
    if (status != STK_OK) {
        stk__free(m->ctx, out->all);
        *out = (stk__pth_tensors){0};
    }
    return status;
}
