#!/usr/bin/env python3
"""The CMake project of this folder, against the moved installed tree.

Built with Ninja and with make; then its config, plan, cluster and expectation
change one by one: what was made from them is made again, and nothing else.
"""
import re
import shutil
import time

from installed import Shell, arguments, edit

STEPS = {"frozen": "Compiling the model of frozen",
         "searched": "Compiling the model of searched",
         "check": "Checking the plan of plan_holds"}


class Project:
    def __init__(self, args, generator):
        self.root = args.work / f"a project, {generator}"
        shutil.copytree(args.source / "test/Build/project", self.root)
        shutil.copytree(args.source / "examples/models/tiny-llama",
                        self.root / "model")
        shutil.copy(args.prefix / "share/shardwright/hardware/host.json",
                    self.root / "my cluster.json")
        self.sh = Shell(self.root, args.prefix)
        self.cmake = args.cmake
        self.sh.run("shardwright", "predict", "model", "--cluster",
                    "my cluster.json", "--gpus", "2", "--tp", "2",
                    "--global-batch", "4", "--sequence", "32", "-o", "plan.json",
                    "--report", "expected.json")
        self.sh.run(args.cmake, "-S", ".", "-B", "build", "-G", generator,
                    f"-DCMAKE_PREFIX_PATH={args.prefix}")

    def build(self, *made, code=0, target="all"):
        """Builds; `made` names the STEPS that run, and no others do."""
        status = self.sh.run(self.cmake, "--build", "build", "--target", target,
                             code=None)
        self.sh.claim((status == 0) == (code == 0),
                      "a build that succeeds" if code == 0
                      else "a build that fails")
        ran = {name for name, text in STEPS.items() if text in self.sh.said}
        self.sh.claim(ran == set(made), f"{sorted(made)} to be made, but got "
                                        f"{sorted(ran)}")

    def change(self, name, old, new):
        # Time stamps of some file systems, and of make, are coarse.
        time.sleep(0.02)
        edit(self.root / name, old, new)


def scenario(args, generator):
    project = Project(args, generator)
    project.build("frozen", "searched", "check")
    project.build()
    if generator == "Ninja":
        project.sh.says("no work to do")

    # What is built, is run and installed like any other program.
    project.sh.run(args.cmake.parent / "ctest", "--test-dir", "build")
    project.sh.run(args.cmake, "--install", "build", "--prefix", "put")
    project.sh.run("put/bin/searched", "--ranks", "2", "--steps", "1",
                   "--data", "CMakeLists.txt")

    # Same model, other text: digests of plans are of what a config says.
    project.change("model/config.json", "{", "{ ")
    project.build("frozen", "searched", "check")
    project.build()
    # A file beside the config that nobody reads.
    (project.root / "model/generation_config.json").write_text("{}")
    project.build()

    # Another plan of the same model and cluster.
    project.change("plan.json", '"global": 4', '"global": 8')
    project.build("frozen", "check", code=1)
    project.sh.says("expected.json: expected a step time within 2 % of")
    # It stays broken until somebody accepts it.
    project.build("check", code=1, target="plan_holds")
    project.build(target="plan_holds-accept")
    project.build("check")
    project.build()

    # Another cluster: first the same one in other words, then one on which the
    # plan does not fit.
    cluster = project.root / "my cluster.json"
    text = cluster.read_text()
    time.sleep(0.02)
    cluster.write_text(text + "\n")
    project.build("searched", "check")
    project.build()
    time.sleep(0.02)
    cluster.write_text(re.sub('"usable_bytes": *[0-9]*', '"usable_bytes": 1048576',
                              text))
    project.build("check", code=1, target="plan_holds")
    project.sh.says("the plan does not fit: a rank of stage 0 needs")
    time.sleep(0.02)
    cluster.write_text(text)

    # Another model: a plan is of one model, a search of any.
    project.change("model/config.json", '"num_hidden_layers": 6',
                   '"num_hidden_layers": 5')
    project.build("check", code=1, target="plan_holds")
    project.build("frozen", code=1, target="frozen")
    project.build("searched", target="searched")
    project.sh.run("build/searched", "--ranks", "2", "--steps", "1",
                   "--data", "CMakeLists.txt")


def plans_alone(args):
    """A project without a compiler may check plans, of shipped clusters too."""
    root = args.work / "plans alone"
    root.mkdir()
    sh = Shell(root, args.prefix)
    model = args.source / "examples/models/tiny-llama"
    sh.run("shardwright", "plan", model, "--cluster", "dgx-h100", "--gpus", "8",
           "-o", "plan.json")
    (root / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(Plans LANGUAGES NONE)\n"
        "find_package(Shardwright REQUIRED COMPONENTS compiler)\n"
        f"shardwright_check_plan(holds MODEL \"{model}\" PLAN plan.json\n"
        "  CLUSTER dgx-h100 PROFILE megatron-core OPTIONS --memory-limit 20GiB)\n"
        f"shardwright_check_plan(too_large MODEL \"{model}\" PLAN plan.json\n"
        "  CLUSTER dgx-h100 OPTIONS --memory-limit 1MiB)\n"
        "add_custom_command(OUTPUT made.json COMMAND Shardwright::shardwright plan\n"
        f"  \"{model}\" --cluster dgx-h100 --gpus 8 -o made.json VERBATIM)\n"
        f"shardwright_check_plan(made MODEL \"{model}\"\n"
        "  PLAN ${CMAKE_CURRENT_BINARY_DIR}/made.json CLUSTER dgx-h100)\n")
    (root / "dgx-h100").mkdir()  # a folder is no cluster
    sh.run(args.cmake, "-S", ".", "-B", "build", "-G", "Ninja",
           f"-DCMAKE_PREFIX_PATH={args.prefix}")
    sh.run(args.cmake, "--build", "build", "--target", "holds")
    sh.run(args.cmake, "--build", "build", "--target", "made")
    sh.claim(sh.run(args.cmake, "--build", "build", code=None) != 0,
             "a build that fails")
    sh.says("the plan does not fit")


def refusals(args):
    """A wrong call of the functions is refused when the project is configured."""
    root = args.work / "wrong"
    root.mkdir()
    sh = Shell(root, args.prefix)
    cases = [
        ("shardwright_add_executable(x PLAN p.json)", "expected MODEL"),
        ("shardwright_add_executable(x MODEL m)", "expected either PLAN, or CLUSTER"),
        ("shardwright_add_executable(x MODEL m PLAN p CLUSTER c)",
         "expected either PLAN, or CLUSTER"),
        ("shardwright_add_executable(x MODEL m PLAN p TARGETS host)",
         "unknown arguments: TARGETS"),
        ("shardwright_check_plan(x MODEL m PLAN p)", "expected CLUSTER"),
        ("shardwright_check_plan(x MODEL m PLAN p CLUSTER c TOLERANCE 1)",
         "expected EXPECT with TOLERANCE"),
        ("find_package(Shardwright REQUIRED COMPONENTS gpu)", "gpu"),
        ("find_package(Shardwright 9 REQUIRED)", "9"),
    ]
    for call, message in cases:
        (root / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(Wrong CXX)\n"
            f"find_package(Shardwright REQUIRED)\n{call}\n")
        sh.run(args.cmake, "-S", ".", "-B", "build",
               f"-DCMAKE_PREFIX_PATH={args.prefix}", code=1)
        sh.claim(message in " ".join(sh.said.split()), f"the refusal {message!r}")


def main():
    args = arguments()
    scenario(args, "Ninja")
    scenario(args, "Unix Makefiles")
    plans_alone(args)
    refusals(args)


if __name__ == "__main__":
    main()
