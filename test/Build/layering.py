#!/usr/bin/env python3
"""Checks that every #include goes to a lower layer (README.md, map of the tree).

usage: layering.py ROOT | layering.py --self-test
"""
import os
import re
import sys

LAYERS = {"cost_model": 0, "runtime": 0, "dialects": 1, "passes": 2,
          "compiler": 3, "tools": 4}
# Folders of one layer do not see each other; these of equal number would.
PURE = ("cost_model", "runtime")
# The IR may know what an op computes, not how fast or under which plan.
DIALECTS_SEE = {"cost_model/IterationSpace.h", "cost_model/Units.h"}
# Headers through which plain C++ uses MLIR code.
NO_MLIR = {"compiler/Driver/Compile.h", "compiler/Driver/Load.h"}
# JSON is read in few files, so that schemas have one home.
JSON_MAY = re.compile(r"cost_model/\w+/\w*Json\w*\.(cpp|h)$|"
                      r"runtime/|compiler/|tools/|test/")
# The rooms of the cost model; each sees itself and those before it.
ROOMS = ("base", "program", "plan", "rules", "schedule", "partition",
         "hardware", "launch", "estimate", "search", "validation")
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')


def room_of(path):
    """Index of the room of a path; -1 for files of cost_model itself."""
    room = path.split("/")[1]
    return ROOMS.index(room) if room in ROOMS else -1


def rooms_up(path, included):
    return room_of(included) > room_of(path)


def problems_of(path, lines):
    top = path.split("/")[0]
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        included = match.group(1)
        where = f"{path}:{number}: "
        target = included.split("/")[0]
        if target in ("mlir", "llvm", "llvm-c", "mlir-c"):
            if top in PURE:
                yield f"{where}expected no include of {target} from {top}"
            elif path in NO_MLIR and target == "mlir":
                yield f"{where}expected no include of mlir from {path}"
        elif target == "nlohmann":
            if not JSON_MAY.match(path):
                yield (f"{where}expected nlohmann only in files named Json, "
                       f"but got {included}")
        elif top == target == "cost_model" and rooms_up(path, included):
            yield (f"{where}expected {path.split('/')[1]} to include of "
                   f"cost_model only rooms before it, but got {included}")
        elif target in LAYERS and "/" in included and target != top:
            if LAYERS[target] >= LAYERS[top]:
                yield (f"{where}expected no include of {target} (layer "
                       f"{LAYERS[target]}) from {top} (layer {LAYERS[top]})")
            elif (top == "dialects" and target == "cost_model"
                  and included not in DIALECTS_SEE):
                yield (f"{where}expected dialects to include of cost_model "
                       f"only {', '.join(sorted(p.split('/')[1] for p in DIALECTS_SEE))}, "
                       f"but got {included}")


def sources(root):
    for top in LAYERS:
        for folder, folders, files in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(files):
                if name.endswith((".h", ".cpp", ".c", ".td", ".inc", ".cu")):
                    path = os.path.join(folder, name)
                    yield os.path.relpath(path, root), path


SELF_TEST = {
    "cost_model/Bad.cpp": ['#include "dialects/Model/IR/ModelOps.h"'],
    "dialects/Bad.h": ['#include "cost_model/plan/Plan.h"'],
    "dialects/Good.h": ['#include "cost_model/IterationSpace.h"'],
    "runtime/Bad.cpp": ['#include "cost_model/plan/Plan.h"'],
    "cost_model/plan/Bad.cpp": ['#include "cost_model/search/Search.h"'],
    "cost_model/search/Good.cpp": ['#include "cost_model/plan/Plan.h"'],
    "cost_model/Heavy.cpp": ['#include "mlir/IR/BuiltinOps.h"'],
    "compiler/Driver/Compile.h": ['#include "mlir/IR/BuiltinOps.h"'],
    "cost_model/Parse.cpp": ["#include <nlohmann/json.hpp>"],
    "tools/Good.cpp": ['#include "compiler/Driver/Compile.h"'],
}


def main(argument):
    problems, seen = [], 0
    if argument == "--self-test":
        for path, lines in SELF_TEST.items():
            problems += problems_of(path, lines)
    else:
        for relative, path in sources(argument):
            seen += 1
            with open(path, encoding="utf-8") as file:
                problems += problems_of(relative, file)
        print(f"{seen} files")
        if seen == 0:
            problems.append(f"{argument}: expected sources, but got none")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        sys.exit(5)
    sys.exit(main(sys.argv[1]))
