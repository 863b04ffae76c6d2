/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics of pictures for `stoker info`: the survey itself is the library's; here it is chosen,
 * kept for the next time and shown. It is kept under the fingerprint of the dataset, in the user's
 * cache, so that it is never that of other data and read-only trees can have one.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "info.h"
#include "object_stores.h"

#define AUTO_PICTURES 20000 /* a larger dataset is sampled, unless all is asked for */
#define SHOWN_BROKEN  20
#define SHOWN_CLASSES 20

enum { STATS_AUTO, STATS_ALL, STATS_NONE };

struct survey_options {
    uint32_t struct_size;
    int32_t stats;
    uint64_t sample;
};

static const stk_option option_rows[] = {
    {.name = "stats",
     .type = STK_OPTION_ENUM,
     .offset = offsetof(struct survey_options, stats),
     .initial = "auto",
     .choices = "auto|all|none",
     .doc = "Read pictures for mean, std, sizes, formats and broken files. auto: encoded pictures, "
            "20,000 evenly spread where there are more. all: every picture, of any dataset. The "
            "result is kept for the next time. Of arrays: all reads the values and keeps what it "
            "finds next to them, auto shows what was kept."},
    {.name = "sample",
     .type = STK_OPTION_UINT,
     .offset = offsetof(struct survey_options, sample),
     .initial = "0",
     .metavar = "N",
     .doc = "Read N pictures, evenly spread over the dataset; 0: as --stats says."},
};

static const stk_option_table table = {.name = "info",
                                       .doc = "Statistics of pictures",
                                       .struct_size = sizeof(struct survey_options),
                                       .options = option_rows,
                                       .count = sizeof option_rows / sizeof option_rows[0]};

const stk_option_table *info_survey_table(void)
{
    return &table;
}

/* ---- Keeping --------------------------------------------------------------------------------- */

/* Where a survey of this dataset is kept, by its size and its limits; false: nowhere. */
static bool kept_path(const stk_dataset_info *about, const stk_survey_options *options,
                      char path[PATH_MAX])
{
    char folder[PATH_MAX - 120];

    if (!cli_cache_folder(cli_home_folder(), folder, sizeof folder))
        return false;
    snprintf(path, PATH_MAX, "%s/survey-%016" PRIx64 "-%" PRIu64 "-%" PRIu64 "-%" PRIu64, folder,
             about->fingerprint, options->limit ? options->limit : about->size, options->max_pixels,
             options->max_blocks);
    return true;
}

/* A survey that was kept; whatever is wrong with it, it is as if there were none. */
static bool take_kept(struct info_survey *survey, const stk_dataset_info *about, const char *path)
{
    FILE *file = fopen(path, "r");

    if (!file)
        return false;
    bool good = info_kept_read(file, about->num_classes, survey) && !survey->broken.failed;
    fclose(file);
    if (!good) {
        survey->broken.count = 0;
        survey->found = (stk_survey){.struct_size = sizeof survey->found};
    }
    return good;
}

static void make_folders(char *path)
{
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = '\0';
            (void)mkdir(path, 0777);
            *p = '/';
        }
}

/* Nothing is lost where it cannot be kept: it is made again. */
static void keep(const struct info_survey *survey, const stk_dataset_info *about, char *path)
{
    char partial[PATH_MAX + 32];

    make_folders(path);
    snprintf(partial, sizeof partial, "%s.%ld", path, (long)getpid());
    FILE *file = fopen(partial, "w");
    if (!file)
        return;
    info_kept_write(file, about->num_classes, survey);
    bool good = !ferror(file);
    if (fclose(file) != 0 || !good || rename(partial, path) != 0)
        cli_remove_partial(partial);
}

/* ---- Surveying ------------------------------------------------------------------------------- */

static bool has_encoded_pictures(const stk_dataset_info *about)
{
    for (uint32_t f = 0; f < about->num_fields; f++)
        if (about->fields[f].picture && about->fields[f].layout == STK_BYTES)
            return true;
    return false;
}

