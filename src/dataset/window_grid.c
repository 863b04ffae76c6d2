/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The windows of a dataset and their numbers. Along each dimension the windows begin at
 * begin + i * stride. A block is k windows along each dimension: those that begin in one chunk.
 * Blocks come in C order, the windows of a block as well, and blocks at the ends are smaller.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/options.h"
#include "base/random.h"
#include "dataset/window.h"

#define WIDE_BLOCK 8 /* chunks along a dimension that a block may span to be like the others */

uint32_t stk__window_find_dim(const stk__window *w, const char *name, size_t length)
{
    char *end;

    for (uint32_t i = 0; i < w->num_dims; i++)
        if (strlen(w->dims[i].name) == length && memcmp(w->dims[i].name, name, length) == 0)
            return i;
    if (length == 0 || *name < '0' || *name > '9')
        return w->num_dims;
    unsigned long number = strtoul(name, &end, 10);
    return end == name + length && number < w->num_dims ? (uint32_t)number : w->num_dims;
}

static void name_dim(const stk__window *w, uint32_t d, char *text, size_t size)
{
    if (w->dims[d].name[0])
        snprintf(text, size, "'%s'", w->dims[d].name);
    else
        snprintf(text, size, "%u", d);
}

/* ---- Lists of the options ---- */

static stk_status bad_list(const char *option, const char *text, const char *example,
                           stk_error *err)
{
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option, STK_NO_OFFSET,
                        "%s=%.200s: write it as %s", option, text, example);
}

stk_status stk__window_unknown_dim(const stk__window *w, const char *option, const char *name,
                                   size_t length, stk_error *err)
{
    char known[256] = "", wanted[STK_OPTION_NAME], meant[STK_OPTION_MEANT];
    stk__nearest nearest;
    size_t at = 0;

    snprintf(wanted, sizeof wanted, "%.*s", (int)STK_MIN(length, sizeof wanted - 1), name);
    stk__nearest_init(&nearest, wanted);
    for (uint32_t d = 0; d < w->num_dims && at < sizeof known; d++) {
        char one[80];
        name_dim(w, d, one, sizeof one);
        if (w->dims[d].name[0])
            stk__nearest_offer(&nearest, w->dims[d].name);
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", d ? ", " : "", one);
    }
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option, STK_NO_OFFSET,
                        "%s: there is no dimension '%.*s'; there are %s%s", option,
                        (int)STK_MIN(length, 64), name, known, stk__nearest_said(&nearest, meant));
}

typedef void set_fn(stk__window_dim *dim, const int64_t *values);

static void set_window(stk__window_dim *dim, const int64_t *values)
{
    dim->window = values[0];
}

static void set_stride(stk__window_dim *dim, const int64_t *values)
{
    dim->stride = values[0];
}

/* Kept as its negative until the window is known. */
static void set_overlap(stk__window_dim *dim, const int64_t *values)
{
    dim->stride = -1 - values[0];
}

static void set_range(stk__window_dim *dim, const int64_t *values)
{
    dim->begin = values[0];
    dim->end = STK_MIN(values[1], dim->size);
    dim->limited = true;
}

static void set_at(stk__window_dim *dim, const int64_t *values)
{
    dim->dropped = true;
    dim->begin = STK_MIN(values[0], dim->size);
    dim->end = STK_MIN(dim->begin + 1, dim->size);
    dim->limited = true;
}

/* "NAME:4,NAME:64", of a range "NAME:0:100", or "4x64x64" for all dimensions. */
static stk_status read_list(stk__window *w, const char *option, const char *text, int num_values,
                            int64_t least, const char *example, set_fn *set, stk_error *err)
{
    const bool whole = num_values == 1 && text && !strchr(text, ':');
    uint32_t next = 0;

    for (const char *at = text; at && *at;) {
        int64_t values[2] = {0, INT64_MAX};
        uint32_t d = next++;
        char *end = (char *)at;
        if (!whole) {
            size_t length = strcspn(at, ":");
            d = stk__window_find_dim(w, at, length);
            if (d == w->num_dims)
                return stk__window_unknown_dim(w, option, at, length, err);
            at += length;
            if (!*at)
                return bad_list(option, text, example, err);
            at++;
        } else if (d == w->num_dims) {
            return bad_list(option, text, example, err);
        }
        for (int i = 0; i < num_values; i++) {
            bool empty = *at == ':' || *at == ',' || *at == 0;
            if (!(empty && num_values == 2)) {
                values[i] = strtoll(at, &end, 10);
                if (end == at || values[i] < least)
                    return bad_list(option, text, example, err);
                at = end;
            }
            if (i + 1 < num_values && *at++ != ':')
                return bad_list(option, text, example, err);
        }
        if (*at && *at != ',' && !(whole && *at == 'x'))
            return bad_list(option, text, example, err);
        at += *at != 0;
        set(&w->dims[d], values);
    }
    if (whole && *text && next != w->num_dims)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option, STK_NO_OFFSET,
                            "%s=%.200s: there are %u dimensions; name those that are meant, as %s",
                            option, text, w->num_dims, example);
    return STK_OK;
}

/* ---- Blocks ---- */

/* Windows of a block along each dimension. A dimension that blocks do not divide would leave short
 * blocks in the middle of the numbers: then a block spans all of it, where that is not far. */
