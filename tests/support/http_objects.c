/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "support/http_parts.h"

/* ---- The table ---- */

typedef struct entry {
    char *path;
    http_blob *blob;
} entry;

struct http_objects {
    char *root;
    pthread_rwlock_t lock; /* guards what follows; files are the system's */
    entry *entries;        /* by path */
    size_t n;
    size_t size;
    /* Names that are made up as they are asked for; constant while requests are answered. */
    char made_below[128];
    uint64_t made, made_each, made_size;
};

http_objects *http_objects_create(const char *root)
{
    http_objects *objects = calloc(1, sizeof *objects);

    if (!objects)
        return NULL;
    pthread_rwlock_init(&objects->lock, NULL);
    if (root && !(objects->root = realpath(root, NULL))) {
        http_objects_destroy(objects);
        return NULL;
    }
    return objects;
}

static void blob_unref(http_blob *blob)
{
    if (blob && atomic_fetch_sub(&blob->refs, 1) == 1)
        free(blob);
}

void http_objects_destroy(http_objects *objects)
{
    if (!objects)
        return;
    for (size_t i = 0; i < objects->n; i++) {
        free(objects->entries[i].path);
        blob_unref(objects->entries[i].blob);
    }
    free(objects->entries);
    free(objects->root);
    pthread_rwlock_destroy(&objects->lock);
    free(objects);
}

