/* a document of references -> keys of Zarr, and where their bytes lie */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * References of kerchunk, versions 0 and 1 [fsspec/kerchunk, docs/source/spec.rst]: a JSON object
 * whose keys are those of a Zarr hierarchy and whose values are a text, "base64:...", a document,
 * [url] or [url, offset, length]. Version 1 has them in `refs`, and may have `templates` and `gen`.
 * A URL is relative to the document, in its store, and leaves the folder only by the option.
 */
#ifndef STK_SRC_ARRAY_KERCHUNK_KERCHUNK_H
#define STK_SRC_ARRAY_KERCHUNK_KERCHUNK_H

#include "array/room.h"
#include "base/text.h"

#define STK__KERCHUNK_MAX_GENERATED (UINT64_C(1) << 24) /* references of all `gen` together */
#define STK__KERCHUNK_MAX_TEXT      65536u              /* bytes that a template grows to */
#define STK__KERCHUNK_MAX_DEPTH     32                  /* of brackets in an expression */
#define STK__KERCHUNK_MAX_VARIABLES 16                  /* dimensions of a `gen` */

/* ---- Templates (template.c) ---- */

/* What stands for a name in "{{name}}": texts of the document, and numbers of a `gen`. */
typedef struct stk__kerchunk_names {
    const json_t *texts; /* object of texts; NULL: none */
    uint32_t count;
    const char *names[STK__KERCHUNK_MAX_VARIABLES];
    int64_t values[STK__KERCHUNK_MAX_VARIABLES];
} stk__kerchunk_names;

/*
 * Put a text with its {{...}} replaced into `out`: a name, or whole numbers and names with + - * //
 * % and brackets. Errors: STK_EKIND for any other expression, which it names; STK_ELIMIT,
 * STK_ENOMEM.
 */
stk_status stk__kerchunk_expand(const char *text, const stk__kerchunk_names *names, const char *key,
                                stk__text *out, stk_error *err);

/* ---- References (references.c) ---- */

/* One of them, expanded; valid during the call. */
typedef struct stk__reference {
    const char *key;
    const json_t *value; /* of one without a URL: a text or a document */
    const char *url;
    bool whole; /* all of the object */
    uint64_t offset, length;
} stk__reference;

/* The references of a document, and the texts of its templates. */
typedef struct stk__kerchunk {
    const char *key; /* of the document, for messages */
    const json_t *refs, *templates, *gen;
} stk__kerchunk;

stk_status stk__kerchunk_begin(const json_t *document, const char *key, stk__kerchunk *out,
                               stk_error *err);
typedef stk_status stk__kerchunk_fn(void *user, const stk__reference *reference, stk_error *err);
/* Call for each reference whose key begins with `prefix`. */
stk_status stk__kerchunk_each(stk_context *ctx, const stk__kerchunk *k, const char *prefix,
                              stk__kerchunk_fn *each, void *user, stk_error *err);
/* The bytes of one without a URL; released with stk__text_release(). */
stk_status stk__kerchunk_inline(stk_context *ctx, const json_t *value, const char *key,
                                stk__text *out, stk_error *err);
/* The document of Zarr under a key; `out` zeros: there is none. */
stk_status stk__kerchunk_document(stk_context *ctx, const stk__kerchunk *k, const char *key,
                                  stk__json *out, stk_error *err);

/* ---- Places (places.c) ---- */

typedef struct stk__kerchunk_place {
    uint64_t chunk, offset, length; /* length STK__ARRAY_UNKNOWN: the object's */
    uint32_t object;
} stk__kerchunk_place;

/* Where the chunks of an array lie. Object 0 is what the document holds itself. */
typedef struct stk__kerchunk_places {
    stk_context *context;
    stk__kerchunk_place *list; /* by chunk */
    size_t count, room;
    char **objects; /* URLs, then keys */
    size_t num_objects, room_objects;
    uint64_t names;  /* bytes of all URLs, as they are held */
    json_t *numbers; /* of the URLs */
    stk__text inlined;
} stk__kerchunk_places;

/* Those of the array `a`, whose grid is known, under `prefix`; released also after a failure. */
stk_status stk__kerchunk_find(const stk_array *a, const stk__kerchunk *k, const char *prefix,
                              stk__kerchunk_places *out, stk_error *err);
void stk__kerchunk_places_release(stk__kerchunk_places *places);
/*
 * Make keys of the URLs. `foreign`: they may lead to another store, which all of them then lie in,
 * and which is opened; else *store stays NULL. `key`: of the document.
 */
stk_status stk__kerchunk_resolve(stk__kerchunk_places *places, const char *key, bool foreign,
                                 stk_store **store, stk_error *err);

/* A store that is another one, and of `key` the bytes that are given, which it takes over.
 * (inline_store.c) */
stk_status stk__inline_store(stk__shared_store *files, const char *key, stk__text *bytes,
                             stk__shared_store **out, stk_error *err);

/* ---- Writing (write.c) ---- */

typedef struct stk__kerchunk_written {
    uint64_t arrays, references;
    uint64_t bytes; /* of the arrays' elements */
} stk__kerchunk_written;
/*
 * References of kerchunk, version 1, to all arrays of a group of a file: a document for the folder
 * in which `file` names that file. Errors: STK_ENOTSUP: what Zarr cannot say of an array, by name.
 */
stk_status stk__kerchunk_write(stk_context *ctx, stk_group *group, const char *file, stk__text *out,
                               stk__kerchunk_written *written, stk_error *err);

#endif
