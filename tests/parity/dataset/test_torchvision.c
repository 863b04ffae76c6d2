/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The classic archives are what torchvision reads (scripts/check_torchvision.py), where python3 has
 * it: ./dev test sees to that.
 */
#include <sys/wait.h>

#include "dataset/published.h"
#include "golden/dataset/expected.h"

#define SCRIPT TESTS_DIR "/../scripts/check_torchvision.py"

/* What is downloaded is what torchvision downloads. */
static void check_published(const char *path)
{
    static const stk__published *const all[] = {
        &stk__published_mnist,  &stk__published_fashion_mnist, &stk__published_kmnist,
        &stk__published_emnist, &stk__published_cifar10,       &stk__published_cifar100};
    char kind[32], url[200], md5[40], ours[300];
    size_t theirs = 0, files = 0;
    int place;

    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fscanf(f, "%31s %d %199s %39s", kind, &place, url, md5) == 4) {
        bool found = false;
        for (size_t i = 0; i < STK_COUNT(all); i++)
            for (size_t k = 0; k < STK__PUBLISHED_FILES && all[i]->files[k].name; k++) {
                if (strcmp(all[i]->kind, kind) != 0)
                    continue;
                snprintf(ours, sizeof ours, "%s%s", all[i]->mirrors[place], all[i]->files[k].name);
                found = found || (strcmp(ours, url) == 0 && strcmp(all[i]->files[k].md5, md5) == 0);
            }
        if (!found)
            fail_msg("%s: %s with MD5 %s is not what is downloaded", kind, url, md5);
        theirs++;
    }
    fclose(f);
    for (size_t i = 0; i < STK_COUNT(all); i++)
        for (size_t k = 0; k < STK__PUBLISHED_FILES && all[i]->files[k].name; k++)
            files += 1 + (all[i]->mirrors[1] != NULL);
    assert_int_equal(theirs, files);
}

static void test_archives(void **state)
{
    static expected e[1000];
    char folder[256], command[1200], path[300];
    stk_context *ctx = test_context();

    test_folder(folder);
    snprintf(command, sizeof command, "python3 '%s' '%s'", SCRIPT, folder);
    int status = system(command);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) /* said by the script */
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
    snprintf(path, sizeof path, "%s/expected.txt", folder);
    const size_t n = expected_read(path, e, STK_COUNT(e));
    snprintf(path, sizeof path, "%s/published.txt", folder);
    check_published(path);
    assert_true(n > 400);
    for (size_t i = 0; i < n; i++) {
        stk_dataset *d = NULL;
        expected_open(ctx, &e[i], folder, "", &d);
        expected_check(d, &e[i]);
        stk_dataset_close(&d);
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_archives)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
