"""keys.py FILE PATH...: fails unless the JSON in FILE has every PATH.

A path is keys joined by dots; `*` stands for every element of a non-empty
array or object; `=VALUE` behind a path wants that value (as JSON).
"""
import json
import sys


def select(value, parts):
    if not parts:
        return [value]
    head, rest = parts[0], parts[1:]
    if head == "*":
        children = list(value.values() if isinstance(value, dict) else value)
        if not children:
            raise KeyError("*: nothing in it")
        return [found for child in children for found in select(child, rest)]
    if isinstance(value, list):
        return select(value[int(head)], rest)
    return select(value[head], rest)


with open(sys.argv[1]) as file:
    document = json.load(file)
failed = False
for argument in sys.argv[2:]:
    path, _, wanted = argument.partition("=")
    try:
        found = select(document, path.split("."))
    except (KeyError, IndexError, TypeError) as error:
        print(f"{path}: missing ({error!r})")
        failed = True
        continue
    if wanted and any(value != json.loads(wanted) for value in found):
        print(f"{path}: expected {wanted}, but got {found}")
        failed = True
sys.exit(1 if failed else 0)