static void note_broken(void *user, uint64_t index, const char *key, bool unread,
                        const char *reason)
{
    struct info_survey *survey = user;
    struct lines *to = unread ? &survey->unread : &survey->broken;

    (void)index;
    if (to->count < INFO_KEPT_BROKEN)
        lines_add(to, *key ? key : "?", reason);
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(((const struct line *)a)->name, ((const struct line *)b)->name);
}

static void sort(struct lines *lines)
{
    if (lines->count) /* qsort() takes no NULL */
        qsort(lines->line, lines->count, sizeof *lines->line, compare_lines);
}

int info_refuse_limits(struct cli *cli, const char *what)
{
    const stk_option_table *limits = stk_option_table_find("survey");
    char key[128];

    for (size_t i = 0; i < limits->count; i++) {
        snprintf(key, sizeof key, "%s.%s", limits->name, limits->options[i].name);
        if (stk_config_count(cli->config, key) == 0)
            continue;
        cli_error("the option %s does nothing for %s: no pictures are decoded; leave it out",
                  limits->options[i].name, what);
        return CLI_USAGE;
    }
    return CLI_GO_ON;
}

int info_array_stats(struct cli *cli, bool *make, bool *show)
{
    struct survey_options own;

    int code = cli_apply(cli, &table, 0, &own);
    if (code != CLI_GO_ON)
        return code;
    if (own.sample) {
        cli_error("info.sample: it is for pictures; the statistics of an array are of all values");
        return CLI_USAGE;
    }
    *make = own.stats == STATS_ALL;
    *show = own.stats != STATS_NONE;
    return CLI_GO_ON;
}

/* Options of a survey with the limits that are given. */
static int choose_limits(struct cli *cli, stk_survey_options *options)
{
    stk_survey_options limits;

    stk_survey_options_init(options);
    int code = cli_apply(cli, stk_option_table_find("survey"), 0, &limits);
    options->max_pixels = limits.max_pixels;
    options->max_blocks = limits.max_blocks;
    return code;
}

int info_survey(struct cli *cli, stk_dataset *dataset, const stk_dataset_info *about,
                struct info_survey *out)
{
    struct survey_options own;
    stk_survey_options options;
    char path[PATH_MAX];
    stk_error err;

    *out = (struct info_survey){.found = {.struct_size = sizeof out->found}};
    int code = cli_apply(cli, &table, 0, &own);
    if (code != CLI_GO_ON)
        return code;
    const bool encoded = has_encoded_pictures(about);
    if (own.stats == STATS_NONE || !encoded)
        code = info_refuse_limits(cli, own.stats == STATS_NONE ? "stats=none" : "this dataset");
    if (code != CLI_GO_ON || own.stats == STATS_NONE ||
        (own.stats == STATS_AUTO && !own.sample && !encoded))
        return code;
    code = choose_limits(cli, &options);
    if (code != CLI_GO_ON)
        return code;
    options.limit = own.sample ? own.sample : own.stats == STATS_AUTO ? AUTO_PICTURES : 0;
    options.stop = cli_is_interrupted;
    if (options.limit > about->size)
        options.limit = 0;
    out->class_counts = calloc((size_t)about->num_classes + 1, sizeof *out->class_counts);
    if (!out->class_counts) {
        cli_error("no memory for the counts of %u classes", about->num_classes);
        return CLI_FAILED;
    }
    const bool keeps = kept_path(about, &options, path);
    out->kept = keeps && take_kept(out, about, path);
    out->there = true;
    if (out->kept)
        return CLI_GO_ON;
    cli_signals_install();
    stk_status status =
        stk_survey_run(dataset, &options, out->class_counts, note_broken, out, &out->found, &err);
    cli_console_clear();
    if (status != STK_OK)
        return cli_fail(cli, status, &err);
    sort(&out->broken);
    sort(&out->unread);
    if (keeps && !out->found.unread)
        keep(out, about, path);
    return CLI_GO_ON;
}

