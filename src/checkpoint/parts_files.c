/* SPDX-License-Identifier: Apache-2.0 */
/* Names of checkpoints that may lie in parts: those go behind the last name of the checkpoint that
 * needs them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/parts.h"

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

stk_status stk__part_read(stk_context *ctx, const char *path, stk__checkpoint_part *out,
                          stk_error *err)
{
    stk__safetensors_file file;

    STK_TRY(stk__safetensors_file_open(ctx, path, &file, err));
    const char *text = stk__safetensors_find_text(&file.parsed, STK__CHECKPOINT_PART);
    const bool good = text && stk__part_parse(text, out);
    stk__safetensors_file_close(&file);
    return good ? STK_OK : STK_ENOENT;
}

/* The same of a file whose parts would lie beside it. */
static stk_status find_part(stk_context *ctx, const char *path, stk__checkpoint_part *out,
                            stk_error *err)
{
    char *parts = stk__checkpoint_parts_folder(ctx, path);
    if (!parts)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the path of parts");
    /* Most folders have no parts, and then no file is read for it. */
    const bool any = is_folder(parts);
    stk__free(ctx, parts);
    return any ? stk__part_read(ctx, path, out, err) : STK_ENOENT;
}

bool stk__parts_of(stk_context *ctx, const char *path, stk__checkpoint_part *out)
{
    return find_part(ctx, path, out, NULL) == STK_OK && out->number == 0;
}

/* ---- Removing ---- */

/* Whether a file of the folder is the first part of a save, or may be: it cannot be read now. To
 * who `sweeps`, one that is being written may be it as well. */
static bool is_needed(stk_context *ctx, const char *folder, const stk__checkpoint_part *part,
                      bool sweeps)
{
    const struct dirent *entry;
    bool needed = false;

    DIR *dir = opendir(folder);
    if (!dir)
        return true;
    while (!needed && (entry = readdir(dir))) {
        stk__checkpoint_part other;
        needed = sweeps && stk__is_temporary(entry->d_name);
        if (needed || entry->d_name[0] == '.' || entry->d_type == DT_DIR)
            continue;
        char *path = stk__format(ctx, "%s/%s", folder, entry->d_name);
        const stk_status status = path ? stk__part_read(ctx, path, &other, NULL) : STK_ENOMEM;
        stk__free(ctx, path);
        needed = status == STK_OK ? stk__part_same_save(&other, part) : !stk__part_is_none(status);
    }
    closedir(dir);
    return needed;
}

/* Whether the first part may yet come, from processes that are at work. */
static bool is_young(int folder, const char *name)
{
    struct timespec now;
    struct stat st;

    clock_gettime(CLOCK_REALTIME, &now);
    return fstatat(folder, name, &st, 0) != 0 ||
           st.st_mtim.tv_sec > now.tv_sec - STK__PARTS_YOUNG_S;
}

/* Remove those of a save (NULL: of any that has ended) that no checkpoint of the folder needs. */
static void remove_parts(stk_context *ctx, const char *folder, const char *parts,
                         const stk__checkpoint_part *only)
{
    const struct dirent *entry;
    stk__checkpoint_part part, last = {.count = 0};
    bool needed = true;

    const int fd = open(parts, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0)
        close(fd);
    while (dir && (entry = readdir(dir))) {
        if (!stk__part_name_parse(entry->d_name, &part) ||
            (only ? !stk__part_same_save(only, &part) : is_young(fd, entry->d_name)))
            continue;
        if (!last.count || !stk__part_same_save(&last, &part))
            needed = is_needed(ctx, folder, &part, !only);
        last = part;
        if (!needed && stk__remove_file(fd, entry->d_name) != 0 && errno != ENOENT)
            stk__message(ctx, STK_MESSAGE_WARNING, "cannot remove '%.300s/%s'", parts,
                         entry->d_name);
    }
    if (dir)
        closedir(dir);
}

void stk__parts_drop(stk_context *ctx, const char *path, const stk__checkpoint_part *part)
{
    const char *slash = strrchr(path, '/');
    char *folder = stk__format(ctx, "%.*s.", slash ? (int)(slash + 1 - path) : 0, path);
    char *parts = stk__checkpoint_parts_folder(ctx, path);

    if (folder && parts)
        remove_parts(ctx, folder, parts, part);
    stk__free(ctx, folder);
    stk__free(ctx, parts);
}

stk_status stk__parts_remove(stk__put_place *place, const char *path, stk_error *err)
{
    stk__checkpoint_part part;

    const bool any = stk__parts_of(place->context, path, &part);
    STK_TRY(stk__url_remove(place, path, err));
    if (any)
        stk__parts_drop(place->context, path, &part);
    return STK_OK;
}

void stk__parts_sweep(stk_context *ctx, const char *folder)
{
    char *parts = stk__format(ctx, "%s/" STK__CHECKPOINT_PARTS, folder);

    if (parts) {
        stk__durable_sweep_path(parts);
        remove_parts(ctx, folder, parts, NULL);
    }
    stk__free(ctx, parts);
}

/* ---- Other names ---- */

/* In another folder it needs its parts there, if it has any. */
static stk_status copy_parts(stk__put_place *place, const char *path, const char *name,
                             stk_error *err)
{
    stk__checkpoint_part part;

    stk_status status = find_part(place->context, path, &part, err);
    /* What cannot be read is no failure of its own. */
    if (status != STK_OK)
        return stk_status_fault(status) == STK_FAULT_SAMPLE ? STK_OK : status;
    for (uint32_t k = 1; k < part.count && status == STK_OK; k++) {
        char *from = stk__part_path(place->context, path, &part, k);
        char *to = stk__part_path(place->context, name, &part, k);
        status = from && to ? stk__url_copy(place, from, to, err)
                            : stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN,
                                        "no memory for the paths of parts");
        stk__free(place->context, from);
        stk__free(place->context, to);
    }
    return status;
}

stk_status stk__parts_link(stk__put_place *place, const char *path, const char *name,
                           stk_error *err)
{
    stk__checkpoint_part before;

    const bool replaces = stk__parts_of(place->context, name, &before);
    if (!stk__parts_same_folder(path, name))
        STK_TRY(copy_parts(place, path, name, err));
    STK_TRY(stk__url_copy(place, path, name, err));
    if (replaces)
        stk__parts_drop(place->context, name, &before);
    return STK_OK;
}
