/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of a window's sample: data or input and target, one for each variable or stacked. */
#include <stdio.h>

#include "dataset/window.h"

stk_status stk__window_add_field(stk__window *w, const char *name, const char *ending,
                                 stk_dtype dtype, const int64_t *shape, uint32_t rank,
                                 uint32_t *number, stk_error *err)
{
    stk_field *field = &w->fields[w->num_fields];
    const char *remedy = w->rows ? "name those that are wanted in fields"
                                 : "stack=true puts all variables into one field";

    if (w->num_fields == STK__WINDOW_FIELDS || rank > STK_MAX_RANK)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "a sample of %u variables has more than %d fields, or %u dimensions, more "
                         "than %d; %s",
                         w->num_variables, STK__WINDOW_FIELDS, rank, STK_MAX_RANK, remedy);
    const size_t room = strlen(name) + strlen(ending) + 1;
    char *own = w->names[w->num_fields] = stk__alloc(w->base.context, room);
    if (!own)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for the name of a field");
    snprintf(own, room, "%s%s", name, ending);
    *field = (stk_field){.struct_size = sizeof *field,
                         .name = own,
                         .dtype = dtype,
                         .layout = STK_FIXED,
                         .rank = rank};
    for (uint32_t f = 0; f < w->num_fields; f++)
        if (strcmp(w->fields[f].name, field->name) == 0)
            return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                             "two fields would be named '%.200s'; %s, or choose others",
                             field->name, remedy);
    memcpy(field->shape, shape, rank * sizeof *shape);
    if (stk_field_bytes(field) == 0)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "a window has more bytes than can be; take a smaller one");
    *number = w->num_fields++;
    return STK_OK;
}

/* The parts of a sample that are input (`steps` 0: all of the window) or target, and their fields.
 */
static stk_status add_parts(stk__window *w, const char *stacked, const char *ending, int64_t time,
                            int64_t steps, stk_error *err)
{
    const bool stack = w->options.stack && w->num_variables > 1;
    uint32_t field = 0, mask = 0;

    for (uint32_t i = 0; i < w->num_variables; i++) {
        const stk__window_variable *v = &w->variables[i];
        int64_t shape[STK__WINDOW_DIMS + 1] = {w->num_variables};
        uint32_t rank = 1;
        uint64_t values = 1;
        for (uint32_t d = 0; d < v->info->rank; d++) {
            const stk__window_dim *dim = &w->dims[v->dims[d]];
            if (dim->dropped)
                continue;
            shape[rank] = steps && v->dims[d] == w->time ? steps : dim->window;
            values *= (uint64_t)shape[rank++]; /* at most the array's */
        }
        if (stack && i > 0 &&
            (rank != w->fields[field].rank ||
             memcmp(shape, w->fields[field].shape, rank * sizeof *shape) != 0))
            return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                             "stack: a window of '%s' has another shape than one of '%s'", v->name,
                             w->variables[0].name);
        if (!stack || i == 0) {
            const char *name = stack || w->num_variables == 1 ? stacked : v->name;
            const char *end = name == stacked ? "" : ending;
            const int64_t *from = stack ? shape : shape + 1;
            rank -= !stack;
            STK_TRY(stk__window_add_field(w, name, end, v->dtype, from, rank, &field, err));
            if (w->options.nan == STK__NAN_MASK) {
                const bool alone = strcmp(name, "data") == 0;
                STK_TRY(stk__window_add_field(w, alone ? "" : w->fields[field].name,
                                              alone ? "mask" : "_mask", STK_UINT8, from, rank,
                                              &mask, err));
            }
        }
        if (v->converts)
            w->raw_bytes = STK_MAX(w->raw_bytes, values * v->info->itemsize);
        w->parts[w->num_parts++] =
            (stk__window_part){.variable = i,
                               .field = field,
                               .mask = w->options.nan == STK__NAN_MASK ? (int32_t)mask : -1,
                               .at = stack ? i * values : 0,
                               .values = values,
                               .time = time,
                               .steps = steps};
    }
    return STK_OK;
}

stk_status stk__window_fields(stk__window *w, stk_error *err)
{
    const stk__window_options *o = &w->options;

    if (o->input + o->target == 0)
        return add_parts(w, "data", "", 0, 0, err);
    if (o->input == 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "input", STK_NO_OFFSET,
                            "input: a target needs an input; give its steps");
    STK_TRY(add_parts(w, "input", "", 0, (int64_t)o->input, err));
    if (o->target == 0)
        return STK_OK;
    return add_parts(w, "target", "_target", (int64_t)(o->input + o->lead), (int64_t)o->target,
                     err);
}
