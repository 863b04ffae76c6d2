/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of an array, for `stoker info`: as lines and as JSON. */
#include <inttypes.h>
#include <math.h>

#include "info.h"

double info_left_out(const stk_array_stats *s)
{
    const double all = (double)s->values + (double)s->nan + (double)s->missing;

    return all > 0 ? ((double)s->nan + (double)s->missing) / all : NAN;
}

/* "from 236 in 42 bins of 2: " and a column for each bin, as high as its share of the fullest. */
static void histogram_line(const stk_array_stats *s, struct lines *lines)
{
    static const char *const columns[] = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                          "\u2585", "\u2586", "\u2587", "\u2588"};
    char text[64 + 3 * STK_ARRAY_BINS];
    uint64_t most = 0;

    if (s->num_bins == 0)
        return;
    for (uint32_t i = 0; i < s->num_bins; i++)
        most = s->bins[i] > most ? s->bins[i] : most;
    int at = snprintf(text, sizeof text, "from %.6g in %" PRIu32 " bin%s of %.6g: ", s->bin_low,
                      s->num_bins, s->num_bins == 1 ? "" : "s", s->bin_width);
    for (uint32_t i = 0; i < s->num_bins; i++) {
        const double share = most ? (double)s->bins[i] / (double)most : 0;
        at += snprintf(text + at, sizeof text - (size_t)at, "%s", columns[(int)ceil(8 * share)]);
    }
    lines_add(lines, "histogram", text);
}

void info_stats_lines(const stk_array_stats *s, struct lines *lines)
{
    static const char *const names[] = {"mean", "std", "min", "max"};
    const double values[] = {s->mean, s->std, s->min, s->max};
    char text[96];

    snprintf(text, sizeof text, "%" PRIu64, s->values);
    lines_add(lines, "values", text);
    for (size_t i = 0; i < 4; i++) {
        snprintf(text, sizeof text, isnan(values[i]) ? "-" : "%.9g", values[i]);
        lines_add(lines, names[i], text);
    }
    snprintf(text, sizeof text, "%" PRIu64 " NaN, %" PRIu64 " missing (%.3g %%)", s->nan,
             s->missing, isnan(info_left_out(s)) ? 0.0 : 100 * info_left_out(s));
    lines_add(lines, "left out", text);
    histogram_line(s, lines);
}

void info_stats_json(const stk_array_stats *s, FILE *out)
{
    fprintf(out,
            ", \"stats\": {\"values\": %" PRIu64 ", \"nan\": %" PRIu64 ", \"missing\": %" PRIu64,
            s->values, s->nan, s->missing);
    cli_json_member_number(out, "mean", s->mean);
    cli_json_member_number(out, "std", s->std);
    cli_json_member_number(out, "min", s->min);
    cli_json_member_number(out, "max", s->max);
    cli_json_member_number(out, "nan_share", s->nan_share);
    if (s->num_bins) {
        fputs(", \"histogram\": {\"low\": ", out);
        cli_json_number(out, s->bin_low);
        cli_json_member_number(out, "width", s->bin_width);
        fputs(", \"counts\": [", out);
        for (uint32_t i = 0; i < s->num_bins; i++)
            fprintf(out, "%s%" PRIu64, i ? ", " : "", s->bins[i]);
        fputs("]}", out);
    }
    fputc('}', out);
}
