"""stopped.py WHOLE PART: whether a search that was stopped told the truth."""
import json
import sys

whole, part = (json.load(open(path)) for path in sys.argv[1:])
search = part["search"]
assert whole["search"]["proven"] and whole["search"]["meshes_not_counted"] == 0
assert search["considered"] == (search["pruned"] + search["does_not_fit"] + search["evaluated"]
                                + search["open"])
best = whole["plans"][0]["step_time_seconds"]
found = part["plans"][0]
assert found["fits"] and found["step_time_seconds"] >= best
if search["proven"]:
    assert part["plans"] == whole["plans"]
else:
    assert search["open_bound_seconds"] <= best
    assert search["open"] > 0 or search["meshes_not_counted"] > 0
if search["meshes_not_counted"] == 0:
    assert search["considered"] == whole["search"]["considered"]
