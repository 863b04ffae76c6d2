/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/durable.h"
#include "base/files.h"
#include "base/url.h"
#include "checkpoint/hash.h"
#include "checkpoint/parts.h"
#include "checkpoint/upload_send.h"

#define MAX_DEPTH 8 /* folders below the one given */

/* In place of a version, of what lies in no such folder: */
#define NO_VERSION  (-1)
#define NEWEST_RUNS INT64_MAX /* younger than what the highest version has */

/* A file that may be the newest checkpoint. */
typedef struct candidate {
    char *path;
    int64_t version; /* of the folder version_<n> it lies in; or one of those below */
    int64_t step;
    struct timespec time; /* of its last change */
    bool whole;           /* it has the text that is wanted */
    bool lost;            /* damaged, which has been said */
} candidate;

typedef struct search {
    stk_context *ctx;
    candidate *found;
    size_t count, room;
    size_t unmarked;    /* that no mark says are whole */
    size_t known;       /* of them, from before the folder at hand, which may hold the same */
    const char *wanted; /* name of a text; NULL: of none */
    const stk__newest_where *where;
    bool numbered; /* only folders version_<n> are looked into */
    bool sweeps;   /* remove what killed runs left unfinished */
    stk_error *err;
} search;

static stk_status no_memory(search *s)
{
    return stk__fail(s->err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to look for checkpoints");
}

/* A decimal of digits alone; -1 where it is none. */
static int64_t decimal(const char *text)
{
    char *end;

    if (!text || *text < '0' || *text > '9')
        return -1;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    return *end || errno ? -1 : value;
}

/* The number in "version_<n>"; `otherwise` for another name. */
static int64_t version_of(const char *name, int64_t otherwise)
{
    const int64_t number = strncmp(name, "version_", 8) == 0 ? decimal(name + 8) : -1;

    return number >= 0 ? number : otherwise;
}

static bool is_named_so(const char *name)
{
    static const char *const endings[] = {".ckpt", ".safetensors"};

    for (size_t i = 0; i < STK_COUNT(endings); i++)
        if (stk__ends_with(name, strlen(name), endings[i]))
            return true;
    return false;
}

static void skip(search *s, const stk_error *why)
{
    stk__message(s->ctx, STK_MESSAGE_WARNING, "skipped a checkpoint: %s", why->text);
}

/* Whether a checkpoint is passed over for a failure: what is damaged or gone stays so. All else may
 * pass, and to go on from an older one then would lose work that is safe. */
static bool is_lost(stk_status status)
{
    return stk_status_fault(status) == STK_FAULT_SAMPLE && status != STK_EACCES;
}

/* The same file, found before; NULL: it was not. */
static candidate *known(search *s, const char *path)
{
    for (size_t i = 0; i < s->known; i++)
        if (strcmp(s->found[i].path, path) == 0)
            return &s->found[i];
    return NULL;
}

static stk_status note(search *s, const candidate *c)
{
    candidate *grown = stk__grow(s->ctx, s->found, &s->room, s->count + 1, sizeof *grown);

    if (!grown) {
        stk__free(s->ctx, c->path);
        return no_memory(s);
    }
    s->found = grown;
    s->found[s->count++] = *c;
    return STK_OK;
}

/* Look at the header of a file and note what it says; a damaged one is reported. Takes `path`. */
static stk_status add(search *s, char *path, int64_t version, const struct timespec *time)
{
    candidate c = {.path = path, .version = version, .step = -1, .time = *time}, *before;
    stk__safetensors_file file;
    stk_error why;

    if ((before = known(s, path))) {
        before->version = version;
        stk__free(s->ctx, path);
        return STK_OK;
    }
    stk_status status = stk__safetensors_file_open(s->ctx, path, &file, &why);
    bool ours = false;
    if (status == STK_OK) {
        ours = stk__safetensors_find_text(&file.parsed, STK__CHECKPOINT_HASH) != NULL;
        c.whole = !s->wanted || stk__safetensors_find_text(&file.parsed, s->wanted);
        c.step = decimal(stk__safetensors_find_text(&file.parsed, STK__CHECKPOINT_STEP));
        stk__safetensors_file_close(&file);
    } else if (!is_lost(status)) {
        if (s->err)
            *s->err = why;
    } else {
        /* Of other programs, with no harm done to it: not worth a word. */
        c.lost = ours = status != STK_EKIND;
        if (c.lost)
            skip(s, &why);
        status = STK_OK;
    }
    if (ours)
        return note(s, &c);
    stk__free(s->ctx, path);
    return status;
}

/* Parts are found by the first of them. */
static bool holds_parts(const char *folder)
{
    return strcmp(folder, STK__CHECKPOINT_PARTS) == 0;
}

static stk_status look_into(search *s, const char *folder, int64_t version, int depth);

/* One name in a folder. */
static stk_status look_at(search *s, const char *folder, const struct dirent *entry,
                          int64_t version, int depth)
{
    const char *name = entry->d_name;
    struct stat st;

    /* A folder of data may hold millions of files: they cost no call each. */
    if (entry->d_type == DT_REG && !is_named_so(name))
        return STK_OK;
    char *path = stk__format(s->ctx, "%s/%s", folder, name);
    if (!path)
        return no_memory(s);
    stk_status status = STK_OK;
    /* Links to folders are not followed: they can lead around in circles. */
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        version = version_of(name, version);
        if (depth < MAX_DEPTH && (version >= 0 || !s->numbered) && !holds_parts(name))
            status = look_into(s, path, version, depth + 1);
    } else if (is_named_so(name) && (version >= 0 || !s->numbered) && stat(path, &st) == 0 &&
               S_ISREG(st.st_mode)) {
        return add(s, path, version, &st.st_mtim);
    }
    stk__free(s->ctx, path);
    return status;
}

