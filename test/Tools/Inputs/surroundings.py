"""surroundings.py SOURCE FOLDER PART: tools where disk, memory, threads or
permissions end: one message, the documented exit code, nothing half written.

Where the system lets nobody make such a place (a small file system wants user
namespaces), that part says so and is left out.
"""
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time

source, folder, part = sys.argv[1:]
tiny = f"{source}/examples/models/tiny-llama"
NO, INPUT, USAGE = 2, 4, 5
MIB = 1 << 20
plan = ["--cluster", "host", "--gpus", "2", "--tp", "2", "--global-batch", "2",
        "--sequence", "32"]
problems = []

shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
os.chdir(folder)


def run(command, limits=(), **options):
    def limit():
        for what, value in limits:
            resource.setrlimit(what, (value, resource.getrlimit(what)[1]))

    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run(command, stderr=subprocess.PIPE, text=True,
                          timeout=300, preexec_fn=limit, **options)


def check(what, done, code, *words, answers=False):
    """One message, that has `words`, and the code; notes may stand before it.
    `answers`: what was asked for is on stdout, but could not be kept."""
    errors = [line for line in done.stderr.splitlines() if "error: " in line]
    good = (done.returncode == code and len(errors) == 1 and
            bool(done.stdout) == answers and
            all(word in errors[0] for word in words))
    print("ok" if good else "FAILED", what, flush=True)
    if not good:
        problems.append(f"{what}: exit {done.returncode}, expected {code} and "
                        f"{words}: {done.stderr[-1500:]}")


def expect(what, condition, *facts):
    print("ok" if condition else "FAILED", what, flush=True)
    if not condition:
        problems.append(f"{what}: {facts}")


def full():
    """stdout takes nothing."""
    for command in (["--help"], ["--version"], ["plan", "--help"],
                    ["inspect", tiny], ["inspect", tiny, "--json"],
                    ["predict", tiny, *plan], ["plan", tiny, "--cluster", "host"],
                    ["diagnostics"], ["completion", "bash"]):
        with open("/dev/full", "w") as out:
            check(" ".join(command[:2]) + " > /dev/full",
                  run(["shardwright", *command], stdout=out), USAGE,
                  "stdout: cannot write: ", "[output_unwritable]")
    with open("/dev/full", "w") as out:
        check("import > /dev/full", run(["shardwright-import", tiny], stdout=out),
              USAGE, "stdout: cannot write: No space left on device")
    check("man to a folder that is full of nothing",
          run(["shardwright", "man", "none"]), USAGE, "none/shardwright.1: ")


