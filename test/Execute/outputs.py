#!/usr/bin/env python3
"""What a compiled program prints: steps, summary, trace, dry run.

  outputs.py --shardwright BIN --work DIR
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import sys

import parity
import plans

STEP_KEYS = ["step", "loss", "grad_norm", "seconds", "tokens_per_second"]
SUMMARY_KEYS = {
    "model", "backend", "device", "ranks", "mesh", "steps", "seconds", "tokens_per_second", "loss",
    "grad_norm", "ledger", "ledger_equal_on_ranks_of_a_stage", "ledger_equal_in_all_steps",
    "ledger_equals_prediction", "canaries", "per_rank", "process_peak_resident_bytes"}
MEMORY_KEYS = {name + "_bytes" for name in (
    "parameters", "gradients", "optimizer", "saved", "p2p", "comm", "workspace", "total")}
STEPS = 3


class Problems(list):
    def want(self, truth, message, *values):
        if not truth:
            self.append(message % values)


def check_steps(problems, lines, plan):
    *steps, last = lines
    problems.want(len(steps) == STEPS, "expected %d steps, but got %d", STEPS, len(steps))
    for number, step in enumerate(steps):
        problems.want(list(step) == STEP_KEYS, "expected keys %s of a step, but got %s", STEP_KEYS,
                      list(step))
        problems.want(step["step"] == number + 1, "expected step %d, but got %s", number + 1,
                      step["step"])
        tokens = plan["batch"]["global"] * plan["batch"]["sequence"]
        problems.want(abs(step["tokens_per_second"] * step["seconds"] / tokens - 1) < 0.01,
                      "expected %d tokens a step, but got %s", tokens, step)
    summary = last["summary"]
    problems.want(SUMMARY_KEYS <= set(summary), "expected the summary to have %s",
                  SUMMARY_KEYS - set(summary))
    problems.want(summary["loss"] == steps[-1]["loss"], "expected the loss of the last step")
    problems.want(summary["steps"] == STEPS and summary["backend"] == "threads",
                  "expected steps and backend, but got %s", summary)
    problems.want(summary["mesh"] == {axis["axis"]: axis["size"] for axis in plan["mesh"]},
                  "expected the mesh of the plan, but got %s", summary["mesh"])
    ranks = parity.ranks_of(plan)
    problems.want([entry["rank"] for entry in summary["per_rank"]] == list(range(ranks)),
                  "expected every rank in per_rank")
    problems.want([entry["stage"] for entry in summary["ledger"]] ==
                  list(range(plan["parallel"]["pp"])), "expected a ledger a stage")
    return summary


def check_trace(problems, path, plan):
    trace = json.loads(path.read_text())
    problems.want(trace["schema"] == "shardwright.trace/1", "expected a schema, but got %s",
                  trace["schema"])
    events = trace["traceEvents"]
    names, spans = {}, collections.defaultdict(list)
    for event in events:
        if event["ph"] == "M":
            problems.want(event["name"] == "process_name", "expected process_name: %s", event)
            names[event["pid"]] = event["args"]["name"]
        else:
            problems.want(event["ph"] == "X" and event["dur"] >= 0 and event["name"] and
                          event["cat"], "expected a complete event, but got %s", event)
            spans[event["pid"]].append(event)
    ranks = parity.ranks_of(plan)
    per_stage = ranks // plan["parallel"]["pp"]
    problems.want(names == {rank: "rank %d stage %d" % (rank, rank // per_stage)
                            for rank in range(ranks)}, "expected a name a rank, but got %s", names)
    microbatches = plan["schedule"]["chunks"] * (
        plan["batch"]["global"] // (plan["parallel"]["dp"] * plan["batch"]["micro"]))
    for rank in range(ranks):
        actions = collections.Counter(
            event["name"] for event in spans[rank] if event["cat"] == "action")
        for action, count in (("forward", microbatches), ("backward", microbatches), ("reduce", 1),
                              ("step", 1)):
            problems.want(actions[action] == STEPS * count, "expected %d x %s on rank %d, but got %d",
                          STEPS * count, action, rank, actions[action])
        # Spans of a rank lie inside each other or apart: one thread made them.
        ends = []
        for begin, duration in sorted((e["ts"], -e["dur"]) for e in spans[rank]):
            end = begin - duration
            while ends and ends[-1] <= begin + 0.002:
                ends.pop()
            problems.want(not ends or end <= ends[-1] + 0.002,
                          "expected spans of rank %d to nest, but one at %g us does not", rank,
                          begin)
            ends.append(end)


COMPUTATIONS = ("forward", "backward_data", "backward_weight")


def predicted_actions(model, plan, folder):
    """Of each stage what `predict` says that it is at, in order of time."""
    trace = folder.parent / "predicted.trace"
    parity.run([model.shardwright, "predict", model.config, "--cluster", "host", "--plan",
                model.path(plan, ".plan.json"), "--trace", trace])
    actions = collections.defaultdict(list)
    for event in sorted(json.loads(trace.read_text())["traceEvents"],
                        key=lambda event: event.get("ts", 0)):
        if event.get("cat") == "action" and event["tid"] == 0:
            actions[event["pid"]].append((event["name"], event["args"]["microbatch"],
                                          event["args"].get("chunk", 0)))
    return [actions[rank] for rank in sorted(actions)]


def check_dry_run(problems, model, program, plan, summary, folder):
    predicted = predicted_actions(model, plan, folder)
    ranks, pp, chunks = (parity.ranks_of(plan), plan["parallel"]["pp"],
                         plan["schedule"]["chunks"])
    microbatches = plan["batch"]["global"] // (plan["parallel"]["dp"] * plan["batch"]["micro"])
    for rank in range(ranks):
        # No data, and no other rank: it runs nothing.
        text = parity.run([program, "--dry-run", "--rank", rank, "--json"], cwd=folder)
        dry = json.loads(text)
        stage = rank // (ranks // pp)
        ledger = summary["ledger"][stage]
        problems.want((dry["rank"], dry["ranks"], dry["stage"]) == (rank, ranks, stage),
                      "expected rank %d of stage %d, but got %s", rank, stage, text[:200])
        actions = collections.Counter(action["action"] for action in dry["actions"])
        compiled = [(action["action"], action["microbatch"], action.get("chunk", 0))
                    for action in dry["actions"] if action["action"] not in ("reduce", "step")]
        priced = predicted[stage]
        if chunks > 1:
            # Transfers of chunks are priced when they can go, not where both ends meet.
            sends = [sorted(action for action in list_ if action[0].startswith("send"))
                     for list_ in (compiled, priced)]
            problems.want(sends[0] == sends[1] and sends[0], "expected the predicted trace of "
                          "stage %d to send %s, but got %s", stage, *sends)
            compiled, priced = ([action for action in list_ if action[0] in COMPUTATIONS]
                                for list_ in (compiled, priced))
        problems.want(compiled == priced, "expected the predicted trace of stage %d to "
                      "have what its ranks do, %s, but got %s", stage, compiled, priced)
        passes = chunks * microbatches  # of every chunk; the ends of the model have one side
        problems.want(actions["forward"] == actions["backward_data"] == passes and
                      actions["reduce"] == actions["step"] == 1 and
                      actions["recv_forward"] == passes - (0 if stage else microbatches) and
                      actions["send_forward"] == passes - (
                          0 if stage + 1 < pp else microbatches),
                      "expected %d microbatches on stage %d, but got %s", microbatches, stage,
                      actions)
        groups = [entry.pop("group") for entry in dry["collectives"]]
        problems.want(dry["collectives"] == ledger["collectives"],
                      "expected the collectives that stage %d measures", stage)
        problems.want(all(rank in group or entry["axis"] == "pp"
                          for group, entry in zip(groups, dry["collectives"])),
                      "expected rank %d in its groups, but got %s", rank, groups)
        problems.want(dry["flops"] == ledger["flops"], "expected the flops that stage %d measures",
                      stage)
        problems.want(set(dry["memory"]) == MEMORY_KEYS and dry["memory"] == ledger["memory"],
                      "expected the memory that stage %d measures (%s), but got %s", stage,
                      ledger["memory"], dry["memory"])
        text = parity.run([program, "--dry-run", "--rank", rank], cwd=folder)
        for pattern in (r"rank %d of %d" % (rank, ranks), r"stage %d of %d" % (stage, pp),
                        "(?m)^actions of a step$", "forward microbatch 0 %sslot 0" % (
                            "chunk 0 " if chunks > 1 else ""),
                        "(?m)^collectives of a step", "all_reduce over tp in forward: .* bytes, "
                        "ranks", "total_bytes %d" % dry["memory"]["total_bytes"]):
            problems.want(re.search(pattern, text), "expected '%s' in the dry run of rank %d",
                          pattern, rank)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    model = parity.Model(arguments.shardwright, "llama-tiny", arguments.work)
    problems = Problems()
    check_outputs(problems, model, dict(zero=1), arguments.work)
    check_outputs(problems, model, dict(vp=2), arguments.work)
    print("\n".join(problems + ["outputs: %d problems" % len(problems)]))
    return 1 if problems else 0


def check_outputs(problems, model, fields, work):
    plan = plans.plan(model.facts, dp=2, tp=2, pp=2, micro=1, **fields)
    program, trace = model.compile(plan), work / "run.trace"
    folder = work / "folder"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    command = [program, "--steps", STEPS, *model.training, "--trace", trace]
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")
    lines = [json.loads(line) for line in parity.run(command + ["--json"], env=environment,
                                                     cwd=folder).splitlines()]
    summary = check_steps(problems, lines, plan)
    check_trace(problems, trace, plan)
    check_dry_run(problems, model, program, plan, summary, folder)
    text = parity.run(command, env=environment, cwd=folder)
    problems.want(re.fullmatch(
        r"(step +\d+  loss \d+\.\d+  grad norm \d+\.\d+  \d+\.\d+ s  \d+ tokens/s\n){%d}" % STEPS,
        text), "expected a line a step, but got %s", text)
    problems.want(not list(folder.iterdir()), "expected no other file, but got %s",
                  list(folder.iterdir()))


if __name__ == "__main__":
    sys.exit(main())
