#!/usr/bin/env python3
"""soak.py --minutes M [--jobs N] [--seed S] [--build DIR]: random guests x random kills x random disk faults.

Each iteration runs a program of tests/guests or the mock program with the collector, or under `inferprof run`, on a
disk with faults (faults.c), sends it signals at random moments, and checks:
  - its output, exit status and files are as without the collector. If a signal ended it: a part of them
  - it ends in time: its own time, one second per process to open the trace and one to end it
  - `inferprof stats` reads every trace that is left, or refuses it with one message
  - there is no file outside of the output folder, and no process is left

The last lines are a summary, which is also printed every 10 minutes. A violation prints the iteration: repeat it with
--seed S --only ITERATION. Signals and faults are chosen by the seed; the moments at which threads meet them are not.
For a process that has not ended, it also prints where each of its threads is, with a backtrace if gdb is installed."""
import argparse, ctypes, json, os, random, re, select, shutil, signal, subprocess, sys, tempfile, time

SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL, signal.SIGSEGV]
TRACE_NAME = re.compile(r"[A-Za-z0-9_.-]+-\d+(\.\d+)?\.(ipt|problem)")
SLACK_S = 6.0  # for a loaded machine
START_S, END_S = 1.0, 1.0  # what the collector may add per process
PR_SET_CHILD_SUBREAPER = 36


# ---- what to run
def mock_words(rng):
    """Arguments of the mock program. Prints and exit status do not depend on the collector."""
    words = ["say=hello"] if rng.random() < 0.5 else []
    words += ["init"] if rng.random() < 0.9 else []
    for _ in range(rng.randrange(1, 9)):
        words.append(rng.choice([
            f"kernels={rng.randrange(1, 30000)}", f"graphs={rng.randrange(1, 300)}", f"copies={rng.randrange(1, 3000)}",
            f"memsets={rng.randrange(1, 3000)}", f"syncs={rng.randrange(1, 300)}", "nvtx", "push=outer", "pop",
            f"threads={rng.randrange(2, 17)}:{rng.randrange(1, 4000)}", f"nest={rng.randrange(1, 400)}", "start=never ended",
            "mark=m", "stream=main", f"streams={rng.randrange(1, 9)}", "fork", "leave=left open", "dlclose",
            f"sleep={rng.randrange(1, 400)}", "say=" + "x" * rng.randrange(1, 2000)]))
    if rng.random() < 0.15:
        words.append("exec=say=again,init,push=r,kernels=500,pop,exit=7")
    else:
        words.append(rng.choice(["exit=0", "exit=5", "_exit=6", "kill", "segv", "abort", "sleep=1", "sleep=1"]))
    return words


def choose_guest(rng, bins):
    g = lambda name: f"{bins}/guests/{name}"
    app = [f"{bins}/mock/mock_app", *mock_words(rng)]
    limit = rng.choice([f"nofile={rng.choice([8, 12, 16, 64])}", f"fsize={rng.choice([64, 4096, 65536, 1 << 20])}",
                        f"as={rng.choice([16, 24, 40, 80, 200]) << 20}", "nothreads", "noclose_range", "nounshare"])
    # A program that cannot start a thread or lacks memory may behave otherwise by itself: one with few words.
    plain = [f"{bins}/mock/mock_app", "say=hello", "init", "push=r", f"kernels={rng.randrange(1, 5000)}", "pop", "sleep=150"]
    return rng.choice([
        app, app, app, app,
        [g("sandbox"), limit, "--", *plain],
        [g("descriptors"), rng.choice(["close_range", "loop", "dup2"])],
        [g("sandbox"), "noclose_range", "--", g("descriptors"), rng.choice(["loop", "dup2"])],
        [g("context")],
        [g("signal_exit"), "exit", str(rng.choice([300, 1100, 3100, 8300, 17011, 31013, 70001]))],
        [g("signal_exit"), rng.choice(["nvtx", "first"])],
        [g("copies"), rng.choice(["_Fork", "clone", "vfork", "fork"]), str(rng.choice([1, 3, 10]))],
        [g("daemon")],
        [g("threads"), str(rng.choice([1, 20, 300, 2000])), str(rng.choice([18, 64, 256]))],
        [g("locale"), "C"],
        [g("main_ends"), rng.choice(["used", "unused", "child"])],
    ] + ([[g("jail"), "jail"]] if os.getuid() == 0 else []))