void info_survey_release(struct info_survey *survey)
{
    lines_free(&survey->broken);
    lines_free(&survey->unread);
    free(survey->class_counts);
}

/* ---- Showing --------------------------------------------------------------------------------- */

static void add(struct lines *lines, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add(struct lines *lines, const char *name, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lines_add(lines, name, text);
}

/* "32 to 63", "4096 and more" */
static void side_text(size_t bin, char text[32])
{
    const unsigned from = bin ? 16u << bin : 0, end = 32u << bin;

    if (bin + 1 == STK_SURVEY_SIDES)
        snprintf(text, 32, "%u and more", from);
    else if (bin == 0)
        snprintf(text, 32, "below %u", end);
    else
        snprintf(text, 32, "%u to %u", from, end - 1);
}

static void side_lines(const stk_survey *s, struct lines *lines)
{
    static const char bar[] = "########################################";
    uint64_t most = 1;
    char side[32];

    for (size_t i = 0; i < STK_SURVEY_SIDES; i++)
        most = s->sides[i] > most ? s->sides[i] : most;
    for (size_t i = 0; i < STK_SURVEY_SIDES; i++) {
        if (!s->sides[i])
            continue;
        side_text(i, side);
        add(lines, "shorter side", "%-13s %8" PRIu64 "  %.*s", side, s->sides[i],
            (int)((s->sides[i] * (sizeof bar - 1) + most - 1) / most), bar);
    }
}

static void class_lines(const struct info_survey *survey, const stk_dataset_info *about,
                        struct lines *lines)
{
    uint64_t least = UINT64_MAX, most = 0, sum = 0;

    if (!about->num_classes)
        return;
    for (uint32_t c = 0; c < about->num_classes; c++) {
        uint64_t n = survey->class_counts[c];

        least = n < least ? n : least;
        most = n > most ? n : most;
        sum += n;
    }
    add(lines, "samples a class", "%" PRIu64 " to %" PRIu64 ", %.1f in the mean%s", least, most,
        (double)sum / about->num_classes,
        survey->found.pictures - survey->found.unread < about->size ? ", of the pictures read alone"
                                                                    : "");
    for (uint32_t c = 0; about->classes && c < about->num_classes && c < SHOWN_CLASSES; c++)
        add(lines, "class", "%u %s: %" PRIu64, c, about->classes[c], survey->class_counts[c]);
    if (about->num_classes > SHOWN_CLASSES)
        add(lines, "class", "and %u more; --format json has them all",
            about->num_classes - SHOWN_CLASSES);
}

static void values_text(const double *values, uint32_t channels, char text[96])
{
    int at = snprintf(text, 96, "[");

    for (uint32_t c = 0; c < channels; c++)
        at += snprintf(text + at, 96 - (size_t)at, "%s%.4f", c ? ", " : "", values[c]);
    snprintf(text + at, 96 - (size_t)at, "]");
}

/* How many files there are of a sort, and the first of them with their reasons. */
static void bad_lines(struct lines *lines, const char *sort, const char *one, uint64_t count,
                      const struct lines *files)
{
    add(lines, sort, "%" PRIu64, count);
    for (size_t i = 0; i < files->count && i < SHOWN_BROKEN; i++)
        add(lines, one, "%s: %s", files->line[i].name, files->line[i].value);
    if (count > SHOWN_BROKEN)
        add(lines, one, "and %" PRIu64 " more; --format json has the first %d",
            count - SHOWN_BROKEN, INFO_KEPT_BROKEN);
}

void info_survey_lines(const struct info_survey *survey, const stk_dataset_info *about,
                       struct lines *lines)
{
    const stk_survey *s = &survey->found;
    char mean[96], std[96];

    if (!survey->there)
        return;
    add(lines, "pictures read", "%" PRIu64 " of %" PRIu64 "%s", s->pictures - s->unread,
        about->size, survey->kept ? " (kept from an earlier time)" : "");
    class_lines(survey, about, lines);
    if (s->jpeg + s->png)
        add(lines, "formats",
            "%" PRIu64 " JPEG (%" PRIu64 " progressive), %" PRIu64 " PNG; %" PRIu64
            " grey, %" PRIu64 " turned by EXIF",
            s->jpeg, s->jpeg_progressive, s->png, s->grey, s->turned);
    const uint64_t sound = s->pictures - s->broken - s->unread;
    if (sound) {
        add(lines, "width x height", "%.0f x %.0f in the mean, from %u x %u to %u x %u",
            s->mean_width, s->mean_height, s->min_width, s->min_height, s->max_width,
            s->max_height);
        side_lines(s, lines);
        add(lines, "bytes a picture", "%.0f in the mean", (double)s->bytes / (double)sound);
        values_text(s->mean, s->channels, mean);
        values_text(s->std, s->channels, std);
        add(lines, "mean, std", "normalize(%s, %s)", mean, std);
    }
    if (s->entropy_share >= 0)
        add(lines, "decoding JPEG", "about %.0f %% of the time is entropy decoding (an estimate)",
            100 * s->entropy_share);
    bad_lines(lines, "broken", "broken file", s->broken, &survey->broken);
    if (s->unread)
        bad_lines(lines, "not read", "file not read", s->unread, &survey->unread);
}

static void json_values(const char *name, const double *values, uint32_t channels, FILE *out)
{
    fprintf(out, ",\n    \"%s\": [", name);
    for (uint32_t c = 0; c < channels; c++) {
        fputs(c ? ", " : "", out);
        cli_json_number(out, values[c]);
    }
    fputs("]", out);
}

static void json_files(const char *name, const struct lines *files, FILE *out)
{
    fprintf(out, ",\n    \"%s\": [", name);
    for (size_t i = 0; i < files->count; i++) {
        fputs(i ? ",\n      {\"key\": " : "\n      {\"key\": ", out);
        cli_json_string(out, files->line[i].name);
        cli_json_member_text(out, "reason", files->line[i].value);
        fputs("}", out);
    }
    fputs("]", out);
}

void info_survey_json(const struct info_survey *survey, const stk_dataset_info *about, FILE *out)
{
    const stk_survey *s = &survey->found;

    if (!survey->there)
        return;
    fprintf(out,
            ",\n  \"survey\": {\n    \"pictures\": %" PRIu64 ", \"of\": %" PRIu64
            ", \"broken\": %" PRIu64 ", \"unread\": %" PRIu64 ", \"bytes\": %" PRIu64
            ",\n    \"jpeg\": %" PRIu64 ", \"jpeg_progressive\": %" PRIu64 ", \"png\": %" PRIu64
            ", \"grey\": %" PRIu64 ", \"turned\": %" PRIu64
            ",\n    \"min_width\": %u, \"min_height\": %u, \"max_width\": %u, \"max_height\": %u, "
            "\"mean_width\": ",
            s->pictures, about->size, s->broken, s->unread, s->bytes, s->jpeg, s->jpeg_progressive,
            s->png, s->grey, s->turned, s->min_width, s->min_height, s->max_width, s->max_height);
    cli_json_number(out, s->mean_width);
    cli_json_member_number(out, "mean_height", s->mean_height);
    fputs(",\n    \"shorter_sides\": [", out);
    for (size_t i = 0; i < STK_SURVEY_SIDES; i++)
        fprintf(out, "%s%" PRIu64, i ? ", " : "", s->sides[i]);
    fputs("]", out);
    json_values("mean", s->mean, s->channels, out);
    json_values("std", s->std, s->channels, out);
    fputs(",\n    \"entropy_share\": ", out);
    cli_json_number(out, s->entropy_share >= 0 ? s->entropy_share : (double)NAN);
    fputs(",\n    \"class_counts\": [", out);
    for (uint32_t c = 0; c < about->num_classes; c++)
        fprintf(out, "%s%" PRIu64, c ? ", " : "", survey->class_counts[c]);
    fputs("]", out);
    json_files("broken_files", &survey->broken, out);
    json_files("unread_files", &survey->unread, out);
    fputs("\n  }", out);
}
