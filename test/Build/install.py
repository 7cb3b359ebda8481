#!/usr/bin/env python3
"""Installs the build tree, with DESTDIR and blanks in the path, and moves it.

The moved tree is what the other scripts use. Checked here: what is there, that
no text and no search path of a program names build or source folder, and that
the tools find all that they need.
"""
import os
import re
import shutil

from installed import Shell, arguments

WANTED = """
bin/shardwright
bin/shardwright-import
bin/shardwright-opt
include/shardwright/cost_model/search/Search.h
include/shardwright/runtime/include/shardwright_rt.h
share/shardwright/hardware/dgx-h100.json
share/shardwright/profiles/native.json
share/doc/shardwright/README.md
share/doc/shardwright/examples/make/Makefile
""".split()


def texts(prefix):
    for path in sorted(prefix.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            if b"\0" not in data:
                yield path, data.decode(errors="replace")


def check_places(sh, args):
    """No text names a folder of the build."""
    for path, text in texts(args.prefix):
        for folder in (args.source, args.build):
            sh.claim(not re.search(re.escape(str(folder)) + r"\b", text),
                     f"{path} not to name {folder}")
    for tool in ("shardwright", "shardwright-opt", "shardwright-import"):
        sh.run("readelf", "-d", args.prefix / "bin" / tool)
        paths = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", sh.said)
        sh.claim(not any(str(folder) in path for path in paths
                         for folder in (args.source, args.build)),
                 f"{tool} not to look for libraries in the build folder")
    runtime = str(args.build / "lib" / "libshardwright_rt.a").encode()
    sh.claim(runtime not in (args.prefix / "bin/shardwright").read_bytes(),
             "shardwright not to know the runtime of the build folder")


def stamps(prefix):
    return {path: path.lstat().st_mtime_ns for path in prefix.rglob("*")}


def check_headers(sh, args):
    """Every header compiles alone: each one is there with all it includes."""
    include = args.prefix / "include/shardwright"
    headers = sorted(path.relative_to(include) for path in include.rglob("*.h"))
    sh.claim(len(headers) > 30, "more than 30 headers")
    everything = args.work / "everything.cpp"
    everything.write_text("".join(f'#include "{h}"\n' for h in headers))
    sh.run("c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra",
           "-I", include, everything)


def check_tools(sh, args):
    """In a prefix that cannot be written to, from a folder of its own."""
    model = args.prefix / "share/doc/shardwright/examples/models/tiny-llama"
    plan = ("--cluster", "host", "--gpus", "2", "--tp", "2", "--global-batch", "4",
            "--sequence", "32")
    sh.run("shardwright", "inspect", model)
    sh.run("shardwright", "plan", model, "--cluster", "dgx-h100", "--gpus", "8",
           "--profile", "megatron-core")
    sh.run("shardwright", "compile", model, *plan, "-o", "tiny", "--depfile",
           "tiny.d")
    runtime = [path for path in args.prefix.rglob("libshardwright_rt.a")]
    sh.claim(len(runtime) == 1, "one runtime library")
    escaped = str(runtime[0]).replace(" ", "\\ ")
    sh.claim(escaped in (args.work / "tiny.d").read_text(),
             f"the program to be linked with {runtime[0]}")
    sh.run("./tiny", "--ranks", "2", "--steps", "2", "--data",
           args.prefix / "share/doc/shardwright/README.md")
    # A link to the tool is as good as the tool.
    os.symlink(args.prefix / "bin/shardwright", args.work / "sw")
    sh.run("./sw", "compile", model, *plan, "-o", "again")
    sh.claim((args.work / "tiny").read_bytes() == (args.work / "again").read_bytes(),
             "a link to the tool to make the same program")


def main():
    args = arguments()
    sh = Shell(args.work, args.prefix, DESTDIR=str(args.work / "dest dir"))
    shutil.rmtree(args.prefix, ignore_errors=True)
    sh.run(args.cmake, "--install", args.build, "--prefix", "/opt/ship wright")
    shutil.move(args.work / "dest dir/opt/ship wright", args.prefix)
    sh.claim(not any((args.work / "dest dir/opt").iterdir()),
             "DESTDIR to have got all")

    for name in WANTED:
        sh.claim((args.prefix / name).is_file(), f"{name} to be installed")
    check_places(sh, args)
    check_headers(sh, args)

    # Root may write where it likes: what was written is seen, too.
    folders = [path for path in [args.prefix, *args.prefix.rglob("*")]
               if path.is_dir()]
    for path in folders:
        path.chmod(0o555)
    before = stamps(args.prefix)
    try:
        check_tools(sh, args)
        sh.claim(stamps(args.prefix) == before,
                 "the tools to leave the prefix as it was")
    finally:
        for path in folders:
            path.chmod(0o755)


if __name__ == "__main__":
    main()