def choose_settings(rng):
    env = {"INFERPROF_COLLECT_FLUSH_MS": str(rng.choice([0, 1, 20, 50, 200]))}
    extra = {"MEMORY": [1 << 20, 4 << 20, 64 << 20], "MAX_SIZE": [0, 4096, 65536, 1 << 20], "BUFFER": [4096, 65536, 1 << 20],
             "DELAY_US": [0, 50000], "DURATION_US": [0, 100000], "BUDGET_PPM": [0, 10000, 100000], "RANGE": ["", "r*", "outer"]}
    for name, values in extra.items():
        if rng.random() < 0.25:
            env["INFERPROF_COLLECT_" + name] = str(rng.choice(values))
    if rng.random() < 0.3:
        faults = ["zero", "reversed", "early", "unknown", "dropped", "refuse", "held", "late", "hang", "cutoff", "worker",
                  "once", "hasty", "clings"]
        env["MOCK_CUPTI"] = ",".join(rng.sample(faults, rng.randrange(1, 4)))
    return env


class Plan:
    """Everything that is random in an iteration."""

    def __init__(self, seed, number, bins):
        rng = random.Random(f"{seed}/{number}")
        self.command = choose_guest(rng, bins)
        self.env = choose_settings(rng)
        self.by_run = rng.random() < 0.25
        ppm = rng.choice([0, 20000, 100000, 300000, 800000])
        hang = rng.choice([0, 0, 300000]) if not self.by_run else 0  # a command waits for its disk, the collector does not
        self.faults = {"FAULTS_SEED": str(rng.getrandbits(32)), "FAULTS_PPM": str(ppm), "FAULTS_HANG": str(hang)}
        self.kill = rng.choice([None, None, "kill", "kill", "stop"])
        self.signal = rng.choice(SIGNALS)
        self.moment = rng.random() ** 2  # of the program's own time, most often near its start
        self.stop_s = rng.choice([0.05, 0.3, 1.5])

    def describe(self):
        kill = {"kill": f"{self.signal.name} at {self.moment:.3f}", "stop": f"SIGSTOP at {self.moment:.3f} for {self.stop_s} s",
                None: "no signal"}[self.kill]
        return f"{'run' if self.by_run else 'env'}; {kill}; {self.faults} {self.env}; {' '.join(self.command)[:400]}"


# ---- running it
class Result:
    def __init__(self):
        self.status, self.orphans, self.out, self.err, self.files = None, [], b"", b"", {}
        self.seconds, self.left, self.threads, self.stopped_s = 0.0, [], "", 0.0


def tree(folder):
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as f:
                found[os.path.relpath(path, folder)] = f.read(65536)
    return found


def children():
    """Pids of the children of this process: with it as their reaper, all processes that a guest leaves."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        return []


def reap(result, main):
    """Collects ended processes; true while any is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        code = os.waitstatus_to_exitcode(status)
        if pid == main:
            result.status = code
        else:
            result.orphans.append(code)


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def execute(command, env, folder, limit_s, plan=None, own_s=0.0):
    """Runs the command in folder/cwd until all its processes have ended, or the limit is reached."""
    r, cwd = Result(), f"{folder}/cwd"
    os.makedirs(f"{cwd}/jail")
    stopped = sent = False
    with open(f"{folder}/out", "wb") as out, open(f"{folder}/err", "wb") as err:
        start = time.monotonic()
        p = subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
                             preexec_fn=lambda: ctypes.CDLL(None).prctl(4, 1, 0, 0, 0))  # no dump of memory is written
    at = plan.moment * own_s if plan and plan.kill else None
    while reap(r, p.pid):
        now = time.monotonic() - start
        if at is not None and not sent and now >= at and r.status is None:
            sent = send(p.pid, signal.SIGSTOP if plan.kill == "stop" else plan.signal)
            stopped = plan.kill == "stop"
        if stopped and now >= at + plan.stop_s:
            send(p.pid, signal.SIGCONT)
            stopped, r.stopped_s = False, now - at
        if now > limit_s + r.stopped_s + (plan.stop_s if stopped else 0):
            r.seconds, r.left = now - r.stopped_s, [name_of(pid) for pid in children()]
            r.threads = "".join(threads_of(pid) for pid in children())
            break
        time.sleep(0.002)
    if not r.left:
        r.seconds = time.monotonic() - start - r.stopped_s
    r.sent = sent and plan.kill == "kill"
    while children():
        for pid in children():
            send(pid, signal.SIGKILL)
        reap(Result(), p.pid)
    p.returncode = 0
    with open(f"{folder}/out", "rb") as out, open(f"{folder}/err", "rb") as err:
        r.out, r.err = out.read(), err.read()
    r.files = tree(cwd)
    return r


