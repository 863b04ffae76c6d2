/* SPDX-License-Identifier: Apache-2.0 */
/* stoker._native: what the Python of the package is written on. */
#include "native.h"

#include <stoker/plugin.h>

stk_py_module stk_py;

PyTypeObject *stk_py_add_type(PyObject *module, PyType_Spec *spec)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);

    if (type && PyModule_AddType(module, type))
        Py_CLEAR(type);
    return type;
}

/* NULL: an exception is set. */
static const stk_option_table *table_of(PyObject *name)
{
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    const stk_option_table *table = text ? stk_option_table_find(text) : NULL;

    if (text && !table)
        PyErr_Format(PyExc_KeyError, "no table of options '%s'", text);
    return table;
}

/* The options of a table as --help shows them. */
static PyObject *options_help(PyObject *module, PyObject *name)
{
    const stk_option_table *table = table_of(name);

    if (!table)
        return NULL;
    const int length = stk_options_help(table, NULL, 0);
    char *help = PyMem_Malloc((size_t)length + 1);
    if (!help)
        return PyErr_NoMemory();
    stk_options_help(table, help, (size_t)length + 1);
    PyObject *made = PyUnicode_DecodeUTF8(help, length, "replace");
    PyMem_Free(help);
    return made;
}

/* The type of its keyword in Python. */
static const char *type_of(const stk_option *option)
{
    if (option->choices && option->type == STK_OPTION_INT) /* "auto" */
        return "int | str";
    if (option->choices && strncmp(option->choices, "false|true|", 11) == 0)
        return "bool | str";
    switch (option->type) {
    case STK_OPTION_BOOL:
        return "bool";
    case STK_OPTION_INT:
    case STK_OPTION_UINT:
        return "int";
    case STK_OPTION_DOUBLE:
        return "float";
    case STK_OPTION_SIZE:
        return "int | str";
    case STK_OPTION_RATE:
    case STK_OPTION_DURATION:
        return "float | str";
    default:
        return "str";
    }
}

/* (name, type, default, choices, doc) of each option; none of no table. */
static PyObject *rows_of(const stk_option_table *table)
{
    PyObject *all = PyList_New(0);

    for (size_t i = 0; all && table && i < table->count; i++) {
        const stk_option *o = &table->options[i];
        PyObject *one =
            Py_BuildValue("(sszzs)", o->name, type_of(o), o->initial, o->choices, o->doc);
        if (!one || PyList_Append(all, one))
            Py_CLEAR(all);
        Py_XDECREF(one);
    }
    return all;
}

static PyObject *options_of(PyObject *module, PyObject *name)
{
    const stk_option_table *table = table_of(name);

    return table ? rows_of(table) : NULL;
}

static PyObject *transforms(PyObject *module, PyObject *unused)
{
    PyObject *all = PyList_New(0);
    const stk_driver_head *head;

    for (size_t i = 0; all && (head = stk_driver_at(NULL, STK_DRIVER_TRANSFORM, i)); i++) {
        PyObject *one = Py_BuildValue("(szN)", head->name, head->doc, rows_of(head->options));
        if (!one || PyList_Append(all, one))
            Py_CLEAR(all);
        Py_XDECREF(one);
    }
    return all;
}

int stk_py_set_options(const char *name, void *options, PyObject *texts)
{
    const stk_option_table *table = stk_option_table_find(name);
    PyObject *items = PyDict_Items(texts);
    int failed = items ? 0 : -1;
    stk_error err;

    for (Py_ssize_t i = 0; !failed && i < PyList_Size(items); i++) {
        const char *option, *text;
        if (!PyArg_ParseTuple(PyList_GetItem(items, i), "ss", &option, &text))
            failed = -1;
        else if (stk_options_set(table, options, option, text, &err) != STK_OK) {
            stk_py_raise(&err);
            failed = -1;
        }
    }
    Py_XDECREF(items);
    return failed;
}

static PyObject *cores(PyObject *module, PyObject *unused)
{
    stk_cores found = {.struct_size = sizeof found};
    stk_context *context = NULL;
    stk_error err;

    if (stk_context_create(NULL, &context, &err) != STK_OK)
        return stk_py_raise(&err);
    stk_context_cores(context, &found);
    stk_context_destroy(&context);
    return Py_BuildValue("(II)", (unsigned)found.usable, (unsigned)found.preparation);
}

static PyMethodDef functions[] = {
    {"error", stk_py_make_error, METH_VARARGS,
     "error($module, status, text, key='', sample=..., /)\n--\n\nThe exception of a failure that "
     "somebody else tells; `status` is the name of one."},
    {"judge", stk_py_judge, METH_VARARGS,
     "judge($module, figures, loader, /)\n--\n\nThe verdict on figures by their names, and on "
     "those "
     "of a loader's loop, or None."},
    {"cores", cores, METH_NOARGS,
     "cores($module, /)\n--\n\n(usable, preparation): cores that this process can keep busy, and "
     "those of them that num_workers: auto takes."},
    {"ranks", stk_py_ranks, METH_O,
     "ranks($module, environment, /)\n--\n\n(launcher, rank, world_size, local_rank, "
     "local_world_size, sharing) as the variables of an environment, a dict, say. sharing: "
     "ranks among which the cores of this process are divided."},
    {"options", options_of, METH_O,
     "options($module, table, /)\n--\n\n(name, type, default, choices, doc) of each option of a "
     "table."},
    {"options_help", options_help, METH_O,
     "options_help($module, table, /)\n--\n\nThe options of a table, as --help has them."},
    {"transforms", transforms, METH_NOARGS,
     "transforms($module, /)\n--\n\n(name, doc, arguments as options() has them) of each "
     "transform."},
    {NULL, NULL, 0, NULL}};

static int fill(PyObject *module)
{
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError,
                        "stoker works in the main interpreter alone, not in a subinterpreter");
        return -1;
    }
    return stk_py_add_errors(module) || stk_py_add_tensor(module) ||
                   stk_py_add_record_batch(module) || stk_py_add_dataset(module) ||
                   stk_py_add_loader(module) || stk_py_add_array(module) ||
                   stk_py_add_shared(module) || stk_py_add_stack(module) ||
                   stk_py_add_bench(module) ||
                   PyModule_AddStringConstant(module, "__version__", stk_version())
               ? -1
               : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                        .m_name = "stoker._native",
                                        .m_doc = "The public C interface of Stoker.",
                                        .m_methods = functions,
                                        .m_slots = slots};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
