"""Bodies of uploads for schemathesis: tar streams of runs, some of them damaged."""
import io
import json
import tarfile

import schemathesis
from hypothesis import strategies as st


def tar_stream(name, members, cut):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for member, data in members.items():
            info = tarfile.TarInfo(f"{name}/{member}")
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    data = out.getvalue()
    return data[: len(data) - cut]


GOOD = json.dumps({"schema": "inferprof-metrics", "schema_version": 1, "run": {"id": "x"}}).encode()
BODIES = st.one_of(
    st.builds(tar_stream, st.from_regex(r"\A[a-z]{1,8}\Z"), st.fixed_dictionaries({"metrics.json": st.just(GOOD)}), st.just(0)),
    st.builds(tar_stream, st.text(max_size=8), st.dictionaries(st.text(max_size=8), st.binary(max_size=64), max_size=3), st.integers(0, 600)),
    st.binary(min_size=1, max_size=2048),
)
schemathesis.openapi.media_type("application/x-tar", BODIES)


@schemathesis.serializer("application/x-tar")
def serialize(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode()
