#!/usr/bin/env python3
"""A run that stops and goes on is the run that never stopped.

Under the plan that saved, the steps behind a checkpoint have the same bits,
parameters and gradients too. Under other plans of the model - other degrees,
stages, ZeRO, one rank - they are the same in f64 to 1e-10. A run killed while it
trains leaves a whole checkpoint to go on from, and what is no checkpoint of the
run is refused without harm to the files.

  checkpoint.py --shardwright BIN --work DIR
"""
import argparse
import fcntl
import json
import math
import os
import pathlib
import resource
import signal
import struct
import subprocess
import sys
import time

import parity
import plans
import tensors

DONE, STEPS = 3, 6
# A schedule whose every step differs from the next.
SCHEDULE = ["--lr-warmup-steps", 2, "--lr-decay", "cosine", "--lr-decay-steps", 9, "--min-lr", 1e-4]


class Runs:
    def __init__(self, arguments):
        self.models = {name: parity.Model(arguments.shardwright, name, arguments.work)
                       for name in ("llama-tiny", "gpt2-tiny", "falcon-new-tiny")}
        self.model = self.models["llama-tiny"]
        self.work, self.problems = arguments.work, []

    def program(self, dtype="f64", **degrees):
        plan = plans.plan(self.model.facts, batch=parity.BATCH, dtype=dtype, **degrees)
        return self.model.compile(plan), parity.ranks_of(plan)

    def train(self, program, steps, *flags, mpi=False):
        """Losses, norms, and the dump."""
        path, ranks = program
        dump = self.work / "dump.safetensors"
        command = [path, "--steps", steps, "--json", "--dump", dump, *self.model.training,
                   *SCHEDULE, *flags]
        environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")
        if mpi:
            environment.update(parity.MPI_ENVIRONMENT)
            command = ["mpirun.openmpi", "-n", ranks] + command
        lines = [json.loads(line) for line in
                 parity.run(command, env=environment).splitlines()][:-1]
        return ([(line["step"], line["loss"], line["grad_norm"]) for line in lines],
                dump.read_bytes(), tensors.read(dump))

    def expect(self, what, condition, *facts):
        if not condition:
            self.problems.append(" ".join(map(str, (what,) + facts)))
        print("%s %s" % ("ok" if condition else "FAILED", what), flush=True)

    def close(self, what, reference, got):
        wanted = reference[0][-len(got[0]):]
        near = all(a[0] == b[0] and all(abs(x - y) <= parity.TOLERANCE * max(1.0, abs(x))
                                        for x, y in zip(a[1:], b[1:]))
                   for a, b in zip(wanted, got[0], strict=True))
        apart = [line for prefix in ("grad:", "param:") for line in
                 tensors.differences(reference[2], got[2], prefix, parity.TOLERANCE)]
        self.expect(what, near and not apart, wanted, got[0], apart[:3])


