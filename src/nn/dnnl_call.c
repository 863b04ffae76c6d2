/* SPDX-License-Identifier: Apache-2.0 */
/* Primitives of oneDNN: made with the plan, run on its memory. */
#include "nn/dnnl.h"

#ifdef STK_WITH_ONEDNN

stk_status stk__call_attr(bool relu, bool sum, dnnl_primitive_attr_t *out, stk_error *err)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(out);

    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && (relu || sum)) {
        status = dnnl_post_ops_create(&ops);
        if (status == dnnl_success)
            status = relu ? stk__append_relu(ops) : stk__append_sum(ops);
        if (status == dnnl_success)
            status = dnnl_primitive_attr_set_post_ops(*out, ops);
        if (ops)
            dnnl_post_ops_destroy(ops);
    }
    return stk__dnnl_check(status, "attributes", err);
}

static stk_status add_argument(const stk__plan *plan, stk__dnnl_call *c, int which, stk__md_view md,
                               stk_error *err)
{
    dnnl_memory_t memory = NULL;

    STK_TRY(stk__dnnl_check(
        dnnl_memory_create(&memory, md, plan->model->dnnl->engine, DNNL_MEMORY_NONE),
        "a description of memory", err));
    c->args[c->count++] = (dnnl_exec_arg_t){which, memory};
    return STK_OK;
}

stk_status stk__call_make(stk__plan *plan, stk__dnnl_call *c, uint32_t time,
                          const stk__call_argument *arguments, int count, stk_error *err)
{
    stk__md_view room = stk__pd_md(c->desc, dnnl_query_scratchpad_md, 0);
    size_t bytes = room ? stk__md_size(room) : 0;

    c->scratch = STK__NO_BUFFER;
    STK_TRY(stk__dnnl_check(dnnl_primitive_create(&c->primitive, c->desc), "a primitive", err));
    for (int i = 0; i < count; i++)
        STK_TRY(add_argument(plan, c, arguments[i].which,
                             stk__pd_md(c->desc, arguments[i].query, arguments[i].index), err));
    if (bytes == 0)
        return STK_OK;
    STK_TRY(stk__plan_buffer(plan, bytes, 1, time, time, &c->scratch, err));
    return add_argument(plan, c, DNNL_ARG_SCRATCHPAD, room, err);
}

stk_status stk__call_make_order(stk__plan *plan, stk__dnnl_call *c, stk__md_view from,
                                stk__md_view to, bool sum, uint32_t time, stk_error *err)
{
    static const stk__call_argument arguments[] = {{DNNL_ARG_FROM, dnnl_query_src_md, 0},
                                                   {DNNL_ARG_TO, dnnl_query_dst_md, 0}};
    dnnl_engine_t engine = plan->model->dnnl->engine;
    dnnl_primitive_attr_t attr = NULL;
    stk_status status = stk__call_attr(false, sum, &attr, err);

    if (status == STK_OK)
        status = stk__dnnl_check(
            dnnl_reorder_primitive_desc_create(&c->desc, from, engine, to, engine, attr),
            "a change of order", err);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return status == STK_OK ? stk__call_make(plan, c, time, arguments, 2, err) : status;
}

stk_status stk__call_run(const stk__plan *plan, stk__dnnl_call *c, const void *const *memory,
                         stk_error *err)
{
    for (int i = 0; i < c->count; i++) {
        bool room = c->args[i].arg == DNNL_ARG_SCRATCHPAD;
        const void *at = room ? stk__at(plan, c->scratch) : memory[i];
        STK_TRY(stk__dnnl_check(
            dnnl_memory_set_data_handle(c->args[i].memory, (void *)(uintptr_t)at), "memory", err));
    }
    return stk__dnnl_check(
        dnnl_primitive_execute(c->primitive, plan->model->dnnl->stream, c->count, c->args),
        "a primitive", err);
}

void stk__call_release(stk__dnnl_call *c)
{
    for (int i = 0; i < c->count; i++)
        dnnl_memory_destroy(c->args[i].memory);
    if (c->primitive)
        dnnl_primitive_destroy(c->primitive);
    if (c->desc)
        dnnl_primitive_desc_destroy(c->desc);
    *c = (stk__dnnl_call){0};
}
#endif