/* The first entry whose path is not before this one. */
static size_t place(const http_objects *objects, const char *path)
{
    size_t low = 0, high = objects->n;

    if (high && strcmp(objects->entries[high - 1].path, path) < 0)
        return high;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (strcmp(objects->entries[middle].path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const http_objects *objects, size_t i, const char *path)
{
    return i < objects->n && strcmp(objects->entries[i].path, path) == 0;
}

/* ---- Files ---- */

/* The file of an object: nothing above the root. */
static bool file_of(const http_objects *objects, const char *path, char file[PATH_MAX])
{
    const size_t n = strlen(path);

    if (path[0] != '/' || strstr(path, "/../") || (n >= 3 && strcmp(path + n - 3, "/..") == 0))
        return false;
    return snprintf(file, PATH_MAX, "%s%s", objects->root, path) < PATH_MAX;
}

static bool open_file(const http_objects *objects, const char *path, http_object *out)
{
    char file[PATH_MAX];
    struct stat st;

    if (!file_of(objects, path, file))
        return false;
    const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return false;
    }
    out->fd = fd;
    out->size = (uint64_t)st.st_size;
    out->modified = st.st_mtime;
    snprintf(out->etag, sizeof out->etag, "\"%llx-%llx-%llx\"", (unsigned long long)st.st_ino,
             (unsigned long long)st.st_size,
             (unsigned long long)st.st_mtim.tv_sec * 1000000000u +
                 (unsigned long long)st.st_mtim.tv_nsec);
    return true;
}

static bool write_all(int fd, const char *data, size_t length)
{
    while (length) {
        const ssize_t n = write(fd, data, length);

        if (n < 0)
            return false;
        data += n;
        length -= (size_t)n;
    }
    return true;
}

/* Whole under its name, or not at all. */
static bool put_file(const http_objects *objects, const char *path, const void *data, size_t length)
{
    char file[PATH_MAX], temporary[PATH_MAX];

    if (!file_of(objects, path, file))
        return false;
    for (char *p = file + strlen(objects->root) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(file, 0777);
        *p = '/';
    }
    snprintf(temporary, sizeof temporary, "%s/.put-XXXXXX", objects->root);
    const int fd = mkstemp(temporary);
    if (fd < 0)
        return false;
    bool good = write_all(fd, data, length) && fchmod(fd, 0644) == 0;
    good &= close(fd) == 0;
    good = good && rename(temporary, file) == 0;
    if (!good)
        unlink(temporary);
    return good;
}

/* ---- What answers do ---- */

bool http_objects_open(http_objects *objects, const char *path, http_object *out)
{
    *out = (http_object){.fd = -1};
    if (objects->root)
        return open_file(objects, path, out);
    pthread_rwlock_rdlock(&objects->lock);
    const size_t i = place(objects, path);
    const bool found = is_at(objects, i, path);
    if (found) {
        out->blob = objects->entries[i].blob;
        atomic_fetch_add(&out->blob->refs, 1);
        out->size = out->blob->size;
        out->modified = out->blob->modified;
        memcpy(out->etag, out->blob->etag, sizeof out->etag);
    }
    pthread_rwlock_unlock(&objects->lock);
    return found;
}

void http_object_close(http_object *object)
{
    blob_unref(object->blob);
    if (object->fd >= 0)
        close(object->fd);
    *object = (http_object){.fd = -1};
}

size_t http_object_read(const http_object *object, uint64_t offset, void *to, size_t length)
{
    if (offset >= object->size)
        return 0;
    if (length > object->size - offset)
        length = (size_t)(object->size - offset);
    if (object->blob) {
        memcpy(to, object->blob->data + offset, length);
        return length;
    }
    const ssize_t n = pread(object->fd, to, length, (off_t)offset);
    return n > 0 ? (size_t)n : 0;
}

static http_blob *blob_create(const void *data, size_t length, const char *etag)
{
    http_blob *blob = malloc(sizeof *blob + length);

    if (!blob)
        return NULL;
    atomic_init(&blob->refs, 1);
    blob->size = length;
    blob->modified = time(NULL);
    if (length)
        memcpy(blob->data, data, length);
    if (etag)
        snprintf(blob->etag, sizeof blob->etag, "%s", etag);
    else
        snprintf(blob->etag, sizeof blob->etag, "\"%016llx\"",
                 (unsigned long long)XXH64(blob->data, length, 0));
    return blob;
}

/* Takes the blob; `path` is copied. */
static bool insert(http_objects *objects, size_t i, const char *path, http_blob *blob)
{
    if (objects->n == objects->size) {
        const size_t size = objects->size ? 2 * objects->size : 64;
        entry *entries = realloc(objects->entries, size * sizeof *entries);

        if (!entries)
            return false;
        objects->entries = entries;
        objects->size = size;
    }
    char *copy = strdup(path);
    if (!copy)
        return false;
    memmove(objects->entries + i + 1, objects->entries + i,
            (objects->n - i) * sizeof *objects->entries);
    objects->entries[i] = (entry){.path = copy, .blob = blob};
    objects->n++;
    return true;
}

bool http_objects_put(http_objects *objects, const char *path, const void *data, size_t length,
                      const char *etag)
{
    if (objects->root)
        return put_file(objects, path, data, length);
    http_blob *blob = blob_create(data, length, etag);
    if (!blob)
        return false;
    pthread_rwlock_wrlock(&objects->lock);
    const size_t i = place(objects, path);
    bool good = true;
    if (is_at(objects, i, path)) {
        http_blob *old = objects->entries[i].blob;

        objects->entries[i].blob = blob;
        blob = old;
    } else if ((good = insert(objects, i, path, blob))) {
        blob = NULL;
    }
    pthread_rwlock_unlock(&objects->lock);
    blob_unref(blob);
    return good;
}

bool http_objects_remove(http_objects *objects, const char *path)
{
    char file[PATH_MAX];

    if (objects->root)
        return file_of(objects, path, file) && unlink(file) == 0;
    pthread_rwlock_wrlock(&objects->lock);
    const size_t i = place(objects, path);
    const bool found = is_at(objects, i, path);
    if (found) {
        free(objects->entries[i].path);
        blob_unref(objects->entries[i].blob);
        memmove(objects->entries + i, objects->entries + i + 1,
                (objects->n - i - 1) * sizeof *objects->entries);
        objects->n--;
    }
    pthread_rwlock_unlock(&objects->lock);
    return found;
}

/* ---- Names ---- */

struct http_names {
    http_objects *objects;
    char **paths; /* of files */
    size_t n;
    size_t size;
};

static bool add_path(http_names *names, const char *folder, const char *name)
{
    if (names->n == names->size) {
        const size_t size = names->size ? 2 * names->size : 64;
        char **paths = realloc(names->paths, size * sizeof *paths);

        if (!paths)
            return false;
        names->paths = paths;
        names->size = size;
    }
    return asprintf(&names->paths[names->n], "%s%s", folder, name) >= 0 && ++names->n;
}

/* All below a folder, "/a/b/". */
static bool walk(http_names *names, const char *folder)
{
    char file[PATH_MAX], below[PATH_MAX];
    bool good = true;
    DIR *dir = file_of(names->objects, folder, file) ? opendir(file) : NULL;

    if (!dir)
        return true; /* nothing there */
    for (struct dirent *d; good && (d = readdir(dir));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if (d->d_type != DT_DIR)
            good = add_path(names, folder, d->d_name);
        else if (snprintf(below, sizeof below, "%s%s/", folder, d->d_name) < PATH_MAX)
            good = walk(names, below);
    }
    closedir(dir);
    return good;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

http_names *http_objects_names(http_objects *objects, const char *prefix)
{
    http_names *names = calloc(1, sizeof *names);

    if (!names)
        return NULL;
    names->objects = objects;
    if (objects->root) {
        char *folder = strndup(prefix, (size_t)(strrchr(prefix, '/') + 1 - prefix));
        const bool good = folder && walk(names, folder);

        free(folder);
        if (!good) {
            http_names_free(names);
            return NULL;
        }
        if (names->n)
            qsort(names->paths, names->n, sizeof *names->paths, by_bytes);
    }
    return names;
}

void http_names_free(http_names *names)
{
    if (!names)
        return;
    for (size_t i = 0; i < names->n; i++)
        free(names->paths[i]);
    free(names->paths);
    free(names);
}

static bool take_path(http_listed *out, const char *path)
{
    free(out->path);
    return (out->path = strdup(path));
}

static bool next_file(http_names *names, const char *start, bool behind, const char *prefix,
                      http_listed *out)
{
    http_object object = {.fd = -1};
    size_t low = 0, high = names->n;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(names->paths[middle], start);

        if (order < 0 || (order == 0 && behind))
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i < names->n; i++) {
        if (strncmp(names->paths[i], prefix, strlen(prefix)) != 0)
            return false;
        if (!open_file(names->objects, names->paths[i], &object))
            continue;
        out->size = object.size;
        out->modified = object.modified;
        memcpy(out->etag, object.etag, sizeof out->etag);
        http_object_close(&object);
        return take_path(out, names->paths[i]);
    }
    return false;
}

/* ---- Names that are made up ---- */

void http_objects_generate(http_objects *objects, const char *folder, uint64_t count, uint64_t each,
                           uint64_t size)
{
    snprintf(objects->made_below, sizeof objects->made_below, "%s", folder);
    objects->made = count;
    objects->made_each = each;
    objects->made_size = size;
}

static void made_name(const http_objects *objects, uint64_t i, char name[192])
{
    const unsigned long long number = (unsigned long long)i;

    if (objects->made_each)
        snprintf(name, 192, "%sc%06llu/i%08llu.jpg", objects->made_below,
                 number / objects->made_each, number);
    else
        snprintf(name, 192, "%si%08llu.jpg", objects->made_below, number);
}

/* As http_names_next(), of those. */
static bool next_made(const http_objects *objects, const char *start, bool behind,
                      const char *prefix, http_listed *out)
{
    uint64_t low = 0, high = objects->made;
    char name[192];

    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        made_name(objects, middle, name);
        const int order = strcmp(name, start);
        if (order < 0 || (order == 0 && behind))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == objects->made)
        return false;
    made_name(objects, low, name);
    if (strncmp(name, prefix, strlen(prefix)) != 0)
        return false;
    out->size = objects->made_size;
    out->modified = 1700000000;
    snprintf(out->etag, sizeof out->etag, "\"made-%llu\"", (unsigned long long)low);
    return take_path(out, name);
}

