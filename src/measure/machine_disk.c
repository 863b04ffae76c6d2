/* SPDX-License-Identifier: Apache-2.0 */
/* What a path lies on: /proc/self/mountinfo [proc_pid_mountinfo(5)] and /sys/dev/block. */
#include "measure/machine.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOUNT_LINE                                                                                 \
    16384              /* bytes of a line; options of overlays are long, and are behind the rest */
#define DEVICES_MOST 8 /* devices below each other: a volume on a RAID on a partition */

/* A mount, as a line of mountinfo tells it. */
struct mount {
    unsigned major, minor;
    char point[STK__MACHINE_PATH], type[64], source[STK__MACHINE_PATH];
};

/* A field with "\040" and the like for blanks, up to the next blank; what is behind it. */
static const char *take_field(const char *at, char *out, size_t size)
{
    size_t n = 0;

    for (; *at && *at != ' ' && *at != '\n'; at++) {
        char c = *at;
        if (c == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' && at[2] <= '7' &&
            at[3] >= '0' && at[3] <= '7') {
            c = (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0'));
            at += 3;
        }
        if (n + 1 < size)
            out[n++] = c;
    }
    out[n] = 0;
    return *at == ' ' ? at + 1 : at;
}

/* "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS...] - TYPE SOURCE ..." */
static bool parse(const char *line, struct mount *out)
{
    char skipped[64];
    const char *at = take_field(take_field(line, skipped, sizeof skipped), skipped, sizeof skipped);

    at = take_field(at, skipped, sizeof skipped);
    if (sscanf(skipped, "%u:%u", &out->major, &out->minor) != 2)
        return false;
    at = take_field(at, skipped, sizeof skipped);
    at = take_field(at, out->point, sizeof out->point);
    at = strstr(at, " - ");
    if (!at || out->point[0] != '/')
        return false;
    at = take_field(at + 3, out->type, sizeof out->type);
    take_field(at, out->source, sizeof out->source);
    return true;
}

/* Whether a path is a folder or lies in it. */
static bool lies_in(const char *path, const char *folder)
{
    const size_t n = strlen(folder);

    return n == 1 || (strncmp(path, folder, n) == 0 && (path[n] == 0 || path[n] == '/'));
}

/* The mount that a path lies on: the one with the longest name, of equals the last, which covers
 * the others. */
static bool find_mount(const char *root, const char *path, struct mount *out)
{
    static const char file[] = "/proc/self/mountinfo";
    char name[STK__MACHINE_PATH], line[MOUNT_LINE];
    struct mount mount;
    bool found = false, whole = true;

    snprintf(name, sizeof name, "%s%s", root, file);
    FILE *in = fopen(name, "re");
    while (in && fgets(line, sizeof line, in)) {
        const bool first = whole; /* of a line that is too long the begin alone is looked at */
        whole = strchr(line, '\n') != NULL;
        if (first && parse(line, &mount) && lies_in(path, mount.point) &&
            (!found || strlen(mount.point) >= strlen(out->point))) {
            *out = mount;
            found = true;
        }
    }
    if (in)
        fclose(in);
    return found;
}

/* ---- Kinds ----------------------------------------------------------------------------------- */

static const struct {
    const char *type, *kind;
} types[] = {
    {"tmpfs", "memory"},        {"ramfs", "memory"},           {"devtmpfs", "memory"},
    {"hugetlbfs", "memory"},    {"overlay", "overlay"},        {"aufs", "overlay"},
    {"nfs", "network"},         {"nfs4", "network"},           {"cifs", "network"},
    {"smb3", "network"},        {"smbfs", "network"},          {"ceph", "network"},
    {"lustre", "network"},      {"gpfs", "network"},           {"beegfs", "network"},
    {"afs", "network"},         {"glusterfs", "network"},      {"orangefs", "network"},
    {"pvfs2", "network"},       {"panfs", "network"},          {"wekafs", "network"},
    {"fuse.sshfs", "network"},  {"fuse.s3fs", "network"},      {"fuse.gcsfuse", "network"},
    {"fuse.rclone", "network"}, {"fuse.glusterfs", "network"}, {"fuse.juicefs", "network"},
    {"fuse.ceph", "network"},   {"fuse.ceph-fuse", "network"}, {"fuse.mount-s3", "network"},
    {"fuse.goofys", "network"}, {"fuse.blobfuse", "network"},  {"9p", "host"},
    {"virtiofs", "host"},       {"fuse.grpcfuse", "host"},     {"vboxsf", "host"},
};

static const char *kind_of_type(const char *type)
{
    for (size_t i = 0; i < STK_COUNT(types); i++)
        if (strcmp(type, types[i].type) == 0)
            return types[i].kind;
    return "";
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Of a whole disk, by its name and by what it says of itself. */
static const char *kind_of_disk(const char *root, const char *disk)
{
    char text[8];

    if (begins(disk, "loop"))
        return "loop";
    if (begins(disk, "zram") || begins(disk, "ram") || begins(disk, "pmem"))
        return "memory";
    if (begins(disk, "nbd") || begins(disk, "rbd") || begins(disk, "drbd"))
        return "network";
    /* These call themselves rotating, or not, whatever they lie on. */
    if (begins(disk, "vd") || begins(disk, "xvd"))
        return "virtual";
    if (begins(disk, "nvme"))
        return "nvme";
    if (!stk__machine_line(text, sizeof text, root, "/sys/class/block/%s/queue/rotational", disk))
        return "";
    return *text == '1' ? "rotating" : "ssd";
}

/* ---- Devices --------------------------------------------------------------------------------- */

/* The last part of what a link in `root` leads to, or of the folder above that. */
static bool link_name(const char *root, const char *path, bool above, char *out, size_t size)
{
    char whole[STK__MACHINE_PATH], to[PATH_MAX];

    snprintf(whole, sizeof whole, "%s%s", root, path);
    if (!realpath(whole, to))
        return false;
    char *slash = strrchr(to, '/');
    if (above && slash) {
        *slash = 0;
        slash = strrchr(to, '/');
    }
    if (!slash)
        return false;
    stk__machine_clean(out, size, slash + 1, strlen(slash + 1));
    return *out;
}

/* A name goes into paths: it is one part of them. */
static bool is_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

/* From a device to the disk that it lies on: out of the first of those that a volume, a crypt or a
 * RAID is made of, and of a partition. */
static void find_disk(const char *root, char name[STK_MACHINE_TEXT])
{
    char path[STK_MACHINE_TEXT + 64], text[16];

    for (int depth = 0; depth < DEVICES_MOST && is_name(name); depth++) {
        stk__machine_name below[1];
        snprintf(path, sizeof path, "/sys/class/block/%s/slaves", name);
        if (stk__machine_names(root, path, below, 1)) {
            snprintf(name, STK_MACHINE_TEXT, "%s", below[0]);
            continue;
        }
        snprintf(path, sizeof path, "/sys/class/block/%s", name);
        if (!stk__machine_line(text, sizeof text, root, "%s/partition", path) ||
            !link_name(root, path, true, name, STK_MACHINE_TEXT))
            return;
    }
}

void stk__machine_disk(const char *root, const char *path, stk_machine_disk *out)
{
    char device[64], name[STK_MACHINE_TEXT];
    struct mount mount;

    stk__machine_clean(out->path, sizeof out->path, path, strlen(path));
    if (!find_mount(root, path, &mount))
        return;
    stk__machine_clean(out->mount, sizeof out->mount, mount.point, strlen(mount.point));
    stk__machine_clean(out->filesystem, sizeof out->filesystem, mount.type, strlen(mount.type));
    stk__machine_clean(out->device, sizeof out->device, mount.source, strlen(mount.source));
    snprintf(out->kind, sizeof out->kind, "%s", kind_of_type(mount.type));
    if (*out->kind)
        return;
    snprintf(device, sizeof device, "/sys/dev/block/%u:%u", mount.major, mount.minor);
    /* File systems over several devices (btrfs, zfs) have numbers of their own. */
    if (!link_name(root, device, false, name, sizeof name)) {
        if (!begins(mount.source, "/dev/"))
            return;
        const char *slash = strrchr(mount.source, '/');
        stk__machine_clean(name, sizeof name, slash + 1, strlen(slash + 1));
    }
    find_disk(root, name);
    if (!is_name(name))
        return;
    snprintf(out->device, sizeof out->device, "%s", name);
    snprintf(out->kind, sizeof out->kind, "%s", kind_of_disk(root, name));
    stk__machine_line(out->model, sizeof out->model, root, "/sys/class/block/%s/device/model",
                      name);
}
