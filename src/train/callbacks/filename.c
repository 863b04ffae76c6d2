/* SPDX-License-Identifier: Apache-2.0 */
/* Names of checkpoints: "{epoch:02d}-{val_loss:.2f}" -> "epoch=02-val_loss=0.32". */
#include <inttypes.h>
#include <stdio.h>

#include "train/callbacks/callback.h"

enum { MAX_NAME = 128 };

/* "{name:spec}" taken apart; the part of Python's format language that numbers need. */
typedef struct group {
    char name[MAX_NAME];
    bool zero;
    int width, precision; /* -1: none */
    char type;            /* 'd', 'f', 'e', 'g'; 0: none */
} group;

static const char *read_number(const char *at, int *out)
{
    if (*at < '0' || *at > '9')
        return at;
    for (*out = 0; *at >= '0' && *at <= '9' && *out < 100; at++)
        *out = *out * 10 + (*at - '0');
    return at;
}

/* Parse behind '{'; the end behind '}', or NULL. */
static const char *parse_group(const char *at, group *out)
{
    const size_t length = strcspn(at, ":}");

    *out = (group){.width = 0, .precision = -1};
    if (length == 0 || length >= MAX_NAME || !at[length])
        return NULL;
    memcpy(out->name, at, length);
    at += length;
    if (*at == ':') {
        at++;
        if (*at == '0') {
            out->zero = true;
            at++;
        }
        at = read_number(at, &out->width);
        if (*at == '.')
            at = read_number(at + 1, &out->precision);
        if (*at && strchr("dfeg", *at))
            out->type = *at++;
    }
    return *at == '}' && out->width < 64 && out->precision < 32 ? at + 1 : NULL;
}

static stk_status bad_template(const char *format, stk_error *err)
{
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                     "filename '%.200s': it takes {name}, {name:02d} and {name:.2f}, and its "
                     "braces have to match",
                     format);
}

stk_status stk__filename_check(const char *format, stk_error *err)
{
    group g;

    for (const char *at = format; *at;) {
        if (*at == '}')
            return bad_template(format, err);
        if (*at++ != '{')
            continue;
        at = parse_group(at, &g);
        if (!at)
            return bad_template(format, err);
    }
    return STK_OK;
}

static int put_whole(const group *g, uint64_t value, char *out, size_t size)
{
    if (g->type == 'f' || g->type == 'e' || g->type == 'g')
        return snprintf(out, size, "%.*f", g->precision < 0 ? 6 : g->precision, (double)value);
    return g->zero ? snprintf(out, size, "%0*" PRIu64, g->width, value)
                   : snprintf(out, size, "%*" PRIu64, g->width, value);
}

static int put_real(const group *g, double value, char *out, size_t size)
{
    char format[16];
    const char type = g->type == 'd' || !g->type ? (g->precision < 0 ? 'g' : 'f') : g->type;

    snprintf(format, sizeof format, "%%%s*.*%c", g->zero ? "0" : "", type);
    return snprintf(out, size, format, g->width, g->precision < 0 ? 6 : g->precision, value);
}

static int put_group(stk_trainer *t, const group *g, bool insert_names, char *out, size_t size)
{
    double value = 0;
    int used = 0;

    if (insert_names)
        used = snprintf(out, size, "%s=", g->name);
    if ((size_t)used >= size)
        return used;
    out += used;
    size -= (size_t)used;
    if (strcmp(g->name, "epoch") == 0)
        return used + put_whole(g, stk_trainer_current_epoch(t), out, size);
    if (strcmp(g->name, "step") == 0)
        return used + put_whole(g, stk_trainer_global_step(t), out, size);
    if (!stk_trainer_metric(t, g->name, &value))
        value = 0;
    return used + put_real(g, value, out, size);
}

stk_status stk__filename_format(stk_trainer *t, const char *format, bool insert_names, char *out,
                                size_t size, stk_error *err)
{
    size_t used = 0;
    group g;

    for (const char *at = format; *at;) {
        if (used + 1 >= size)
            return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN,
                             "the name of a checkpoint is longer "
                             "than %zu bytes",
                             size);
        if (*at != '{') {
            out[used++] = *at++;
            continue;
        }
        at = parse_group(at + 1, &g);
        if (!at)
            return bad_template(format, err);
        used += (size_t)put_group(t, &g, insert_names, out + used, size - used);
    }
    out[STK_MIN(used, size - 1)] = 0;
    return used < size ? STK_OK : bad_template(format, err);
}