static bool next_put(http_objects *objects, const char *start, bool behind, const char *prefix,
                     http_listed *out)
{
    pthread_rwlock_rdlock(&objects->lock);
    size_t i = place(objects, start);
    i += behind && is_at(objects, i, start);
    bool found = i < objects->n && strncmp(objects->entries[i].path, prefix, strlen(prefix)) == 0;
    if (found) {
        const http_blob *blob = objects->entries[i].blob;

        out->size = blob->size;
        out->modified = blob->modified;
        memcpy(out->etag, blob->etag, sizeof out->etag);
        found = take_path(out, objects->entries[i].path);
    }
    pthread_rwlock_unlock(&objects->lock);
    return found;
}

bool http_names_next(http_names *names, const char *prefix, const char *after, http_listed *out)
{
    http_objects *objects = names->objects;
    const bool behind = strcmp(after, prefix) >= 0;
    const char *start = behind ? after : prefix;
    http_listed made = {0};

    if (objects->root)
        return next_file(names, start, behind, prefix, out);
    /* The first of two orders. `start` may be the path that *out has. */
    const bool other = objects->made && next_made(objects, start, behind, prefix, &made);
    const bool found = next_put(objects, start, behind, prefix, out);
    if (other && (!found || strcmp(made.path, out->path) < 0)) {
        free(out->path);
        *out = made;
        return true;
    }
    free(made.path);
    return found;
}
