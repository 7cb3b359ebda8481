#!/usr/bin/env python3
"""examples/plan-tests: lit tests of a plan that hold, and fail when it changes."""
import shutil

from installed import Shell, arguments, edit


def main():
    args = arguments("lit", "llvm")
    root = args.work / "plan tests"
    shutil.copytree(args.prefix / "share/doc/shardwright/examples/plan-tests", root)
    shutil.copytree(args.source / "examples/models", args.work / "models")
    sh = Shell(root, args.prefix)
    sh.environment["PATH"] += f":{args.llvm}"
    sh.run(args.lit, "-v", ".")
    sh.says("Passed: 2")
    edit(root / "plan.json", '"micro": 1', '"micro": 2')
    sh.run(args.lit, "-v", ".", code=1)
    sh.says("Failed: 2")


if __name__ == "__main__":
    main()