def read_proc(path):
    try:
        with open(path, "rb") as f:
            return f.read(400).replace(bytes(1), b" ").decode(errors="replace").strip()
    except OSError as e:
        return e.strerror


def name_of(pid):
    return f"{pid} {read_proc(f'/proc/{pid}/cmdline')[:200]}"


def backtrace_of(pid):
    try:
        return subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False).stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired) as e:
        return f"no backtrace: {e}\n"


def threads_of(pid):
    """Where the threads of a process are that does not end."""
    lines = [f"process {name_of(pid)}"]
    for tid in sorted(os.listdir(f"/proc/{pid}/task"), key=int) if os.path.isdir(f"/proc/{pid}/task") else []:
        at = f"/proc/{pid}/task/{tid}"
        lines.append(f"thread {tid} {read_proc(at + '/comm')}: {read_proc(at + '/wchan')}; system call {read_proc(at + '/syscall')}; "
                     f"stat {read_proc(at + '/stat')}")
    return "\n".join(lines) + "\n" + backtrace_of(pid)


class Soak:
    def __init__(self, options):
        self.o = options
        self.bins = os.path.abspath(options.build) + "/tests"
        self.inferprof = os.path.abspath(options.build) + "/inferprof"
        self.collector = os.path.abspath(options.build) + "/libinferprof-collector.so"
        self.references = {}
        self.work = tempfile.mkdtemp(prefix="soak-")

    def base_env(self, folder):
        for name in ("home", "tmp", "t"):
            os.makedirs(f"{folder}/{name}", exist_ok=True)
        return {"PATH": os.environ["PATH"], "HOME": f"{folder}/home", "TMPDIR": f"{folder}/tmp", "LC_ALL": "C.UTF-8",
                "LD_LIBRARY_PATH": f"{self.bins}/mock", "LD_PRELOAD": f"{self.bins}/soak/libfaults.so"}

    def reference(self, command):
        """Without the collector: what must not change, and how long it takes."""
        key = json.dumps(command)
        if key not in self.references:
            folder = f"{self.work}/reference"
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            self.references[key] = execute(command, self.base_env(folder), folder, 60)
            if len(self.references) > 5000:
                self.references.clear()
                return self.reference(command)
        return self.references[key]

    def limit(self, plan, own_s):
        words = " ".join(plan.command)
        processes = 1 + words.count(" fork") * 1 + (int(plan.command[-1]) if "/copies" in words else 0) \
            + 2 * ("/daemon" in words) + words.count("exec=") + 1 * ("/jail" in words)
        seconds = 3 * own_s + processes * (START_S + END_S) + SLACK_S
        return seconds + 20 if plan.by_run else seconds  # the report is written after the program's end

    def iterate(self, number):
        plan = Plan(self.o.seed, number, self.bins)
        own = self.reference(plan.command)
        folder = f"{self.work}/{number}"
        os.makedirs(folder)
        env = {**self.base_env(folder), **plan.env, **plan.faults, "FAULTS_DIR": f"{folder}/t", "FAULTS_COUNT": f"{folder}/count"}
        with open(f"{folder}/count", "wb") as f:
            f.write(bytes(8))
        command = plan.command
        if plan.by_run:
            command = [self.inferprof, "run", "-o", f"{folder}/t/run", "--", *command]
        else:
            env.update(CUDA_INJECTION64_PATH=self.collector, NVTX_INJECTION64_PATH=self.collector,
                       INFERPROF_COLLECT_DIR=f"{folder}/t")
        with_us = execute(command, env, folder, self.limit(plan, own.seconds), plan, own.seconds)
        with open(f"{folder}/count", "rb") as f:
            faults = int.from_bytes(f.read(8), sys.byteorder)
        counts = {"iterations": 1, "faults": faults, "by_run": int(plan.by_run), "killed": int(with_us.sent),
                  "stopped": int(with_us.stopped_s > 0), "slowest_extra_ms": int((with_us.seconds - own.seconds) * 1000)
                  if not plan.by_run else 0}
        wrong = self.compare(plan, own, with_us) + self.check_folders(folder, plan, with_us) + self.check_traces(folder, plan, counts)
        if wrong and self.o.keep:
            shutil.copytree(folder, f"{self.o.keep}/{self.o.seed}-{number}", dirs_exist_ok=True)
        shutil.rmtree(folder)
        return counts, [f"VIOLATION iteration {number}: {w}\n    {plan.describe()}" for w in wrong]

    # ---- what must hold
    def compare(self, plan, own, got):
        if got.left:
            return [f"not ended after {got.seconds:.1f} s (alone {own.seconds:.1f} s): {got.left}\n{got.threads}"]
        if plan.by_run:
            return self.compare_run(plan, own, got)
        wrong = []
        if got.sent and (got.status != own.status or got.out != own.out):  # the signal came before its end
            if got.status not in (-plan.signal, own.status):
                wrong.append(f"status {got.status} after {plan.signal.name}, alone {own.status}")
            if not own.out.startswith(got.out):
                wrong.append(f"output {got.out[:200]} is not the start of {own.out[:200]}")
            if got.err and not own.err.startswith(got.err):
                wrong.append(f"error output {got.err[:300]}")
            return wrong
        if got.status != own.status:
            wrong.append(f"status {got.status}, alone {own.status}; {got.err[:300]}")
        if not got.sent and sorted(got.orphans) != sorted(own.orphans):
            wrong.append(f"statuses of its processes {got.orphans}, alone {own.orphans}")
        for what in ("out", "err"):
            a, b = getattr(got, what), getattr(own, what)
            if a != b:
                wrong.append(f"{what}: {a[:300]}, alone {b[:300]}")
        if got.files != own.files and not got.sent:
            wrong.append(f"files {sorted(got.files)}, alone {sorted(own.files)}")
        return wrong

    def compare_run(self, plan, own, got):
        """`inferprof run` passes on output and status. It says why it failed itself; then, its status is 1."""
        want = own.status if own.status >= 0 else 128 - own.status
        ended = {want, -plan.signal, 128 + plan.signal} if got.sent else {want}
        message = re.search(rb"(?m)^inferprof", got.err)
        if message and (want == 0 or not got.out):
            ended.add(1)
        wrong = []
        if got.status not in ended:
            wrong.append(f"status {got.status}, expected {ended}; {got.err[-300:]}")
        if got.out != own.out and not (own.out.startswith(got.out) and (got.sent or message)):
            wrong.append(f"output {got.out[:200]}, alone {own.out[:200]}; {got.err[-300:]}")
        if b"internal error" in got.err or b"Assertion" in got.err:
            wrong.append(f"error output {got.err[-300:]}")
        return wrong

    def check_folders(self, folder, plan, got):
        wrong, killed = [], got.sent and plan.by_run and plan.signal in (signal.SIGKILL, signal.SIGSEGV, signal.SIGQUIT)
        expected = {"cwd", "out", "err", "count", "home", "tmp", "t"}
        if set(os.listdir(folder)) != expected:
            wrong.append(f"files {set(os.listdir(folder)) - expected}")
        for name in ("home", "tmp"):
            left = [] if killed else [os.path.join(r, f)[len(folder):] for r, _, fs in os.walk(f"{folder}/{name}") for f in fs]
            if left:
                wrong.append(f"files outside of the output folder: {left[:5]}")
        if not plan.by_run:
            odd = [n for n in os.listdir(f"{folder}/t") if not TRACE_NAME.fullmatch(n)]
            if odd:
                wrong.append(f"in the output folder: {odd[:5]}")
        elif not killed:
            odd = [n for n in tree(f"{folder}/t") if ".tmp" in n or n.endswith("~")]
            if odd:
                wrong.append(f"temporary files in the output folder: {odd[:5]}")
        return wrong

    def check_traces(self, folder, plan, counts):
        where = f"{folder}/t/run/trace" if plan.by_run else f"{folder}/t"
        names = os.listdir(where) if os.path.isdir(where) else []
        wrong = []
        counts["problem_files"] = sum(n.endswith(".problem") for n in names)
        for name in (n for n in names if n.endswith(".ipt")):
            p = subprocess.run([self.inferprof, "stats", f"{where}/{name}"], stdin=subprocess.DEVNULL, capture_output=True,
                               timeout=60, check=False)
            lines = [line for line in p.stderr.decode(errors="replace").splitlines() if line]
            counts["traces"] = counts.get("traces", 0) + 1
            if p.returncode == 1 and len(lines) == 1 and lines[0].startswith("inferprof"):
                counts["refused"] = counts.get("refused", 0) + 1
            elif p.returncode != 0:
                wrong.append(f"stats {name} ({os.path.getsize(f'{where}/{name}')} bytes): {p.returncode}; {lines[:5]}")
        return wrong


