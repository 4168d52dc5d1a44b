#!/usr/bin/env python3
"""Checks JSON documents of inferprof against schemas/.

    validate_json.py [--as DOCUMENT] FILE...

The schema is chosen by the member `schema` of each document. A .jsonl file is one document per line and needs --as.
Also fails if a schema itself is invalid, or if a document names a schema that does not exist."""

import argparse
import json
import os
import sys

import jsonschema

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../schemas")
MAX_PROBLEMS = 5


def validator(name):
    with open(os.path.join(FOLDER, name + ".schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def documents(path):
    with open(path, encoding="utf-8") as file:
        if path.endswith(".jsonl"):
            return [json.loads(line) for line in file]
        content = json.load(file)
    return content if isinstance(content, list) else [content]


def name_of(document):
    name = str(document.get("schema"))
    return name.removeprefix("inferprof.").split("/")[0] if name.startswith("inferprof.") else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--as", dest="name")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    known, failed, checked = {}, False, 0
    for path in options.files:
        for document in documents(path):
            name = options.name or name_of(document)
            if name is None:
                print(f"{path}: no member \"schema\"")
                failed = True
                continue
            known[name] = known.get(name) or validator(name)
            checked += 1
            for problem in list(known[name].iter_errors(document))[:MAX_PROBLEMS]:
                print(f"{path}: {problem.json_path}: {problem.message[:200]}")
                failed = True
    print(f"{checked} documents checked")
    return 1 if failed or not checked else 0


sys.exit(main())
