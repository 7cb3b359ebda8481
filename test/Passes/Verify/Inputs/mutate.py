"""Deletes or doubles one all-reduce of a module: mutate.py HOW NUMBER FILE."""
import re
import sys

how, number, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
lines = open(path).read().split("\n")
seen = -1
for index, line in enumerate(lines):
    match = re.match(r"(\s*)(%[\w#]+) = spmd\.all_reduce (%[\w#]+) (.*)", line)
    if not match:
        continue
    seen += 1
    if seen != number:
        continue
    indent, result, operand, rest = match.groups()
    if how == "double":
        lines[index:index] = [f"{indent}%twice = spmd.all_reduce {operand} {rest}"]
    else:
        # Its users read what it would have reduced.
        del lines[index]
        for later in range(index, len(lines)):
            if lines[later].strip() == "}":
                break
            lines[later] = re.sub(re.escape(result) + r"(?!\w)", operand,
                                  lines[later])
    print("\n".join(lines))
    sys.exit(0)
sys.exit(f"{path} has no all-reduce number {number}")
