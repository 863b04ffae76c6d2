/* SPDX-License-Identifier: Apache-2.0 */
/* The library of an MPI: where it is, and whether it is one of ours; joining by it. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/files.h"
#include "base/sized.h"
#include "dist/collectives.h"

static stk_status no_library(const char *name, stk_error *err)
{
    if (strcmp(name, "auto") == 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "transport", STK_NO_OFFSET,
                            "collectives.transport: auto is what a command finds out; a program "
                            "says openmpi or mpich");
    if (strcmp(name, "nccl") == 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "transport", STK_NO_OFFSET,
                            "collectives.transport: NCCL is begun by an MPI, which a command finds "
                            "out; a program says openmpi or mpich, and collectives.nccl always");
    if (strcmp(name, "openmpi") != 0 && strcmp(name, "mpich") != 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "transport", STK_NO_OFFSET,
                            "collectives.transport: there is no '%.100s'; there are openmpi, mpich "
                            "and paths of other libraries",
                            name);
    return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, "transport", STK_NO_OFFSET,
                        "collectives.transport: there is no libstoker_%s.so beside Stoker: install "
                        "the package lib%s-dev and build Stoker again, or use the mpirun of an MPI "
                        "that 'stoker --version' names",
                        name, name);
}

static stk_status refuse(const char *path, const char *why, stk_error *err)
{
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, path, STK_NO_OFFSET,
                        "collectives.transport: '%.200s' %.300s", path, why);
}

static stk_status load(const char *transport, const stk__transport_ops **ops, stk_error *err)
{
    char name[64], path[PATH_MAX];

    snprintf(name, sizeof name, "libstoker_%.40s.so", transport);
    if (strchr(transport, '/'))
        snprintf(path, sizeof path, "%s", transport);
    else if (!stk__find_beside(name, R_OK, path))
        return no_library(transport, err);
    /* It is not unloaded before the process ends: an MPI leaves threads and handlers behind. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle)
        return refuse(path, dlerror(), err);
    *ops = dlsym(handle, STK__TRANSPORT_ENTRY);
    if (!*ops || (*ops)->struct_size != sizeof **ops || (*ops)->version != STK__TRANSPORT_VERSION) {
        dlclose(handle);
        return refuse(path, "is no library for an MPI of this version of Stoker", err);
    }
    return STK_OK;
}

static stk_status check(const stk_collectives_options *o, stk_error *err)
{
    if (o->fault_late_at && !(o->fault_late_by > 0))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "fault_late_at", STK_NO_OFFSET,
                            "collectives.fault_late_at: it has no effect without fault_late_by");
    return STK_OK;
}

stk_status stk_collectives_open(stk_context *ctx, const stk_collectives_options *options,
                                stk_collectives **out, stk_error *err)
{
    const stk__transport_ops *ops;
    stk_collectives_options o;

    *out = NULL;
    stk_error_init(err);
    STK_TRY(stk__context_check(ctx, err));
    stk_collectives_options_init(&o);
    STK_TRY(
        stk__sized_read(&o, sizeof o, options, "stk_collectives_options", STK_STAGE_OPTIONS, err));
    STK_TRY(check(&o, err));
    if (!o.transport)
        o.transport = "auto";
    STK_TRY(load(o.transport, &ops, err));
    return stk__collectives_join(ctx, ops, &o, out, err);
}
