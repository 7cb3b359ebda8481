"""parts.py EXPRESSION REPORT...: holds an expression over the memory of the first
stage of reports, which are a, b, c, ... in their order: a.parameters, b.total."""
import json
import sys
import types

stages = {}
for letter, path in zip("abcdefgh", sys.argv[2:]):
    with open(path) as file:
        first = json.load(file)["memory"][0]
    stages[letter] = types.SimpleNamespace(**first["parts"],
                                           total=first["total_bytes"])
if not eval(sys.argv[1], {"abs": abs}, stages):
    sys.exit(f"not so: {sys.argv[1]}: {stages}")
