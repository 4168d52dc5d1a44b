"""check_record.py WHEEL: every file of the wheel is in RECORD with its true digest and size."""
import base64
import csv
import hashlib
import io
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as archive:
    names = archive.namelist()
    record = next(n for n in names if n.endswith(".dist-info/RECORD"))
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(archive.read(record).decode()))}
    assert sorted(rows) == sorted(names), set(rows) ^ set(names)
    for name, (digest, size) in rows.items():
        data = archive.read(name)
        true = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert name == record or (digest, int(size)) == (true, len(data)), name