def unreadable():
    """Files that may not be read; root may, so it gives that right away."""
    bare = (["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
            if os.geteuid() == 0 else [])
    os.mkdir("closed")
    shutil.copy(f"{tiny}/config.json", "closed/config.json")
    shutil.copy(f"{tiny}/config.json", "closed.json")
    os.chmod("closed.json", 0)
    for mode, name in ((0, "closed"), (0, "closed/config.json")):
        os.chmod("closed", mode)
        check(f"{name} may not be read", run([*bare, "shardwright", "inspect", name]),
              INPUT, "closed/config.json: cannot read: Permission denied",
              "[file_unreadable]")
    os.chmod("closed", 0o755)
    check("a config may not be read",
          run([*bare, "shardwright", "inspect", "closed.json"]), INPUT,
          "closed.json: cannot read: Permission denied")
    check("a cluster may not be read",
          run([*bare, "shardwright", "plan", tiny, "--cluster", "closed.json"]),
          INPUT, "closed.json: cannot read: Permission denied")


def outputs():
    """A link stays and the file behind it is replaced; a pipe is written to."""
    predict = ["shardwright", "predict", tiny, *plan, "-o"]
    os.symlink("behind.json", "link.json")
    for what in ("nothing", "an older file"):
        done = run([*predict, "link.json"])
        expect(f"a link to {what}", done.returncode == 0 and
               os.path.islink("link.json") and os.path.getsize("behind.json") > 100,
               done.stderr)
        with open("behind.json", "w") as file:
            file.write("old")
        os.chmod("behind.json", 0o640)
    expect("the mode of a file stays", run([*predict, "link.json"]).returncode == 0
           and stat.S_IMODE(os.stat("behind.json").st_mode) == 0o640)
    program = ["shardwright", "compile", tiny, *plan, "-o"]
    os.symlink("behind", "program")
    for emit in ("exe", "model"):
        done = run([*program, "program", "--emit", emit])
        expect(f"a link to {emit}", done.returncode == 0 and
               os.path.islink("program") and os.access("behind", os.X_OK),
               done.stderr)
    os.symlink("round", "round")
    check("a link to itself", run([*predict, "round"]), USAGE,
          "round: cannot write: Too many levels of symbolic links",
          answers=True)
    os.mkfifo("pipe")
    check("a pipe that nobody reads", run([*predict, "pipe"]), USAGE,
          "pipe: cannot write: a pipe that nobody reads", answers=True)
    for what, command in (("plan", [*predict, "pipe"]),
                          ("model", [*program, "pipe", "--emit", "model"])):
        got = []

        def reading():
            with open("pipe") as file:
                got.append(file.read())

        reader = threading.Thread(target=reading)
        reader.start()
        time.sleep(0.2)
        done = run(command)
        if done.returncode:
            os.close(os.open("pipe", os.O_WRONLY | os.O_NONBLOCK))
        reader.join()
        expect(f"a pipe takes a {what}", done.returncode == 0 and
               len(got[0]) > 100 and stat.S_ISFIFO(os.stat("pipe").st_mode),
               done.stderr)
    check("a pipe takes no program", run([*program, "pipe"]), USAGE,
          "pipe: expected a file for the program")


def disk():
    """A file system without room: this script again, alone on one."""
    small = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
             'mount -t tmpfs -o size=300k none small && exec "$@"', "sh"]
    os.mkdir("small")
    if run([*small, "true"]).returncode:
        print("no small file system can be made here: left out")
        return
    done = run(["shardwright", "compile", tiny, *plan, "-o", "whole"])
    assert done.returncode == 0, done.stderr

    def inside(what, command, code, *words, environment=None):
        done = run([*small, "sh", "-c",
                    '"$@" > said; code=$?; rm -f small/fill; ls -A small; '
                    "exit $code", "sh", *command],
                   env=dict(os.environ, **(environment or {})))
        left, done.stdout = done.stdout, ""
        check(what, done, code, *words)
        expect("it leaves nothing", not left.strip(), left)

    program = ["shardwright", "compile", tiny, *plan, "--plan-output", "p.json",
               "-o"]
    no_room = "No space left on device"
    inside("a program without room", [*program, "small/program"], USAGE,
           "small/program: cannot write: " + no_room, "[output_unwritable]")
    filled = ["sh", "-c", 'head -c 290000 /dev/zero > small/fill; "$@"', "sh"]
    inside("no room where the linker works", [*filled, *program, "program"],
           USAGE, f"{os.getcwd()}/small/", no_room,
           environment={"TMPDIR": f"{os.getcwd()}/small"})
    expect("and no program", not os.path.exists("program"))
    inside("IR without room", ["sh", "-c",
           '"$@"; code=$?; rm -r small/dump; exit $code', "sh", *program,
           "program", "--emit", "spmd", "--dump-dir", "small/dump"], USAGE,
           "small/dump/", "cannot write: " + no_room)
    inside("a plan without room",
           ["sh", "-c", 'head -c 307200 /dev/zero > small/fill; "$@"', "sh",
            "shardwright", "predict", tiny, *plan, "-o", "small/plan.json"],
           USAGE, "small/plan.json: cannot write: " + no_room)
    inside("a checkpoint without room", ["./whole", "--steps", "1", "--data",
           f"{source}/README.md", "--save", "small/c.safetensors"], INPUT,
           "small/c.safetensors", no_room, "[run_file]")


