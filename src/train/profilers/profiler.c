/* SPDX-License-Identifier: Apache-2.0 */
/* Making a profile, finishing it, looking at it. */
#include "train/profilers/profiler.h"

#include <inttypes.h>
#include <stdio.h>

#include <stoker/store.h>

#include "base/options.h"
#include "base/sized.h"
#include "base/url.h"

/* ---- Options --------------------------------------------------------------------------------- */

#define AT(member) offsetof(stk_profile_options, member)

static const stk_option options[] = {
    {"profiler", STK_OPTION_STRING, AT(profiler), NULL, 0, 0, NULL, "NAMES",
     "What to write of where the time went: simple, advanced, trace, or several with commas "
     "between."},
    {"dirpath", STK_OPTION_STRING, AT(dirpath), NULL, 0, 0, NULL, "DIR",
     "Folder of the profilers' files; none: the log folder of the run."},
    {"filename", STK_OPTION_STRING, AT(filename), NULL, 0, 0, NULL, "NAME",
     "Part of the files' names, as fit-NAME-0.txt; none: simple and advanced are printed."},
    {"extended", STK_OPTION_BOOL, AT(extended), "true", 0, 0, NULL, NULL,
     "Let simple count calls and shares."},
    {"line_count_restriction", STK_OPTION_DOUBLE, AT(line_count_restriction), "1", 0, 1e6, NULL,
     "N", "Rows of each table of advanced: above 1 so many, up to 1 this share of them."},
    {"max_events", STK_OPTION_UINT, AT(max_events), "100000", 1, 1e8, NULL, "N",
     "Events that a trace keeps, 48 bytes each; later ones are only counted."},
    {"warmup_steps", STK_OPTION_UINT, AT(warmup_steps), "10", 0, 1e6, NULL, "N",
     "Optimizer steps at the beginning that times of batches and layers leave out; of layers at "
     "least one."},
    {"machine_dir", STK_OPTION_STRING, AT(machine_dir), NULL, 0, 0, NULL, "DIR",
     "Folder that keeps the measured peaks of the machine, for the roofline of layers; none: "
     "there is no roofline."},
};

const stk_option_table stk__profile_option_table = {.name = "profile",
                                                    .doc = "Profilers",
                                                    .struct_size = sizeof(stk_profile_options),
                                                    .options = options,
                                                    .count = STK_COUNT(options)};

static stk_status refuse(stk_error *err, const char *option, const char *why)
{
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option, STK_NO_OFFSET, "profile.%s: %s",
                        option, why);
}

/* "simple, trace" -> flags. */
static stk_status parse_kinds(const char *text, uint32_t *kinds, stk_error *err)
{
    static const struct {
        const char *name;
        uint32_t kind;
    } names[] = {{"simple", STK__PROFILE_SIMPLE},
                 {"advanced", STK__PROFILE_ADVANCED},
                 {"trace", STK__PROFILE_TRACE}};

    *kinds = 0;
    for (const char *c = text ? text : ""; *c;) {
        c += strspn(c, " ,");
        const size_t length = strcspn(c, " ,");
        size_t i = 0;
        while (i < STK_COUNT(names) &&
               (strlen(names[i].name) != length || memcmp(names[i].name, c, length) != 0))
            i++;
        if (length && i == STK_COUNT(names))
            return stk__option_no_word("profile.profiler", "profiler", c, length,
                                       "simple|advanced|trace", err);
        if (length)
            *kinds |= names[i].kind;
        c += length;
    }
    return *kinds ? STK_OK : refuse(err, "profiler", "it names none of simple, advanced and trace");
}

/* What would have no effect is refused. */
static stk_status check(const stk_profile *p, stk_error *err)
{
    const stk_profile_options *o = &p->options;
    stk_profile_options defaults;

    stk_profile_options_init(&defaults);
    if (stk_trainer_get_options(p->trainer)->barebones)
        return refuse(err, "profiler",
                      "trainer.barebones leaves out all that takes time; leave out "
                      "one of both");
    if (!(p->kinds & STK__PROFILE_SIMPLE) && o->extended != defaults.extended)
        return refuse(err, "extended", "it has no effect without the profiler simple");
    if (!(p->kinds & STK__PROFILE_ADVANCED) &&
        o->line_count_restriction != defaults.line_count_restriction)
        return refuse(err, "line_count_restriction",
                      "it has no effect without the profiler "
                      "advanced");
    if (!(p->kinds & STK__PROFILE_TRACE) && o->max_events != defaults.max_events)
        return refuse(err, "max_events", "it has no effect without the profiler trace");
    if (!(p->kinds & STK__PROFILE_TRACE) && o->dirpath && !o->filename)
        return refuse(err, "dirpath",
                      "it has no effect without a filename: the tables are printed");
    if (!(o->line_count_restriction > 0))
        return refuse(err, "line_count_restriction", "0 rows say nothing");
    if (o->max_events == 0 || o->max_events > 100000000)
        return refuse(err, "max_events", "it takes 1..100000000");
    return STK_OK;
}

