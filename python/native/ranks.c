/* SPDX-License-Identifier: Apache-2.0 */
/* Which of several processes this is, by an environment that Python gives. */
#include <stoker/ranks.h>

#include "native.h"

static const char *look(void *environment, const char *name)
{
    PyObject *value = PyDict_GetItemString(environment, name);
    const char *text = value ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;

    /* Of a launcher they are digits; what is no UTF-8 is none of its. */
    if (!text)
        PyErr_Clear();
    return text;
}

PyObject *stk_py_ranks(PyObject *module, PyObject *environment)
{
    stk_ranks found = {.struct_size = sizeof found};
    stk_error err;

    (void)module;
    if (!PyDict_Check(environment)) {
        PyErr_SetString(PyExc_TypeError, "the environment is a dict of texts");
        return NULL;
    }
    if (stk_ranks_detect(NULL, look, environment, &found, &err) != STK_OK)
        return stk_py_raise(&err);
    return Py_BuildValue(
        "(sKKKKK)", stk_launcher_name(found.launcher), (unsigned long long)found.rank,
        (unsigned long long)found.world_size, (unsigned long long)found.local_rank,
        (unsigned long long)found.local_world_size, (unsigned long long)stk_ranks_sharing(&found));
}
