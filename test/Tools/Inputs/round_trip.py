"""round_trip.py MODELS: what `plan --json` prints of a plan goes back into --fix,
each field alone and all together, and gives the same plan; the few that are no
fields of a plan say what asks for them. Rows of fronts want the limit, too, that they
were searched below."""
import json
import subprocess
import sys

models = sys.argv[1]
elsewhere = {"kv_replicas", "padded_vocab", "products", "gradients",
             "microbatches", "global_batch", "sequence",
             "recompute_layers_per_stage", "layers_per_stage"}
questions = {
    "one stage": ["llama-3-8b", "--gpus", "8", "--global-batch", "8"],
    "parts of a sequence": ["llama-3-8b", "--gpus", "16", "--global-batch", "4",
                            "--sequence", "32768", "--fix", "cp=4"],
    "copies of shards": ["llama-3-8b", "--gpus", "32", "--global-batch", "32",
                         "--runs-on", "megatron-core", "--fix",
                         "zero_ranks=4,cp=2"],
    "on the host": ["llama-3-8b", "--gpus", "4", "--global-batch", "8",
                    "--runs-on", "megatron-core", "--fix", "offload=optimizer"],
    "groups": ["llama-3-8b", "--gpus", "4", "--global-batch", "9", "--runs-on",
               "megatron-core", "--fix", "pp=4,schedule=interleaved"],
    "part full": ["llama-3-8b", "--gpus", "8", "--global-batch", "16", "--fix",
                  "recompute=full:3"],
}


def plan(question, *flags):
    model, *rest = question
    return subprocess.run(["shardwright", "plan", f"{models}/{model}",
                           "--cluster", "dgx-h100", *rest, "--top", "1",
                           "--json", *flags], capture_output=True, text=True)


def text(value):
    return {True: "true", False: "false"}[value] if isinstance(value, bool) \
        else str(value)


def fixes_of(found):
    return [f"{key}={text(value)}" for key, value in found.items()
            if key not in elsewhere]


for name, question in questions.items():
    first = plan(question)
    assert first.returncode == 0, (name, first.stderr)
    best = json.loads(first.stdout)["plans"][0]
    found, seconds = best["parallel"], best["step_time_seconds"]
    fixes = fixes_of(found)
    assert len(fixes) >= 14, fixes
    for flags in [["--fix", fix] for fix in fixes] + [["--fix", ",".join(fixes)]]:
        again = plan(question, *flags)
        assert again.returncode == 0, (name, flags, again.stderr)
        best = json.loads(again.stdout)["plans"][0]
        if flags[1].startswith("microbatch_group="):
            # Alone it asks for groups larger than fewer stages need, too, which
            # the search leaves out otherwise.
            assert best["step_time_seconds"] <= seconds, (name, flags)
            continue
        assert best["parallel"] == found, (name, flags)
    assert elsewhere <= set(found), elsewhere - set(found)
for key in elsewhere:
    said = plan(questions["one stage"], "--fix", f"{key}={text(found[key])}")
    assert said.returncode == 5 and " says that" in said.stderr, said.stderr

# Of a front, and of the plans in a part of the memory: under the limit of the
# question another number of layers may recompute.
question = ["llama-3-8b", "--gpus", "8", "--global-batch", "16"]
shape = ["--fix", "pp=4,tp=1,cp=1", "--max", "microbatch=2"]
answer = json.loads(plan(question, *shape, "--pareto", "time,memory").stdout)
lean = json.loads(plan(question, *shape).stdout)["lean"]
rows = answer["front"]["plans"] + lean
assert len(rows) > 5 and lean
others = 0
for row in rows:
    fixed = ["--fix", ",".join(fixes_of(row["parallel"]))]
    again = plan(question, *fixed, "--memory-limit", str(row["searched_below_bytes"]))
    assert again.returncode == 0, (row, again.stderr)
    assert json.loads(again.stdout)["plans"][0]["parallel"] == row["parallel"], row
    without = json.loads(plan(question, *fixed).stdout)["plans"]
    others += without[0]["parallel"] != row["parallel"]
assert others, "no test: the limit of the question does for all"