/* An empty text is none. */
static bool copy_text(stk_profile *p, size_t i, const char **text)
{
    if (!*text || !**text) {
        *text = NULL;
        return true;
    }
    p->texts[i] = stk__strdup(p->ctx, *text);
    *text = p->texts[i];
    return *text != NULL;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static void release(stk_profile *p)
{
    stk_context *ctx = p->ctx;

    stk__profile_layers_release(p);
    stk__profile_calls_reset(p);
    stk__trace_close(p);
    for (size_t i = 0; i < STK_COUNT(p->texts); i++)
        stk__free(ctx, p->texts[i]);
    for (size_t i = 0; i < p->num_files; i++)
        stk__free(ctx, p->files[i]);
    stk__free(ctx, p);
    stk__context_unref(ctx);
}

/* By another profiler, or with its trainer. */
static void removed(void *user, bool destroyed)
{
    stk_profile *p = user;

    p->installed = false;
    if (destroyed)
        p->trainer = NULL;
}

/* The trainer's task is over. */
static stk_status ended(void *user, stk_status status, stk_error *err);

stk_status stk_profile_create(stk_trainer *trainer, const stk_profile_options *given,
                              stk_profile **out, stk_error *err)
{
    stk_context *ctx = stk_trainer_context(trainer);
    stk_trainer_info info = {.struct_size = sizeof info};

    *out = NULL;
    stk_error_init(err);
    STK_TRY(stk__context_check(ctx, err));
    stk_profile *p = stk__calloc(ctx, 1, sizeof *p);
    if (!p)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a profile");
    p->ctx = stk__context_ref(ctx);
    p->trainer = trainer;
    stk_profile_options_init(&p->options);
    stk_status status = given ? stk__sized_read(&p->options, sizeof p->options, given,
                                                "stk_profile_options", STK_STAGE_TRAIN, err)
                              : STK_OK;
    if (status != STK_OK) {
        release(p);
        return status;
    }
    if (!copy_text(p, 0, &p->options.profiler) || !copy_text(p, 1, &p->options.dirpath) ||
        !copy_text(p, 2, &p->options.filename) || !copy_text(p, 3, &p->options.machine_dir))
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a profile");
    if (status == STK_OK)
        status = parse_kinds(p->options.profiler, &p->kinds, err);
    if (status == STK_OK)
        status = check(p, err);
    stk_trainer_get_info(trainer, &info);
    if (status == STK_OK && info.running)
        status = stk__fail(err, STK_EBUSY, STK_STAGE_TRAIN, "the trainer is at work already");
    if (status == STK_OK && p->kinds & STK__PROFILE_TRACE)
        status = stk__trace_open(p, err);
    if (status != STK_OK) {
        release(p);
        return status;
    }
    const stk_profiler profiler = {.struct_size = sizeof profiler,
                                   .start = stk__profile_start,
                                   .stop = stk__profile_stop,
                                   .user = p,
                                   .removed = removed,
                                   .ended = ended};
    stk_trainer_set_profiler(trainer, &profiler);
    p->installed = true;
    *out = p;
    return STK_OK;
}

void stk__profile_trouble(stk_profile *p, stk_status status, const char *text)
{
    if (p->trouble.status == STK_OK)
        stk__fail(&p->trouble, status, STK_STAGE_TRAIN, "%s", text);
}

/* ---- Finishing ------------------------------------------------------------------------------- */

const char *stk__profile_stage(const stk_profile *p, bool capitals)
{
    static const char *const names[][2] = {[STK_TASK_NONE] = {"", ""},
                                           [STK_TASK_FIT] = {"fit", "FIT"},
                                           [STK_TASK_VALIDATE] = {"validate", "VALIDATE"},
                                           [STK_TASK_TEST] = {"test", "TEST"},
                                           [STK_TASK_PREDICT] = {"predict", "PREDICT"}};

    return names[p->task][capitals];
}

uint64_t stk__profile_rank(const stk_profile *p)
{
    stk_trainer_info info = {.struct_size = sizeof info};

    stk_trainer_get_info(p->trainer, &info);
    return info.rank;
}

uint64_t stk__profile_span(const stk_profile *p)
{
    stk_trainer_times times = {.struct_size = sizeof times};
    uint64_t end = p->last_ns;

    /* The task ends behind its last call. */
    stk_trainer_get_times(p->trainer, &times);
    if (times.begin == p->task_begin_ns)
        end = STK_MAX(end, times.begin + times.wall);
    return end > p->begin_ns ? end - p->begin_ns : 0;
}

static const char *folder_of(const stk_profile *p)
{
    return p->options.dirpath ? p->options.dirpath : stk_trainer_log_dir(p->trainer);
}

/* Two tables of one name would be one file: where both are asked for, their names say which. */
static char *path_of(const stk_profile *p, uint32_t kind)
{
    const bool both = (p->kinds & (STK__PROFILE_SIMPLE | STK__PROFILE_ADVANCED)) ==
                      (STK__PROFILE_SIMPLE | STK__PROFILE_ADVANCED);
    const char *filename = p->options.filename ? p->options.filename : "";
    const char *which = kind == STK__PROFILE_TRACE || !both ? ""
                        : kind == STK__PROFILE_SIMPLE       ? "simple_"
                                                            : "advanced_";
    char end[48] = ".txt";

    if (kind == STK__PROFILE_TRACE)
        snprintf(end, sizeof end, ".%" PRIu64 ".pt.trace.json",
                 (uint64_t)(stk__wall_seconds() * 1e9));
    char *name = stk__format(p->ctx, "%s%s%s%s-%" PRIu64 "%s", stk__profile_stage(p, false),
                             *filename ? "-" : "", which, filename, stk__profile_rank(p), end);
    /* The name is one of a file, whatever the caller put into it. */
    for (char *c = name; c && *c; c++)
        if (strchr("/\\:*?\"<>|", *c) || (unsigned char)*c < 0x20)
            *c = '_';
    char *path = name ? stk__url_below(p->ctx, folder_of(p), name) : NULL;
    stk__free(p->ctx, name);
    return path;
}

static stk_status write_file(stk_profile *p, uint32_t kind, const stk__text *text, stk_error *err)
{
    char *path = path_of(p, kind);

    if (!path)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the path of a profile");
    stk_status status = text ? stk_put_bytes(p->ctx, path, text->bytes, text->length, NULL, err)
                             : stk__trace_write(p, path, err);
    if (status == STK_OK)
        p->files[p->num_files++] = path;
    else
        stk__free(p->ctx, path);
    return status;
}

/* Lines to the console, which has no tabs. */
static void say(const stk_profile *p, const char *text)
{
    const stk_console *console = stk_trainer_get_console(p->trainer);
    stk__text line = {.ctx = p->ctx};
    int column = 0;

    for (; *text; text++) {
        if (*text == '\n') {
            console->line(console->user, line.length ? line.bytes : "");
            line.length = 0;
            column = 0;
            continue;
        }
        column += ((unsigned char)*text & 0xc0) != 0x80;
        if (*text == '\t')
            for (stk__text_put(&line, " ", 1); column % 8; column++)
                stk__text_put(&line, " ", 1);
        else
            stk__text_put(&line, text, 1);
    }
    stk__text_release(&line);
}

/* A table goes to its file, or to the console. */
static stk_status put_table(stk_profile *p, uint32_t kind, stk_error *err)
{
    stk__text text = {.ctx = p->ctx};
    stk_status status = STK_OK;

    if (!(p->kinds & kind))
        return STK_OK;
    (kind == STK__PROFILE_SIMPLE ? stk__profile_simple : stk__profile_advanced)(p, &text);
    if (text.failed)
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a profiler's table");
    else if (p->options.filename)
        status = write_file(p, kind, &text, err);
    else
        say(p, text.bytes);
    stk__text_release(&text);
    return status;
}

/* What was recorded is forgotten. */
static void begin_again(stk_profile *p)
{
    stk__trace_stop(p);
    stk_error_init(&p->trouble);
    stk__profile_calls_reset(p);
    stk__profile_layers_reset(p);
    p->task = STK_TASK_NONE;
    stk__trace_listen(p);
}

stk_status stk_profile_finish(stk_profile *p, stk_error *err)
{
    STK_TRY(stk__context_check(p->ctx, err));
    stk_status status = STK_OK, more;
    stk_error own;

    err = err ? err : &own;
    stk_error_init(err);
    stk__trace_stop(p);
    if (p->task != STK_TASK_NONE) {
        for (size_t i = 0; i < p->num_files; i++)
            stk__free(p->ctx, p->files[i]);
        p->num_files = 0;
        if (p->kinds & (STK__PROFILE_SIMPLE | STK__PROFILE_ADVANCED))
            stk__profile_find_peaks(p);
        status = put_table(p, STK__PROFILE_SIMPLE, err);
        more = put_table(p, STK__PROFILE_ADVANCED, status == STK_OK ? err : &own);
        status = status == STK_OK ? more : status;
        if (p->kinds & STK__PROFILE_TRACE) {
            more = write_file(p, STK__PROFILE_TRACE, NULL, status == STK_OK ? err : &own);
            status = status == STK_OK ? more : status;
        }
    }
    if (status == STK_OK && p->trouble.status != STK_OK) {
        *err = p->trouble;
        status = err->status;
    }
    begin_again(p);
    return status;
}

/* Of the batches behind the warm-up, where there are some. */
static stk_status sum_up_fit(stk_profile *p, stk_profile_summary *out, bool *written,
                             stk_error *err)
{
    const uint64_t warmup = stk_profile_warmup(p);

    if (p->task != STK_TASK_FIT || p->num_batches == 0)
        return STK_OK;
    STK_TRY(stk_profile_summarize(p, p->num_batches > warmup ? warmup : 0, NULL, out, err));
    if (stk__profile_rank(p))
        return STK_OK;
    STK_TRY(stk_profile_write_files(p, out, folder_of(p), err));
    *written = true;
    return STK_OK;
}

static stk_status ended(void *user, stk_status status, stk_error *err)
{
    stk_profile_summary summary = {.struct_size = sizeof summary};
    stk_profile *p = user;
    stk__text text = {.ctx = p->ctx};
    bool written = false;
    stk_error own;

    if (!p->options.each_task || p->task == STK_TASK_NONE)
        return STK_OK;
    if (status != STK_OK && status != STK_ECANCELED) {
        begin_again(p);
        return STK_OK;
    }
    status = sum_up_fit(p, &summary, &written, err);
    const stk_status more = stk_profile_finish(p, status == STK_OK ? err : &own);
    if (*summary.text)
        stk__text_add(&text, "%s\n", summary.text);
    if (written)
        stk__text_add(&text,
                      "Profile: timing_summary.yaml, timing_results.csv and layers.csv in %s\n",
                      folder_of(p));
    for (size_t i = 0; i < p->num_files; i++)
        stk__text_add(&text, "Profile: %s\n", p->files[i]);
    say(p, text.length && !text.failed ? text.bytes : "");
    stk__text_release(&text);
    return status == STK_OK ? more : status;
}

stk_status stk_profile_close(stk_profile **profile, stk_error *err)
{
    stk_profile *p = *profile;

    if (!p)
        return STK_OK;
    *profile = NULL;
    STK_TRY(stk__context_check(p->ctx, err));
    stk_status status = STK_OK;
    if (p->trainer) {
        status = stk_profile_finish(p, err);
        if (p->installed)
            stk_trainer_set_profiler(p->trainer, NULL);
    }
    release(p);
    return status;
}

/* ---- Looking --------------------------------------------------------------------------------- */

bool stk_profile_get_action(const stk_profile *p, size_t i, stk_profile_action *out)
{
    if (i >= p->num_entries)
        return false;
    const stk__profile_entry *entry = &p->entries[i];
    *out = (stk_profile_action){.name = entry->name,
                                .calls = entry->calls,
                                .total_ns = entry->total_ns,
                                .own_ns = entry->own_ns};
    return true;
}

bool stk_profile_get_batch(const stk_profile *p, size_t i, stk_profile_batch *out)
{
    if (i >= p->num_batches)
        return false;
    *out = p->batches[i];
    return true;
}

const char *stk_profile_file(const stk_profile *p, size_t i)
{
    return i < p->num_files ? p->files[i] : NULL;
}
