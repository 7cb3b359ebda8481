"""compare_rows.py REPORT FIELD CLAIM...: holds rows of `validate --json` against
one another. A claim is two ids with < or = between them."""
import json
import re
import sys

report, field, *claims = sys.argv[1:]
with open(report, encoding="utf-8") as text:
    rows = {row["id"]: row for row in json.load(text)["rows"]}


def value(row):
    found = rows[row]
    for key in field.split("."):
        found = found[key]
    return found


for claim in claims:
    left, sign, right = re.fullmatch(r"(\w+)([<=])(\w+)", claim).groups()
    a, b = value(left), value(right)
    equal = abs(a - b) <= 1e-9 * abs(b)
    if not (equal if sign == "=" else a < b and not equal):
        sys.exit(f"{claim}: {field} is {a} and {b}")
