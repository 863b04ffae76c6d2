/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes, both ways. */
#include <stdlib.h>

#include "program.h"

/* What a frame may hold besides the values. */
#define HEAD_BYTES 65536u

/* ---- Reading ---- */

/* Put `n` texts, each of `size` bytes at most or (0) behind a pointer. */
static void put_texts(stk__wire_out *out, const char *values, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = values + i * size;
        size_t length;
        if (size) {
            length = strnlen(text, size);
        } else {
            memcpy(&text, values + i * sizeof text, sizeof text);
            length = text ? strlen(text) : 0;
        }
        stk__wire_put_text_of(out, text ? text : "", (uint32_t)length);
    }
}

static bool read_values(hid_t a, hid_t space, const element *e, size_t n, stk__wire_out *out)
{
    const size_t size = e->varies ? sizeof(char *) : e->itemsize;
    char *values = calloc(n ? n : 1, size);

    if (!values)
        return no_memory();
    const bool done = n == 0 || H5Aread(a, e->memory, values) >= 0;
    if (done && e->type >= STK__WIRE_TEXT)
        put_texts(out, values, n, e->varies ? 0 : e->itemsize);
    else if (done)
        stk__wire_put(out, values, n * size);
    if (done && e->varies && n)
        H5Dvlen_reclaim(e->memory, space, H5P_DEFAULT, values);
    free(values);
    return done;
}

/* Begin the frame of an attribute. */
static stk__wire_out *begin(const char *name, uint32_t type, uint64_t count, bool scalar)
{
    stk__wire_out *out = frame_begin();

    stk__wire_put_text(out, name);
    stk__wire_put_u32(out, type);
    stk__wire_put_u64(out, count);
    stk__wire_put_u8(out, scalar);
    return out;
}

static bool send_known(hid_t a, hid_t space, const char *name, const element *e)
{
    const bool nothing = H5Sget_simple_extent_type(space) == H5S_NULL;
    const hssize_t points = nothing ? 0 : H5Sget_simple_extent_npoints(space);
    const bool is_text = e->type == STK__WIRE_TEXT || e->type == STK__WIRE_UNICODE;
    const uint64_t each = e->varies ? sizeof(char *) : e->itemsize;

    if (points < 0 || e->type == STK__WIRE_RAW || e->type == STK_COMPLEX64 ||
        e->type == STK_COMPLEX128 || (uint64_t)points > (STK__WIRE_MOST - HEAD_BYTES) / each)
        return false;
    /* A text without bytes is what NetCDF writes for "". */
    const bool empty = nothing && is_text;
    const bool scalar = empty || H5Sget_simple_extent_type(space) == H5S_SCALAR;
    stk__wire_out *out =
        begin(name, is_text ? STK__WIRE_TEXT : e->type, empty ? 1 : (uint64_t)points, scalar);
    if (empty)
        stk__wire_put_text(out, "");
    else if (!read_values(a, space, e, (size_t)points, out))
        return false;
    if (out->bad)
        return false;
    frame_put(STK__WIRE_ATTRIBUTE, out);
    return true;
}

/* One that is not read is told by its name. */
static herr_t send_one(hid_t object, const char *name, const H5A_info_t *info, void *user)
{
    (void)info, (void)user;
    if (strlen(name) > HEAD_BYTES / 2)
        return 0;
    const hid_t a = H5Aopen(object, name, H5P_DEFAULT);
    const hid_t type = a < 0 ? -1 : H5Aget_type(a), space = a < 0 ? -1 : H5Aget_space(a);
    element e = {.memory = -1};

    if (type < 0 || space < 0 || !element_of(type, name, &e) || !send_known(a, space, name, &e)) {
        failure_clear();
        frame_put(STK__WIRE_ATTRIBUTE, begin(name, STK__WIRE_OTHER, 0, true));
    }
    if (e.memory >= 0)
        H5Tclose(e.memory);
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    if (a >= 0)
        H5Aclose(a);
    return 0;
}

bool attributes_send(hid_t object)
{
    const hid_t creation = H5Iget_type(object) == H5I_GROUP ? H5Gget_create_plist(object)
                                                            : H5Dget_create_plist(object);
    unsigned order = 0;

    H5Pget_attr_creation_order(creation, &order);
    H5Pclose(creation);
    const bool indexed = (order & H5P_CRT_ORDER_INDEXED) != 0;
    return H5Aiterate2(object, indexed ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME, H5_ITER_INC, NULL,
                       send_one, NULL) >= 0 ||
           fail_hdf5("read the attributes of", "an object");
}

/* ---- Writing ---- */

bool attribute_write(hid_t object, const char *name, hid_t type, hid_t space, const void *values)
{
    const hid_t a = type < 0 || space < 0
                        ? -1
                        : H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    const bool done = a >= 0 && (!values || H5Awrite(a, type, values) >= 0);

    if (a >= 0)
        H5Aclose(a);
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    return done || fail_hdf5("write the attribute", name);
}

static hid_t space_of(uint64_t count, bool scalar)
{
    const hsize_t n = count;

    return count == 0 ? H5Screate(H5S_NULL)
           : scalar   ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(1, &n, NULL);
}

/* One text is of as many bytes as it has, as NetCDF has them; several are of any length. */
static bool put_text(hid_t object, const char *name, uint64_t count, bool scalar, stk__wire_in *in)
{
    if (count == 1 && scalar) {
        const char *text = stk__wire_text(in);
        if (!stk__wire_end(in))
            frame_nonsense();
        return *text ? attribute_write(object, name, text_type(strlen(text)), H5Screate(H5S_SCALAR),
                                       text)
                     : attribute_write(object, name, text_type(1), H5Screate(H5S_NULL), NULL);
    }
    if (count > in->left)
        frame_nonsense();
    const char **texts = calloc(count ? (size_t)count : 1, sizeof *texts);
    if (!texts)
        return no_memory();
    for (uint64_t i = 0; i < count; i++)
        texts[i] = stk__wire_text(in);
    if (!stk__wire_end(in))
        frame_nonsense();
    const bool done = attribute_write(object, name, text_type(H5T_VARIABLE), space_of(count, false),
                                      count ? (const void *)texts : NULL);
    free(texts);
    return done;
}

bool attribute_put(hid_t object, stk__wire_in *in)
{
    const char *name = stk__wire_text(in);
    const uint32_t type = stk__wire_u32(in);
    const uint64_t count = stk__wire_u64(in);
    const bool scalar = stk__wire_u8(in) != 0;

    if (in->bad || !*name || count > STK__WIRE_MOST)
        frame_nonsense();
    if (type == STK__WIRE_TEXT)
        return put_text(object, name, count, scalar, in);
    const hid_t memory = number_type(type);
    if (memory < 0)
        frame_nonsense();
    const void *values = stk__wire_take(in, count * H5Tget_size(memory));
    if (!stk__wire_end(in))
        frame_nonsense();
    return attribute_write(object, name, memory, space_of(count, scalar), count ? values : NULL);
}
