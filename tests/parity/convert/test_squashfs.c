/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images as other programs read them: unsquashfs, sqfs2tar where it is there, and the kernel where
 * it may mount one, give back the folder that was packed, byte for byte.
 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const targets[] = {"",
                                      "?codec=gzip&block=4KiB",
                                      "?codec=lz4",
                                      "?codec=xz&block=1MiB",
                                      "?codec=none",
                                      "?level=19&block=8KiB"};

static bool has(const char *program)
{
    char command[100];

    snprintf(command, sizeof command, "command -v %s > /dev/null", program);
    return system(command) == 0;
}

static void make_folder(const char *folder)
{
    enum { SIZE = 300000 };
    uint8_t *bytes = calloc(1, SIZE);
    uint64_t seed = 5;
    char name[400], is[256];

    assert_non_null(bytes);
    test_write(folder, "empty", "", 0);
    test_write(folder, "hole", bytes, SIZE);
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)(i % 251 * (i >> 12));
    test_write(folder, "a/b/c/text", bytes, SIZE);
    test_write(folder, "a/b/c/again", bytes, SIZE);
    for (int i = 0; i < SIZE / 2; i++)
        bytes[i] = (uint8_t)(test_random(&seed) >> 30);
    test_write(folder, "mixed.jpg", bytes, SIZE);
    test_write(folder, "block", bytes, 131072);
    test_write(folder, "more", bytes, 131073);
    memset(bytes + 4096, 0, 200000);
    test_write(folder, "holes", bytes, SIZE);
    memset(is, 'n', 255);
    is[255] = 0;
    test_write(folder, is, "x", 1);
    test_write(folder, "odd \xff\x02", "x", 1);
    for (int i = 0; i < 600; i++) {
        snprintf(name, sizeof name, "many/a-rather-long-name-of-a-picture-%d.jpg", i);
        test_write(folder, name, name, i % 5 ? 0 : strlen(name));
    }
    free(bytes);
}

/* Pack, and have a command look whether the image at $image is the folder $from, by way of $out. */
static void compare_all(const char *unpack)
{
    char folder[256], to[256], target[400], command[2000], image[300], out[300];
    stk_context *ctx = test_context();
    stk_conversion *conversion = NULL;
    stk_error err;

    make_folder(test_folder(folder));
    test_folder(to);
    snprintf(image, sizeof image, "%s/image", to);
    snprintf(out, sizeof out, "%s/out", to);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        snprintf(target, sizeof target, "squashfs:%s%s", image, targets[i]);
        assert_ok(stk_conversion_create(ctx, folder, target, &conversion, &err), &err);
        assert_ok(stk_conversion_run(conversion, NULL, NULL, NULL, &err), &err);
        stk_conversion_destroy(&conversion);
        snprintf(command, sizeof command,
                 "image='%s' out='%s' from='%s'; rm -rf \"$out\"; mkdir \"$out\"; { %s; } >&2",
                 image, out, folder, unpack);
        if (system(command) != 0)
            fail_msg("%s: it does not come back as it was", *targets[i] ? targets[i] : "as usual");
        assert_int_equal(unlink(image), 0);
    }
    test_folder_remove(folder);
    test_folder_remove(to);
    stk_context_destroy(&ctx);
}

static void by_unsquashfs(void **state)
{
    (void)state;
    if (!has("unsquashfs")) {
        print_message("skipped: there is no unsquashfs\n");
        skip();
    }
    compare_all("unsquashfs -quiet -no-progress -force -dest \"$out\" \"$image\" && "
                "diff -r \"$from\" \"$out\"");
}

static void by_sqfs2tar(void **state)
{
    (void)state;
    if (!has("sqfs2tar")) {
        print_message("skipped: there is no sqfs2tar\n");
        skip();
    }
    compare_all("sqfs2tar \"$image\" | tar -x -C \"$out\" && diff -r \"$from\" \"$out\"");
}

static void by_the_kernel(void **state)
{
    (void)state;
    if (geteuid() != 0 || access("/dev/loop-control", R_OK | W_OK) != 0 ||
        system("unshare --mount mount -t tmpfs none /mnt 2> /dev/null") != 0) {
        print_message("skipped: no file system may be mounted here\n");
        skip();
    }
    /* Names are looked up one by one, and through a folder with an index. */
    compare_all("unshare --mount sh -c 'mount -t squashfs -o loop,ro \"$1\" \"$2\" && "
                "diff -r \"$3\" \"$2\" && test -s "
                "\"$2/many/a-rather-long-name-of-a-picture-595.jpg\"' "
                "sh \"$image\" \"$out\" \"$from\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_unsquashfs),
        cmocka_unit_test(by_sqfs2tar),
        cmocka_unit_test(by_the_kernel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
