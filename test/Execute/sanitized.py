#!/usr/bin/env python3
"""Compiled programs with a sanitized runtime: ranks as threads, no finding.

A compiler of another build tree makes the objects, and they are linked with a
runtime that is built with sanitizers. Generated kernels are not instrumented:
what is watched is all that the runtime does, collectives and the steps' state
above all. A finding ends a program with the sanitizer's exit code.

  sanitized.py --shardwright BIN --cxx C++ --runtime libshardwright_rt.a
               --sanitize thread --work DIR
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

import parity
import plans

STEPS = 2
MODELS = ("llama-tiny", "gpt2-tiny")


def check(model, plan, arguments):
    path, object_file = model.path(plan, ".plan.json"), model.path(plan, ".o")
    program = model.path(plan, ".sanitized.exe")
    path.write_text(json.dumps(plan))
    parity.run([model.shardwright, "compile", model.config, "--plan", path, "--emit", "obj",
                "-o", object_file])
    parity.run([arguments.cxx, "-fsanitize=" + arguments.sanitize, "-o", program, object_file, arguments.runtime,
                "-lopenblas", "-lmvec", "-lm", "-ldl", "-pthread"])
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")
    words = [program, "--ranks", parity.ranks_of(plan), "--steps", STEPS, "--timeout", 120]
    done = subprocess.run([str(word) for word in words + model.training], capture_output=True,
                          text=True, timeout=600, env=environment)
    if done.returncode == 0 and "Sanitizer" not in done.stderr:
        return ""
    return "exit code %d\n%s" % (done.returncode, done.stderr[:4000])


def main():
    parser = argparse.ArgumentParser()
    for name in ("shardwright", "cxx", "runtime", "sanitize"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    failed = count = 0
    for name in MODELS:
        model = parity.Model(arguments.shardwright, name, arguments.work)
        for plan in plans.few(model.facts, parity.BATCH):
            count += 1
            problem = check(model, plan, arguments)
            if problem:
                failed += 1
                print("%s %s\n  %s" % (name, plans.describe(plan), problem), flush=True)
    print("sanitized: %d programs, %d failed" % (count, failed))
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
