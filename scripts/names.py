# SPDX-License-Identifier: Apache-2.0
"""A word means one thing: each type and function that files share, stk__NAME, is defined once in src/.

What is of one file alone may be named as in another: row, create(), plan().
"""
import re
from collections import defaultdict

# Templates: included more than once, or the same for each element type.
TEMPLATE = re.compile(r"_loops\.h$|^src/nn/kernels")
TYPE = re.compile(r"^(?:typedef )?(?:struct|union|enum) (stk__\w+)\s*\{", re.M)
OTHER = re.compile(r"^typedef (?!struct|union|enum)[^;{]*?(?:\(\*(stk__\w+)\)|\b(stk__\w+))\s*(?:\([^;]*\))?;", re.M)
FUNCTION = re.compile(r"^(?!typedef|#)[a-z_][\w \*]*?[\s\*](stk__\w+)\([^;{}]*\)\s*\n\{", re.M)


def check(root, problem, strip):
    types, functions = defaultdict(set), defaultdict(set)
    for path in sorted((root / "src").rglob("*.[ch]")):
        relative = str(path.relative_to(root))
        if TEMPLATE.search(relative):
            continue
        text = strip(path.read_text(encoding="utf-8"))
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
