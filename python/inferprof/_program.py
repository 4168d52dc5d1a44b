"""Finds the inferprof program and calls it."""

import os
import shutil
import subprocess
import sys
import tempfile

PACKAGED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_native", "bin", "inferprof")


class Error(RuntimeError):
    """The program failed. `status` is its exit status, `command` the call that failed."""

    def __init__(self, message, status=None, command=None):
        super().__init__(message)
        self.status = status
        self.command = command


def program():
    """Path of the program: $INFERPROF, the copy inside this package, or the one in PATH."""
    named = os.environ.get("INFERPROF")
    if named:
        if not os.access(named, os.X_OK):
            raise Error(f"INFERPROF names {named}, which is not an executable file")
        return named
    if os.access(PACKAGED, os.X_OK):
        return PACKAGED
    found = shutil.which("inferprof")
    if not found:
        raise Error("no inferprof program: install the wheel for linux x86_64, put inferprof in PATH, or set INFERPROF")
    return found


def call(*arguments, accepted=(0,), passes_output=False):
    """Runs the program and returns (exit status, standard output). Raises Error for other statuses than `accepted`.

    The program's standard output goes to a file: a pipe would block a profiled program that writes a lot while this
    process is stopped in a debugger or a notebook. `passes_output`: standard error goes to the caller's.
    """
    command = [program(), *map(str, arguments)]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
        status = subprocess.call(command, stdin=subprocess.DEVNULL, stdout=output,
                                 stderr=None if passes_output else messages)
        output.seek(0)
        messages.seek(0)
        text = output.read().decode("utf-8", "replace")
        problem = messages.read().decode("utf-8", "replace").strip()
    if status not in accepted:
        raise Error(problem or f"inferprof {arguments[0]} ended with status {status}", status, command)
    return status, text


def version():
    """The first line of `inferprof --version`."""
    return call("--version")[1].splitlines()[0]


def main():
    """Entry point of the `inferprof` command that the wheel installs: becomes the program itself."""
    try:
        path = program()
    except Error as problem:
        sys.exit(f"inferprof: {problem}")
    os.execv(path, [path, *sys.argv[1:]])
