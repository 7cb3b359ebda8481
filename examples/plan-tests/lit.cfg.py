# Tests of plans: copy this folder, change model, plan and claims, run `lit-22 -v .`
import os

import lit.formats

config.name = "plans"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".test"]
config.test_source_root = os.path.dirname(__file__)
# shardwright, and FileCheck of llvm-22-tools (/usr/lib/llvm-22/bin).
config.environment["PATH"] = os.pathsep.join([os.environ["PATH"],
                                              "/usr/lib/llvm-22/bin"])
