/* SPDX-License-Identifier: Apache-2.0 */
/* What packing would take, and what decoding takes now, from some pictures of the dataset. */
#include <inttypes.h>
#include <stdio.h>

#include "convert/packed.h"

#define LOOKED_AT UINT64_C(64) /* pictures, evenly spread */
#define LOCATED   512u         /* samples that are located at a time */

typedef struct summing {
    stk_locator seam;
    uint64_t bytes;
} summing;

static stk_status add_length(stk_locator *seam, size_t i, const stk_need *need)
{
    (void)i;
    ((summing *)seam)->bytes += need->length;
    return STK_OK;
}

/* The bytes of all files, or of pictures that are in none. */
static stk_status bytes_now(stk__packed *p, uint64_t *out, stk_error *err)
{
    summing sum = {.seam = stk__locator_of_needs(add_length)};
    uint64_t indices[LOCATED];

    *out = p->rows * stk_field_bytes(&p->dataset->fields[p->image]);
    if (!p->encoded || !p->dataset->ops->locate)
        return STK_OK;
    for (uint64_t first = 0; first < p->rows; first += LOCATED) {
        const size_t n = (size_t)STK_MIN(LOCATED, p->rows - first);
        for (size_t i = 0; i < n; i++)
            indices[i] = first + i;
        STK_TRY(p->dataset->ops->locate(p->dataset, indices, n, &sum.seam, err));
    }
    *out = sum.bytes;
    return STK_OK;
}

static void add_line(stk__text *text, const char *what, const char *value)
{
    stk__text_add(text, "  %-42s %s\n", what, value);
}

static void tell(const stk__packed *p, uint64_t before, double after, double ns, uint64_t looked,
                 stk__text *text)
{
    char line[128], size[32];

    stk__text_add(text, "%s: %" PRIu64 " pictures", p->job->target, p->rows);
    if (*p->transforms)
        stk__text_add(text, ", each by %s", p->transforms);
    stk__text_add(text, "\n");
    add_line(text, p->encoded ? "files now" : "pictures now", stk_size_text((double)before, size));
    snprintf(line, sizeof line, "%s, %.3g times as many bytes", stk_size_text(after, size),
             before ? after / (double)before : 0);
    add_line(text, "packed", line);
    if (p->encoded)
        snprintf(line, sizeof line, "%.3g ms of a core each, %.3g core-seconds an epoch", ns / 1e6,
                 ns * (double)p->rows / 1e9);
    else
        snprintf(line, sizeof line, "nothing: they are pixels already");
    add_line(text, "decoding costs now", line);
    stk__text_add(text, "  from %" PRIu64 " of the pictures; nothing was written\n", looked);
}

stk_status stk__packed_tell(stk__packed *p, stk_error *err)
{
    const uint64_t n = STK_MIN(p->rows, LOOKED_AT);
    stk_conversion_report *report = p->report;
    uint64_t bytes, ns, all = 0, all_ns = 0, looked = 0;
    stk__text text = {.bytes = report->text, .room = sizeof report->text};

    STK_TRY(bytes_now(p, &report->bytes_before, err));
    p->sides = stk__calloc(p->context, p->rows, sizeof *p->sides);
    if (!p->sides)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for sizes of pictures");
    for (uint64_t i = 0; i < n; i++) {
        if (p->job->canceled(p->job))
            return stk__fail(err, STK_ECANCELED, STK_STAGE_CONVERT,
                             "the look at %.200s was stopped", p->job->source);
        const stk_status status =
            stk__packed_try(p, &p->members[0], i * (p->rows / n), &bytes, &ns, err);
        if (status != STK_OK && stk_status_fault(status) != STK_FAULT_SAMPLE)
            return status;
        stk_error_init(err);
        if (status != STK_OK)
            continue;
        all += bytes;
        all_ns += ns;
        looked++;
    }
    if (!looked)
        return stk__fail(err, STK_EBADSAMPLES, STK_STAGE_CONVERT,
                         "none of %" PRIu64 " pictures of %.200s that were looked at is sound", n,
                         p->job->source);
    const double after = (double)all / (double)looked * (double)p->rows;
    report->total = p->rows;
    report->bytes_after = (uint64_t)after;
    report->seconds = (double)all_ns / (double)looked * (double)p->rows / 1e9;
    report->planned = true;
    tell(p, report->bytes_before, after, (double)all_ns / (double)looked, looked, &text);
    return STK_OK;
}
