#!/usr/bin/env python3
"""Prints the three ledgers of one step side by side, per pipeline stage.

usage: ledgers.py PREDICTED COUNTED MEASURED

PREDICTED is `shardwright predict --json`, COUNTED is
`shardwright-opt --sw-count-ledger=json`, MEASURED the output of the program
with `--json`. Exits 2 if a number differs.
"""
import json
import sys


def rows_of(entry):
    """A ledger entry as {name: number}."""
    rows = {}
    for call in entry["collectives"]:
        name = f"{call['collective']} {call['axis']} {call['phase']}"
        rows[name + ", calls"] = call["calls"]
        rows[name + ", bytes"] = call["payload_bytes"]
    for phase, flops in entry["flops"].items():
        rows[f"flops {phase}"] = flops
    for part, size in entry.get("memory", {}).items():
        rows[f"memory {part.removesuffix('_bytes')}, bytes"] = size
    rows.pop("memory total, bytes", None)
    return rows


def by_stage(entries):
    stages = {}
    for number, entry in enumerate(entries):
        # Entries without a stage stand in the order of the stages.
        stages.setdefault(entry.get("stage", number), rows_of(entry))
    return stages


def documents(text):
    """The JSON values that stand one after the other in `text`."""
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        value, position = decoder.raw_decode(text, position)
        yield value


def predicted_of(document):
    stages = by_stage(document["ledger"])
    for memory in document["memory"]:
        for part, size in memory["parts"].items():
            if part != "framework":  # lies outside the arena
                stages[memory["stage"]][f"memory {part}, bytes"] = size
    return stages


def main(predicted_path, counted_path, measured_path):
    with open(predicted_path, encoding="utf-8") as file:
        predicted = predicted_of(json.load(file))
    with open(counted_path, encoding="utf-8") as file:
        counted = by_stage(documents(file.read()))
    with open(measured_path, encoding="utf-8") as file:
        summary = [line for line in documents(file.read())
                   if "summary" in line][-1]["summary"]
    measured = by_stage(summary["ledger"])

    different = 0
    for stage in sorted(set(predicted) | set(counted) | set(measured)):
        columns = [ledger.get(stage, {})
                   for ledger in (predicted, counted, measured)]
        names = list(dict.fromkeys(name for column in columns
                                   for name in column))
        print(f"stage {stage:<42}{'predicted':>15}{'counted':>15}"
              f"{'measured':>15}")
        for name in names:
            numbers = [column.get(name, 0) for column in columns]
            same = len(set(numbers)) == 1
            different += not same
            print(f"  {name:<46}" + "".join(f"{n:>15,}" for n in numbers)
                  + ("" if same else "  differ"))
        print()
    print("the three ledgers agree" if not different
          else f"{different} numbers differ")
    return 2 if different else 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        sys.exit(5)
    sys.exit(main(*sys.argv[1:]))