def goes_on(runs, has_mpi):
    sharded = runs.program(dp=2, tp=2, pp=2, zero=1)
    whole = runs.train(sharded, STEPS)
    save = runs.work / "sharded.ckpt"
    first = runs.train(sharded, DONE, "--save", save)
    runs.expect("saving changes nothing", first[0] == whole[0][:DONE], first[0], whole[0])
    rest = runs.train(sharded, STEPS, "--load", save)
    runs.expect("the same plan goes on with the same bits",
                rest[0] == whole[0][DONE:] and rest[1] == whole[1], rest[0], whole[0])
    runs.expect("steps differ, so a wrong one would show",
                len({loss for _, loss, _ in whole[0]}) == STEPS)
    if has_mpi:
        under = runs.train(sharded, STEPS, "--load", save, mpi=True)
        runs.expect("so it does as MPI processes", under[:2] == rest[:2])
    others = {"one rank": dict(), "tensor ranks alone": dict(tp=2),
              "stages of other lengths": dict(pp=2, dp=2),
              "stages in two chunks": dict(pp=2, vp=2, dp=2, zero=1, layers=[1, 2, 1, 1]),
              "data ranks, ZeRO 1": dict(dp=4, zero=1), "data ranks, ZeRO 0": dict(dp=2)}
    for name, degrees in others.items():
        other = runs.program(**degrees)
        runs.close("%s goes on from it" % name, whole, runs.train(other, STEPS, "--load", save))
        back = runs.work / "back.ckpt"
        runs.train(other, DONE, "--save", back)
        runs.close("it goes on from %s" % name, whole,
                   runs.train(sharded, STEPS, "--load", back))
    # Two checkpoints of one state, by different plans, hold the same tensors.
    one, two = tensors.read(save), tensors.read(back)
    runs.expect("checkpoints know nothing of plans", set(one) == set(two) and not any(
        tensors.differences(one, two, prefix, parity.TOLERANCE) for prefix in
        ("master:", "m:", "v:")))
    for dtype in ("bf16", "f32"):
        narrow = runs.program(dtype=dtype, dp=2, tp=2, zero=1)
        whole = runs.train(narrow, STEPS)
        runs.train(narrow, DONE, "--save", save)
        rest = runs.train(narrow, STEPS, "--load", save)
        runs.expect("%s goes on with the same bits" % dtype,
                    rest[0] == whole[0][DONE:] and rest[1] == whole[1], rest[0], whole[0])


def shares(runs, name, what, **degrees):
    """Ranks that hold the same parameters."""
    runs.model = runs.models[name]
    sharing, alone = runs.program(**degrees), runs.program()
    whole, save = runs.train(sharing, STEPS), runs.work / "shared.ckpt"
    runs.train(sharing, DONE, "--save", save)
    rest = runs.train(sharing, STEPS, "--load", save)
    runs.expect("%s go on with the same bits" % what,
                rest[0] == whole[0][DONE:] and rest[1] == whole[1], rest[0], whole[0])
    runs.close("one rank goes on from %s" % what, whole, runs.train(alone, STEPS, "--load", save))
    runs.train(alone, DONE, "--save", save)
    runs.close("%s go on from one rank" % what, whole, runs.train(sharing, STEPS, "--load", save))
    runs.model = runs.models["llama-tiny"]


def killed(runs):
    """Killed at no step in particular, in the middle of many saves."""
    program = runs.program(dp=2, zero=1)
    save = runs.work / "killed.ckpt"
    whole = runs.train(program, STEPS * 4)
    for delay in (0.05, 0.2, 0.5):
        command = [program[0], "--steps", 100000, "--save", save, "--save-every", 1,
                   *runs.model.training, *SCHEDULE]
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                              env=dict(os.environ, OPENBLAS_NUM_THREADS="1")) as process:
            for _ in range(3):  # at least one save is done when step 3 is printed
                process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        step = int(header(save)["__metadata__"]["step"])
        if step < STEPS * 4:
            rest = runs.train(program, STEPS * 4, "--load", save)
            runs.expect("killed behind step %d, it goes on with the same bits" % step,
                        rest[0] == whole[0][step:] and rest[1] == whole[1])
        else:
            runs.expect("killed behind step %d, its checkpoint is whole" % step,
                        len(tensors.read(save)) == 3 * len(whole[2]) / 2)


def header(path):
    data = path.read_bytes()
    return json.loads(data[8:8 + int.from_bytes(data[:8], "little")])


