#!/usr/bin/env python3
"""Every plan must train as one rank does, and do exactly what was predicted.

For each plan: compile it, train five steps on host ranks, and compare with the
run of one rank without any sharding: losses, gradient norms, the gradients of
the last step and the parameters after it, in f64 to 1e-10 (Adam's eps at 1e-3,
so that its division does not magnify rounding). In the same run the predicted
ledger (cost model), the counted one (partitioned IR; `compile` refuses to write
a program whose two ledgers differ) and the measured one (the runtime) must be
equal as integers.

  parity.py --shardwright BIN --work DIR
            [--set few|named|random|replicated|interleaved|all] [--count 100] [--seed 1]
            [--model llama-tiny] [--layers N] [--every N] [--mpi N] [--jobs 2]
"""
import argparse
import array
import concurrent.futures
import json
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys
import threading

import plans
import tensors

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
TOLERANCE = 1e-10
STEPS = 5
BATCH = 8
TRAINING = ["--seed", 7, "--lr", 1e-3, "--eps", 1e-3]
MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_btl_base_warn_component_unused": "0",
}


class Broken(Exception):
    pass


def run(command, **arguments):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=600, **arguments)
    if done.returncode != 0:
        raise Broken("%s\nexit code %d\n%s%s" % (" ".join(map(str, command)), done.returncode,
                                                 done.stdout[-2000:], done.stderr[-2000:]))
    return done.stdout


class Model:
    def __init__(self, shardwright, name, work, layers=None):
        """The golden model `name`, of another number of layers if that is given."""
        self.name, self.config = name, GOLDEN / name / "config.json"
        self.shardwright, self.work = shardwright, work / name
        # A program of an earlier compiler must not be taken for one of this.
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        if layers:
            config = json.loads(self.config.read_text())
            config["n_layer" if "n_layer" in config else "num_hidden_layers"] = layers
            self.config = self.work / "config.json"
            self.config.write_text(json.dumps(config))
        sequence = json.loads((GOLDEN / name / "golden.json").read_text())["run"]["sequence"]
        facts = json.loads(run([shardwright, "inspect", self.config, "--sequence", sequence,
                                "--json"]))
        self.facts = {"name": facts["model"], "sha256": facts["sha256"], "sequence": sequence,
                      "layers": facts["layers"],
                      "heads": facts["heads"], "kv_heads": facts["kv_heads"],
                      "ffn": facts["ffn"],
                      "kinds": [kind for kind, count in facts["stack"][1:-1]
                                for _ in range(count)]}
        self.training = TRAINING + ["--data", self.tokens(facts["vocab"])]

    def tokens(self, vocab):
        """A file of drawn tokens. Half of them are the last of the vocabulary:
        in a text all bytes could lie on the first rank of a sharded one."""
        generator = random.Random(11)
        drawn = array.array("H", (generator.randrange(vocab) if generator.random() < 0.5
                                  else vocab - 1 - generator.randrange(4) for _ in range(4096)))
        path = self.work / "tokens.bin"
        path.write_bytes(drawn.tobytes())
        return path

    def path(self, plan, suffix):
        types = plan["dtypes"]
        return self.work / ("%s-%s-%s%s" % (plans.describe(plan), types["compute"],
                                            types["grad"], suffix))

    def compile(self, plan, *flags):
        """The program of `plan`, which is also left as a file beside it."""
        program, path = self.path(plan, ".exe"), self.path(plan, ".plan.json")
        path.write_text(json.dumps(plan))
        run([self.shardwright, "compile", self.config, "--plan", path, "-o", program, *flags])
        return program

    def train(self, program, ranks, mpi=False, steps=STEPS, environment=None):
        """Steps, tensors, summary and the bytes of the tensors' file."""
        # Threads of a script may run one program at the same time.
        dump = "%s.%d.safetensors" % (program, threading.get_ident())
        command = [program, "--steps", steps, "--dump", dump, "--json", "--timeout", 60]
        command += self.training
        environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", **(environment or {}))
        if mpi:
            environment.update(MPI_ENVIRONMENT)
            command = ["mpirun.openmpi", "-n", ranks] + command
        else:
            command += ["--ranks", ranks]
        lines = [json.loads(line) for line in run(command, env=environment).splitlines()]
        result, bits = tensors.read(dump), pathlib.Path(dump).read_bytes()
        os.unlink(dump)
        return lines[:-1], result, lines[-1]["summary"], bits


