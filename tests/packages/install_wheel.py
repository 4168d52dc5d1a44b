"""install_wheel.py WHEEL VENV: what pip does with a wheel without dependencies: unpack it, write its commands."""
import configparser
import os
import sys
import sysconfig
import zipfile

wheel, venv = sys.argv[1:]
site = os.path.join(venv, os.path.relpath(sysconfig.get_path("purelib", "venv", {"base": venv}), venv))
with zipfile.ZipFile(wheel) as archive:
    for item in archive.infolist():
        path = archive.extract(item, site)
        os.chmod(path, (item.external_attr >> 16) & 0o777 or 0o644)
    name = next(n for n in archive.namelist() if n.endswith("entry_points.txt"))
    entries = configparser.ConfigParser()
    entries.read_string(archive.read(name).decode())
for command, target in entries["console_scripts"].items():
    module, function = target.split(":")
    path = os.path.join(venv, "bin", command)
    with open(path, "w", encoding="utf-8") as script:
        script.write(f"#!{os.path.abspath(venv)}/bin/python3\nfrom {module} import {function}\n{function}()\n")
    os.chmod(path, 0o755)
