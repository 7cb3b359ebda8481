#!/usr/bin/env python3
"""The same question gives the same bytes; code does not grow with the job.

Plans, the IR of every phase, objects and executables are made twice: in another
folder, from copies of the inputs at another path, with another number of
cores and another environment. Then `.text` is compared between 2 and 126 layers
and between 2 and 1,024 ranks, in objects and executables: at most 1 % apart.

  reproducible.py --shardwright BIN --work DIR
"""
import argparse
import json
import os
import pathlib
import shutil
import struct
import sys

import parity
import plans

EMITS = ("model", "plan", "spmd", "rt", "llvm", "obj", "exe")


def text_bytes(path):
    """Bytes of all .text sections of a 64-bit ELF file."""
    data = path.read_bytes()
    assert data[:5] == b"\x7fELF\x02", path
    offset, = struct.unpack_from("<Q", data, 0x28)
    entry, count, names = struct.unpack_from("<HHH", data, 0x3a)
    sections = [struct.unpack_from("<IIQQQQ", data, offset + i * entry) for i in range(count)]
    table = sections[names][4]
    total = 0
    for name, _, _, _, _, size in sections:
        begin = table + name
        if data[begin:data.index(b"\0", begin)].startswith(b".text"):
            total += size
    return total


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*")) if path.is_file()}


def make_everything(arguments, model, plan, folder, environment, copy):
    """All artifacts under `folder`, by name."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config, made = model.config, folder / "made"
    if copy:
        # A model is named by its folder.
        config = folder / "inputs" / model.name / "config.json"
        config.parent.mkdir(parents=True)
        shutil.copy(model.config, config)
    made.mkdir()
    plan_path = folder / "given.json"
    plan_path.write_text(json.dumps(plan, indent=4 if copy else None))
    everything = dict(os.environ, **environment)
    # Tools may use as many threads as they see cores.
    allowed = sorted(os.sched_getaffinity(0))
    cores = (lambda: os.sched_setaffinity(0, allowed[-1:])) if copy else None

    def run(*words):
        parity.run([arguments.shardwright, *words], cwd=made, env=everything,
                   preexec_fn=cores)

    cluster = ["--cluster", "dgx-h100", "--gpus", 16, "--global-batch", 64]
    (made / "plans.json").write_text(parity.run(
        [arguments.shardwright, "plan", config, *cluster, "--json", "-o", "best.json"],
        cwd=made, env=everything, preexec_fn=cores))
    for emit in EMITS:
        run("compile", config, "--plan", plan_path, "--emit", emit, "-o", "out." + emit)
    run("compile", config, "--plan", plan_path, "--emit", "rt", "-o", "again.rt", "--dump-dir",
        "dump")
    run("predict", config, "--cluster", "host", "--dtype", "f32", "--gpus", 8, "--tp", 2, "--pp",
        2, "--global-batch", 8, "-o", "predicted.json")
    return files(made)


def bytes_differ(arguments, model):
    problems, count = [], 0
    plan = plans.plan(model.facts, dp=2, tp=2, pp=2, sp=True, zero=1, micro=1, recompute="full")
    here = make_everything(arguments, model, plan, arguments.work / "here", {}, False)
    there = make_everything(
        arguments, model, plan, arguments.work / "some" / "other place",
        {"LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", "HOME": "/nonexistent", "OMP_NUM_THREADS": "7",
         "MALLOC_PERTURB_": "85", "SOURCE_DATE_EPOCH": "1", "COLUMNS": "33"}, True)
    for name in sorted(set(here) | set(there)):
        count += 1
        first, second = here.get(name, b""), there.get(name, b"")
        if first != second:
            at = next((i for i, (a, b) in enumerate(zip(first, second)) if a != b),
                      min(len(first), len(second)))
            problems.append("%s: %d and %d bytes, which differ from byte %d on:\n  %r\n  %r" % (
                name, len(first), len(second), at, first[max(0, at - 40):at + 40],
                second[max(0, at - 40):at + 40]))
    print("bytes: %d files made twice, %d differ" % (count, len(problems)))
    return problems


def with_layers(arguments, model, layers):
    """The model with another number of layers."""
    folder = arguments.work / ("%d-layers" % layers)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    config = json.loads(model.config.read_text())
    config["num_hidden_layers"] = layers
    (folder / "config.json").write_text(json.dumps(config))
    facts = json.loads(parity.run([arguments.shardwright, "inspect", folder, "--sequence",
                                   model.facts["sequence"], "--json"]))
    return folder, {"name": facts["model"], "sha256": facts["sha256"],
                    "sequence": model.facts["sequence"], "layers": layers}


def code_sizes(arguments, model, cases):
    sizes = {}
    for name, layers, layout in cases:
        folder, facts = with_layers(arguments, model, layers)
        path = folder / "plan.json"
        path.write_text(json.dumps(plans.plan(facts, **layout)))
        for emit in ("obj", "exe"):
            output = folder / emit
            parity.run([arguments.shardwright, "compile", folder, "--plan", path, "--emit", emit,
                        "-o", output])
            sizes[name, emit] = text_bytes(output)
    problems = []
    for emit in ("obj", "exe"):
        (first, a), (second, b) = [(case[0], sizes[case[0], emit]) for case in cases]
        print(".text of %s: %d bytes for %s, %d for %s" % (emit, a, first, b, second))
        if abs(a - b) * 100 > max(a, b):
            problems.append("expected .text of %s to be equal within 1 %%, but got %d (%s) and %d "
                            "(%s)" % (emit, a, first, b, second))
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    model = parity.Model(arguments.shardwright, "llama-tiny", arguments.work)
    problems = bytes_differ(arguments, model)
    problems += code_sizes(arguments, model, [
        ("2 layers", 2, dict(micro=2)), ("126 layers", 126, dict(micro=2))])
    problems += code_sizes(arguments, model, [
        ("2 ranks", 24, dict(tp=2, sp=True, zero=1, micro=1, batch=4)),
        ("1024 ranks", 24, dict(dp=64, tp=2, pp=8, sp=True, zero=1, micro=1, batch=256))])
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