static stk_status look_into(search *s, const char *folder, int64_t version, int depth)
{
    struct dirent *entry;
    stk_status status = STK_OK;
    bool unfinished = false, parts = false;

    DIR *dir = opendir(folder);
    if (!dir)
        return depth == 0 && errno != ENOENT
                   ? stk__durable_fail(s->err, "look for checkpoints in", folder, errno)
                   : STK_OK;
    while (status == STK_OK && (entry = readdir(dir))) {
        unfinished |= stk__is_temporary(entry->d_name);
        parts |= holds_parts(entry->d_name);
        if (entry->d_name[0] != '.')
            status = look_at(s, folder, entry, version, depth);
    }
    closedir(dir);
    /* Only in folders of runs: elsewhere may be anything. */
    if (s->sweeps && unfinished && version >= 0)
        stk__durable_sweep_path(folder);
    if (s->sweeps && parts && version >= 0)
        stk__parts_sweep(s->ctx, folder);
    return status;
}

/* Above 0: `a` is the later. */
static int compare_times(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? (a->tv_sec > b->tv_sec ? 1 : -1)
                                  : (a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

/* Newest first. A folder version_<n> is of one run, whose steps count up, whatever a copy has made
 * of the times. Elsewhere runs follow each other in one folder, and the times tell them apart. */
static int compare(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    const bool one_run = x->version != NO_VERSION && x->version != NEWEST_RUNS;
    const int later = compare_times(&x->time, &y->time),
              further = (x->step > y->step) - (x->step < y->step);

    if (x->whole != y->whole)
        return x->whole ? -1 : 1;
    if (x->version != y->version)
        return x->version > y->version ? -1 : 1;
    const int first = one_run ? further : later, second = one_run ? later : further;
    return first ? -first : second ? -second : strcmp(x->path, y->path);
}

/* Runs without a folder version_<n> have no number that says when they were: they are newer than
 * all others where their last checkpoint is younger than the last of the highest version. */
static void number_the_others(search *s)
{
    const candidate *others = NULL, *highest = NULL;

    for (size_t i = 0; i < s->count; i++) {
        const candidate *c = &s->found[i], **last = c->version == NO_VERSION ? &others : &highest;
        if (!*last || c->version > (*last)->version ||
            (c->version == (*last)->version && compare_times(&c->time, &(*last)->time) > 0))
            *last = c;
    }
    if (!others || !highest || compare_times(&others->time, &highest->time) <= 0)
        return;
    for (size_t i = 0; i < s->count; i++)
        if (s->found[i].version == NO_VERSION)
            s->found[i].version = NEWEST_RUNS;
}

/* Whether something that was found is not damaged, as far as that is known. */
static bool has_some(const search *s, size_t from)
{
    for (size_t i = from; i < s->count; i++)
        if (!s->found[i].lost)
            return true;
    return false;
}

/* The first that verifies; *path stays empty where none does. */
static stk_status choose(search *s, char *path, size_t size)
{
    stk_error why;

    if (s->count)
        qsort(s->found, s->count, sizeof *s->found, compare);
    for (size_t i = 0; i < s->count; i++) {
        candidate *c = &s->found[i];
        if (c->lost)
            continue;
        stk_status status = s->where->verify ? s->where->verify(s->where->user, c->path, &why)
                                             : stk__checkpoint_verify(s->ctx, c->path, &why);
        if (status != STK_OK && !is_lost(status)) {
            if (s->err)
                *s->err = why;
            return status;
        }
        c->lost = status != STK_OK;
        if (c->lost) {
            skip(s, &why);
            continue;
        }
        if (strlen(c->path) >= size)
            return stk__fail(s->err, STK_ELIMIT, STK_STAGE_TRAIN,
                             "the path of a checkpoint is too long: '%.300s'", c->path);
        memcpy(path, c->path, strlen(c->path) + 1);
        return STK_OK;
    }
    return STK_OK;
}

static stk_status none(const search *s, const char *dir, const char *other)
{
    const char *const sep = other ? "' or '" : "", *const also = other ? other : "";

    if (s->count)
        return stk__fail_at(s->err, STK_ENOENT, STK_STAGE_TRAIN, dir, STK_NO_OFFSET,
                            "no checkpoint in '%.200s%s%.200s' can be used: %zu were found and are "
                            "damaged",
                            dir, sep, also, s->count);
    if (s->unmarked)
        return stk__fail_at(s->err, STK_ENOENT, STK_STAGE_TRAIN, dir, STK_NO_OFFSET,
                            "no checkpoint in '%.200s%s%.200s' was uploaded to its end: %zu have "
                            "no '" STK__UPLOAD_MARK "' beside them; give the path of one to take "
                            "it all the same",
                            dir, sep, also, s->unmarked);
    return stk__fail_at(s->err, STK_ENOENT, STK_STAGE_TRAIN, dir, STK_NO_OFFSET,
                        "there is no checkpoint in '%.200s%s%.200s'", dir, sep, also);
}

/* ---- Of another store ---- */

/* An object that is named as a checkpoint or as the mark of one. */
typedef struct named {
    char *key; /* of a mark without what makes it one */
    bool mark;
    struct timespec time;
} named;

typedef struct listing {
    search *s;
    stk_store *store;
    const char *url; /* of the store */
    int64_t version;
    int depth;
    bool parts;   /* the folder at hand has some */
    named *names; /* in it */
    size_t count, room;
} listing;

static stk_status look_below(const listing *l, const char *folder);

static stk_status look_at_key(void *user, const char *key, const stk_object_info *info)
{
    listing *l = user;
    char own[STK_MAX_OBJECT_KEY];
    size_t length = strlen(key);

    while (length > 0 && key[length - 1] == '/')
        length--;
    snprintf(own, sizeof own, "%.*s", (int)length, key);
    const char *slash = strrchr(own, '/'), *name = slash ? slash + 1 : own;
    if (info->is_folder) {
        const listing below = {.s = l->s,
                               .store = l->store,
                               .url = l->url,
                               .version = version_of(name, l->version),
                               .depth = l->depth + 1};
        l->parts |= holds_parts(name);
        return l->depth < MAX_DEPTH && (below.version >= 0 || !l->s->numbered) && !holds_parts(name)
                   ? look_below(&below, own)
                   : STK_OK;
    }
    const bool mark = stk__ends_with(own, length, STK__UPLOAD_MARK);
    if (mark)
        own[length - strlen(STK__UPLOAD_MARK)] = 0;
    if (!is_named_so(name) || (l->version < 0 && l->s->numbered))
        return STK_OK;
    named *grown = stk__grow(l->s->ctx, l->names, &l->room, l->count + 1, sizeof *grown);
    if (!grown)
        return no_memory(l->s);
    l->names = grown;
    grown[l->count] =
        (named){stk__strdup(l->s->ctx, own),
                mark,
                {.tv_sec = info->mtime_ns / 1000000000, .tv_nsec = info->mtime_ns % 1000000000}};
    return grown[l->count].key ? (l->count++, STK_OK) : no_memory(l->s);
}

/* A mark behind its checkpoint. */
static int compare_names(const void *a, const void *b)
{
    const named *x = a, *y = b;
    const int order = strcmp(x->key, y->key);

    return order ? order : x->mark - y->mark;
}

/* A checkpoint is one when its mark is there, which is put behind it. */
static stk_status add_marked(const listing *l)
{
    stk_status status = STK_OK;

    if (l->count)
        qsort(l->names, l->count, sizeof *l->names, compare_names);
    for (size_t i = 0; i < l->count && status == STK_OK; i++) {
        const named *n = &l->names[i];
        if (n->mark)
            continue;
        if (i + 1 == l->count || strcmp(n->key, n[1].key) != 0) {
            l->s->unmarked++;
            continue;
        }
        char *path = stk__url_below(l->s->ctx, l->url, n->key);
        status = path ? add(l->s, path, l->version, &n->time) : no_memory(l->s);
    }
    return status;
}

/* Only in folders of runs; what fails stays for the next. */
static void sweep_parts(const listing *l, const char *folder)
{
    stk__put_place place = {.context = l->s->ctx};
    char *key = stk__format(l->s->ctx, "%s/x", folder);
    char *url = key ? stk__url_below(l->s->ctx, l->url, key) : NULL;
    stk_error err;

    if (url && stk__parts_objects_sweep(&place, url, &err) != STK_OK)
        stk__message(l->s->ctx, STK_MESSAGE_WARNING, "%s", err.text);
    stk__put_place_close(&place);
    stk__free(l->s->ctx, key);
    stk__free(l->s->ctx, url);
}

/* A folder that is not there, or not any more, holds nothing. */
static stk_status look_below(const listing *l, const char *folder)
{
    listing own = *l;

    stk_status status = stk_store_list(l->store, folder, NULL, look_at_key, &own, l->s->err);
    if (status == STK_OK)
        status = add_marked(&own);
    if (status == STK_OK && own.parts && l->s->sweeps && l->version >= 0)
        sweep_parts(l, folder);
    for (size_t i = 0; i < own.count; i++)
        stk__free(l->s->ctx, own.names[i].key);
    stk__free(l->s->ctx, own.names);
    return status == STK_ENOENT ? STK_OK : status;
}

/* What a store holds below a URL; nothing where there is no such folder. */
static stk_status look_elsewhere(search *s, const char *url)
{
    listing l = {.s = s, .url = url, .version = NO_VERSION};

    stk_status status = stk_store_open(s->ctx, url, &l.store, NULL, 0, s->err);
    if (status == STK_OK)
        status = look_below(&l, "");
    stk_store_close(&l.store);
    return status == STK_ENOENT ? STK_OK : status;
}

static stk_status look(search *s, const char *dir)
{
    char *path = NULL;

    s->known = s->count;
    if (stk__url_elsewhere(s->ctx, dir))
        return look_elsewhere(s, dir);
    STK_TRY(stk__url_local(s->ctx, dir, &path, s->err));
    const stk_status status = look_into(s, path, NO_VERSION, 0);
    stk__free(s->ctx, path);
    return status;
}

/* In the folders of the run itself, where each has some. */
static stk_status look_at_own(search *s, const stk__newest_where *where, char *path, size_t size)
{
    bool all = where->num_own > 0;

    for (size_t i = 0; i < where->num_own; i++) {
        const size_t before = s->count;
        STK_TRY(look(s, where->own[i]));
        all = all && has_some(s, before);
    }
    return all ? choose(s, path, size) : STK_OK;
}

static stk_status look_at_runs(search *s, const stk__newest_where *where, char *path, size_t size)
{
    s->numbered = where->other != NULL;
    s->sweeps = where->goes_on;
    STK_TRY(look(s, where->runs));
    if (where->other) {
        s->numbered = false;
        STK_TRY(look(s, where->other));
        number_the_others(s);
    }
    return choose(s, path, size);
}

stk_status stk__checkpoint_newest(stk_context *ctx, const stk__newest_where *where, char *path,
                                  size_t size, stk_error *err)
{
    search s = {.ctx = ctx, .wanted = where->wanted, .where = where, .err = err};

    *path = 0;
    stk_status status = look_at_own(&s, where, path, size);
    if (status == STK_OK && !*path)
        status = look_at_runs(&s, where, path, size);
    if (status == STK_OK && !*path)
        status = none(&s, where->runs, where->other);
    for (size_t i = 0; i < s.count; i++)
        stk__free(ctx, s.found[i].path);
    stk__free(ctx, s.found);
    return status;
}
