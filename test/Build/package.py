#!/usr/bin/env python3
"""The Debian package: what is in it, what it depends on, and that it runs where
it was unpacked."""
import re

from installed import Shell, arguments

WANTED = ["/usr/bin/shardwright", "/usr/share/man/man1/shardwright.1",
          "/usr/share/bash-completion/completions/shardwright",
          "/usr/share/shardwright/hardware/dgx-h100.json",
          "/usr/include/shardwright/cost_model/plan/Plan.h"]


def main():
    args = arguments("cpack")
    sh = Shell(args.work, args.prefix)
    sh.run(args.cpack, "--config", args.build / "CPackConfig.cmake", "-G", "DEB",
           "-B", args.work / "packages")
    packages = list((args.work / "packages").glob("*.deb"))
    sh.claim(len(packages) == 1, "one package")
    package = packages[0]

    sh.run("dpkg-deb", "--info", package)
    version = re.search(r"^ Version: (.*)$", sh.said, re.MULTILINE).group(1)
    depends = re.search(r"^ Depends: (.*)$", sh.said, re.MULTILINE).group(1)
    # Of the programs, found by dpkg-shlibdeps, and of what `compile` links with.
    for name in ("libc6", "libstdc++6", "libmlir-22", "libllvm22", "g++",
                 "libopenblas-dev"):
        sh.claim(re.search(rf"(^|[ ,|]){re.escape(name)}(?![\w+])", depends),
                 f"a dependency on {name}")
    sh.claim(re.fullmatch(rf"shardwright_{re.escape(version)}_\w+\.deb",
                          package.name), "Debian's name of a package")

    sh.run("dpkg", "-c", package)
    files = {}
    for line in sh.said.splitlines():
        mode, owner, _, _, _, name = line.split(maxsplit=5)
        files[name.split(" -> ")[0].lstrip(".")] = mode
        sh.claim(owner == "root/root", f"{name} to belong to root")
    for name in WANTED:
        sh.claim(name in files, f"{name} in the package")
    sh.claim(all(name.startswith("/usr/") or name in ("/", "/usr")
                 for name in files), "everything below /usr")
    for name, mode in files.items():
        wanted = "rwxr-xr-x" if (mode[0] == "d" or name.startswith("/usr/bin/")
                                 or "/quickstart/" in name
                                 and not name.endswith(".md")) else "rw-r--r--"
        sh.claim(mode[1:] == wanted, f"mode {wanted} of {name}, but got {mode}")

    root = args.work / "scratch root"
    sh.run("dpkg", "-x", package, root)
    unpacked = Shell(args.work, root / "usr")
    unpacked.run("shardwright", "--version")
    unpacked.says(version)
    model = root / "usr/share/doc/shardwright/examples/models/tiny-llama"
    unpacked.run("shardwright", "plan", model, "--cluster", "dgx-h100", "--gpus", "8")
    unpacked.run("shardwright", "compile", model, "--cluster", "host", "--gpus", "2",
                 "--tp", "2", "--global-batch", "4", "--sequence", "32", "-o", "tiny")
    unpacked.run("./tiny", "--ranks", "2", "--steps", "1", "--data",
                 root / "usr/share/doc/shardwright/README.md")
    # And found by CMake, from there.
    project = args.work / "found"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(Found CXX)\n"
        "find_package(Shardwright 0.1 REQUIRED COMPONENTS cost runtime compiler)\n")
    unpacked.run(args.cmake, "-S", project, "-B", project / "build",
                 f"-DCMAKE_PREFIX_PATH={root}/usr")


if __name__ == "__main__":
    main()
