/* Thread starts that fail on purpose, in the program that includes this. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_FAULTY_THREADS_H
#define STK_TESTS_FAULTY_THREADS_H

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "support/faults.h"

static faults thread_faults = {.left = FAULTS_NONE};

/* Of a sanitizer that is part of the program, and wants to know of threads. */
int __interceptor_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                 void *(*run)(void *), void *argument) __attribute__((weak));

/* Stands before the C library's own: the library under test calls this one. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
            RTLD_NEXT, "pthread_create");

    if (__interceptor_pthread_create)
        real = __interceptor_pthread_create;
    return fault_strikes(&thread_faults) ? EAGAIN : real(thread, attributes, run, argument);
}

#endif
