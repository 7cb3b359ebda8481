#!/usr/bin/env python3
"""examples/make: what is made again when an input changes, and what is not."""
import re
import shutil
import time

from installed import Shell, arguments, edit

VERBS = ("plan", "compile", "predict")


def main():
    args = arguments()
    root = args.work / "make"
    shutil.copytree(args.prefix / "share/doc/shardwright/examples/make", root)
    shutil.copytree(args.source / "examples/models/tiny-llama", root / "model")
    cluster = root / "cluster.json"
    shutil.copy(args.prefix / "share/shardwright/hardware/host.json", cluster)
    sh = Shell(root, args.prefix)

    def make(*ran, code=0, goal="all"):
        time.sleep(0.02)  # time stamps of some file systems are coarse
        sh.run("make", goal, "MODEL=model", "CLUSTER=cluster.json", code=code)
        called = re.findall(r"^shardwright (\w+)", sh.said, re.MULTILINE)
        sh.claim(called == list(ran), f"calls of {ran}, but got {called}")

    # The first prediction is the accepted one.
    make("plan", "compile", "predict", "predict")
    make()
    sh.run("make", "run")

    (root / "plan.json").touch()
    make("compile", "predict")
    edit(root / "model/config.json", "{", "{ ")
    make("plan", "compile", "predict")
    edit(cluster, '"schema"', ' "schema"')
    make("plan", "compile", "predict")
    make()

    # A slower machine: the check fails until it is accepted.
    text = cluster.read_text()
    cluster.write_text(re.sub('("f32": *)[0-9.e+]*', r"\g<1>59e9", text))
    make("plan", "compile", "predict", code=2)
    sh.says("expected.json: expected a step time within 2 % of")
    make("predict", code=2)
    make("predict", goal="accept")
    make("predict")
    make()


if __name__ == "__main__":
    main()