def sizes():
    """`ulimit -f`, whose signal must not end anything."""
    program = ["shardwright", "compile", tiny, *plan, "-o", "program"]
    check("a program beyond ulimit -f",
          run(program, [(resource.RLIMIT_FSIZE, 400 * 1024)]), USAGE,
          "cannot write: File too large", "[output_unwritable]")
    check("a plan beyond ulimit -f",
          run(["shardwright", "predict", tiny, *plan, "-o", "plan.json"],
              [(resource.RLIMIT_FSIZE, 64)]), USAGE,
          "plan.json: cannot write: File too large", answers=True)
    with open("page", "w") as out:
        check("stdout beyond ulimit -f",
              run(["shardwright", "diagnostics", "--markdown"],
                  [(resource.RLIMIT_FSIZE, 1000)], stdout=out), USAGE,
              "stdout: cannot write: ", "[output_unwritable]")
    os.remove("page")
    expect("nothing is left", not os.listdir("."), os.listdir("."))


def memory():
    """`ulimit -v`."""
    waiting = subprocess.Popen(["shardwright", "inspect", "/dev/stdin"],
                               stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    time.sleep(1)
    with open(f"/proc/{waiting.pid}/status") as file:
        kib = int(file.read().split("VmPeak:")[1].split()[0])
    waiting.communicate(b"")
    if kib > 1 << 30:
        print("a sanitizer takes all addresses: left out")
        return
    with open("rows.jsonl", "wb") as file:
        file.truncate(200 * MIB)
    check("an input beyond memory",
          run(["shardwright", "validate", "rows.jsonl"],
              [(resource.RLIMIT_AS, kib * 1024 + 100 * MIB)]), NO,
          "expected more memory", "[out_of_memory]")
    os.remove("rows.jsonl")
    # Threads whose stacks no address is left for: the search goes on without.
    stacks = [(resource.RLIMIT_STACK, 1024 * MIB),
              (resource.RLIMIT_AS, kib * 1024 + 900 * MIB)]
    run(["shardwright", "predict", tiny, *plan, "-o", "plan.json"])
    for command in (["plan", tiny, "--cluster", "host", "--gpus", "8",
                     "--global-batch", "16", "--threads", "16"],
                    ["explain", tiny, "plan.json", "--cluster", "host"]):
        usual = run(["shardwright", *command])
        alone = run(["shardwright", *command], stacks)
        expect(f"{command[0]} goes on with the threads that it gets",
               usual.returncode == alone.returncode == 0 and
               usual.stdout.splitlines()[:3] == alone.stdout.splitlines()[:3],
               alone.returncode, alone.stderr[-500:])
    # As little as the loader wants, and more: it works, or one message says so.
    def little(what, command, limits, name, others):
        codes = []
        for limit in limits:
            done = run(command, [(resource.RLIMIT_AS, limit)],
                       env=dict(os.environ, OPENBLAS_NUM_THREADS="2"))
            errors = [line for line in done.stderr.splitlines()
                      if "error: " in line]
            codes.append(done.returncode)
            if done.returncode == NO and (len(errors) != 1 or
                                          name not in errors[0]):
                codes.append(done.stderr[-500:])
            if codes[-6:] == [NO] * 6 and 0 not in others:
                break  # beyond, OpenBLAS asks for its buffers for ever
        expect(f"{what} in little memory",
               NO in codes and set(codes) <= {NO, *others}, codes)

    program = ["shardwright", "compile", tiny, *plan, "-o"]
    run([*program, "whole"])
    little("compile", [*program, "program"],
           range((kib - 30000) * 1024, kib * 1024 + 60 * MIB, 6 * MIB),
           "[out_of_memory]", {0, 127})  # the loader's
    little("a program", ["./whole", "--steps", "1", "--data",
                         f"{source}/README.md"],
           range(40 * MIB, 400 * MIB, 4 * MIB), "[run_memory]",
           {127, -signal.SIGINT})  # which OpenBLAS sends itself at start


{"full": full, "unreadable": unreadable, "outputs": outputs, "disk": disk,
 "sizes": sizes, "memory": memory}[part]()
print("\n".join(problems))
sys.exit(bool(problems))
