"""calculator.py FILE: recomputes every line of `predict --explain --json`.

A formula is an expression over the names of its inputs; its value has to be the
line's, up to the rounding of a printed double.
"""
import json
import sys

document = json.load(open(sys.argv[1]))
explanation = document["explanation"]
checked = 0
for name, part in explanation["parts"].items():
    for line in part["lines"]:
        value = eval(line["formula"], {"__builtins__": {}, "min": min,
                                       "max": max}, dict(line["inputs"]))
        error = abs(value - line["value"])
        scale = max([abs(line["value"])] +
                    [abs(x) for x in line["inputs"].values()
                     if line["formula"].count("-")])
        assert error <= 1e-9 * scale + 1e-15, (name, line, value)
        checked += 1
assert checked >= 20, checked

# The terms that are explained are the terms of the estimate.
terms = {line["name"]: line["value"]
         for line in explanation["parts"]["terms"]["lines"]}
assert terms.keys() == document["terms"].keys(), terms.keys()
for name, seconds in document["terms"].items():
    assert abs(terms[name] - seconds) <= 1e-9 * max(seconds, 1e-9), name

# Nothing hides more than there is of it.
for line in explanation["parts"].get("overlap", {"lines": []})["lines"]:
    total, hidden = (line["inputs"][key] for key in ("total", "hidden"))
    assert -1e-9 * total <= hidden <= total * (1 + 1e-9), line

# Collectives are those of the ledger of one stage (of a ring the sends), and their
# times their sum.
for line in explanation["collectives"]:
    assert line["calls"] > 0 and line["seconds_per_call"] >= 0
    assert abs(line["seconds"] - line["calls"] * line["seconds_per_call"]) \
        <= 1e-9 * line["seconds"] + 1e-15
    assert (line["nic_bytes_per_call"] > 0) == \
        (line["nodes"] > 1 and line["collective"] != "recv"), line
keys = [(c["collective"], c["axis"], c["phase"])
        for c in explanation["collectives"]]
assert any(keys == [(c["collective"], c["axis"], c["phase"])
                    for c in stage["collectives"]
                    if (c["collective"], c["axis"]) != ("recv", "cp")]
           for stage in document["ledger"])
assert explanation["defaults"] is not None
print("checked", checked)
