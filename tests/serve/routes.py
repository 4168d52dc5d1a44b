"""Compares the routes of src/serve/routes.c with web/openapi.json."""
import json
import re

from lib import check, finish

source = open("src/serve/routes.c", encoding="utf-8").read()
rows = set()
for method, path in re.findall(r'\.method = "([A-Z]+)",\s*\.path = API "([^"]*)"', source):
    rows.add((method.lower(), "/api/v1" + path))
for path in re.findall(r'(?:GET_ROW|TAGGED|CACHED)\(API "([^"]*)"', source):
    rows.add(("get", "/api/v1" + path))
document = json.load(open("web/openapi.json", encoding="utf-8"))
listed = {(m, p) for p, methods in document["paths"].items() for m in methods}
check("the OpenAPI document lists every route of the API, and no other", rows == listed, sorted(rows ^ listed))
check("the document has version 3.1", document["openapi"] == "3.1.0")
finish()
