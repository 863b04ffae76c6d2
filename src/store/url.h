/* text -> driver, path, options: what a URL of a store says */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_URL_H
#define STK_SRC_STORE_URL_H

#include "store/store.h"

/*
 * [wrapper+]...[scheme:]path[?query]
 *
 * Without a scheme it is a plain path, which is taken literally: '%' means itself, and so does
 * '?' where a file of that name exists. In all others %XX is a byte.
 */
typedef struct stk__url {
    const stk_store_ops *driver; /* of the outermost wrapper, or of the scheme */
    const char *inner;           /* what follows the wrapper; NULL: it is none */
    const char *path;            /* after all wrappers and "scheme:" */
    size_t path_length;
    const char *query; /* after the '?'; NULL: none */
    bool plain;
} stk__url;

/* Errors: STK_EINVAL for an empty one, STK_ENOTSUP for an unknown scheme, naming those that are
 * known. */
stk_status stk__url_parse(stk_context *ctx, const char *text, stk__url *out, stk_error *err);

/* `length` bytes with %XX undone, into `to` with an end. STK_EINVAL: a broken escape, a zero byte,
 * or too long. */
stk_status stk__url_decode(const char *from, size_t length, char *to, size_t size, stk_error *err);

/* The path that the URL of a local folder or file means, into `path`. (file.c) */
stk_status stk__file_path(const stk__url *url, const char *text, char *path, size_t size,
                          stk_error *err);

/* Fail for a scheme that no store has. STK_ENOTSUP. */
stk_status stk__url_unknown(stk_context *ctx, const char *text, stk_error *err);

/* What a driver is opened with (options.c). */
typedef struct stk__store_given {
    void *options; /* of the driver's table; NULL: it has none */
    char *url;     /* without the options that were taken */
    char *texts;   /* that the options point into */
} stk__store_given;

stk_status stk__store_given_take(stk_context *ctx, const char *text, const stk__url *url,
                                 stk__store_given *given, stk_error *err);
void stk__store_given_release(stk_context *ctx, stk__store_given *given);

/* Open by URL alone, as a wrapper opens what it wraps. */
stk_status stk__store_open_url(stk_context *ctx, const char *url, stk_store **out, stk_error *err);

/* Whether a driver's table reaches as far as `member`, and has it. */
#define STK__STORE_HAS(ops, member)                                                                \
    ((ops)->struct_size >= offsetof(stk_store_ops, member) + sizeof((ops)->member) && (ops)->member)

#endif
