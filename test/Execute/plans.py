"""Plans that the execution tests draw: named ones and random ones.

A plan is written here by hand, field by field, as a user would write one; the
tools only check it.
"""
import json
import random

ENDS = ("embed", "head")


def layer_kinds(model):
    """Kind of each layer, in order; all "dense" unless `model` says more."""
    return model.get("kinds") or ["dense"] * model["layers"]


def stages(layers_per_stage, recompute, full_layers=None, kinds=None):
    """Run lists: embedding on the first stage, head on the last.

    `full_layers` of each stage (a list: of one after the other) are recomputed
    in full and the others not at all; None applies `recompute` to every layer.
    `kinds` are those of the layers in order.
    """
    kinds = kinds or ["dense"] * sum(layers_per_stage)
    result, done = [], 0

    def append(runs, kind, policy):
        if runs and runs[-1][0] == kind and runs[-1][2] == policy:
            runs[-1][1] += 1
        else:
            runs.append([kind, 1, policy])

    for index, layers in enumerate(layers_per_stage):
        runs = []
        if index == 0:
            runs.append(["embed", 1, "none"])
        full = layers if recompute == "full" else 0
        if full_layers is not None:
            own = full_layers[index] if isinstance(full_layers, list) else full_layers
            full = min(own, layers)
        rest = "none" if recompute == "full" else recompute
        for number, kind in enumerate(kinds[done:done + layers]):
            append(runs, kind, "full" if number < full else rest)
        done += layers
        if index == len(layers_per_stage) - 1:
            runs.append(["head", 1, "none"])
        result.append({"runs": runs})
    return result


