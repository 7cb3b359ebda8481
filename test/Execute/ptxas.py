#!/usr/bin/env python3
"""ptxas must take every kernel of every model, without spills.

Compiles every example and every golden model for each GPU, in f32 and bf16,
and assembles the PTX; for one of them also with gradients in bf16. Where there is
no ptxas the PTX is made and searched for calls of functions that it does not
define, and the test says that it is not assembled.

  ptxas.py --shardwright BIN --work DIR [--jobs N]
"""
import argparse
import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHS = ["sm_80", "sm_90", "sm_100"]
# (type, that of gradients, GPU). Kernels that add to gradients are the same in
# PTX but for a load, a rounding and a store: one GPU shows them.
CASES = [(dtype, "f32", arch) for dtype in ("f32", "bf16") for arch in ARCHS] + [
    ("bf16", "bf16", "sm_90")]


def assembler():
    for place in (None, "/usr/local/cuda/bin"):
        if found := shutil.which("ptxas", path=place):
            return found
    return None


def run(command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=600)


def compiles(arguments, model, dtype, gradients, arch):
    """PTX file of a model; None if the model is one that does not compile."""
    ptx = arguments.work / ("%s-%s-%s-%s.ptx" % (model.parent.name, dtype, gradients, arch))
    sequence = ["--sequence", 64] if "golden" not in model.parts else []
    done = run([arguments.shardwright, "compile", model, "--cluster", "dgx-h100", "--gpus", 1,
                "--global-batch", 2, "--dtype", dtype, "--gradients", gradients,
                "--target", "cuda", "--gpu-arch", arch, "--emit", "ptx", "-o", ptx,
                "--tp", 1, *sequence])
    if done.returncode != 0:
        raise RuntimeError("%s %s: exit %d: %s" % (model, dtype, done.returncode, done.stderr))
    return ptx


def check(arguments, ptxas, model, dtype, gradients, arch):
    """Number of kernels, and problems."""
    ptx = compiles(arguments, model, dtype, gradients, arch)
    text = ptx.read_text()
    entries = re.findall(r"\.visible \.entry ([\w$]+)\(", text)
    problems = ["%s has %s" % (ptx.name, line) for line in text.splitlines() if ".extern" in line]
    if ptxas is None:
        return len(entries), problems
    done = run([ptxas, "-arch=" + arch, "-v", ptx, "-o", ptx.with_suffix(".cubin")])
    if done.returncode != 0:
        return len(entries), ["%s: %s" % (ptx.name, done.stderr.strip()[:500])]
    # Two lines per kernel: its name, then its stack frame and spills.
    found = re.findall(r"Compiling entry function '([^']+)'.*?"
                       r"(\d+) bytes stack frame, (\d+) bytes spill stores, "
                       r"(\d+) bytes spill loads", done.stderr, re.S)
    if sorted(name for name, *_ in found) != sorted(entries):
        problems.append("%s: expected a report on each of %d kernels, but got %d" % (
            ptx.name, len(entries), len(found)))
    for name, stack, stores, loads in found:
        if (stack, stores, loads) != ("0", "0", "0"):
            problems.append("%s: %s has a stack of %s bytes and spills %s + %s" % (
                ptx.name, name, stack, stores, loads))
    return len(entries), problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--model", action="append", help="only these folders")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True)
    ptxas = assembler()
    models = sorted([*ROOT.glob("examples/models/*/config.json"),
                     *ROOT.glob("test/golden/*/config.json")])
    if arguments.model:
        models = [model for model in models if model.parent.name in arguments.model]
    kernels = failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        futures = [pool.submit(check, arguments, ptxas, model, *case)
                   for model in models for case in CASES]
        for future in futures:
            try:
                count, problems = future.result()
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                count, problems = 0, [str(error)]
            kernels += count
            failed += bool(problems)
            for problem in problems:
                print(problem, flush=True)
    print("ptxas: %d kernels of %d models for %s in f32 and bf16, %s, %d failures" % (
        kernels, len(models), ", ".join(ARCHS),
        "assembled" if ptxas else "NOT assembled: there is no ptxas here", failed))
    return 1 if failed or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
