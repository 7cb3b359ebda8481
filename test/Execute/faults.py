#!/usr/bin/env python3
"""What goes wrong with real programs: one message, the documented exit code,
in time, and no file half written.

  faults.py --shardwright BIN --cxx C++ --interpose O --runtime A --work DIR
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import interposed
import parity
import plans

NO, UNSUPPORTED, INPUT, USAGE = 2, 3, 4, 5
DEADLINE = 5
ALLOWED = DEADLINE + 5


class Checks:
    def __init__(self, folder):
        self.count, self.problems, self.folder = 0, [], folder
        self.named = set()  # names of entries of the catalogue behind messages

    def files(self):
        return {path.relative_to(self.folder): path.read_bytes() if path.is_file() else None
                for path in self.folder.rglob("*")}

    def run(self, what, command, code, message, environment=None, seconds=60, mpi=False,
            begins=False, messages=1):
        """Runs `command` in a folder that it must leave as it was.

        `begins`: it prints steps before it fails; else stdout stays empty.
        Under MPI the launcher adds words of its own, so only ours are counted.
        """
        self.count += 1
        before, start = self.files(), time.monotonic()
        everything = dict(os.environ, OPENBLAS_NUM_THREADS="1", **(environment or {}))
        if mpi:
            everything.update(parity.MPI_ENVIRONMENT)
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              cwd=self.folder, env=everything, timeout=120)
        took = time.monotonic() - start
        said = [line for line in done.stderr.splitlines() if not mpi or "error: " in line]
        self.named |= set(re.findall(r"error: .* \[(\w+)\]$", done.stderr, re.M))
        found = []
        if done.returncode != code and not (code is None and done.returncode != 0):
            found.append("expected exit code %s, but got %d" % (code, done.returncode))
        if message and not re.search(message, done.stderr):
            found.append("expected a message like '%s'" % message)
        if messages and len(said) != messages:
            found.append("expected %d lines on stderr, but got %d" % (messages, len(said)))
        if done.stdout and not begins:
            found.append("expected nothing on stdout")
        if took > seconds:
            found.append("expected an end within %g s, but it took %.1f s" % (seconds, took))
        after = self.files()
        for path in sorted(set(before) | set(after)):
            if before.get(path) != after.get(path) or (path in before) != (path in after):
                found.append("expected '%s' to stay as it was" % path)
        if found:
            self.problems.append("%s:\n  %s\n  stdout: %s\n  stderr: %s" % (
                what, "\n  ".join(found), done.stdout[-500:], done.stderr[-1500:]))


def program_faults(checks, program, ranks, sequence, has_mpi):
    data = ["--data", parity.GOLDEN / "corpus.txt"]
    mpirun = ["mpirun.openmpi", "-n", ranks]
    kept = checks.folder / "kept.safetensors"
    kept.write_text("what was here before")
    run = [program, "--steps", 3, "--timeout", DEADLINE, "--dump", kept, "--trace", "run.trace",
           *data]
    stalled = "error: .*expected rank 1 to join"
    checks.run("a stalled rank", run, NO, stalled, interposed.fault("stall", 1, 100), ALLOWED,
               begins=True)
    if has_mpi:
        # Processes see who is absent from their own call, not whom it waits for: which
        # of them times out first is a race.
        checks.run("a stalled rank under MPI", mpirun + run, NO,
                   "error: .*expected rank [13] to join",
                   interposed.fault("stall", 1, 100), ALLOWED, mpi=True, begins=True)
        checks.run("a killed rank under MPI", mpirun + run, None, r"rank 1\b",
                   interposed.fault("kill", 1), ALLOWED, mpi=True, begins=True, messages=None)
    for word, size in (("no data", 0), ("too little data", sequence + 1)):
        short = checks.folder / "short.txt"
        short.write_bytes(b"x" * size)
        checks.run(word, [program, "--data", short], INPUT, "short.txt.*%d.*but got %d" % (
            sequence + 2, size))
    tokens = checks.folder / "wide.bin"
    tokens.write_bytes(b"\xff\xff" * 400)
    checks.run("tokens outside the vocabulary", [program, "--data", tokens], INPUT,
               "vocabulary.*but got 65535")
    (checks.folder / "odd.bin").write_bytes(b"\0" * 801)
    checks.run("half a token", [program, "--data", "odd.bin"], INPUT, "odd.bin")
    checks.run("no such data", [program, "--data", "none.txt"], INPUT, "none.txt")
    checks.run("data that is a folder", [program, "--data", "."], INPUT, r"'\.'")
    checks.run("no --data", [program], USAGE, "--data")
    checks.run("a checkpoint that is none", [program, "--load", "odd.bin", *data], INPUT,
               "expected 'odd.bin' to be a safetensors file")
    for got in (1, ranks - 1, ranks + 1):
        message = "expected --ranks to equal the plan's %d ranks .*but got %d" % (ranks, got)
        checks.run("%d ranks" % got, [program, "--ranks", got, *data], USAGE, message)
    if has_mpi:
        checks.run("other ranks under MPI", ["mpirun.openmpi", "-n", ranks - 1, program, *data],
                   USAGE, "expected mpirun -n to equal the plan's %d ranks" % ranks, mpi=True)
    for flag in ("--dump", "--trace", "--save"):
        for path in ("no/such/folder/file", "."):
            checks.run("%s %s" % (flag, path), [program, flag, path, *data], USAGE,
                       "expected %s to be a file that can be written, but '%s' is not" % (
                           flag, re.escape(path)))
    for words, message in (
            (["--stpes", 3], "--stpes"), (["--steps"], "--steps"), (["--steps", "0"], "--steps.*0"),
            (["--steps", "3x"], "3x"), (["--lr", "nan"], "nan"), (["--lr", "-1"], "-1"), (["--beta1", "1"], "below 1"),
            (["--json=yes"], "--json"), (["extra"], "extra"), (["--timeout", "0"], "--timeout"),
            (["--ranks", "99999999999999999999"], "--ranks"),
            (["--dry-run", "--rank", ranks], "--rank.*%d" % ranks),
            (["--rank", 0], "expected --dry-run beside --rank"),
            (["--save-every", 2], "expected --save FILE beside --save-every"),
            (["--save", "a.file", "--dump", "./a.file"], "--dump to be another file than --save"),
            (["--lr-decay", "cubic"], "constant, linear or cosine.*cubic"),
            (["--min-lr", "1e-5"], "expected --lr-decay linear or cosine beside --min-lr"),
            (["--lr-decay-steps", "4"], "--lr-decay linear or cosine beside --lr-decay-steps"),
            (["--lr-decay", "linear", "--min-lr", "1"], "--min-lr to be at most the 3e-04 of --lr, but got 1"),
            (["--lr-decay", "linear", "--lr-decay-steps", "4", "--lr-warmup-steps", "4"],
             "--lr-decay-steps to be above the 4 of --lr-warmup-steps, but got 4")):
        checks.run(" ".join(map(str, words)), [program, *data, *words], USAGE, message)


def numbers(checks, program):
    """Steps that end in no number."""
    data = ["--data", parity.GOLDEN / "corpus.txt"]
    checks.run("a learning rate out of this world", [program, "--lr", "1e308", *data], NO,
               "expected loss and gradient norm of step", begins=True)


def launchers(checks, program):
    """Variables of torchrun that say half of what they have to."""
    checks.run("half a launcher", [program, "--data", parity.GOLDEN / "corpus.txt"], USAGE, "RANK",
               {"WORLD_SIZE": "4"})


# runtime/cts/tiny/TrainFaultsTest.cpp provokes the first two: a program for a device, a
# damaged arena. A sanitizer takes what few_threads() needs, and no launcher of MPI comes without
# its library: runtime/cts/FaultsTest.cpp names both.
ELSEWHERE = {"run_defect", "run_unsupported", "run_memory", "run_no_mpi"}


def catalogue(checks, shardwright):
    """Every entry of section Programs was behind a message."""
    entries = json.loads(parity.run([shardwright, "diagnostics", "--json"]))
    known = {entry["name"] for entry in entries if entry["section"] == "Programs"}
    if not known:
        checks.problems.append("expected entries of section Programs")
    for name in sorted(known - checks.named - ELSEWHERE):
        checks.problems.append("nothing provokes %s" % name)
    for name in sorted(n for n in checks.named if n.startswith("run_")):
        if name not in known:
            checks.problems.append("%s is no entry of the catalogue" % name)


def full_disk(checks, program, trace):
    """A device that is always full takes the output."""
    shell = ["sh", "-c", 'exec "$0" "$@" > /dev/full', program]
    train = ["--steps", 1, "--data", parity.GOLDEN / "corpus.txt"]
    for words in (["--dry-run"], ["--help"], train, [*train, "--json"]):
        checks.run("stdout is full: %s" % words[0], shell + words, USAGE, "stdout")
    checks.run("the trace is full", [program, *train, "--trace", trace], USAGE,
               "expected --trace to be a file that can be written, but '%s' is not" % trace)
    # A file system with room for the start of it: said at the end, and nothing is left.
    limited = ["sh", "-c", 'ulimit -f 1; exec "$0" "$@"', program]
    checks.run("no room for the trace", [*limited, *train, "--trace", "half.trace"], INPUT,
               "expected to write the trace 'half.trace', but the system refused: File too large",
               begins=True)


def few_threads(checks, program, ranks):
    """Stacks so large that there is no room for one a rank."""
    limited = ["sh", "-c", 'ulimit -S -s 4194304; ulimit -v 7340032; exec "$0" "$@"', program]
    checks.run("no thread for a rank", [*limited, "--data", parity.GOLDEN / "corpus.txt"], NO,
               r"expected %d threads, one a rank, but the system gave \d: .* \[run_memory\]" % ranks)


def with_changes(plan, **changes):
    value = json.loads(json.dumps(plan))
    for path, new in changes.items():
        place, keys = value, path.split("__")
        for key in keys[:-1]:
            place = place[key]
        if new is None:
            del place[keys[-1]]
        else:
            place[keys[-1]] = new
    return value


def compile_faults(checks, model, other, plan):
    path = checks.folder / "plan.json"
    command = [model.shardwright, "compile", model.config, "--plan", path, "-o"]

    def refuses(what, text, code, message, **more):
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        checks.run(what, [*command, "program"], code, message, **more)

    refuses("plan of another model", plans.plan(other.facts), INPUT,
            "plan.json.*sha256|plan.json.*model", messages=None)
    refuses("unknown key", with_changes(plan, colour="red"), INPUT, "plan.json#/colour")
    refuses("missing key", with_changes(plan, parallel__zero=None), INPUT,
            "plan.json#/parallel/zero.*missing")
    for version in ("shardwright.plan/2", "shardwright.plan/", "else/1", 1):
        refuses("schema %s" % version, with_changes(plan, schema=version), INPUT,
                "plan.json#/schema")
    refuses("cut plan", json.dumps(plan)[:200], INPUT, "plan.json.*JSON")
    refuses("empty plan", "", INPUT, "plan.json")
    refuses("key twice", json.dumps(plan).replace('"schema"', '"schema": "x", "schema"', 1), INPUT,
            "plan.json.*schema")
    for value in (0, -2, 2.5, "2", 1 << 40, [2]):
        refuses("tp %s" % value, with_changes(plan, parallel__tp=value), INPUT, "plan.json.*tp",
                messages=None)
    refuses("several rules at once",
            with_changes(plans.plan(model.facts, tp=3, micro=3, batch=8, pp=2)), INPUT,
            "(?s)heads.*batch|batch.*heads", messages=None)
    refuses("more stages than layers", plans.plan(model.facts, pp=2, layers=[0, 0]), INPUT,
            "plan.json", messages=None)
    refuses("f16", plans.plan(model.facts, dtype="f16"), UNSUPPORTED,
            "plan.json#/dtypes/compute: expected f32, f64 or bf16")
    path.unlink()
    checks.run("no such plan", [*command, "program"], INPUT, "plan.json")
    path.write_text(json.dumps(plan))
    for output in ("no/such/program", "."):
        checks.run("-o %s" % output, [*command, output], USAGE, re.escape(output))
    for emit in ("exe", "obj", "rt"):
        checks.run("-o no/such --emit %s" % emit, [*command, "no/such", "--emit", emit], USAGE,
                   "no/such")
    checks.run("--dump-dir on a file", [*command, "program", "--dump-dir", path], USAGE,
               "plan.json")
    (checks.folder / "program").write_text("an older program")
    path.write_text("{}")
    checks.run("a failure leaves the older program", [*command, "program"], INPUT, "plan.json",
               messages=None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    interposed.add_arguments(parser)
    arguments = parser.parse_args()
    model = parity.Model(arguments.shardwright, "llama-tiny", arguments.work)
    other = parity.Model(arguments.shardwright, "gpt2-tiny", arguments.work)
    plan = plans.plan(model.facts, dp=2, pp=2, micro=2, batch=8)
    program = interposed.link(model, plan, arguments)
    folder = arguments.work / "folder"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    checks = Checks(folder)
    compile_faults(checks, model, other, plan)
    has_mpi = shutil.which("mpirun.openmpi") is not None
    program_faults(checks, program, parity.ranks_of(plan), plan["batch"]["sequence"], has_mpi)
    full_disk(checks, program, "/dev/full")
    if not arguments.sanitize:  # which takes all addresses
        few_threads(checks, program, parity.ranks_of(plan))
    numbers(checks, program)
    launchers(checks, program)
    catalogue(checks, model.shardwright)
    print("\n".join(checks.problems))
    print("faults: %d tried%s, %d not handled as documented" % (
        checks.count, "" if has_mpi else " (without MPI)", len(checks.problems)))
    return 1 if checks.problems else 0


if __name__ == "__main__":
    sys.exit(main())
