/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/upload_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durable.h"
#include "store/store.h"

#define PREFIX    "stoker-upload-n-"
#define TRIES     16 /* of a new folder that another process took for an old one */
#define NOTE_ROOM (2 * STK_MAX_OBJECT_KEY + 512)

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a checkpoint to upload");
}

/* ---- A folder -------------------------------------------------------------------------------- */

/* When its run did something last is asked again by the next who takes it. */
static void keep_time(const stk__upload_folder *f)
{
    const struct timespec time = {.tv_sec = f->changed_ns / 1000000000,
                                  .tv_nsec = f->changed_ns % 1000000000};
    const struct timespec times[2] = {time, time};

    if (f->changed_ns)
        futimens(f->fd, times);
}

/* Open it as its only owner. -1: it is not there, not ours, or another has it. */
static int lock_folder(const char *path)
{
    struct stat st;

    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0 &&
        st.st_uid == geteuid() && (st.st_mode & 077) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static stk__upload_folder *make_entry(stk_context *ctx, const char *path, int fd)
{
    const size_t bytes = strlen(path) + 1;

    stk__upload_folder *f = stk__calloc(ctx, 1, sizeof *f + bytes);
    if (!f)
        return NULL;
    f->fd = fd;
    memcpy(f->path, path, bytes);
    return f;
}

stk_status stk__upload_folder_make(stk_context *ctx, const char *dir, stk__upload_folder **out,
                                   stk_error *err)
{
    char path[PATH_MAX];
    int fd = -1;

    STK_TRY(stk__durable_path(ctx, NULL, dir, err));
    /* Whoever looks for what is left may take it before it is locked. */
    for (int i = 0; i < TRIES && fd < 0; i++) {
        if (snprintf(path, sizeof path, "%s/" PREFIX "XXXXXX", dir) >= (int)sizeof path)
            return stk__durable_fail(err, "make a folder in", dir, ENAMETOOLONG);
        if (!mkdtemp(path))
            return stk__durable_fail(err, "make the folder", path, errno);
        fd = lock_folder(path);
    }
    if (fd < 0)
        return stk__durable_fail(err, "lock the folder", path, errno);
    *out = make_entry(ctx, path, fd);
    if (*out)
        return STK_OK;
    stk__remove_folder_path(path);
    close(fd);
    return no_memory(err);
}

void stk__upload_folder_close(stk_context *ctx, stk__upload_folder **folder, bool own)
{
    stk__upload_folder *f = *folder;

    *folder = NULL;
    if (!f)
        return;
    if (own && stk__remove_folder_path(f->path) != 0)
        keep_time(f);
    close(f->fd);
    stk__free(ctx, f);
}

/* ---- Notes ----------------------------------------------------------------------------------- */

stk_status stk__upload_folder_note(stk_context *ctx, const stk__upload_folder *folder,
                                   const char *note, const char *name, const char *url,
                                   const char *mark, stk_error *err)
{
    stk__put_place place = {.context = ctx};
    char path[PATH_MAX], text[NOTE_ROOM];

    const int length = snprintf(text, sizeof text, "%s\n%s\n%s", name, url, mark);
    if (snprintf(path, sizeof path, "%s/%s", folder->path, note) >= (int)sizeof path ||
        length >= (int)sizeof text || strchr(url, '\n') || strchr(name, '\n'))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN, "the URL '%.300s' is too long", url);
    const stk_status status = stk__url_put(&place, path, text, (size_t)length, err);
    stk__put_place_close(&place);
    return status;
}

void stk__upload_folder_forget(const stk__upload_folder *folder, const char *note)
{
    stk__remove_file(folder->fd, note);
}

/* "12.0", and the number in front of the dot. */
static bool is_note(const char *name, char number[NAME_MAX + 1])
{
    const size_t digits = strspn(name, "0123456789");

    snprintf(number, NAME_MAX + 1, "%.*s", (int)digits, name);
    return digits > 0 && name[digits] == '.' && name[digits + 1] &&
           strspn(name + digits + 1, "0123456789") == strlen(name + digits + 1);
}

/* What a note says, in `text`: the name is that of a file in a folder that has the note's number,
 * and the file is there. */
