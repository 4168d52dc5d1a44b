"""Compares the routes of src/serve/routes.c with web/openapi.json."""
import json
import re

from lib import check, finish

source = open("src/serve/routes.c", encoding="utf-8").read()
rows = set()
for method, path in re.findall(r'\.method = "([A-Z]+)",\s*\.path = API "([^"]*)"', source):
    rows.add((method.lower(), "/api/v1" + path))
for path in re.findall(r'(?:GET_ROW|TAGGED|CACHED|FILTERED)\(API "([^"]*)"', source):
    rows.add(("get", "/api/v1" + path))
document = json.load(open("web/openapi.json", encoding="utf-8"))
listed = {(m, p) for p, methods in document["paths"].items() for m in methods}
check("the OpenAPI document lists every route of the API, and no other", rows == listed, sorted(rows ^ listed))
queries = {p: n.split() for p, n in re.findall(r'FILTERED\(API "([^"]*)", \w+,\s*"([^"]*)"', source)}
queries.update({p: n.split() for p, n in re.findall(r'API "([^"]*)",[^}]*\.query = "([^"]*)"', source)})
named = {p: [q["name"] for q in m["get"].get("parameters", []) if q.get("in") == "query"] for p, m in document["paths"].items() if "get" in m}
check("the parameters of every query are those of the document", {"/api/v1" + p: n for p, n in queries.items()} == {p: n for p, n in named.items() if n},
      queries, named)
check("the document has version 3.1", document["openapi"] == "3.1.0")
finish()
