"""The official test suite of JSON Schema: every verdict of it is ours, of the optional tests and formats, too."""

from __future__ import annotations

import json

import pytest
from harness.json_schema_suite import REMOTES, cases, remotes

from kafka_sidecar.schemas.json_schema import JsonSchema, JsonSchemaError

# Draft, how its schemas are marked where the suite does not, and number of tests.
DRAFTS = {
    "draft7": ("http://json-schema.org/draft-07/schema#", 1465),
    "draft2019-09": (None, 1864),
    "draft2020-12": (None, 1906),
}


def documents_of(schema: str, draft: str) -> dict[str, str]:
    """The documents that a schema refers to, and those that these refer to; a document of another draft by its whole
    address."""
    known, found, ahead = remotes() if REMOTES in schema else {}, dict[str, str](), [schema]
    while ahead:
        text = ahead.pop()
        for address, document in known.items():
            folder, _, name = address.removeprefix(REMOTES).rpartition("/")
            is_of_draft = folder.split("/")[0] == draft or "draft" not in folder
            if address not in found and name in text and (is_of_draft or address in text):
                found[address] = document
                ahead.append(document)
    return found


@pytest.mark.parametrize("draft", DRAFTS)
def test_every_verdict_of_the_official_suite_is_ours(draft: str) -> None:
    mark, expected = DRAFTS[draft]
    wrong, count = {}, 0
    for place, case in cases(draft):
        schema = case["schema"]
        if mark is not None and isinstance(schema, dict):
            schema = {"$schema": mark, **schema}
        text = json.dumps(schema)
        count += len(case["tests"])
        try:
            compiled = JsonSchema(text, documents_of(text, draft), formats=place.startswith("optional/format"))
        except JsonSchemaError as error:
            wrong[place] = str(error)
            continue
        for test in case["tests"]:
            if (compiled.fault_of(json.dumps(test["data"]).encode()) is None) is not test["valid"]:
                wrong[place] = test["description"]
    assert wrong == {}
    assert count == expected
