"""Programs in which one call can be broken: see Interpose.cpp."""
import json
import os
import pathlib

import parity

# As Interpose.cpp spells them.
REDUCTION = ("_ZN11shardwright7runtime%sER13sw_rt_contextRNS0_5GroupE11sw_rt_dtype8"
             "sw_rt_opPKvPvl")
WRAPPED = (REDUCTION % "9allReduce", REDUCTION % "13reduceScatter",
           "sw_rt_all_gather", "sw_rt_matmul")


def add_arguments(parser):
    parser.add_argument("--cxx", required=True, help="compiler to link with")
    parser.add_argument("--interpose", required=True, help="object of Interpose.cpp")
    parser.add_argument("--runtime", required=True, help="libshardwright_rt.a")
    parser.add_argument("--sanitize", help="sanitizers that the runtime is built with")


def link(model, plan, arguments):
    """The program of `plan` with the calls wrapped."""
    path, object_file = model.path(plan, ".plan.json"), model.path(plan, ".o")
    program = model.path(plan, ".interposed.exe")
    path.write_text(json.dumps(plan))
    parity.run([model.shardwright, "compile", model.config, "--plan", path, "--emit", "obj",
                "-o", object_file])
    parity.run([arguments.cxx, "-o", program, object_file, arguments.interpose, arguments.runtime]
               + ["-Wl,--wrap=" + symbol for symbol in WRAPPED]
               + ["-lopenblas", "-lmvec", "-lm", "-ldl", "-pthread"]
               + (["-fsanitize=" + arguments.sanitize] if arguments.sanitize else []))
    os.unlink(object_file)
    return pathlib.Path(program)


def fault(*words):
    """The environment that breaks a call."""
    return {"SHARDWRIGHT_TEST_FAULT": " ".join(map(str, words))}
