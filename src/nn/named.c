/* SPDX-License-Identifier: Apache-2.0 */
/* Known models, with the names that torchvision gives to their parameters. */
#include <stdarg.h>
#include <stdio.h>

#include "base/options.h"
#include "nn/layers.h"

typedef struct named_options {
    uint32_t struct_size;
    int64_t num_classes;
    int32_t stem;
    const char *sizes;
} named_options;

enum { STEM_IMAGENET, STEM_CIFAR };

#define CLASSES_OPTION(initial)                                                                    \
    {                                                                                              \
        "num_classes", STK_OPTION_INT, offsetof(named_options, num_classes), initial, 1, 1e6,      \
            NULL, NULL, "Number of classes."                                                       \
    }
#define STEM_OPTION                                                                                \
    {                                                                                              \
        "stem", STK_OPTION_ENUM, offsetof(named_options, stem), "imagenet", 0, 0,                  \
            "imagenet|cifar", NULL,                                                                \
            "imagenet: 7x7 convolution of stride 2 and max-pool; cifar: 3x3 convolution of "       \
            "stride 1."                                                                            \
    }
static const stk_option mlp_options[] = {
    {"sizes", STK_OPTION_STRING, offsetof(named_options, sizes), NULL, 0, 0, NULL, "N",
     "Features of each layer, the last the number of classes: mlp(128, 64, 10)."}};
static const stk_option lenet_options[] = {CLASSES_OPTION("10")};
static const stk_option resnet_options[] = {CLASSES_OPTION("1000"), STEM_OPTION};

#define MODEL(label, text, list, by_place)                                                         \
    {                                                                                              \
        .struct_size = sizeof(stk__layer), .name = label, .doc = text,                             \
        .options = &(const stk_option_table){.name = label,                                        \
                                             .doc = text,                                          \
                                             .struct_size = sizeof(named_options),                 \
                                             .options = list,                                      \
                                             .count = STK_COUNT(list)},                            \
        .model = true, .places = by_place                                                          \
    }

enum { MLP, LENET, RESNET18, RESNET50 };

const stk__layer stk__named[STK__NAMED] = {
    [MLP] = MODEL("mlp", "Known model: flatten, then linear layers with relu between them",
                  mlp_options, "sizes"),
    [LENET] =
        MODEL("lenet", "Known model: LeNet-5 with relu and max-pool", lenet_options, "num_classes"),
    [RESNET18] = MODEL("resnet18", "Known model: torchvision's ResNet-18", resnet_options,
                       "num_classes stem"),
    [RESNET50] = MODEL("resnet50", "Known model: torchvision's ResNet-50", resnet_options,
                       "num_classes stem"),
};

static stk_status add(stk_model_builder *builder, stk_error *err, const char *format, ...)
    STK_PRINTF(3, 4);
static stk_status add(stk_model_builder *builder, stk_error *err, const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return stk_model_builder_add(builder, text, err);
}

static stk_status add_mlp(stk_model_builder *builder, const stk__item *item, stk_error *err)
{
    int64_t sizes[STK__MAX_WHOLE], size;
    uint32_t count = 0, one;

    for (uint32_t i = 0; i < item->count; i++) {
        const char *name = item->arguments[i].name;
        if (name && !stk_options_find(stk__named[MLP].options, name))
            return stk_options_set(stk__named[MLP].options,
                                   &(named_options){.struct_size = sizeof(named_options)}, name, "",
                                   err);
        if (name)
            STK_TRY(stk__whole_read("mlp", "sizes", item->arguments[i].value, 1, STK__MAX_SIDE,
                                    sizes, STK_COUNT(sizes), &count, err));
        else {
            STK_TRY(stk__whole_read("mlp", "sizes", item->arguments[i].value, 1, STK__MAX_SIDE,
                                    &size, 1, &one, err));
            if (count == STK_COUNT(sizes))
                return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN, "mlp: at most %d sizes",
                                 STK__MAX_WHOLE);
            sizes[count++] = size;
        }
    }
    if (count == 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "mlp needs the features of its layers: mlp(128, 64, 10)");
    STK_TRY(add(builder, err, "flatten"));
    for (uint32_t i = 0; i < count; i++)
        STK_TRY(add(builder, err, "linear(%lld)%s", (long long)sizes[i],
                    i + 1 < count ? ", relu" : ""));
    return STK_OK;
}

