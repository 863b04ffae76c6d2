/* text -> wrappers, scheme, path and query of a URL, and back */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_URL_H
#define STK_SRC_BASE_URL_H

#include "base/base.h"

/* Kinds of containers: each is a store stk__store_NAME of a format stk__NAME_format. An object is
 * asked in this order what it is. */
#define STK__CONTAINERS(EACH) EACH(zip) EACH(squashfs)

/*
 * [wrapper+]...[scheme:]path[?query]
 * [wrapper+]...container:URL!/path[?query]
 *
 * Wrappers and schemes are names of stores, as they are written. Without a scheme it is a plain
 * path, which is taken literally: '%' means itself, and so does '?' where a file of that name
 * exists. In all others %XX is a byte.
 *
 * A container is a store within an object of another one, whose URL stands in front of the "!/",
 * and is read as itself: without its query, which ends the whole. Of containers within containers
 * the innermost takes the first "!/".
 */
typedef struct stk__url {
    const void
        *driver;       /* stk_store_ops of the outermost wrapper, or of the scheme; NULL: unknown */
    const char *inner; /* what follows the wrapper; NULL: it is none */
    const char *path;  /* after all wrappers and "scheme:" */
    size_t path_length;
    size_t object_length; /* of a container: bytes of `path` to the end of its "!/"; 0: it has none,
                             or is another store */
    const char *query;    /* after the '?'; NULL: none */
    bool container;
    bool plain;
    bool unknown; /* its scheme is that of no store */
    bool local;   /* no wrapper, and a plain path or file: */
} stk__url;

/* The store of this name, as it is written; NULL: there is none. */
const void *stk__url_driver(const stk_context *ctx, const char *name, size_t length);
void stk__url_scan(const stk_context *ctx, const char *text, stk__url *out);
/* The same of what the innermost wrapper wraps, which is returned: a part of `text`. */
const char *stk__url_unwrap(const stk_context *ctx, const char *text, stk__url *out);

/* `length` bytes with %XX undone, into `to`, which may be `from`, with an end. STK_EINVAL: a broken
 * escape, a zero byte, or too long. */
stk_status stk__url_decode(const char *from, size_t length, char *to, size_t size, stk_error *err);
/* The path that the URL of a local folder or file means, into `path`. */
stk_status stk__url_path(const stk__url *url, const char *text, char *path, size_t size,
                         stk_error *err);

/* Whether a text is a URL of another store than a local folder, also of one that nobody knows. */
bool stk__url_elsewhere(const stk_context *ctx, const char *text);
/* *out, the caller's: the path of a file: URL; a copy of everything else. */
stk_status stk__url_local(stk_context *ctx, const char *text, char **out, stk_error *err);
/* The URL or path of a key in the folder `url`; NULL: no memory. */
char *stk__url_below(stk_context *ctx, const char *url, const char *key);
/* The last name of a path or URL, as it is written there; *length of it, without a query. */
const char *stk__url_name(const stk_context *ctx, const char *url, size_t *length);

#endif
