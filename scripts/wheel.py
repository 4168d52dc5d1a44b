#!/usr/bin/env python3
"""wheel.py VERSION TARBALL_FOLDER OUTPUT_FOLDER: packs python/inferprof and the unpacked tarball into a wheel.

A wheel is a zip file with a list of its files, so no build tool is needed. The platform tag names the oldest glibc
that the binaries run on, taken from the symbol versions they import.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile

EPOCH = (1980, 1, 1, 0, 0, 0)  # fixed times: the same input gives the same wheel
LEFT_OUT = ("share/",)  # documentation and manual pages are in the tarball and the Debian package

METADATA = """Metadata-Version: 2.1
Name: inferprof
Version: {version}
Summary: Shows how far LLM inference is from the hardware limits, and what to change first
License: {license}
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{description}"""

WHEEL = """Wheel-Version: 1.0
Generator: inferprof
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""


def files_under(folder):
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(parent, name)
            yield os.path.relpath(path, folder), path


def platform_tag(paths):
    """manylinux_2_M_x86_64 for the newest GLIBC_2.M that any of the binaries imports."""
    text = subprocess.run(["objdump", "-T", *paths], check=True, capture_output=True, text=True).stdout
    minors = [int(m) for m in re.findall(r"GLIBC_2\.(\d+)", text)]
    return f"manylinux_2_{max(minors)}_x86_64"


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


class Writer:
    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.rows = []

    def add(self, name, data, mode=0o644):
        info = zipfile.ZipInfo(name, EPOCH)
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        self.rows.append(f"{name},{digest(data)},{len(data)}")

    def add_file(self, name, path):
        with open(path, "rb") as file:
            self.add(name, file.read(), os.stat(path).st_mode & 0o755)

    def close(self, record):
        self.rows.append(f"{record},,")
        self.zip.writestr(zipfile.ZipInfo(record, EPOCH), "\n".join(self.rows) + "\n")
        self.zip.close()


def main():
    version, native, output = sys.argv[1:]
    binaries = [path for name, path in files_under(native) if not name.startswith(LEFT_OUT) and is_elf(path)]
    platform = platform_tag(binaries)
    os.makedirs(output, exist_ok=True)
    path = os.path.join(output, f"inferprof-{version}-py3-none-{platform}.whl")
    info = f"inferprof-{version}.dist-info"
    wheel = Writer(path)
    for name, source in files_under("python/inferprof"):
        if name.endswith(".py"):
            wheel.add_file(f"inferprof/{name}", source)
    for name, source in files_under(native):
        if not name.startswith(LEFT_OUT):
            wheel.add_file(f"inferprof/_native/{name}", source)
    with open("docs/python.md", encoding="utf-8") as file:
        description = file.read()
    with open("LICENSE", encoding="utf-8") as file:
        license_name = file.readline().strip()
    wheel.add(f"{info}/METADATA", METADATA.format(version=version, license=license_name, description=description).encode())
    wheel.add(f"{info}/WHEEL", WHEEL.format(platform=platform).encode())
    wheel.add(f"{info}/entry_points.txt", b"[console_scripts]\ninferprof = inferprof._program:main\n")
    wheel.add_file(f"{info}/LICENSE", "LICENSE")
    wheel.close(f"{info}/RECORD")
    print(path)


if __name__ == "__main__":
    main()
