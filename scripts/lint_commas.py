#!/usr/bin/env python3
"""lint_commas.py FILE...: rejects statements of C and CUDA files that join expressions with a comma: `f(), g();`."""
import re
import sys

# A statement that begins with one of these words is a declaration.
WORDS = re.compile(
    r"(?:static|const|constexpr|unsigned|signed|struct|union|enum|typedef|extern|register|volatile|inline|auto|int|char|"
    r"short|long|float|double|bool|void|va_list|FILE|DIR|[A-Za-z_]\w*_t|__\w+__|template|using|asm|_\w+|goto|case|"
    r"default|break|continue)\b")
# A type, then a name: `struct_name *a, *b`.
TYPE_AND_NAME = re.compile(
    r"(?!return\b)[A-Za-z_][\w:]*(?:<[^<>;]*>)?(?:\s*\*+\s*(?:const\s+|restrict\s+)*|\s+)[A-Za-z_]\w*\s*(?:[\[=,({]|$)")


def blank(text):
    """Replaces comments, strings and preprocessor lines by spaces. Offsets and line breaks stay the same."""
    def spaces(m):
        return re.sub(r"[^\n]", " ", m[0])
    text = re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", spaces, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", spaces, text, flags=re.M)


def pieces(text):
    """Yields (offset, text, terminator) of the text between semicolons and braces outside of parentheses."""
    depth, start = 0, 0
    for i, c in enumerate(text):
        if c in "([":
            depth += 1
        elif c in ")]":
            depth = max(0, depth - 1)
        elif depth == 0 and c in ";{}":
            yield start, text[start:i], c
            start = i + 1


def without_heads(s):
    """Removes if (...), while (...), for (...), else, do and labels from the start."""
    while True:
        s = s.lstrip()
        m = re.match(r"(?:else|do)\b|(?:case\b[^:?]*|default)\s*:|[A-Za-z_]\w*\s*:(?!:)", s)
        if not m:
            m = re.match(r"(?:if(?:\s+constexpr)?|while|for|switch)\s*\(", s)
            if not m:
                return s
            depth, end = 1, m.end()
            while end < len(s) and depth:
                depth += (s[end] == "(") - (s[end] == ")")
                end += 1
            s = s[end:]
        else:
            s = s[m.end():]


def has_comma(s):
    depth = 0
    for c in s:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            return True
    return False


def opens_list(s):
    """True if a brace after this text opens an initialiser or an enum, not a block."""
    s = s.rstrip()
    return s.endswith(("=", ",", "(")) or bool(re.search(r"\benum\b[^;{}]*$|\(\s*(?:const\s+)?struct\s+\w+\s*(?:\[\])?\)$", s))


def check(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    lists, before, found = [], "", 0
    for start, s, end in pieces(blank(text)):
        # The rest of a declaration after an initialiser or a struct: "}, next = 0;" or "} a, b;".
        is_rest = before == "}" and not s.startswith("\n") and s.strip()
        in_list = bool(lists) and lists[-1]
        before = end
        body = re.sub(r"(\w)<[^<>;]*>\(", r"\1(", without_heads(s))  # without arguments of templates
        is_declaration = WORDS.match(body) or TYPE_AND_NAME.match(body)
        if end == ";" and not in_list and not is_rest and not is_declaration and has_comma(body):
            line = text.count("\n", 0, start + len(s) - len(s.lstrip())) + 1
            print(f"{path}:{line}: {' '.join(body.split())[:60]}: write one statement per expression", file=sys.stderr)
            found += 1
        if end == "{":
            lists.append(in_list or opens_list(s))
        elif end == "}" and lists:
            lists.pop()
    return found


if __name__ == "__main__":
    sys.exit(1 if sum(check(path) for path in sys.argv[1:]) else 0)
