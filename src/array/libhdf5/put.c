/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of the process for writing. */
#include "array/libhdf5/child.h"

static stk_status ask(stk__libhdf5 *h, uint32_t kind, const stk__wire_out *payload,
                      const stk_store_call *call, stk_error *err)
{
    STK_TRY(stk__libhdf5_send(h, kind, payload, call, err));
    return stk__libhdf5_done(h, call, err);
}

stk_status stk__libhdf5_begin(stk__libhdf5 *h, const stk_store_call *call, stk_error *err)
{
    stk__wire_out out = stk__libhdf5_payload(h);
    char properties[64] = "version=2,stoker=";

    strncat(properties, stk_version(), sizeof properties - strlen(properties) - 1);
    stk__wire_put_text(&out, properties);
    return ask(h, STK__WIRE_WRITE_FILE, &out, call, err);
}

stk_status stk__libhdf5_put_group(stk__libhdf5 *h, const char *path, const stk_store_call *call,
                                  stk_error *err)
{
    stk__wire_out out = stk__libhdf5_payload(h);

    stk__wire_put_text(&out, path);
    return ask(h, STK__WIRE_GROUP, &out, call, err);
}

stk_status stk__libhdf5_put_dimension(stk__libhdf5 *h, uint32_t number, const char *path,
                                      uint64_t size, bool unlimited, const stk_store_call *call,
                                      stk_error *err)
{
    stk__wire_out out = stk__libhdf5_payload(h);

    stk__wire_put_u32(&out, number);
    stk__wire_put_text(&out, path);
    stk__wire_put_u64(&out, size);
    stk__wire_put_u8(&out, unlimited);
    return ask(h, STK__WIRE_DIMENSION, &out, call, err);
}

stk_status stk__libhdf5_put_variable(stk__libhdf5 *h, const stk__libhdf5_variable *v,
                                     const stk_store_call *call, stk_error *err)
{
    stk__wire_out out = stk__libhdf5_payload(h);

    stk__wire_put_u32(&out, v->number);
    stk__wire_put_text(&out, v->path);
    stk__wire_put_u32(&out, v->type);
    stk__wire_put_u64(&out, v->itemsize);
    stk__wire_put_u32(&out, v->rank);
    for (uint32_t d = 0; d < v->rank; d++) {
        stk__wire_put_u64(&out, v->shape[d]);
        stk__wire_put_u64(&out, v->chunk_shape[d]);
        stk__wire_put_u8(&out, v->unlimited[d]);
        stk__wire_put_u32(&out, v->dimensions[d]);
    }
    stk__wire_put_u8(&out, v->is_chunked);
    stk__wire_put_u8(&out, v->level);
    stk__wire_put_u8(&out, v->shuffle);
    stk__wire_put_u8(&out, v->fletcher32);
    stk__wire_put_u8(&out, v->fill_value != NULL);
    if (v->fill_value)
        stk__wire_put(&out, v->fill_value, v->itemsize);
    stk__wire_put_u32(&out, v->scale);
    return ask(h, STK__WIRE_VARIABLE, &out, call, err);
}

stk_status stk__libhdf5_put_attribute(stk__libhdf5 *h, const char *name, uint32_t type,
                                      uint64_t count, bool scalar, const void *values,
                                      const stk_store_call *call, stk_error *err)
{
    const char *const *texts = values;
    stk__wire_out out = stk__libhdf5_payload(h);

    stk__wire_put_text(&out, name);
    stk__wire_put_u32(&out, type);
    stk__wire_put_u64(&out, count);
    stk__wire_put_u8(&out, scalar);
    if (type == STK__WIRE_TEXT)
        for (uint64_t i = 0; i < count; i++)
            stk__wire_put_text(&out, texts[i]);
    else
        stk__wire_put(&out, values, count * stk_dtype_size((stk_dtype)type));
    return ask(h, STK__WIRE_PUT_ATTRIBUTE, &out, call, err);
}

stk_status stk__libhdf5_put_defined(stk__libhdf5 *h, const stk_store_call *call, stk_error *err)
{
    const stk__wire_out nothing = stk__libhdf5_payload(h);

    return ask(h, STK__WIRE_DEFINED, &nothing, call, err);
}

/* Send the head of values, the values and wait for the end. */
static stk_status ask_with_data(stk__libhdf5 *h, uint32_t kind, const stk__wire_out *head,
                                const void *data, uint64_t bytes, const stk_store_call *call,
                                stk_error *err)
{
    STK_TRY(stk__libhdf5_send(h, kind, head, call, err));
    for (uint64_t done = 0, n; done < bytes; done += n) {
        n = STK_MIN(bytes - done, STK__WIRE_PIECE);
        STK_TRY(
            stk__libhdf5_send_bytes(h, STK__WIRE_DATA, (const char *)data + done, n, call, err));
    }
    return stk__libhdf5_done(h, call, err);
}

static void put_place(stk__wire_out *out, const stk__libhdf5_variable *v, const int64_t *start)
{
    stk__wire_put_u32(out, v->number);
    for (uint32_t d = 0; d < v->rank; d++)
        stk__wire_put_u64(out, (uint64_t)start[d]);
}

stk_status stk__libhdf5_put_box(stk__libhdf5 *h, const stk__libhdf5_variable *v,
                                const int64_t *start, const int64_t *shape, const void *data,
                                bool verify, const stk_store_call *call, stk_error *err)
{
    stk__wire_out out = stk__libhdf5_payload(h);
    uint64_t bytes = 0;

    if (!stk__shape_bytes(shape, v->rank, v->itemsize, &bytes))
        return stk__fail(err, STK_ELIMIT, STK_STAGE_ARRAY,
                         "'%.200s': a chunk has more bytes than can be", v->path);
    put_place(&out, v, start);
    for (uint32_t d = 0; d < v->rank; d++)
        stk__wire_put_u64(&out, (uint64_t)shape[d]);
    stk__wire_put_u8(&out, verify);
    return ask_with_data(h, STK__WIRE_BOX, &out, data, bytes, call, err);
}

stk_status stk__libhdf5_put_chunk(stk__libhdf5 *h, const stk__libhdf5_variable *v,
                                  const int64_t *start, const void *bytes, uint64_t length,
                                  bool verify, const stk_store_call *call, stk_error *err)
{
    stk__wire_out out = stk__libhdf5_payload(h);

    put_place(&out, v, start);
    stk__wire_put_u64(&out, length);
    stk__wire_put_u8(&out, verify);
    return ask_with_data(h, STK__WIRE_CHUNK, &out, bytes, length, call, err);
}

stk_status stk__libhdf5_finish(stk__libhdf5 *h, const stk_store_call *call, stk_error *err)
{
    const stk__wire_out nothing = stk__libhdf5_payload(h);

    return ask(h, STK__WIRE_FINISH, &nothing, call, err);
}
