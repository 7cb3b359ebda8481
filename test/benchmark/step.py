#!/usr/bin/env python3
"""The one-rank f32 step of compiled programs against PyTorch's, same threads and BLAS.

Both train the same model from the same bits on the same batches (the losses are
compared) with forward, backward, clipping and AdamW. They take turns: in every
round each makes a few steps while the other waits, so that a busy machine slows
both; the ratio of a round is ours / PyTorch's. Below 1 we are faster.

  step.py --shardwright BIN --work DIR [--rounds 7] [--threads 1 2] [--json FILE]
          [--model tiny-llama llama-25m]

Wants /usr/bin/python3 with torch and numpy (Debian: python3-torch), whose BLAS is
the OpenBLAS that compiled programs link.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "Execute"))
import plans  # noqa: E402

MODELS = {  # folder, sequence, batch, steps of a round
    "tiny-llama": (ROOT / "examples" / "models" / "tiny-llama", 128, 8, 8),
    "llama-25m": (HERE / "llama-25m", 256, 4, 3),
}
SEED = 7
DATA = ROOT / "test" / "golden" / "corpus.txt"
TICK = os.sysconf("SC_CLK_TCK")


def check_output(command, **arguments):
    return subprocess.run([str(word) for word in command], check=True, text=True,
                          stdout=subprocess.PIPE, **arguments).stdout


class Ours:
    """A compiled program that runs from the start in every round; the first
    step of a round is not counted."""

    def __init__(self, shardwright, name, work, threads):
        folder, sequence, batch, _ = MODELS[name]
        config = folder / "config.json"
        facts = json.loads(check_output([shardwright, "inspect", config, "--sequence", sequence,
                                         "--json"]))
        plan = plans.plan({"name": facts["model"], "sha256": facts["sha256"],
                           "sequence": sequence, "layers": facts["layers"]},
                          micro=batch, batch=batch, dtype="f32")
        path, self.program = work / (name + ".plan.json"), work / (name + ".exe")
        path.write_text(json.dumps(plan))
        check_output([shardwright, "compile", config, "--plan", path, "-o", self.program])
        self.flags = ["--data", DATA, "--seed", SEED, "--threads", threads, "--json"]
        self.dump = work / (name + ".initial.safetensors")
        check_output([self.program, "--steps", 1, "--lr", 0, "--dump", self.dump] + self.flags)

    def run(self, steps):
        command = [self.program, "--steps", steps + 1, "--lr", 1e-3] + self.flags
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                   text=True)
        lines, usage = [], []
        for line in process.stdout:
            lines.append(json.loads(line))
            with open("/proc/%d/stat" % process.pid) as file:
                fields = file.read().rsplit(")", 1)[1].split()
            usage.append((int(fields[11]) / TICK, int(fields[12]) / TICK))
        if process.wait() != 0:
            raise SystemExit("%s: exit code %d" % (self.program, process.returncode))
        user = usage[steps][0] - usage[0][0]
        return {"seconds": [line["seconds"] for line in lines[1:steps + 1]],
                "losses": [line["loss"] for line in lines[:steps + 1]],
                "user_seconds": user, "cpu_seconds": user + usage[steps][1] - usage[0][1]}


class Torch:
    """A process that makes steps when told to; the first round warms it up."""

    def __init__(self, name, dump, threads, foreach):
        folder, sequence, batch, _ = MODELS[name]
        # OpenMP's workers would spin between kernels, and take the core of
        # whoever runs next: waiting asleep is faster on shared cores.
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads),
                           OPENBLAS_NUM_THREADS=str(threads), OMP_WAIT_POLICY="passive")
        command = ["/usr/bin/python3", HERE / "torch_step.py", folder / "config.json", dump, DATA,
                   sequence, batch, SEED, int(foreach)]
        self.process = subprocess.Popen([str(word) for word in command], env=environment,
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, steps):
        self.process.stdin.write("run %d\n" % steps)
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(shardwright, name, work, threads, rounds):
    steps = MODELS[name][3]
    ours = Ours(shardwright, name, work, threads)
    # Let PyTorch have the AdamW that is faster here.
    candidates = [Torch(name, ours.dump, threads, foreach) for foreach in (False, True)]
    warm = [candidate.run(3) for candidate in candidates]
    reference = ours.run(2)["losses"]
    for losses in (warm[0]["losses"], warm[1]["losses"]):
        for expected, got in zip(reference, losses, strict=True):
            if not abs(expected - got) <= 1e-3 * abs(expected):
                raise SystemExit("%s: expected equal losses, but got %s and %s" % (
                    name, reference, losses))
    best = min((0, 1), key=lambda i: min(warm[i]["seconds"]))
    candidates[1 - best].close()
    torch = candidates[best]
    pairs = []
    for index in range(rounds):
        order = (ours, torch) if index % 2 == 0 else (torch, ours)
        results = {id(side): side.run(steps) for side in order}
        pairs.append((results[id(ours)], results[id(torch)]))
    torch.close()
    return summary(name, threads, steps, pairs)


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def summary(name, threads, steps, pairs):
    def per_step(key):
        return [[sum(side[key]) / steps if key == "seconds" else side[key] / steps
                 for side in pair] for pair in pairs]

    result = {"model": name, "threads": threads, "rounds": len(pairs), "steps_of_a_round": steps,
              "sequence": MODELS[name][1], "batch": MODELS[name][2]}
    for key in ("seconds", "user_seconds", "cpu_seconds"):
        values = per_step(key)
        result[key] = {"ours": spread([a for a, _ in values]),
                       "pytorch": spread([b for _, b in values]),
                       "ratio": spread([a / b for a, b in values])}
    fastest = [min(min(pair[side]["seconds"]) for pair in pairs) for side in (0, 1)]
    result["fastest_step"] = {"ours": fastest[0], "pytorch": fastest[1],
                              "ratio": fastest[0] / fastest[1]}
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--model", nargs="+", choices=sorted(MODELS), default=list(MODELS))
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    results = []
    print("%-11s %7s  %21s  %21s  %s" % ("model", "threads", "ours: wall, user ms",
                                         "PyTorch: wall, user ms",
                                         "ratio: wall (min..max), user (min..max), fastest step"))
    for name in arguments.model:
        for threads in arguments.threads:
            r = measure(arguments.shardwright, name, arguments.work, threads, arguments.rounds)
            results.append(r)
            wall, user = r["seconds"], r["user_seconds"]
            print("%-11s %7d  %10.1f %10.1f  %10.1f %10.1f   %.2f (%.2f..%.2f), %.2f (%.2f..%.2f),"
                  " %.2f" % (
                      name, threads, wall["ours"]["median"] * 1e3, user["ours"]["median"] * 1e3,
                      wall["pytorch"]["median"] * 1e3, user["pytorch"]["median"] * 1e3,
                      wall["ratio"]["median"], wall["ratio"]["min"], wall["ratio"]["max"],
                      user["ratio"]["median"], user["ratio"]["min"], user["ratio"]["max"],
                      r["fastest_step"]["ratio"]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