def ranks_of(plan):
    return math.prod(plan["parallel"][axis] for axis in ("dp", "tp", "pp"))


def numbers_differ(reference, steps, found):
    """Messages for every loss, norm and tensor that is not the reference's."""
    problems = []
    for expected, got in zip(reference[0], steps, strict=True):
        for key in ("loss", "grad_norm"):
            if not abs(expected[key] - got[key]) <= TOLERANCE * max(1.0, abs(expected[key])):
                problems.append("step %d: expected %s %.17g, but got %.17g" % (
                    got["step"], key, expected[key], got[key]))
    for prefix in ("grad:", "param:"):
        problems += tensors.differences(reference[1], found, prefix, TOLERANCE)
    return problems


def check(model, reference, plan, mpi):
    """Problems of one plan, as messages."""
    program, ranks = model.compile(plan), ranks_of(plan)
    steps, found, summary, bits = model.train(program, ranks)
    problems = numbers_differ(reference, steps, found)
    for key in ("ledger_equals_prediction", "ledger_equal_on_ranks_of_a_stage",
                "ledger_equal_in_all_steps"):
        if summary[key] is not True:
            problems.append("expected %s to be true, but got %s" % (key, summary[key]))
    if mpi:
        mpi_steps, _, mpi_summary, mpi_bits = model.train(program, ranks, mpi=True)
        if mpi_bits != bits or [(s["loss"], s["grad_norm"]) for s in steps] != [
                (s["loss"], s["grad_norm"]) for s in mpi_steps]:
            problems.append("threads and MPI give different bits")
        if mpi_summary["ledger_equals_prediction"] is not True:
            problems.append("under MPI the ledger differs from the prediction")
    os.unlink(program)
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--set", default="all", choices=[
        "few", "named", "random", "replicated", "interleaved", "all"])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", action="append")
    parser.add_argument("--layers", type=int, help="of the models, instead of their own")
    parser.add_argument("--every", type=int, default=1, help="only every Nth plan of a model")
    parser.add_argument("--mpi", type=int, default=0, help="also run every Nth plan under MPI")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()

    if arguments.mpi and not shutil.which("mpirun.openmpi"):
        print("parity: no mpirun.openmpi, so no plan runs under MPI")
        arguments.mpi = 0
    failed = count = over_mpi = 0
    models = arguments.model or ["llama-tiny", "gpt2-tiny"]
    if arguments.model == ["all"]:
        models = sorted(path.parent.name for path in GOLDEN.glob("*/golden.json"))
    for name in models:
        model = Model(arguments.shardwright, name, arguments.work, arguments.layers)
        alone = plans.plan(model.facts, micro=BATCH, batch=BATCH)
        reference = model.train(model.compile(alone), 1)
        todo = []
        if arguments.set == "few":
            todo += plans.few(model.facts, BATCH)
        if arguments.set in ("few", "replicated", "all"):
            todo += plans.replicated(model.facts, BATCH)
        if arguments.set in ("named", "all"):
            todo += plans.named(model.facts, BATCH)
        if arguments.set in ("interleaved", "all"):
            todo += plans.interleaved(model.facts, BATCH)
        if arguments.set in ("random", "all"):
            todo += plans.drawn(model.facts, arguments.count // 2, arguments.seed, BATCH)
        todo = todo[::arguments.every]
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            futures = []
            for number, plan in enumerate(todo):
                mpi = bool(arguments.mpi) and number % arguments.mpi == 0
                over_mpi += mpi
                futures.append((plan, pool.submit(check, model, reference, plan, mpi)))
            for plan, future in futures:
                count += 1
                try:
                    problems = future.result()
                except (Broken, ValueError, KeyError, OSError) as error:
                    problems = [str(error)]
                if problems:
                    failed += 1
                    print("%s %s\n  %s" % (name, plans.describe(plan), "\n  ".join(problems[:6])),
                          flush=True)
    print("parity: %d plans, %d of them under MPI too, %d failed" % (count, over_mpi, failed))
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