def refused(runs):
    program, _ = runs.program(dp=2, zero=1)
    save = runs.work / "kept.ckpt"
    runs.train((program, 2), DONE, "--save", save)
    good = save.read_bytes()
    text = header(save)
    other = dict(text, __metadata__=dict(text["__metadata__"], sequence="999"))
    wide = dict(text)
    wide["v:lm_head.weight"] = dict(wide["v:lm_head.weight"], shape=[
        extent * 2 for extent in wide["v:lm_head.weight"]["shape"]])

    def packed(change):
        words = json.dumps(change).encode()
        return len(words).to_bytes(8, "little") + words + good[8 + int.from_bytes(
            good[:8], "little"):]

    kept_data = good[8 + int.from_bytes(good[:8], "little"):]

    def built(order, gap=0):
        """The tensors of `order` one behind the other, the last behind a gap."""
        change, data = {"__metadata__": text["__metadata__"]}, b""
        for key in order:
            begin, end = text[key]["data_offsets"]
            data += b"\0" * (gap if key == order[-1] else 0)
            change[key] = dict(text[key], data_offsets=[len(data), len(data) + end - begin])
            data += kept_data[begin:end]
        words = json.dumps(change).encode()
        return len(words).to_bytes(8, "little") + words + data

    def overwritten(key, value):
        data = bytearray(good)
        place = len(good) - len(kept_data) + text[key]["data_offsets"][0]
        data[place:place + 8] = struct.pack("<d", value)
        return bytes(data)

    everything = [key for key in text if key != "__metadata__"]
    less = [key for key in everything if key != "m:lm_head.weight"]
    twice = dict(text, **{"v:lm_head.weight": dict(
        text["v:lm_head.weight"], data_offsets=text["m:lm_head.weight"]["data_offsets"])})
    runs.expect("a checkpoint built anew is the same", built(everything)[-len(kept_data):] ==
                kept_data)
    cases = [("nothing there", None, 4, "No such file"), ("an empty file", b"", 4, "0 bytes"),
             ("a text", b"hello, world, this is a text", 4, "safetensors"),
             ("half of one", good[:len(good) // 2], 4, "does not lie in it"),
             ("a dump", (runs.work / "dump.safetensors").read_bytes(), 4, "its format is ''"),
             ("another sequence length", packed(other), 4, "sequence"),
             ("30 kB of a format", packed(dict(text, __metadata__={"format": "x" * 30000})), 4,
              "xxx ... ("),
             ("a tensor missing", built(less), 4, "has no 'm:lm_head.weight'"),
             ("tensors in one place", packed(twice), 4,
              "'m:lm_head.weight' and 'v:lm_head.weight' share bytes of it"),
             ("bytes behind the last tensor", good + b"\0" * 24, 4,
              "24 bytes behind its last tensor are of none"),
             ("bytes between tensors", built(everything, gap=16), 4, "16 bytes before '%s' are of "
              "no tensor" % everything[-1]),
             ("a header longer than the file", (1 << 40).to_bytes(8, "little") + good[8:], 4,
              "its header of 1099511627776 bytes is longer than the file"),
             ("a header as long as any", b"\xff" * 8 + good[8:], 4, "is longer than the file"),
             ("a parameter that is no number", overwritten("master:lm_head.weight", math.nan), 4,
              "of finite numbers, but 'master:lm_head.weight' has nan"),
             ("a moment out of this world", overwritten("v:lm_head.weight", math.inf), 4,
              "of finite numbers, but 'v:lm_head.weight' has inf"),
             ("a tensor of another shape", packed(wide), 4, "v:lm_head.weight"),
             ("no step left", good, 5, "above the 3 that the checkpoint has done")]
    for what, data, code, words in cases:
        path = runs.work / "bad.ckpt"
        path.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)
        command = [program, "--steps", DONE if code == 5 else STEPS, "--load", path, "--save",
                   path, *runs.model.training]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        same = path.read_bytes() == data if data is not None else not path.exists()
        runs.expect("refused: %s" % what, done.returncode == code and words in done.stderr and
                    same and not done.stdout and done.stderr.count("\n") == 1,
                    done.returncode, done.stderr)
    seed = subprocess.run([str(word) for word in [
        program, "--steps", STEPS, "--load", save, *runs.model.training, "--seed", 8]],
        capture_output=True, text=True)
    *flags, data = runs.model.training
    longer = runs.work / ("longer" + pathlib.Path(data).suffix)
    longer.write_bytes(pathlib.Path(data).read_bytes() + b"..")
    other_data = [*flags, longer]
    for flags, code, words in (([], 4, "--other-data goes on with it"), (["--other-data"], 0, "")):
        done = subprocess.run([str(word) for word in [
            program, "--steps", STEPS, "--load", save, *other_data, *flags]],
            capture_output=True, text=True)
        runs.expect("other data %s" % (flags or "refused"), done.returncode == code and
                    words in done.stderr and bool(done.stdout) == (code == 0), done.stderr)
    anonymous = runs.work / "anonymous.ckpt"
    anonymous.write_bytes(packed(dict(text, __metadata__={
        key: value for key, value in text["__metadata__"].items() if key != "data"})))
    for flags, code, words in (([], 4, "that says what data it was trained on, but it does not"),
                               (["--other-data"], 0, "")):
        done = subprocess.run([str(word) for word in [
            program, "--steps", STEPS, "--load", anonymous, *runs.model.training, *flags]],
            capture_output=True, text=True)
        runs.expect("data that nobody named %s" % (flags or "refused"), done.returncode == code and
                    words in done.stderr and bool(done.stdout) == (code == 0), done.stderr)
    runs.expect("refused: another seed", seed.returncode == 4 and "of seed 8" in seed.stderr,
                seed.stderr)


def places(runs):
    """What --save may be: a file that nobody else writes, or a link to one."""
    program, _ = runs.program(dp=2, zero=1)

    def save(path, flag="--save", limit=resource.RLIM_INFINITY):
        done = subprocess.run([str(word) for word in [
            program, "--steps", 1, flag, path, *runs.model.training]],
            capture_output=True, text=True, timeout=120, preexec_fn=lambda:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        return done.returncode, done.stderr

    pipe = runs.work / "pipe"
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)  # a device is no regular file either, and would be lost
    for flag in ("--save", "--dump"):
        code, words = save(pipe, flag)
        runs.expect("%s does not replace what is no file" % flag, code == 5 and pipe.is_fifo() and
                    "it is a device, a pipe or a socket" in words, code, words)
    link, target = runs.work / "link.ckpt", runs.work / "target.ckpt"
    for what in ("to nothing", "to an older one"):
        if what == "to nothing":
            for path in (link, target):
                path.unlink(missing_ok=True)
            link.symlink_to(target.name)
        before = target.stat().st_ino if target.exists() else 0
        code, words = save(link)
        runs.expect("a link %s is followed" % what, code == 0 and link.is_symlink() and
                    target.stat().st_ino != before and
                    header(target)["__metadata__"]["step"] == "1", code, words)
    with open(str(target) + ".unfinished", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        before = target.read_bytes()
        code, words = save(link)
        runs.expect("two programs do not write one file", code == 4 and
                    target.read_bytes() == before and "another program is writing it" in words,
                    code, words)
    code, words = save(link)
    runs.expect("what a killed program left is no obstacle", code == 0, code, words)
    # No room: what was there stays, and nothing is left beside it.
    before, names = target.read_bytes(), sorted(os.listdir(runs.work))
    for flag in ("--save", "--dump"):
        code, words = save(link, flag, limit=len(before) // 2)
        runs.expect("%s without room leaves all as it was" % flag, code == 4 and
                    target.read_bytes() == before and sorted(os.listdir(runs.work)) == names and
                    "File too large" in words and words.count("\n") == 1, code, words)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    runs = Runs(parser.parse_args())
    has_mpi = subprocess.run(["sh", "-c", "command -v mpirun.openmpi"],
                             capture_output=True).returncode == 0
    goes_on(runs, has_mpi)
    shares(runs, "gpt2-tiny", "stages with one table", pp=2, tp=2)
    shares(runs, "gpt2-tiny", "chunks with one table", pp=2, vp=2, layers=[0, 1, 1, 1], zero=1,
           dp=2)
    shares(runs, "falcon-new-tiny", "replicas of a key/value head", tp=4, dp=2, zero=1)
    killed(runs)
    refused(runs)
    places(runs)
    print("\n".join(runs.problems))
    print("checkpoints: %d problems" % len(runs.problems))
    return 1 if runs.problems else 0


if __name__ == "__main__":
    sys.exit(main())
