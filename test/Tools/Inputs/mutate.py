"""mutate.py FILE OUT KEY=VALUE...: copies a JSON file with keys changed.

Keys joined by dots; a value is JSON; `KEY=` removes the key; `+KEY=VALUE` adds
one that may not exist yet.
"""
import json
import sys

with open(sys.argv[1]) as file:
    document = json.load(file)
for argument in sys.argv[3:]:
    path, _, text = argument.partition("=")
    new = path.startswith("+")
    parts = path.lstrip("+").split(".")
    target = document
    for part in parts[:-1]:
        target = target[int(part)] if isinstance(target, list) else target[part]
    key = int(parts[-1]) if isinstance(target, list) else parts[-1]
    if not new and not isinstance(target, list) and key not in target:
        sys.exit(f"{path}: not in {sys.argv[1]}")
    if text == "":
        del target[key]
    else:
        target[key] = json.loads(text)
with open(sys.argv[2], "w") as file:
    json.dump(document, file)