static bool read_note(const stk__upload_folder *folder, const char *note, char text[NOTE_ROOM],
                      const char **url, const char **mark)
{
    char number[NAME_MAX + 1];
    struct stat st;

    const int fd = openat(folder->fd, note, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const ssize_t n =
        fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? read(fd, text, NOTE_ROOM - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (n < 0 || !is_note(note, number))
        return false;
    text[n] = 0;
    char *first = strchr(text, '\n'), *second = first ? strchr(first + 1, '\n') : NULL;
    const size_t digits = strlen(number);
    if (!second || strncmp(text, number, digits) != 0 || text[digits] != '/')
        return false;
    *first = *second = 0;
    *url = first + 1;
    *mark = second + 1;
    return stk__is_plain_name(text + digits + 1) &&
           fstatat(folder->fd, text, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* "s3://b/run/x.ckpt?q" is below "s3://b/run?q". */
static bool is_below(const char *url, const char *root)
{
    const char *query = root + strcspn(root, "?");
    size_t length = (size_t)(query - root);

    while (length > 0 && root[length - 1] == '/')
        length--;
    return strncmp(url, root, length) == 0 && url[length] == '/' &&
           strcmp(url + strcspn(url, "?"), query) == 0;
}

/* A folder to read the names of, beside its own descriptor. */
static DIR *open_names(int folder, const char *name)
{
    const int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

    if (fd >= 0 && !dir)
        close(fd);
    return dir;
}

void stk__upload_folder_each(stk__upload_folder *folder, const char *root,
                             stk__upload_note_fn *each, void *user)
{
    DIR *dir = open_names(folder->fd, ".");
    char text[NOTE_ROOM], number[NAME_MAX + 1];
    const char *url, *mark;

    for (struct dirent *e; dir && (e = readdir(dir));)
        if (is_note(e->d_name, number) && read_note(folder, e->d_name, text, &url, &mark) &&
            is_below(url, root))
            each(user, folder, e->d_name, text, url, mark);
    if (dir)
        closedir(dir);
}

/* ---- What is left ---------------------------------------------------------------------------- */

static bool has_notes(int folder, const char *number)
{
    DIR *dir = open_names(folder, ".");
    char of[NAME_MAX + 1];
    bool has = !dir;

    for (struct dirent *e; !has && (e = readdir(dir));)
        has = is_note(e->d_name, of) && strcmp(of, number) == 0;
    if (dir)
        closedir(dir);
    return has;
}

static void remove_numbered(int folder, const char *number)
{
    DIR *dir = open_names(folder, number);

    for (struct dirent *e; dir && (e = readdir(dir));)
        stk__remove_file(dirfd(dir), e->d_name);
    if (dir)
        closedir(dir);
    stk__remove_folder(folder, number);
}

/* Notes without a file first, then files without a note. */
static void sweep(const stk__upload_folder *folder)
{
    char text[NOTE_ROOM], number[NAME_MAX + 1];
    const char *url, *mark;

    for (int files = 0; files <= 1; files++) {
        DIR *dir = open_names(folder->fd, ".");
        for (struct dirent *e; dir && (e = readdir(dir));) {
            const char *name = e->d_name;
            if (!files && is_note(name, number) && !read_note(folder, name, text, &url, &mark))
                stk__remove_file(folder->fd, name);
            if (files && *name && strspn(name, "0123456789") == strlen(name) &&
                !has_notes(folder->fd, name))
                remove_numbered(folder->fd, name);
        }
        if (dir)
            closedir(dir);
    }
}

static stk__upload_folder *take(stk_context *ctx, const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat st;

    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return NULL;
    const int fd = lock_folder(path);
    stk__upload_folder *f = fd >= 0 && fstat(fd, &st) == 0 ? make_entry(ctx, path, fd) : NULL;
    if (!f) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    f->changed_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
    sweep(f);
    keep_time(f);
    if (stk__remove_folder_path(path) == 0)
        stk__upload_folder_close(ctx, &f, false);
    return f;
}

stk__upload_folder *stk__upload_folders_take(stk_context *ctx, const char *dir)
{
    stk__upload_folder *all = NULL;
    DIR *names = opendir(dir);

    for (struct dirent *e; names && (e = readdir(names));) {
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        stk__upload_folder *f = take(ctx, dir, e->d_name);
        stk__upload_folder **at = &all;
        while (f && *at && (*at)->changed_ns > f->changed_ns)
            at = &(*at)->next;
        if (f) {
            f->next = *at;
            *at = f;
        }
    }
    if (names)
        closedir(names);
    return all;
}
