/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a picture goes. */
#include "bench.h"

#include "table.h"

#define MS 1e3

/* Milliseconds of a picture, and what it is. */
static void print_part(FILE *out, const char *name, double seconds, double pictures,
                       const char *what)
{
    fprintf(out, "  %-8s %8.3f  %s\n", name, MS * seconds / pictures, what);
}

void bench_cost_print(FILE *out, const struct bench_row *row)
{
    const stk_figures *f = row->row.judged;
    const double n = (double)f->pictures,
                 rest = f->prepare_busy - f->decode_seconds - f->resize_seconds;
    char text[128] = "reading JPEG or PNG";

    if (!f->pictures)
        return;
    if (f->entropy_share > 0)
        snprintf(text, sizeof text,
                 "about %.0f %% of it entropy decoding (an estimate), %.3f ms the rest",
                 100 * f->entropy_share, MS * f->decode_seconds * (1 - f->entropy_share) / n);
    fprintf(out, "\nOne picture costs, in ms of a worker (%s):\n", row->setting.label);
    if (f->requests)
        print_part(out, "read", f->read_seconds, n,
                   "in flight, next to the work: it costs the worker nothing unless it waits");
    print_part(out, "decode", f->decode_seconds, n, text);
    print_part(out, "resize", f->resize_seconds, n, "resize, crop, flip, convert, write");
    print_part(out, "rest", rest > 0 ? rest : 0, n, "dataset, other transforms, book-keeping");
}
