"""Texts of .proto files: the same descriptors as of protoc, and one line for what is not one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2, variant_pb2
from confluent_kafka.schema_registry.confluent.types import decimal_pb2 as legacy_pb2
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_tools import protoc
from support.examples import for_each, sparse
from support.protobuf_values import ORDER

from kafka_sidecar.schemas.protobuf.errors import ProtobufSchemaError
from kafka_sidecar.schemas.protobuf.known_files import KNOWN_FILES
from kafka_sidecar.schemas.protobuf.text import parse_proto

INCLUDE = str(resources("grpc_tools") / "_proto")
PARTS = {
    "message_type", "nested_type", "enum_type", "field", "extension", "oneof_decl", "value", "extension_range",
}  # fmt: skip
CONFLUENT = {
    module.DESCRIPTOR.name: descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    for module in (meta_pb2, decimal_pb2, variant_pb2, legacy_pb2)
}
TEXTS = [
    ORDER,
    """// Comments and /* what looks like one */
syntax = "proto2"; package a.b;
import "google/protobuf/descriptor.proto";
extend google.protobuf.FieldOptions { optional string tag = 50000; repeated int32 more = 50001; }
option java_package = "a" "b";
message A {
  optional group B = 1 { optional int32 x = 2 [default = -5]; repeated int32 y = 3 [packed = true, (tag) = "x;}y"]; }
  extensions 100 to 200, 300, 1000 to max;
  reserved 5, 7 to 9; reserved "foo", 'bar';
  required M m = 10; map<string, E> e = 11; map < int32 , A > es_by_id = 12;
  enum E { option allow_alias = true; Z = 0; Y = -1 [deprecated = true]; YY = -0x1; reserved 5 to max; reserved "R"; }
  oneof o { option (oneof_tag) = "x"; string s = 20; group G = 21 { optional A a = 1; } E ee = 22; }
  message M { optional .a.b.A.B bb = 0x10; optional M m = 017; }
  extend A { repeated group EX = 101 { required int32 z = 1; } }
  optional double d = 30 [default = inf]; optional float f = 31 [default = -1.5e3];
  optional bytes by = 32 [default = "\\001\\"x"];
  ;
}
extend google.protobuf.OneofOptions { optional string oneof_tag = 50000; }
extend A { optional string y = 100; }
/* a service * is read over */ service S { option deprecated = true;
  rpc F(A) returns (stream A) { option deprecated = true; } rpc G(A) returns (A); }
;""",
    """syntax = 'proto3';
import public "google/protobuf/any.proto"; import weak "google/protobuf/empty.proto";
message A { string message_ = 1; int32 syntax = 2; optional string package = 3; .A.B.C c = 4;
  message B { message C { google.protobuf.Any any = 1; } enum K { K0 = 0; } } optional int64 _q = 5;
  repeated sint32 z_foo_bar = 6;
  map<string, .A.B> foo_bar = 7; mapx m2 = 8; map<bool, bytes> map = 9; B.K repeated_ = 10;
  oneof o { int32 to = 11; B max = 12; }
  optional B b = 13; }
message mapx { string option_ = 1; optional string import = 2;
  repeated string service = 3 [json_name = "@s", deprecated = true]; }
message to {} enum max { reserved_ = 0; option_ = 1; }""",
    """edition = "2023"; option features.enum_type = CLOSED;
message A { string s = 1 [features.field_presence = IMPLICIT, features.utf8_validation = NONE];
  reserved foo, bar;
  A g = 2 [features.message_encoding = DELIMITED]; A r = 3 [features.field_presence = LEGACY_REQUIRED]; E e = 4;
  repeated int32 p = 7 [features.repeated_field_encoding = EXPANDED];
  map<string, string> m = 5 [features.utf8_validation = NONE]; map<int32, A> n = 6; } enum E { B = 1; }""",
    """edition = "2023"; option features = { message_encoding: DELIMITED enum_type: CLOSED };
message A { A g = 1; map<int32, A> n = 2; repeated A more = 3; }""",
    """edition = "2024"; import option "google/protobuf/descriptor.proto";
export message A { local message B {} B b = 1; } local enum E { E0 = 0; } message C { E e = 1; }""",
    "message A { optional int32 of_proto2 = 1; }",
    '\ufeffsyntax = "proto3"; message A { oneof o { string a = 1; } }',
]


def compiled(text: str, folder: Path) -> Any:
    (folder / "any.proto").write_text(text, encoding="utf-8")
    result = protoc.main(
        ["", f"-I{folder}", f"-I{INCLUDE}", f"--descriptor_set_out={folder}/any.bin", f"{folder}/any.proto"]
    )
    assert result == 0
    return descriptor_pb2.FileDescriptorSet.FromString((folder / "any.bin").read_bytes()).file[0]


def resolved(file: Any, name: str = "any.proto") -> Any:
    """A descriptor as a pool has it, without what no byte depends on."""
    pool = descriptor_pool.DescriptorPool()
    for part in ("service", "public_dependency", "weak_dependency", "option_dependency"):
        file.ClearField(part)
    file.name = name
    for imported in file.dependency:
        _add_known(pool, imported)
    pool.AddSerializedFile(file.SerializeToString())
    found = descriptor_pb2.FileDescriptorProto()
    pool.FindFileByName(name).CopyToProto(found)
    found.ClearField("dependency")
    _strip(found)
    return found


def _known(name: str) -> Any:
    if name in CONFLUENT:
        return CONFLUENT[name]
    module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _add_known(pool: Any, name: str) -> None:
    file = _known(name)
    for imported in file.dependency:
        _add_known(pool, imported)
    pool.AddSerializedFile(file.SerializeToString())


def _strip(part: Any) -> None:
    fields = part.DESCRIPTOR.fields_by_name
    for name in ("json_name", "default_value", "reserved_range", "reserved_name", "visibility"):
        if name in fields:
            part.ClearField(name)
    if "options" in fields and part.HasField("options"):
        _strip_options(part)
    if "field" in fields:
        part.field.sort(key=lambda field: field.number)
    for name in PARTS & set(fields):
        if fields[name].is_repeated:
            for one in getattr(part, name):
                _strip(one)


def _strip_options(part: Any) -> None:
    options = part.options
    for field, _ in options.ListFields():
        if field.is_extension:
            options.ClearExtension(field)
        elif field.name not in ("features", "map_entry"):
            options.ClearField(field.name)
    options.DiscardUnknownFields()
    if not options.ListFields():
        part.ClearField("options")


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_becomes_the_descriptor_that_protoc_makes_of_it(text: str, tmp_path: Path) -> None:
    assert resolved(parse_proto(text)) == resolved(compiled(text, tmp_path))


# Not descriptor.proto: that of grpc_tools is of another version than the class.
KNOWN = ["any", "api", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type", "wrappers"]


@pytest.mark.parametrize("name", [f"google/protobuf/{name}.proto" for name in KNOWN])
def test_googles_own_files_become_the_descriptors_of_their_classes(name: str) -> None:
    text = (Path(INCLUDE) / name).read_text()
    assert resolved(parse_proto(text), name) == resolved(_known(name), name)


@pytest.mark.parametrize("name", KNOWN_FILES)
def test_files_that_are_always_there_become_the_descriptors_of_their_classes(name: str) -> None:
    ours, theirs = resolved(parse_proto(KNOWN_FILES[name]), name), resolved(_known(name), name)
    theirs.ClearField("extension")  # of options
    assert ours == theirs


WRONG = [
    ("", ""),
    ("message", "line 1: a name is expected, not the end"),
    ("message A {}\n}", "line 2: a declaration is expected, not '}'"),
    ('syntax = "proto4";', "line 1: 'proto2' or 'proto3' is expected, not 'proto4'"),
    ('edition = "2022";', "line 1: an edition that is known is expected, not '2022'"),
    ('syntax = "proto3"; message A { required int32 a = 1; }', "line 1: a type is expected, not 'required'"),
    ("message A { int32 a = 1; }", "line 1: 'optional', 'required' or 'repeated' is expected, not 'int32'"),
    (
        'syntax = "proto3"; message A { int32 a = 0; }',
        "line 1: a whole number from 1 to 536870911 is expected, not '0'",
    ),
    ('syntax = "proto3"; message A { int32 a = 1e1; }', "whole number from 1 to 536870911 is expected, not '1e1'"),
    ('syntax = "proto3"; message A { int32 a = 099; }', "whole number from 1 to 536870911 is expected, not '099'"),
    ('syntax = "proto3"; message A { int32 a = 0x' + "1" * 30 + "; }", "is expected, not '0x111"),
    (
        'syntax = "proto3";\nmessage A { map<double, A> a = 1; }',
        "line 2: a type that keys can have is expected, not 'double'",
    ),
    (
        'syntax = "proto3"; message A { oneof o { map<int32, A> a = 1; } }',
        "a type that can be there is expected, not 'a map'",
    ),
    ('syntax = "proto3"; message A { group B = 1 {} }', "line 1: groups are of proto2, not 'B'"),
    (
        'syntax = "proto3"; message A { int32 a = 1 [features.enum_type = OPEN]; }',
        "a value of the feature enum_type is",
    ),
    ('import "a\\b";', "a path without escapes is expected, not"),
    ("/* \n", "line 1: a declaration is expected, not '/'"),
    ('import "a', "line 1: '\"' begins nothing that has an end"),
    ("package a; package b;", "line 1: there is one package, not 'a second one'"),
    ("\0", "begins nothing that has an end"),
    ("service S {", "line 1: '}' is expected, not the end"),
    ("option a = {", "line 1: '}' is expected, not the end"),
    ("message A { reserved 1", "line 1: ';' is expected, not the end"),
    ("enum E { A = 3000000000; }", "a whole number from -2147483648 to 2147483647 is expected"),
]


@for_each(WRONG)
def test_what_is_no_proto_file_is_one_line_with_its_number(example: tuple[str, str]) -> None:
    text, message = example
    if not message:
        parse_proto(text)
        return
    with pytest.raises(ProtobufSchemaError) as error:
        parse_proto(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


HOSTILE: Sequence[str] = [
    "message A {" * 100_000,
    "/*" * 250_000,
    '"' + '\\"' * 200_000,
    "option a = " + "{" * 400_000,
    "option a = " + '"a"' * 150_000,
    'syntax = "proto3"; message A { ' + "a." * 200_000,
    "(" * 500_000,
    "message " + "a" * 500_000,
    "option " + "(a)." * 100_000,
    "/*" + "*" * 500_000,
]


@pytest.mark.bulk
def test_hostile_texts_end_soon_in_one_line() -> None:
    for text in sparse(HOSTILE, of=5):
        start = time.process_time()
        with pytest.raises(ProtobufSchemaError) as error:
            parse_proto(text)
        assert len(str(error.value)) < 200
        assert time.process_time() - start < 10
