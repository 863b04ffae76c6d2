/* Photographs: those of the sample of ImageNet, or where it is not, pictures of their sizes made
 * here. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_PHOTOGRAPHS_H
#define STK_TESTS_PHOTOGRAPHS_H

#include "pictures.h"

#include <dirent.h>

typedef void photograph_fn(void *user, const bytes *jpeg, const char *name);

#define PHOTOGRAPHS 320 /* of the sample, at least: one in a folder */

/* The common size, larger and smaller ones, upright and grey ones, as cameras and the web write
 * them. */
static inline uint32_t made_photographs(uint32_t stride, photograph_fn *each, void *user)
{
    static const recipe recipes[] = {
        {500, 375, .sampling = "2x2,1x1,1x1", .quality = 90},
        {375, 500, .sampling = "2x2,1x1,1x1", .quality = 75, .optimized = true},
        {500, 333, .sampling = "1x1,1x1,1x1", .quality = 96},
        {640, 480, .sampling = "2x1,1x1,1x1", .quality = 85, .restart = 40},
        {200, 150, .sampling = "1x1", .quality = 80},
        {1024, 700, .sampling = "2x2,1x1,1x1", .quality = 60},
    };
    uint32_t n = 0;

    for (uint32_t i = 0; i < PHOTOGRAPHS; i += stride, n++) {
        recipe how = recipes[n % STK_COUNT(recipes)];
        char name[40];
        how.width += i % 17;
        how.height += i % 13;
        snprintf(name, sizeof name, "made picture %u", i);
        bytes jpeg = make_jpeg(&how, i);
        each(user, &jpeg, name);
        free(jpeg.data);
    }
    return n;
}

/* Those of every `stride`-th folder. Returns how many they are. */
static inline uint32_t each_photograph(uint32_t stride, photograph_fn *each, void *user)
{
    char folder[256], path[1024];
    struct dirent **classes;
    uint32_t n = 0;

    if (!test_has_data("imagenet-sample", folder))
        return made_photographs(stride, each, user);
    const int count = scandir(folder, &classes, NULL, alphasort);
    assert_true(count > PHOTOGRAPHS);
    for (int i = 0; i < count; i++) {
        const size_t length =
            (size_t)snprintf(path, sizeof path, "%s/%s", folder, classes[i]->d_name);
        DIR *dir = *classes[i]->d_name == '.' || (uint32_t)i % stride ? NULL : opendir(path);
        for (struct dirent *e; dir && (e = readdir(dir));) {
            if (e->d_name[0] == '.')
                continue;
            snprintf(path + length, sizeof path - length, "/%s", e->d_name);
            bytes jpeg = load(path);
            each(user, &jpeg, path);
            free(jpeg.data);
            n++;
        }
        if (dir)
            closedir(dir);
        free(classes[i]);
    }
    free(classes);
    return n;
}

#endif
