# Configuration of the lit tests; lit.site.cfg.py in the build tree loads it.
import os
import shutil
import subprocess

import lit.formats

config.name = "shardwright"
config.test_format = lit.formats.ShTest(True)  # bash
config.suffixes = [".mlir", ".test"]
# Catch2 programs, recorded data and inputs are no tests.
config.excludes = ["unit", "golden", "validation", "Inputs", "data",
                   "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.obj_root

config.environment["PATH"] = os.pathsep.join(
    [config.shardwright_tools, config.llvm_tools, os.environ["PATH"]])
# One thread per rank does its own work: a BLAS that starts more would fight it.
config.environment["OPENBLAS_NUM_THREADS"] = "1"
config.environment["OMP_NUM_THREADS"] = "1"
# Open MPI in containers and on fewer cores than ranks.
for key, value in {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_btl_base_warn_component_unused": "0",
}.items():
    config.environment[key] = value

config.substitutions.append(("%source_root", config.source_root))
config.substitutions.append(("%build_root", config.build_root))
config.substitutions.append(("%python", config.python))
config.substitutions.append(("%cxx", config.cxx))
config.substitutions.append(("%cmake", config.cmake))

# A test that needs one of these says REQUIRES: and is reported as unsupported
# where it is missing.
# Debian's Python has its packages; the one that CMake found may have none.
numpy_python = "/usr/bin/python3"
config.substitutions.append(("%numpy_python", numpy_python))
for module in ("numpy", "torch"):
    if subprocess.run([numpy_python, "-c",
                       "import importlib.util, sys;"
                       f"sys.exit(importlib.util.find_spec('{module}') is None)"],
                      check=False).returncode == 0:
        config.available_features.add(module)
if shutil.which("clang++"):
    config.available_features.add("clang")