def even(layers, pp):
    return [layers // pp + (1 if i < layers % pp else 0) for i in range(pp)]


def kv_replicas(model, tp):
    """Tensor ranks that hold the same key/value head."""
    heads = model.get("kv_heads", tp)
    return tp // heads if tp > heads and tp % heads == 0 else 1


def plan(model, dp=1, tp=1, pp=1, sp=False, zero=0, micro=1, batch=8, recompute="none",
         schedule="1f1b", vp=1, group=0, layers=None, full_layers=None, dtype="f64",
         gradients=None):
    """A plan.json value. `model` has name, sha256, sequence and layers. With bf16
    master copies are f32, as are gradients and their sums if not said otherwise.
    With vp > 1 the schedule is the interleaved one, with chunks that run `group`
    microbatches in a row (0: pp), and `layers` is of pp * vp stages."""
    split = layers or even(model["layers"], pp * vp)
    replicas = kv_replicas(model, tp)
    tensor = {"tp": tp} if replicas in (1, tp) else {"tp0": tp // replicas, "tp1": replicas}
    wide = "f32" if dtype == "bf16" else dtype
    parallel = {"dp": dp, "tp": tp, "pp": pp, "cp": 1, "cp_kind": "none", "ep": 1, "etp": 1,
                "sp": sp, "zero": zero, "zero_axes": ["dp"] if zero else []}
    if replicas > 1:
        parallel["kv_replicas"] = replicas
    return {
        "schema": "shardwright.plan/1",
        "model": {"name": model["name"], "sha256": model["sha256"]},
        "cluster": {"name": "host", "sha256": ""},
        "mesh": [{"axis": axis, "size": size}
                 for axis, size in {"pp": pp, "dp": dp, **tensor}.items()],
        "parallel": parallel,
        "batch": {"global": batch, "micro": micro, "sequence": model["sequence"]},
        "schedule": {"kind": "interleaved" if vp > 1 else schedule, "chunks": vp,
                     **({"microbatch_group": group} if group else {})},
        "stages": stages(split, recompute, full_layers, layer_kinds(model)),
        "dtypes": {**dict.fromkeys(("param", "compute"), dtype),
                   **dict.fromkeys(("reduce", "grad"), gradients or wide), "master": wide},
        "expert_rows_max": 0,
    }


def describe(value):
    """A file-name-safe word for a plan: dp2-tp2-sp-pp2-z1-m4-full."""
    parallel, batch = value["parallel"], value["batch"]
    parts = [axis + str(parallel[axis]) for axis in ("dp", "tp", "pp") if parallel[axis] > 1]
    if parallel["sp"]:
        parts.append("sp")
    microbatches = batch["global"] // (parallel["dp"] * batch["micro"])
    schedule = value["schedule"]
    parts += ["z%d" % parallel["zero"], "m%d" % microbatches, schedule["kind"]]
    if schedule["chunks"] > 1:
        parts.append("vp%d" % schedule["chunks"])
    if "microbatch_group" in schedule:
        parts.append("g%d" % schedule["microbatch_group"])
    per_stage = []
    for stage in value["stages"]:
        per_stage.append("".join("%d%s" % (count, policy[0]) for kind, count, policy in stage["runs"]
                                 if kind not in ENDS))
    return "-".join(parts + per_stage)


def splits_heads(model, tp):
    """Whether a model can be split over `tp` ranks; unknown sizes pass."""
    return all(model.get(key, tp) % tp == 0 for key in ("heads", "ffn")) and (
        model.get("kv_heads", tp) % tp == 0 or kv_replicas(model, tp) > 1)


def replicated(model, batch=8):
    """Plans with more tensor ranks than key/value heads, if the model has one:
    with and without sequence parallelism, ZeRO, data ranks and stages."""
    for tp in (2, 4, 8):
        if not splits_heads(model, tp) or kv_replicas(model, tp) == 1:
            continue
        layouts = [dict(), dict(dp=2, zero=1, recompute="full")]
        if model["sequence"] % tp == 0:
            layouts += [dict(sp=True, recompute="selective"),
                        dict(sp=True, pp=2, zero=1, recompute="full", full_layers=1),
                        dict(sp=True, dp=2, zero=1)]
        for layout in layouts:
            if layout.get("dp", 1) * layout.get("pp", 1) * tp <= 16:
                yield plan(model, tp=tp, micro=batch // layout.get("dp", 1) // 2, batch=batch,
                           **layout)


def few(model, batch=8):
    """Four plans that touch what a family adds: heads, stream and vocabulary
    split, layers of several kinds cut between stages, all policies."""
    def wide(most):
        tp = max(tp for tp in (1, 2, 4) if tp <= most and splits_heads(model, tp))
        return dict(tp=tp, sp=tp > 1)

    layouts = [dict(wide(4), recompute="none"), dict(pp=2, recompute="selective"),
               dict(wide(2), dp=2, pp=2, zero=1, recompute="full"),
               dict(dp=2, pp=2, recompute="full", full_layers=[1, 0], schedule="gpipe")]
    for layout in layouts:
        yield plan(model, micro=batch // layout.get("dp", 1) // 2, batch=batch, **layout)


def named(model, batch=8):
    """Every combination that must hold: ten layouts, ZeRO 0 and 1, one and four
    microbatches, recompute none and full."""
    layers = model["layers"]
    uneven = [layers - 1, 1]
    layouts = [
        dict(dp=2), dict(tp=2), dict(tp=2, sp=True), dict(pp=2), dict(pp=2, layers=uneven),
        dict(tp=4), dict(dp=2, tp=2), dict(dp=2, pp=2), dict(tp=2, pp=2),
        dict(dp=2, tp=2, pp=2), dict(dp=2, tp=2, pp=2, sp=True),
    ]
    for layout in layouts:
        if not splits_heads(model, layout.get("tp", 1)):
            continue
        for zero in (0, 1):
            for microbatches in (1, 4):
                for recompute in ("none", "full"):
                    micro = batch // (layout.get("dp", 1) * microbatches)
                    yield plan(model, zero=zero, micro=micro, batch=batch, recompute=recompute, **layout)


def interleaved(model, batch=8):
    """Plans whose ranks run several chunks: as many as there are layers for, even
    and uneven, with what changes their ledgers, in groups of all sizes."""
    layers = model["layers"]

    def uneven(stages):
        # Embedding and head may stand alone; every other stage has a layer.
        rest = layers - (stages - 2)
        return [[0] + [1] * (stages - 2) + [rest], [rest] + [1] * (stages - 2) + [0],
                [rest // 2] + [1] * (stages - 2) + [rest - rest // 2]]

    for pp, vp in ((2, 2), (2, 3), (3, 2), (4, 2)):
        if layers < pp * vp - 2:
            continue
        first, second, third = uneven(pp * vp)
        layouts = [dict(layers=first, micro=batch // 8), dict(layers=second, recompute="full"),
                   dict(layers=third, zero=1, dp=2, recompute="selective")]
        if splits_heads(model, 2) and pp < 4:
            layouts += [dict(layers=third, tp=2, sp=True, dp=2, zero=1, recompute="full",
                             full_layers=1)]
        for layout in layouts:
            micro = layout.pop("micro", None) or max(
                m for m in (1, 2, 4) if batch // layout.get("dp", 1) // m >= pp)
            count = batch // layout.get("dp", 1) // micro
            for group in groups(pp, count):
                yield plan(model, pp=pp, vp=vp, group=group if group != pp else 0, micro=micro,
                           batch=batch, **layout)


def groups(pp, microbatches):
    """Sizes of groups that fill a pipeline to the last microbatch."""
    return [size for size in range(pp, microbatches + 1)
            if microbatches % size == 0 or microbatches % size >= pp]


def drawn(model, count, seed, batch=8):
    """`count` random legal plans; the same for the same seed."""
    generator = random.Random(seed)
    seen = set()
    while len(seen) < count:
        tp = generator.choice([1, 1, 2, 4])
        dp = generator.choice([1, 2, 4])
        pp = generator.choice([p for p in (1, 2, 3) if p <= model["layers"]])
        if dp * tp * pp > 12 or not splits_heads(model, tp):
            continue
        per_rank = batch // dp
        micro = generator.choice([m for m in (1, 2, 4, 8) if per_rank % m == 0])
        vp = generator.choice([v for v in (1, 1, 2, 3) if pp * v <= model["layers"] and
                               (v == 1 or pp > 1)])
        sizes = groups(pp, per_rank // micro) if vp > 1 else [0]
        if not sizes:
            continue
        group = generator.choice(sizes)
        cuts = sorted(generator.sample(range(1, model["layers"]), pp * vp - 1))
        split = [b - a for a, b in zip([0] + cuts, cuts + [model["layers"]])]
        value = plan(model, dp=dp, tp=tp, pp=pp, sp=tp > 1 and generator.random() < 0.5,
                     zero=generator.choice([0, 1]), micro=micro, batch=batch,
                     recompute=generator.choice(["none", "selective", "full"]), layers=split,
                     schedule=generator.choice(["1f1b", "gpipe"]), vp=vp,
                     group=0 if group == pp else group,
                     full_layers=generator.choice([None, None, 1]))
        text = json.dumps(value)
        if text not in seen:
            seen.add(text)
            yield value
