#!/usr/bin/env python3
"""A collective or transfer that is missing or made twice must be noticed, twice.

Compiled collectives: `mutate` deletes and doubles each spmd collective, and each
transfer between stages, of a few plans in the scheduled IR. Then sw-verify-ledger
must refuse the module, and the program made of it all the same must not train as
one rank does.

Collectives of the runtime (gradient buckets, tied embeddings, sums of the
update, gathered parameters): Interpose.cpp leaves out or repeats each call of
one step of a real run. The program must say that the ledger it measured is not
the predicted one, and must not train as one rank does.

Idempotent calls are the exception: made twice, an all_gather or a transfer puts
the same to the same places and a max over a group is already its own max. That
changes no number, and the ledger alone must notice it. The summary counts them.

  mutations.py --shardwright BIN --mutate BIN --cxx C++ --interpose O
               --runtime A --work DIR [--jobs 2]
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import sys

import interposed
import parity
import plans

STEPS = 2
COMPILED = [
    ("llama-tiny", dict(tp=2, micro=2)),
    ("llama-tiny", dict(tp=2, sp=True, micro=4)),
    ("llama-tiny", dict(dp=2, tp=2, sp=True, pp=2, zero=1, micro=1, recompute="full")),
    ("gpt2-tiny", dict(dp=2, tp=2, pp=2, micro=2, recompute="selective")),
    # Both stages send to and receive from each other, streams and gradients.
    ("llama-tiny", dict(pp=2, vp=2, micro=4)),
]
RUNTIME = [
    ("llama-tiny", dict(dp=2, tp=2, sp=True, pp=2, zero=1, micro=2)),
    ("gpt2-tiny", dict(dp=2, tp=2, pp=2, micro=2)),
    ("gpt2-tiny", dict(dp=2, pp=2, zero=1, micro=2)),
]


def trains_as_one_rank(model, reference, program, plan, environment=None):
    """Whether it does, the summary if there is one, and the first difference."""
    try:
        steps, found, summary, _ = model.train(program, parity.ranks_of(plan), steps=STEPS,
                                               environment=environment)
    except parity.Broken as error:
        return False, None, str(error)
    problems = parity.numbers_differ(reference, steps, found)
    return not problems, summary, problems[0] if problems else ""


def judge(word, idempotent, ledger_differs, same):
    """Problems of a mutation that was or was not noticed."""
    problems = []
    if not ledger_differs:
        problems.append("%s: expected the ledgers to differ" % word)
    if idempotent and not same:
        problems.append("%s: expected no number to change" % word)
    if not idempotent and same:
        problems.append("%s: expected other numbers than those of one rank" % word)
    return problems, idempotent


def mutant(model, reference, plan, mutate, entry, how):
    path = model.path(plan, ".plan.json")
    program = model.path(plan, ".%s%s.exe" % (how, entry["number"]))
    text = parity.run([mutate, model.config, path, how, entry["number"], program])
    same, _, _ = trains_as_one_rank(model, reference, program, plan)
    program.unlink()
    idempotent = how == "double" and (
        entry["op"] in ("all_gather", "send_forward", "send_backward") or
        entry.get("reduce") == "max")
    word = "%s %s: %s %s over %s in @%s%s" % (
        model.name, plans.describe(plan), how, entry["op"], "+".join(entry["axes"]),
        entry["function"], " of microbatch %d, chunk %d" % (entry["microbatch"], entry["chunk"])
        if "chunk" in entry else "")
    return judge(word, idempotent, json.loads(text)["ledger_differs"], same)


def broken_call(model, reference, plan, program, how, call, stage, number):
    environment = interposed.fault(how, call["collective"], call["phase"], call["axis"], stage,
                                   number)
    same, summary, difference = trains_as_one_rank(model, reference, program, plan, environment)
    word = "%s %s: %s" % (model.name, plans.describe(plan),
                          environment["SHARDWRIGHT_TEST_FAULT"])
    if summary is None:
        return ["%s: expected a run to its end, but got %s" % (word, difference)], False
    idempotent = how == "twice" and call["collective"] == "all_gather"
    return judge(word, idempotent, summary["ledger_equals_prediction"] is False, same)


def compiled_mutations(model, reference, plan, arguments):
    """Calls of `mutant` that are to be made; the unchanged program must pass."""
    path, program = model.path(plan, ".plan.json"), model.path(plan, ".none.exe")
    path.write_text(json.dumps(plan))
    text = parity.run([arguments.mutate, model.config, path, "none", program])
    same, _, difference = trains_as_one_rank(model, reference, program, plan)
    if json.loads(text)["ledger_differs"] or not same:
        raise parity.Broken("%s: the unchanged program differs: %s%s" % (path, text, difference))
    for line in parity.run([arguments.mutate, model.config, path, "list"]).splitlines():
        for how in ("delete", "double"):
            yield mutant, model, reference, plan, arguments.mutate, json.loads(line), how


def runtime_mutations(model, reference, plan, arguments):
    program = interposed.link(model, plan, arguments)
    same, summary, difference = trains_as_one_rank(model, reference, program, plan)
    if not same or summary["ledger_equals_prediction"] is not True:
        raise parity.Broken("%s: the unchanged program differs: %s" % (program, difference))
    for ledger in summary["ledger"]:
        for call in ledger["collectives"]:
            if call["phase"] not in ("reduce", "update"):
                continue
            # Groups across stages break on every member.
            stage = -1 if call["axis"] in ("pp", "world") else ledger["stage"]
            if stage == -1 and ledger["stage"] > 0:
                continue
            for number in range(call["calls"]):
                for how in ("skip", "twice"):
                    yield broken_call, model, reference, plan, program, how, call, stage, number


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--mutate", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=["compiled", "runtime"])
    interposed.add_arguments(parser)
    arguments = parser.parse_args()

    models, references = {}, {}
    for name in ("llama-tiny", "gpt2-tiny"):
        models[name] = model = parity.Model(arguments.shardwright, name, arguments.work)
        alone = plans.plan(model.facts, micro=parity.BATCH, batch=parity.BATCH)
        references[name] = model.train(model.compile(alone), 1, steps=STEPS)

    problems, counts = [], collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for kind, cases, generate in (("compiled", COMPILED, compiled_mutations),
                                      ("runtime", RUNTIME, runtime_mutations)):
            futures = []
            for name, layout in cases if arguments.only in (None, kind) else []:
                model = models[name]
                plan = plans.plan(model.facts, batch=parity.BATCH, **layout)
                for function, *rest in generate(model, references[name], plan, arguments):
                    futures.append(pool.submit(function, *rest))
            for future in futures:
                found, idempotent = future.result()
                problems += found
                counts[kind + (" idempotent" if idempotent else "")] += 1
    for kind in ("compiled", "runtime"):
        print("%s collectives: %d mutations change numbers and ledger, %d are idempotent and "
              "change the ledger alone" % (kind, counts[kind], counts[kind + " idempotent"]))
    print("\n".join(problems + ["%d went wrong" % len(problems)]))
    return 1 if problems or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
