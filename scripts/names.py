# SPDX-License-Identifier: Apache-2.0
"""A word means one thing: each type and function that files share, stk__NAME, is defined once in src/, and is shared.

What is of one file alone is static and may be named as in another: row, create(), plan(). What tests alone call is no
part of the library, but for the few here.
"""
import re
from collections import Counter, defaultdict

# Templates: included more than once, or the same for each element type.
TEMPLATE = re.compile(r"_loops\.h$|^src/nn/kernels")
TYPE = re.compile(r"^(?:typedef )?(?:struct|union|enum) (stk__\w+)\s*\{", re.M)
OTHER = re.compile(r"^typedef (?!struct|union|enum)[^;{]*?(?:\(\*(stk__\w+)\)|\b(stk__\w+))\s*(?:\([^;]*\))?;", re.M)
FUNCTION = re.compile(r"^(?!typedef|#)[a-z_][\w \*]*?[\s\*](stk__\w+)\([^;{}]*\)\s*\n\{", re.M)


# Called by tests or fuzz targets alone, in addition to their own file.
FOR_TESTS = {
    "stk__checkpoint_writer_create_on": "a disk of the test's own, which fails",
    "stk__cores_divide": "machines that are not there are divided",
    "stk__chunks_floor_sum": "its closed form is held against the sum",
    "stk__libhdf5_attach": "the other end is a test's, or a fuzz target's",
    "stk__live_read_page": "a page of another program is the test's, or a fuzz target's",
    "stk__machine_find": "the system that it looks at is the test's",
    "stk__log_queue_due": "when loggers are flushed is a function of three times",
    "stk__log_queue_waited_ns": "a test opens its logger's gate when a call waits",
    "stk__loops_read": "a reader of outside bytes with a fuzz target",
    "stk__open_beneath_by_parts": "what kernels without openat2() run",
    "stk__profile_number": "a table of numbers and texts",
    "stk__report_begin": "a log comes in pieces of any size",
    "stk__report_end": "likewise",
    "stk__report_feed": "likewise",
    "stk__safetensors_dtype_name": "the table is read backwards",
    "stk__sigv4_presign": "held against the published example",
    "stk__storage_of": "the table of kinds, at its bounds",
    "stk__student_quantile": "held against a published table",
    "stk__warp_rotation": "what a kernel is run with in parity",
}


def check_shared(words, functions, problem):
    """Functions of one .c file that no other file of src/ uses; in a header, once is the declaration."""
    for name, places in sorted(functions.items()):
        homes = {path for path, _ in places}
        used = any(times > path.endswith(".h") for path, times in words[name].items() if path not in homes)
        path, line = min(places)
        if name in FOR_TESTS and used:
            problem(path, line, f"{name}() is used by another file of src/: take it out of FOR_TESTS in scripts/names.py")
        elif name not in FOR_TESTS and not used and path.endswith(".c"):
            problem(path, line, f"{name}() is used by no other file of src/: make it static, or delete it with its test")
    for name in sorted(set(FOR_TESTS) - set(functions)):
        problem("scripts/names.py", 1, f"there is no function {name}: take it out of FOR_TESTS")


def check(root, problem, strip):
    types, functions, words = defaultdict(set), defaultdict(set), defaultdict(Counter)
    for path in sorted((root / "src").rglob("*.[ch]")):
        relative = str(path.relative_to(root))
        text = strip(path.read_text(encoding="utf-8"))
        for word in re.findall(r"\bstk__\w+", text):
            words[word][relative] += 1
        if TEMPLATE.search(relative):
            continue
        for m in TYPE.finditer(text):
            types[m.group(1)].add((relative, text.count("\n", 0, m.start()) + 1))
        for m in OTHER.finditer(text):
            types[m.group(1) or m.group(2)].add((relative, text.count("\n", 0, m.start()) + 1))
        for m in FUNCTION.finditer(text):
            functions[m.group(1)].add((relative, text.count("\n", 0, m.start()) + 1))
    for kind, names in (("type", types), ("function", functions)):
        for name, places in sorted(names.items()):
            files = sorted({path for path, _ in places})
            if len(files) > 1:
                for path, line in sorted(places)[1:]:
                    problem(path, line, f"the {kind} {name} is another one in {files[0]}: give it a name of its own")
    check_shared(words, functions, problem)