static void choose_blocks(stk__window *w)
{
    bool later = false;

    for (uint32_t i = w->num_dims; i-- > 0;) {
        stk__window_dim *dim = &w->dims[i];
        uint64_t k = (uint64_t)STK_MAX(dim->chunk / dim->stride, 1);
        uint64_t extent = (uint64_t)(dim->end - dim->begin);
        dim->k = STK_MIN(k, dim->n);
        bool last = !later;
        for (uint32_t j = 0; j < i; j++)
            last = last && w->dims[j].n == 1;
        if (dim->n % dim->k && !last && extent <= WIDE_BLOCK * (uint64_t)dim->chunk)
            dim->k = dim->n;
        later = later || dim->k < dim->n;
    }
}

static stk_status count_windows(stk__window *w, stk_error *err)
{
    uint64_t total = 1;

    for (uint32_t i = w->num_dims; i-- > 0;) {
        stk__window_dim *dim = &w->dims[i];
        int64_t room = dim->end - dim->begin;
        char name[80];
        name_dim(w, i, name, sizeof name);
        const char *option = dim->dropped ? "at" : "range";
        if (dim->begin > dim->size || room < 1)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option, STK_NO_OFFSET,
                                "%s: %lld:%lld of dimension %s holds nothing; it has %lld "
                                "elements",
                                option, (long long)dim->begin, (long long)dim->end, name,
                                (long long)dim->size);
        if (dim->window > room)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "window", STK_NO_OFFSET,
                                "window: %lld elements of dimension %s do not fit the %lld that "
                                "there are; take a smaller window",
                                (long long)dim->window, name, (long long)room);
        if (dim->stride < 1)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "overlap", STK_NO_OFFSET,
                                "overlap: windows of %lld elements of dimension %s cannot overlap "
                                "by %lld; at most by one less",
                                (long long)dim->window, name,
                                (long long)(dim->window - dim->stride));
        dim->n = (uint64_t)((room - dim->window) / dim->stride) + 1;
        dim->tail = total;
        if (!stk__mul_size(total, dim->n, &total) || total > STK_PERMUTATION_MAX)
            return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                             "there are more than 2^48 windows; set a larger stride");
    }
    w->base.size = total;
    return STK_OK;
}

stk_status stk__window_grid(stk__window *w, const stk__window_options *o, const char *url,
                            stk_error *err)
{
    const int64_t steps = (int64_t)(o->input + o->lead + o->target);

    STK_TRY(read_list(w, "range", o->range, 2, 0, "time:0:1000,y:10:90", set_range, err));
    STK_TRY(read_list(w, "at", o->at, 1, 0, "level:3", set_at, err));
    STK_TRY(stk__window_select(w, o->select, url, err));
    STK_TRY(read_list(w, "window", o->window, 1, 1, "time:4,y:64 or 4x64x64", set_window, err));
    if (o->stride && *o->stride && o->overlap && *o->overlap)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "overlap", STK_NO_OFFSET,
                            "stride and overlap are two words for one thing; give one of them");
    STK_TRY(read_list(w, "stride", o->stride, 1, 1, "time:1,y:32 or 1x32x32", set_stride, err));
    STK_TRY(read_list(w, "overlap", o->overlap, 1, 0, "time:2,y:16 or 2x16x16", set_overlap, err));
    if (o->time && *o->time) {
        w->time = stk__window_find_dim(w, o->time, strlen(o->time));
        if (w->time == w->num_dims)
            return stk__window_unknown_dim(w, "time", o->time, strlen(o->time), err);
    }
    if (steps > 0 && w->num_dims == 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "input", STK_NO_OFFSET,
                            "input: the array has no dimension of time");
    if (steps > 0 && w->dims[w->time].window)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "window", STK_NO_OFFSET,
                            "window: along time it follows from input, lead and target; leave that "
                            "dimension out");
    for (uint32_t i = 0; i < w->num_dims; i++) {
        stk__window_dim *dim = &w->dims[i];
        bool any = o->window && *o->window;
        if (steps > 0 && i == w->time)
            dim->window = steps;
        else if (!dim->window)
            dim->window = i == 0 && !any && steps == 0 ? 1 : dim->end - dim->begin;
        if (dim->stride < 0)
            dim->stride = dim->window + dim->stride + 1;
        else if (!dim->stride)
            dim->stride = dim->window;
    }
    STK_TRY(count_windows(w, err));
    choose_blocks(w);
    return STK_OK;
}

void stk__window_start(const stk__window *w, uint64_t index, int64_t *start)
{
    uint64_t height[STK__WINDOW_DIMS], first[STK__WINDOW_DIMS], heights = 1;

    for (uint32_t i = 0; i < w->num_dims; i++) {
        const stk__window_dim *dim = &w->dims[i];
        uint64_t row = dim->k * heights * dim->tail; /* windows of a row of full blocks */
        uint64_t block = index / row;
        index -= block * row;
        first[i] = block * dim->k;
        height[i] = STK_MIN(dim->k, dim->n - first[i]);
        heights *= height[i];
    }
    for (uint32_t i = w->num_dims; i-- > 0;) {
        const stk__window_dim *dim = &w->dims[i];
        start[i] = dim->begin + (int64_t)(first[i] + index % height[i]) * dim->stride;
        index /= height[i];
    }
}
