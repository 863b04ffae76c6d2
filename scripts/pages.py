# SPDX-License-Identifier: Apache-2.0
"""The pages of docs name functions of the code that are there, those of docs/internals files, too."""
import re

NAMED = re.compile(r"`([\w/.-]+\.(?:c|h|py|sh|md|txt))`|`(stk_\w+)\(\)`")


def check(root, problem):
    """problem(path, line, text) for each name in docs that the code does not have."""
    pages = sorted((root / "docs" / "internals").glob("*.md"))
    code = "\n".join(p.read_text(encoding="utf-8") for top in ("src", "include", "cli") for p in sorted((root / top).rglob("*.[ch]")))
    defined = set(re.findall(r"\b(stk_\w+)\(", code))
    rooms = {p.name for p in (root / "src").iterdir()}
    files = {}
    for top in ("src", "include", "cli", "tests", "fuzz", "scripts", "bench"):
        for path in (root / top).rglob("*"):
            files.setdefault(path.name, set()).add(path.relative_to(root).parent.as_posix())
    for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
            for function in re.findall(r"`(stk_\w+)\(", line):
                if function not in defined:
                    problem(page.relative_to(root), number, f"{function}() is not in the code")
    for page in pages:
        for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
            for path, function in NAMED.findall(line):
                if function and function not in defined:
                    problem(page.relative_to(root), number, f"{function}() is not in the code")
                folder, _, name = path.rpartition("/")
                if "NAME" in name or (page.parent / path).is_file():
                    continue
                if path and not folder and page.stem in rooms:
                    # A name alone is one of the page's room.
                    if not any(f"{x}/".startswith(f"src/{page.stem}/") for x in files.get(name, ())) and not (root / path).exists():
                        problem(page.relative_to(root), number, f"src/{page.stem} has no {path}")
                elif path and not any(f"/{x}".endswith("/" + folder) for x in files.get(name, ())) and not (root / path).exists():
                    problem(page.relative_to(root), number, f"there is no {path}")
