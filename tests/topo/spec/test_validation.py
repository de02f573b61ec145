"""A missing key is named with what it is for: the first sentence of its description, whole."""

import re

import pytest
from pydantic import BaseModel

from simulate.workload.spec import WorkloadSpec
from topo.cluster_spec import ClusterSpec
from topo.spec.validation import _describe_property


@pytest.mark.parametrize("model", [ClusterSpec, WorkloadSpec])
def test_required_keys_are_named_with_a_whole_sentence(model: type[BaseModel]) -> None:
    schema = model.model_json_schema()
    for part in [schema, *schema["$defs"].values()]:
        for key in part.get("required", ()):
            said = _describe_property(part, key, schema)
            assert not re.search(r": [a-z][A-Z]", said), "an acronym keeps its capitals"
            assert not re.search(r"(,| or| and|\.)$", said)
            text = " ".join(part["properties"][key].get("description", "").split())
            sentence = said.partition("`: ")[2]
            assert text[1:].startswith(sentence[1:])
            assert len(sentence) != 1 and sentence.lower() != key
