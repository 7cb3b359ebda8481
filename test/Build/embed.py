#!/usr/bin/env python3
"""examples/embed: the cost model in another C++ project, without LLVM.

Against the installed library, and as a folder of a clone; what it answers is what
the tool answers.
"""
import re
import shutil

from installed import Shell, arguments


def main():
    args = arguments()
    sh = Shell(args.work, args.prefix)
    shutil.copytree(args.prefix / "share/doc/shardwright/examples/embed",
                    args.work / "embed")
    lines = (args.work / "embed/main.cpp").read_text().splitlines()
    sh.last = "wc -l main.cpp"
    sh.claim(len(lines) <= 45, f"a short example, but got {len(lines)} lines")

    question = ("--sequence", "4096")
    sh.run("shardwright", "inspect", args.source / "examples/models/llama-3-8b",
           *question, "--program", "program.json")
    sh.run(args.cmake, "-S", "embed", "-B", "installed", "-G", "Ninja",
           f"-DCMAKE_PREFIX_PATH={args.prefix}")
    sh.run(args.cmake, "--build", "installed")
    sh.run("ldd", "installed/embed")
    for library in ("LLVM", "MLIR", "blas", "mpi"):
        sh.claim(library not in sh.said, f"no {library} among its libraries")

    sh.run("installed/embed", "program.json", "dgx-h100", "16", "64")
    answer = sh.said.splitlines()
    sh.claim(len(answer) == 1, "one plan")
    sh.run("shardwright", "plan", args.source / "examples/models/llama-3-8b",
           "--cluster", "dgx-h100", "--gpus", "16", "--global-batch", "64",
           *question)
    best = re.search(r"^best: (.*)$", sh.said, re.MULTILINE)
    sh.claim(best and answer[0].endswith("  " + best.group(1)),
             f"the tool to find the same plan as {answer[0]!r}")

    sh.run("installed/embed", "none.json", "dgx-h100", "16", "64", code=4)
    sh.says("none.json")
    sh.run("installed/embed", "program.json", "nonesuch", "16", "64", code=5)
    sh.says("usage: embed program.json")
    sh.run("installed/embed", code=5)

    # From a clone: configured with no LLVM to be found, and one file compiled
    # (all of them are, above, in the library).
    sh.run(args.cmake, "-S", "embed", "-B", "clone", "-G", "Ninja",
           f"-DSHARDWRIGHT_SOURCE={args.source}", "-DCMAKE_DISABLE_FIND_PACKAGE_LLVM=ON",
           "-DCMAKE_DISABLE_FIND_PACKAGE_MLIR=ON")
    sh.run("ninja", "-C", "clone", "cost_model/CMakeFiles/shardwright_cost.dir/plan/PlanJson.cpp.o",
           "CMakeFiles/embed.dir/main.cpp.o")


if __name__ == "__main__":
    main()