# ---- workers and the summary
def work(options, first, pipe):
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    soak = Soak(options)
    end = time.monotonic() + options.minutes * 60
    number = first
    with os.fdopen(pipe, "w", encoding="utf-8") as out:
        try:
            while options.only is not None or time.monotonic() < end:
                counts, wrong = soak.iterate(number)
                print(json.dumps([counts, wrong]), file=out, flush=True)
                if options.only is not None:
                    break
                number += options.jobs
        finally:
            shutil.rmtree(soak.work, ignore_errors=True)


class Summary:
    def __init__(self, options):
        self.o, self.start, self.total, self.violations, self.slowest = options, time.time(), {}, 0, 0

    def add(self, counts, wrong):
        self.slowest = max(self.slowest, counts.pop("slowest_extra_ms"))
        for key, n in counts.items():
            self.total[key] = self.total.get(key, 0) + n
        self.violations += len(wrong)
        for line in wrong:
            print(line, flush=True)

    def show(self):
        t = self.total.get
        version = subprocess.run([self.o.build + "/inferprof", "--version"], capture_output=True, text=True, check=False).stdout
        print(f"summary: {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime())}; {(time.time() - self.start) / 60:.1f} minutes; "
              f"seed {self.o.seed}; {version.splitlines()[0]}")
        print(f"summary: {t('iterations', 0)} iterations ({t('by_run', 0)} under `inferprof run`), {t('killed', 0)} killed, "
              f"{t('stopped', 0)} stopped and continued, {t('faults', 0)} disk faults; {t('traces', 0)} traces read, "
              f"{t('refused', 0)} of them refused with one message, {t('problem_files', 0)} .problem files; longest delay of a "
              f"program by the collector {self.slowest} ms; {self.violations} violations", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="iterations at the same time")
    parser.add_argument("--seed", type=int, default=random.getrandbits(32))
    parser.add_argument("--only", type=int, help="run this iteration only")
    parser.add_argument("--build", default="build", help="build folder")
    parser.add_argument("--keep", help="folder for the files of iterations with a violation")
    options = parser.parse_args()
    if options.only is not None:
        options.jobs = 1
    print(f"seed {options.seed}, {options.minutes:g} minutes, {options.jobs} at a time", flush=True)
    pipes = {}
    for job in range(options.jobs):
        r, w = os.pipe()
        if os.fork() == 0:
            os.close(r)
            work(options, options.only if options.only is not None else job, w)
            os._exit(0)
        os.close(w)
        pipes[r] = os.fdopen(r, encoding="utf-8")
    summary, next_s = Summary(options), time.monotonic() + 600
    while pipes:
        for fd in select.select(list(pipes), [], [], 10)[0]:
            line = pipes[fd].readline()
            if line:
                summary.add(*json.loads(line))
            else:
                pipes.pop(fd).close()
        if time.monotonic() >= next_s:
            summary.show()
            next_s += 600
    failed = any(os.waitstatus_to_exitcode(os.wait()[1]) != 0 for _ in range(options.jobs))
    summary.show()
    sys.exit(1 if summary.violations or failed else 0)


if __name__ == "__main__":
    main()
