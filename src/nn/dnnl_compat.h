/* oneDNN 2.6 and 3.x -> one set of calls */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_DNNL_COMPAT_H
#define STK_SRC_NN_DNNL_COMPAT_H

#include <string.h>

#include <dnnl.h>

/*
 * Memory descriptors are plain structs in 2.x and handles in 3.x; the operation descriptors of 2.x
 * are gone in 3.x. Here a descriptor is a handle of its own, which stk__md_release() ends.
 */
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t stk__md;
typedef const_dnnl_memory_desc_t stk__md_view;
#define STK__MD_NONE NULL

static inline dnnl_status_t stk__md_make(stk__md *md, int rank, const dnnl_dims_t dims,
                                         dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(md, rank, dims, type, tag);
}
static inline void stk__md_release(stk__md *md)
{
    if (*md)
        dnnl_memory_desc_destroy(*md);
    *md = NULL;
}
static inline stk__md_view stk__md_see(const stk__md *md)
{
    return *md;
}
static inline size_t stk__md_size(stk__md_view md)
{
    return dnnl_memory_desc_get_size(md);
}
static inline int stk__md_equal(stk__md_view a, stk__md_view b)
{
    return dnnl_memory_desc_equal(a, b);
}
static inline stk__md_view stk__pd_md(const_dnnl_primitive_desc_t pd, dnnl_query_t what, int index)
{
    return dnnl_primitive_desc_query_md(pd, what, index);
}
#else
typedef dnnl_memory_desc_t stk__md;
typedef const dnnl_memory_desc_t *stk__md_view;
#define STK__MD_NONE                                                                               \
    {                                                                                              \
        0                                                                                          \
    }

static inline dnnl_status_t stk__md_make(stk__md *md, int rank, const dnnl_dims_t dims,
                                         dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(md, rank, dims, type, tag);
}
static inline void stk__md_release(stk__md *md)
{
    memset(md, 0, sizeof *md);
}
static inline stk__md_view stk__md_see(const stk__md *md)
{
    return md->ndims ? md : NULL;
}
static inline size_t stk__md_size(stk__md_view md)
{
    return dnnl_memory_desc_get_size(md);
}
static inline int stk__md_equal(stk__md_view a, stk__md_view b)
{
    return dnnl_memory_desc_equal(a, b);
}
static inline stk__md_view stk__pd_md(const_dnnl_primitive_desc_t pd, dnnl_query_t what, int index)
{
    return dnnl_primitive_desc_query_md(pd, what, index);
}
#endif

/* The same shape and order, in float. `d` is of rank 4 and channels last. */
static inline dnnl_status_t stk__md_widen(stk__md *md, const stk__md *d)
{
    dnnl_dims_t dims;

#if DNNL_VERSION_MAJOR >= 3
    dnnl_dims_t *from;
    dnnl_status_t status = dnnl_memory_desc_query(*d, dnnl_query_dims, &from);

    if (status != dnnl_success)
        return status;
    memcpy(dims, *from, sizeof dims);
#else
    memcpy(dims, d->dims, sizeof dims);
#endif
    return stk__md_make(md, 4, dims, dnnl_f32, dnnl_nhwc);
}

/* A convolution of any of its three passes. dilation as oneDNN counts: 0 is dense. */
typedef struct stk__conv_desc {
    dnnl_prop_kind_t pass;        /* forward_training, backward_data or backward_weights */
    const stk__md *x, *w, *b, *y; /* b may be NULL */
    dnnl_dims_t stride, dilation, padding, padding_end;
} stk__conv_desc;

static inline dnnl_status_t stk__conv_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                         const stk__conv_desc *d, dnnl_primitive_attr_t attr,
                                         const_dnnl_primitive_desc_t hint)
{
#if DNNL_VERSION_MAJOR >= 3
    const_dnnl_memory_desc_t b = d->b ? *d->b : NULL;

    if (d->pass == dnnl_backward_data)
        return dnnl_convolution_backward_data_primitive_desc_create(
            pd, engine, dnnl_convolution_direct, *d->x, *d->w, *d->y, d->stride, d->dilation,
            d->padding, d->padding_end, hint, attr);
    if (d->pass == dnnl_backward_weights)
        return dnnl_convolution_backward_weights_primitive_desc_create(
            pd, engine, dnnl_convolution_direct, *d->x, *d->w, b, *d->y, d->stride, d->dilation,
            d->padding, d->padding_end, hint, attr);
    return dnnl_convolution_forward_primitive_desc_create(
        pd, engine, d->pass, dnnl_convolution_direct, *d->x, *d->w, b, *d->y, d->stride,
        d->dilation, d->padding, d->padding_end, attr);
#else
    dnnl_convolution_desc_t desc;
    dnnl_status_t status;

    if (d->pass == dnnl_backward_data)
        status = dnnl_dilated_convolution_backward_data_desc_init(
            &desc, dnnl_convolution_direct, d->x, d->w, d->y, d->stride, d->dilation, d->padding,
            d->padding_end);
    else if (d->pass == dnnl_backward_weights)
        status = dnnl_dilated_convolution_backward_weights_desc_init(
            &desc, dnnl_convolution_direct, d->x, d->w, d->b, d->y, d->stride, d->dilation,
            d->padding, d->padding_end);
    else
        status = dnnl_dilated_convolution_forward_desc_init(
            &desc, d->pass, dnnl_convolution_direct, d->x, d->w, d->b, d->y, d->stride, d->dilation,
            d->padding, d->padding_end);
    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(pd, &desc, attr, engine, hint);
#endif
}

/* A product of matrices. */
static inline dnnl_status_t stk__matmul_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                           const stk__md *a, const stk__md *b, const stk__md *c,
                                           dnnl_primitive_attr_t attr)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_matmul_primitive_desc_create(pd, engine, *a, *b, NULL, *c, attr);
#else
    dnnl_matmul_desc_t desc;
    dnnl_status_t status = dnnl_matmul_desc_init(&desc, a, b, NULL, c);

    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(pd, &desc, attr, engine, NULL);
#endif
}

/* relu after a primitive. */
static inline dnnl_status_t stk__append_relu(dnnl_post_ops_t ops)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0, 0);
#else
    return dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0, 0);
#endif
}

/* The result of a primitive is added to what is there. */
static inline dnnl_status_t stk__append_sum(dnnl_post_ops_t ops)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
#else
    return dnnl_post_ops_append_sum(ops, 1);
#endif
}

#endif
