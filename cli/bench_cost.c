/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a picture goes: from the loader's counters, and an estimate of what is entropy
 * decoding. */
#include "bench.h"

#include <string.h>

#include "table.h"

#define ENTROPY_PICTURES 48 /* enough for a share to within some percent */
#define MS               1e3

void bench_cost_figures(const stk_loader_stats *then, const stk_loader_stats *now, stk_figures *f)
{
    f->pictures = now->pictures - then->pictures;
    f->picture_pixels = now->picture_pixels - then->picture_pixels;
    f->bad_samples = now->bad_samples - then->bad_samples;
    f->decode_seconds = (double)(now->decode_ns - then->decode_ns) * 1e-9;
    f->resize_seconds = (double)(now->resize_ns - then->resize_ns) * 1e-9;
}

void bench_cost_side(const stk_loader *loader, stk_figures *f)
{
    uint32_t n;
    const stk_field *fields = stk_loader_fields(loader, &n);

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t d = 0; d < fields[i].rank && strcmp(fields[i].name, "image") == 0; d++)
            if (fields[i].shape[d] > (int64_t)f->picture_side)
                f->picture_side = (uint64_t)fields[i].shape[d];
}

static void take_chunks(void *user, const char *name, const char *value)
{
    stk_figures *f = user;

    if (!f->chunks[0] && strcmp(name, "advised chunks") == 0)
        snprintf(f->chunks, sizeof f->chunks, "%.*s", (int)strcspn(value, " "), value);
}

void bench_cost_chunks(stk_dataset *dataset, stk_figures *f)
{
    const double read = STK_JUDGE_OVER_READ * (double)f->bytes_needed,
                 decoded = STK_JUDGE_OVER_READ * (double)f->bytes_taken;

    if (((double)f->bytes_read >= read || (double)f->bytes_decoded >= decoded) &&
        f->bytes_decoded && stk_dataset_describe(dataset, take_chunks, f, NULL) != STK_OK)
        f->chunks[0] = 0;
}

void bench_cost_estimate(stk_dataset *dataset, stk_figures *f)
{
    stk_survey_options options;
    stk_survey found = {.struct_size = sizeof found};

    if (dataset)
        bench_cost_chunks(dataset, f);
    if (!f->pictures || cli_interrupted())
        return;
    stk_survey_options_init(&options);
    options.limit = ENTROPY_PICTURES;
    options.entropy_every = 1;
    if (stk_survey_run(dataset, &options, NULL, NULL, NULL, &found, NULL) == STK_OK &&
        found.entropy_share > 0)
        f->entropy_share = found.entropy_share;
    f->waits[STK_WAIT_DECODE_ENTROPY] = f->entropy_share * f->waits[STK_WAIT_DECODE];
    f->waits[STK_WAIT_DECODE] -= f->waits[STK_WAIT_DECODE_ENTROPY];
}

/* Milliseconds of a picture, and what it is. */
static void print_part(FILE *out, const char *name, double seconds, double pictures,
                       const char *what)
{
    fprintf(out, "  %-8s %8.3f  %s\n", name, MS * seconds / pictures, what);
}

void bench_cost_print(FILE *out, const struct bench_row *row)
{
    const stk_figures *f = &row->judged;
    const double n = (double)f->pictures,
                 rest = f->prepare_busy - f->decode_seconds - f->resize_seconds;
    char text[128] = "reading JPEG or PNG";

    if (!f->pictures)
        return;
    if (f->entropy_share > 0)
        snprintf(text, sizeof text,
                 "about %.0f %% of it entropy decoding (an estimate), %.3f ms the rest",
                 100 * f->entropy_share, MS * f->decode_seconds * (1 - f->entropy_share) / n);
    fprintf(out, "\nOne picture costs, in ms of a worker (%s):\n", row->setting->label);
    if (f->requests)
        print_part(out, "read", f->read_seconds, n,
                   "in flight, beside the work: it costs the worker nothing unless it waits");
    print_part(out, "decode", f->decode_seconds, n, text);
    print_part(out, "resize", f->resize_seconds, n, "resize, crop, flip, convert, write");
    print_part(out, "rest", rest > 0 ? rest : 0, n, "dataset, other transforms, book-keeping");
}
