/* Samples that another reader found, a line each: see scripts/make_cifar_golden.py. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_GOLDEN_DATASET_EXPECTED_H
#define STK_TESTS_GOLDEN_DATASET_EXPECTED_H

#include <stdio.h>
#include <zlib.h>

#include "unit/dataset/samples.h"

typedef struct expected {
    char kind[16], split[8], option[16], name[64]; /* `name`: of the class */
    unsigned index, label;
    unsigned long crc;
} expected;

static inline size_t expected_read(const char *path, expected *to, size_t room)
{
    FILE *f = fopen(path, "r");
    size_t n = 0;

    assert_non_null(f);
    while (n < room &&
           fscanf(f, "%15s %7s %15s %u %u %lx %63[^\n]", to[n].kind, to[n].split, to[n].option,
                  &to[n].index, &to[n].label, &to[n].crc, to[n].name) == 7)
        n++;
    assert_true(feof(f));
    fclose(f);
    return n;
}

static inline void expected_open(stk_context *ctx, const expected *e, const char *url,
                                 const char *more, stk_dataset **out)
{
    const bool option = strcmp(e->option, "-") != 0;
    char spec[1000];
    stk_error err;

    stk_error_init(&err);
    const int length = snprintf(spec, sizeof spec, "%s:%s?split=%s%s%s%s", e->kind, url, e->split,
                                option ? "&" : "", option ? e->option : "", more);
    assert_true(length > 0 && (size_t)length < sizeof spec);
    assert_ok(stk_dataset_open(ctx, spec, out, &err), &err);
}

static inline void expected_check(stk_dataset *d, const expected *e)
{
    samples *s = samples_range(d, e->index, 1);

    assert_int_equal(s->sample[0].status, STK_OK);
    assert_int_equal(s->label[0], e->label);
    assert_true(e->label < d->num_classes);
    assert_string_equal(d->classes[e->label], e->name);
    assert_int_equal(crc32(0, s->data[0], (unsigned)stk_field_bytes(&d->fields[0])), e->crc);
    samples_free(s);
}

#endif
