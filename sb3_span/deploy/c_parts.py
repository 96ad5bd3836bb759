"""
Pieces of C for an exported policy: only the functions that it calls, copied from C files.

The basis functions and the exponential are those of the training kernel. An exported policy is one pair of files, so it cannot
include theirs; and compilers warn about unused functions.
"""

import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent / "c"
KERNEL = Path(__file__).parents[1] / "nn" / "native"
FILES = (HERE / "scalar.h", KERNEL / "span_spline.h", KERNEL / "span_exp.h", HERE / "policy_parts.h")

# A macro, or a function that starts with "static" or "SPAN_INLINE" and ends on its line or on a line "}", with the comment
# right above.
PART = re.compile(
    r"^(?P<comment>/\*(?:(?!\*/).)*\*/\n)?"
    r"(?P<code>#define (?P<macro>\w+)(?=[ (])[^\n]+|"
    r"(?:static|SPAN_INLINE) [^;{]*?(?P<function>\w+)\([^{]*\{(?:[^\n]*\}$|.*?^\}$))",
    re.DOTALL | re.MULTILINE,
)


@cache
def all_parts() -> dict[str, str]:
    """
    :return: Every macro and function by its name, each after those that it uses
    """
    found: dict[str, str] = {}
    for file in FILES:
        for match in PART.finditer(file.read_text()):
            # The first one counts: scalar.h lets the compiler decide what to inline.
            found.setdefault(match["macro"] or match["function"], (match["comment"] or "") + match["code"])
    return found


def needed_parts(code: str) -> list[str]:
    """
    :param code: C code that calls some of the functions
    :return: Those macros and functions, and those that they use
    """
    parts = all_parts()
    needed: set[str] = set()
    todo = [code]
    while todo:
        for word in re.findall(r"\w+", todo.pop()):
            if word in parts and word not in needed:
                needed.add(word)
                todo.append(re.sub(r"/\*.*?\*/", "", parts[word], flags=re.DOTALL))
    return [text for name, text in parts.items() if name in needed]
