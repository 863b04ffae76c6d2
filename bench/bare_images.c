/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound of workload `images`: the same decode and transform calls in a bare loop of `--workers`
 * threads over the same files in memory, each into a batch of its own. No loader: no reads, no
 * order, no batches handed over.
 */
#include <glob.h>

#include "bare.h"
#include "transform/transform.h"

static struct {
    stk_context *context;
    stk__pipeline *pipeline;
    stk_slice *files;
    size_t num_files, batch, picture; /* picture: bytes of one in a batch */
} all;

static void *work(void *unused)
{
    const size_t picture = all.picture;
    stk__decode_room room;
    stk__decoding *decoding;
    char *slab = aligned_alloc(64, all.batch * picture);
    void *scratch = aligned_alloc(64, stk__round_up(stk__pipeline_scratch(all.pipeline) + 64, 64));
    const uint64_t epoch = 0;

    if (!slab || !scratch || stk__decode_room_init(&room, 64 << 20, 256 << 20) != STK_OK ||
        stk__decoding_create(all.context, &room, &decoding) != STK_OK)
        bench_die("bare_images", "no memory");
    for (size_t i = 0; !bare.stop; i++) {
        uint64_t position = bare.next++;
        void *to = slab + i % all.batch * picture;
        stk_status status = STK_OK;
        const char *reason = NULL;
        uint64_t wanted = 0;

        stk__pipeline_decode(all.pipeline, 1, 1, &epoch, &position,
                             &all.files[position * 7919 % all.num_files], &to, &status, &reason,
                             &wanted, scratch, decoding);
        if (status != STK_OK)
            bench_die("bare_images", reason ? reason : stk_status_name(status));
        bare.done++;
    }
    stk__decoding_destroy(&decoding);
    stk__decode_room_release(&room);
    free(scratch);
    free(slab);
    return unused;
}

static void read_files(const char *folder)
{
    char pattern[4096];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/*/*", folder);
    if (glob(pattern, 0, NULL, &found) != 0)
        bench_die(folder, "no pictures");
    all.files = calloc(found.gl_pathc, sizeof *all.files);
    for (size_t i = 0; all.files && i < found.gl_pathc; i++) {
        FILE *file = fopen(found.gl_pathv[i], "rb");

        if (!file || fseek(file, 0, SEEK_END) != 0)
            bench_die(found.gl_pathv[i], "could not be read");
        size_t size = (size_t)ftell(file);
        void *data = calloc(1, size + STK_TAIL);
        rewind(file);
        if (!data || fread(data, 1, size, file) != size)
            bench_die(found.gl_pathv[i], "could not be read");
        fclose(file);
        all.files[all.num_files++] = (stk_slice){.data = data, .size = size};
    }
    globfree(&found);
}

int main(int argc, char **argv)
{
    const stk_transform_header in = {
        .dtype = STK_UINT8, .rank = 3, .shape = {-1, -1, 3}, .picture = true, .encoded = true};
    char folder[4096];
    stk_error err;

    bench_known(argc, argv, "folder transforms seconds batch workers");
    snprintf(folder, sizeof folder, "%s/imagenet-sample", bench_data());
    read_files(bench_text(argc, argv, "folder", folder));
    size_t workers = (size_t)bench_number(argc, argv, "workers", 2);
    double seconds = bench_number(argc, argv, "seconds", 5);
    all.batch = (size_t)bench_number(argc, argv, "batch", 64);
    if (stk_context_create(NULL, &all.context, &err) != STK_OK ||
        stk__pipeline_create(
            all.context,
            bench_text(argc, argv, "transforms", "random_resized_crop(224), horizontal_flip"), &in,
            &all.pipeline, &err) != STK_OK)
        bench_die("bare_images", err.text);
    stk_transform_header out;
    stk__pipeline_header(all.pipeline, &out);
    all.picture = stk__round_up(
        (uint64_t)(out.shape[0] * out.shape[1] * out.shape[2]) * stk_dtype_size(out.dtype), 64);
    const struct bare_rate rate = bare_measure(workers, seconds, 64, work);
    printf("{\"workload\": \"W1-images\", \"peer\": \"bound\", \"config\": {\"workers\": %zu}, "
           "\"samples_per_s\": %.2f, \"cpu_s_per_1000\": %.6f, \"n_samples\": %.0f}\n",
           workers, rate.done / rate.wall, rate.cpu / rate.done * 1000, rate.done);
    return 0;
}
