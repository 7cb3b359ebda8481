#!/usr/bin/env python3
"""Rules of thumb, each asked where it should hold and where it should turn.

  thumb.py MODELS INPUTS CLUSTERS WORK

No rule is built in: all that the tool knows are the models and the machines.
Prints what was chosen, and exits 1 at the first rule that does not arise or turn.
"""
import json
import pathlib
import subprocess
import sys

MODELS, INPUTS, CLUSTERS, WORK = (pathlib.Path(path) for path in sys.argv[1:5])


def cluster(node, network=None):
    """DGX H100 with `node` GPUs a node, and NICs of `network` bytes a second."""
    machine = json.loads((CLUSTERS / "dgx-h100.json").read_text())
    inner, outer = machine["levels"]
    inner["size"] = outer["nics"] = node
    if network:
        outer["bytes_per_second"] = network
    path = WORK / ("node-%d-%s.json" % (node, network or "own"))
    path.write_text(json.dumps(machine))
    return path


def best(model, machine, gpus, batch, *flags):
    # `sweep` answers what `plan` does, without the plans for less memory beside it.
    command = ["shardwright", "sweep", model, "--cluster", machine, "--gpus", gpus,
               "--global-batch", batch, "--profile", "megatron-core", "--json", *flags]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=True, universal_newlines=True)
    layout = json.loads(done.stdout)["rows"][0]["best"]["parallel"]
    for key in ("layers_per_stage", "recompute_layers_per_stage"):
        del layout[key]
    print(pathlib.Path(model).name, machine, gpus, batch, *flags, layout, flush=True)
    return layout


def holds(what, condition):
    print("%s: %s" % ("holds" if condition else "FAILS", what), flush=True)
    if not condition:
        sys.exit(1)


def tensor_parallelism():
    large, small = MODELS / "llama-3-70b", MODELS / "llama-3-8b"
    for node in (2, 4, 8):
        layout = best(large, cluster(node), 256, 256)
        holds("tensor parallelism stays within nodes of %d" % node, 1 < layout["tp"] <= node)
    # A fast network also makes ZeRO 3 and cut sequences cheap, which save the same memory: those
    # rivals are held back on both machines.
    nvlink, rivals = 450e9, ("--fix", "cp=1", "--max", "zero=1")
    layout = best(large, cluster(2), 256, 256, *rivals)
    holds("it stays inside without its rivals, too", layout["tp"] == 2)
    layout = best(large, cluster(2, 4 * nvlink), 256, 256, *rivals)
    holds("a network faster than NVLink moves it out of the node", layout["tp"] > 2)
    layout = best(small, "dgx-h100", 64, 1024, "--sequence", 4096)
    holds("Llama 3 8B on 64 GPUs is not cut at all", layout["tp"] * layout["cp"] == 1)
    layout = best(small, "dgx-h100", 64, 512)
    holds("its longest sequences cut it by two at most", layout["tp"] * layout["cp"] <= 2)
    layout = best(small, "dgx-h100", 64, 512, "--memory-limit", "30GiB")
    holds("memory of 30 GiB cuts it more", layout["tp"] * layout["cp"] * layout["pp"] > 2)


def context():
    """With as many tokens a step. Free layouts of a larger model may trade cp 2 for twice the tp,
    so there it is their product that never falls, and cp where tp is fixed."""
    small, large = MODELS / "llama-3-8b", MODELS / "llama-3-70b"
    lengths = [8192, 32768, 131072]
    for model, flags, degrees in ((small, [], ["cp"]), (large, ["--fix", "tp=8"], ["cp"]),
                                  (large, [], ["cp", "tp"])):
        cuts = []
        for length in lengths:
            layout = best(model, "dgx-h100", 256, 2**24 // length, "--sequence", length, *flags)
            cuts.append(layout["cp"] * (layout["tp"] if "tp" in degrees else 1))
        holds("longer sequences never lower %s: %s" % (" x ".join(degrees), cuts),
              cuts == sorted(cuts))
        holds("and raise it at last", cuts[0] < cuts[-1])


def experts():
    model = INPUTS / "deepseek-v3"
    inside = best(model, "dgx-h100", 1152, 4608, "--sequence", 4096)
    holds("expert parallelism stays within a node", 1 < inside["ep"] * inside["etp"] <= 8)
    wide = best(model, "gb200-nvl72", 1152, 4608, "--sequence", 4096)
    holds("an NVLink domain of 72 widens it", inside["ep"] < wide["ep"] <= 72)


def pipelines():
    model = MODELS / "llama-3-70b"
    for batch in (64, 256, 1024):
        layout = best(model, "dgx-h100", 256, batch, "--memory-limit", "60GiB")
        holds("a batch of %d has more microbatches than stages" % batch,
              layout["microbatches"] > layout["pp"])
    few = best(model, "dgx-h100", 256, 16, "--memory-limit", "60GiB")
    holds("a batch of 16 leaves no more of them than stages", few["microbatches"] <= few["pp"])


tensor_parallelism()
context()
experts()
pipelines()
