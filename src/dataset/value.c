/* SPDX-License-Identifier: Apache-2.0 */
/* Values of samples as texts, and which of them are null. */
#include "base/bytes.h"
#include "dataset/dataset.h"

/* A value that is written: elements in C order, as lists within lists. */
typedef struct nested {
    stk__text *to;
    stk_dtype dtype;
    uint32_t rank;
    int64_t shape[STK_MAX_RANK];
    const char *at;
} nested;

static void put_nested(nested *n, uint32_t depth)
{
    if (depth == n->rank) {
        stk__text_add_element(n->to, n->dtype, n->at);
        n->at += stk_dtype_size(n->dtype);
        return;
    }
    stk__text_put(n->to, "[", 1);
    for (int64_t i = 0; i < n->shape[depth]; i++) {
        if (i)
            stk__text_put(n->to, ", ", 2);
        put_nested(n, depth + 1);
    }
    stk__text_put(n->to, "]", 1);
}

/* The shape of a value of `count` elements: that of its field, with what varies filled in where one
 * dimension does, else [count]. */
static void shape_of(const stk_field *field, uint64_t count, nested *n)
{
    uint64_t known = 1;
    int64_t varies = -1;
    bool plain = field->rank > STK_MAX_RANK;

    for (uint32_t d = 0; !plain && d < field->rank; d++) {
        n->shape[d] = field->shape[d];
        if (n->shape[d] < 0) {
            plain = varies >= 0;
            varies = d;
        } else {
            plain = !stk__mul_size(known, (uint64_t)n->shape[d], &known);
        }
    }
    n->rank = field->rank;
    if (!plain && varies >= 0 && known && count % known == 0)
        n->shape[varies] = (int64_t)(count / known);
    else if (plain || varies >= 0 || known != count) {
        n->rank = 1;
        n->shape[0] = (int64_t)count;
    }
}

void stk__field_put_value(const stk_field *field, const void *data, uint64_t size, stk__text *to)
{
    const size_t each = stk_dtype_size(field->dtype);

    if (field->layout == STK_BYTES && stk__utf8_valid(data, (size_t)size)) {
        stk__text_add_json_bytes(to, data, (size_t)size);
        return;
    }
    nested n = {.to = to, .dtype = field->dtype, .at = data};
    shape_of(field, each ? size / each : 0, &n);
    put_nested(&n, 0);
}

size_t stk_field_value_text(const stk_field *field, const void *data, uint64_t size, char *text,
                            size_t room)
{
    stk__text to = {.bytes = text, .room = room};

    if (room)
        *text = 0;
    stk__field_put_value(field, data, size, &to);
    return to.length;
}

int64_t stk_dataset_null_mask(const stk_dataset *dataset, uint32_t i)
{
    static const char end[] = "_mask";
    const stk_field *field = &dataset->fields[i], *mask = field + 1;

    if (!dataset->null_masks || i + 1 >= dataset->num_fields || mask->dtype != STK_BOOL ||
        mask->layout != STK_FIXED || mask->rank)
        return -1;
    const size_t length = strlen(field->name);
    return strncmp(mask->name, field->name, length) == 0 && strcmp(mask->name + length, end) == 0
               ? (int64_t)i + 1
               : -1;
}