static stk_status add_lenet(stk_model_builder *builder, const named_options *o, stk_error *err)
{
    return add(builder, err,
               "conv1=conv2d(6, 5, padding=2), relu1=relu, pool1=max_pool2d(2), "
               "conv2=conv2d(16, 5), relu2=relu, pool2=max_pool2d(2), flatten=flatten, "
               "fc1=linear(120), relu3=relu, fc2=linear(84), relu4=relu, fc3=linear(%lld)",
               (long long)o->num_classes);
}

/* A residual block of `width` channels on what the layer `from` gives. */
static stk_status add_block(stk_model_builder *builder, const char *name, const char *from,
                            int width, int stride, bool bottleneck, bool project, stk_error *err)
{
    int out = bottleneck ? 4 * width : width;
    char identity[STK__MAX_NODE_NAME];

    if (bottleneck)
        STK_TRY(add(builder, err,
                    "%s.conv1=conv2d(%d, 1, bias=false, from=%s), %s.bn1=batch_norm2d, "
                    "%s.relu=relu, "
                    "%s.conv2=conv2d(%d, 3, stride=%d, padding=1, bias=false), "
                    "%s.bn2=batch_norm2d, %s.relu2=relu, %s.conv3=conv2d(%d, 1, bias=false), "
                    "%s.bn3=batch_norm2d",
                    name, width, from, name, name, name, width, stride, name, name, name, out,
                    name));
    else
        STK_TRY(add(builder, err,
                    "%s.conv1=conv2d(%d, 3, stride=%d, padding=1, bias=false, from=%s), "
                    "%s.bn1=batch_norm2d, %s.relu=relu, "
                    "%s.conv2=conv2d(%d, 3, padding=1, bias=false), %s.bn2=batch_norm2d",
                    name, width, stride, from, name, name, name, width, name));
    snprintf(identity, sizeof identity, "%s", from);
    const char *last = bottleneck ? "bn3" : "bn2";
    if (project) {
        STK_TRY(add(builder, err,
                    "%s.downsample.0=conv2d(%d, 1, stride=%d, bias=false, from=%s), "
                    "%s.downsample.1=batch_norm2d",
                    name, out, stride, from, name));
        snprintf(identity, sizeof identity, "%s.downsample.1", name);
    }
    return add(builder, err, "%s.add=add(%s, from=%s.%s), %s.out=relu", name, identity, name, last,
               name);
}

static stk_status add_resnet(stk_model_builder *builder, const named_options *o,
                             const int depths[4], bool bottleneck, stk_error *err)
{
    char from[64], name[32];

    if (o->stem == STEM_CIFAR)
        STK_TRY(add(builder, err,
                    "conv1=conv2d(64, 3, padding=1, bias=false), bn1=batch_norm2d, relu=relu"));
    else
        STK_TRY(add(builder, err,
                    "conv1=conv2d(64, 7, stride=2, padding=3, bias=false), bn1=batch_norm2d, "
                    "relu=relu, maxpool=max_pool2d(3, 2, 1)"));
    snprintf(from, sizeof from, "%s", o->stem == STEM_CIFAR ? "relu" : "maxpool");
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < depths[stage]; i++) {
            int stride = stage > 0 && i == 0 ? 2 : 1;
            snprintf(name, sizeof name, "layer%d.%d", stage + 1, i);
            STK_TRY(add_block(builder, name, from, 64 << stage, stride, bottleneck,
                              i == 0 && (stage > 0 || bottleneck), err));
            snprintf(from, sizeof from, "%s.out", name);
        }
    }
    STK_TRY(add(builder, err, "avgpool=global_avg_pool2d, flatten=flatten, fc=linear(%lld)",
                (long long)o->num_classes));
    for (uint32_t i = 0; i < builder->graph.num_nodes; i++)
        builder->graph.nodes[i].fan_out = builder->graph.nodes[i].kind == STK__CONV2D;
    return STK_OK;
}

stk_status stk__named_add(stk_model_builder *builder, const stk__layer *model, stk__item *item,
                          stk_error *err)
{
    static const int basic[4] = {2, 2, 2, 2}, deep[4] = {3, 4, 6, 3};
    const ptrdiff_t which = model - stk__named;
    named_options options;

    if (builder->graph.num_nodes > 1 || item->label || stk__layer_from(item))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "%s is a whole model: it is used alone, without a name and other layers",
                         model->name);
    if (which == MLP)
        return add_mlp(builder, item, err);
    STK_TRY(stk__item_options(item, model->options, model->places, &options, err));
    if (which == LENET)
        return add_lenet(builder, &options, err);
    return add_resnet(builder, &options, which == RESNET18 ? basic : deep, which == RESNET50, err);
}
