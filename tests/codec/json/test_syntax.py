"""What is JSON and what is not, against the grammar case by case and against a second reader on mutated documents."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builds import source
from support.examples import for_each, sparse

from kafka_sidecar.codec.json import syntax
from kafka_sidecar.codec.json.syntax import MAX_NESTING

DEPTH = 64

ACCEPTED = [
    *[b"null", b"true", b"false", b"[]", b"{}", b'""', b"[[]]", b"[{}]", b'{"":0}', b'{"a":{}}', b'{"a":[],"b":{}}'],
    *[
        b"0",
        b"-0",
        b"7",
        b"10",
        b"-12",
        b"0.0",
        b"0.50",
        b"1.25",
        b"1e5",
        b"1E5",
        b"1e+5",
        b"1e-05",
        b"0e0",
        b"-0.0E-0",
    ],
    *[b"9" * 5000, b"1e999999", b"-1e-999999", b"0." + b"3" * 5000],
    *[b" \t\n\r1\r\n\t ", b' { "a" : 1 , "b" : [ 1 , 2 ] } ', b"[\n]", b"{\t}", b"[1 ]", b'{"a" \n:\r1}'],
    *[b'"plain"', b'"\\"\\\\\\/\\b\\f\\n\\r\\t"', b'"\\u0000"', b'"\\u00e9\\uABCD\\uabcd\\uFFFF"', b'"\x7f"', b'"a/b"'],
    *[b'"\\ud83d\\ude00"', b'"\\uD800\\uDC00"', b'"\\udbff\\udfff"', b'"\\ud7ff\\ue000"'],
    *['"é"'.encode(), '"\u0080\u07ff"'.encode(), '"\u0800\ud7ff\ue000\uffff"'.encode()],
    *['"\U00010000\U0010ffff"'.encode(), '{"ключ":"значение","鍵":"値","🗝":"🙂"}'.encode()],
    *[b'{"a":1,"a":1}', b'["a",1,true,null,{"a":[false]}]', b'"\xef\xbb\xbf"'],
]

# Error messages, and the texts that cause them.
REFUSED = {
    "empty at byte 0": [b""],
    "empty at byte 3": [b"\n\t "],
    "ends too early at byte 1": [b"[", b"{", b'"', b"-"],
    "ends too early at byte 2": [b"[1", b'"\\', b"[ ", b'"\xc3', b"fa", b"[-", b"1.", b"1e"],
    "ends too early at byte 3": [b"1e+", b"-0.", b'"ab'],
    "ends too early at byte 4": [b'"abc', b'{"a"', b"[1, ", b'"\xf0\x9f\x99'],
    "ends too early at byte 5": [b'"\\u12', b'{"a":'],
    "ends too early at byte 9": [b'"\\ud83d\\u', b'{"a":true'],
    "unexpected character at byte 0": [
        *[
            b"]",
            b"}",
            b",",
            b":",
            b"'a'",
            b"a",
            b"\\",
            b"+1",
            b".5",
            b"/",
            b"NaN",
            b"Infinity",
            b"\0",
            b"\xa0",
            b"\x0b1",
        ],
        *[b"\xef\xbb\xbf1", b"\xfe\xff\0{", b"\xff\xfe{\0", b"\xe2\x80\xa81"],
    ],
    "unexpected character at byte 1": [
        b"[,1]",
        b"{1:1}",
        b"{,}",
        b"[}",
        b"{]",
        b"{a:1}",
        b"{'a':1}",
        b"{[]:1}",
        b"[\x0c]",
    ],
    "unexpected character at byte 2": [b"[1}", b"[1\x0c]", b"[1:2]", b"[1;2]"],
    "unexpected character at byte 3": [b"[1,]", b"[1 2]", b"[1,,2]", b"[1,}", b'[""""]'],
    "unexpected character at byte 4": [b'{"a",1}', b'{"a"}', b'{"a"=1}'],
    "unexpected character at byte 5": [b'{"a" 1}', b'{"a":}', b'{"a":,}', b'{"a"::1}'],
    "unexpected character at byte 6": [b'{"a":1]', b'{"a":1:2}'],
    "unexpected character at byte 7": [b'{"a":1,}', b'{"a":1 "b":2}', b'{"a":1,2}', b'{"a":1,,}'],
    "invalid number at byte 0": [
        b"-a",
        b"01",
        b"-01",
        b"00",
        b"1.e5",
        b"1ea",
        b"1e+-2",
        b"--1",
        b"-.5",
        b"-NaN",
    ],
    "invalid number at byte 1": [b"[-Infinity]", b"[1.]", b"[1e]", b"[-]", b"[012]"],
    "expected true, false or null at byte 0": [b"trUe", b"nul1", b"falsy", b"nan", b"fals ", b"nil"],
    "text after the end at byte 1": [b"1\0", b"0x1", b"1_000", b"1,", b"1// no", b"0b1", b"1a"],
    "text after the end at byte 2": [b"1 1", b"{}{}", b"[]]", b'""""'],
    "text after the end at byte 4": [b"truee", b"null,"],
    "control character in a string at byte 2": [b'"a%cb"' % control for control in range(0x20)],
    "bad escape at byte 1": [
        *[b'"\\%c"' % byte for byte in b"axU0' \n\0v\xc3"],
        *[b'"\\u%s"' % digits for digits in (b"12g4", b"+123", b" 123", b"0x12", b"123\xc3", b"@@@@", b"````")],
    ],
    "bad escape at byte 7": [b'"\\ud83d\\u12x4"'],
    "half of a surrogate pair at byte 1": [
        *[b'"\\u%s"' % rest for rest in (b"d800", b"DFFF", b"dc00\\ud800", b"dbff\\n", b"d800\\ud800", b"d800\\u0041")],
        *[b'"\\ud800', b'"\\ud83d\\ue000"'],
    ],
    "not UTF-8 at byte 1": [
        *[
            b'"%s"' % begins
            for begins in (b"\x80", b"\xbf", b"\xfe", b"\xff", b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80\x80")
        ],
        *[b'"%s"' % overlong for overlong in (b"\xc0\x80", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf")],
        *[b'"%s"' % surrogate for surrogate in (b"\xed\xa0\x80", b"\xed\xbf\xbf")],
        *[
            b'"%s"' % broken
            for broken in (b"\xc3(", b"\xe2\x82(", b"\xe2(\xa1", b"\xf0\x9f\x99(", b"\xf0(\x8c\xbc", b"\xf0\x9f(\xbc")
        ],
        b'"\xf4\x90\x80\x80"',  # above U+10FFFF
    ],
}


def fault(text: bytes, max_depth: int = DEPTH) -> str | None:
    return syntax.find_fault(text, 0, len(text), max_depth)


def strict(text: bytes) -> bool:
    """Whether Python's parser accepts a text, without its extensions of JSON."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        value = json.loads(text.decode(), parse_constant=refuse, parse_int=str, parse_float=str)
        json.dumps(value, ensure_ascii=False).encode()  # raises where half of a surrogate pair is in it
    except ValueError:
        return False
    return True


def the_python_source() -> ModuleType:
    spec = spec_from_file_location("json_syntax_as_python", source(syntax.__name__))
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


python = the_python_source()


@pytest.mark.parametrize("text", ACCEPTED, ids=lambda text: repr(text[:40]))
def test_valid_json_is_accepted(text: bytes) -> None:
    assert fault(text) is None
    assert strict(text)


@for_each([(error, text) for error, texts in REFUSED.items() for text in texts])
def test_invalid_json_is_rejected_with_reason_and_position(row: tuple[str, bytes]) -> None:
    error, text = row
    assert fault(text) == error
    assert not strict(text)


@for_each([(special, length) for special in (b"\x1f", b"\\x", b"\xc3(", b"\x80") for length in range(70)])
def test_invalid_bytes_in_a_string_are_found_at_any_position(where: tuple[bytes, int]) -> None:
    special, length = where
    text = b'"' + b"~" * length + special + b"~" * 40 + b'"'
    assert (fault(text) or "").endswith(f" at byte {length + 1}")
    assert fault(b'"' + b"~" * length + b'"') is None


@pytest.mark.parametrize(("opened", "closed"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
@pytest.mark.parametrize("max_depth", [0, 2, 10, 64, MAX_NESTING])
def test_nesting_above_the_maximum_depth_is_rejected(opened: bytes, closed: bytes, max_depth: int) -> None:
    levels = max_depth // len(closed)
    assert fault(opened * levels + b"0" + closed * levels, max_depth) is None
    deeper = fault(b"[" + opened * levels + b"0" + closed * levels + b"]", max_depth)
    assert (deeper or "").startswith(f"deeper than {max_depth} at byte ")
    assert (fault(b"[" * 1_000_000, max_depth) or "") == f"deeper than {max_depth} at byte {max_depth}"


@pytest.mark.parametrize(
    ("start", "end", "max_depth"), [(-1, 1, 1), (0, 3, 1), (2, 1, 1), (0, 2, -1), (0, 2, MAX_NESTING + 1)]
)
def test_a_range_outside_the_data_or_a_depth_above_the_maximum_raises_value_error(
    start: int, end: int, max_depth: int
) -> None:
    with pytest.raises(ValueError, match="range"):
        syntax.find_fault(b"[]", start, end, max_depth)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
documents = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode(),
    values,
    st.booleans(),
    st.sampled_from([None, 1, "\t"]),
)
single = b'{}[]:,"\\/ \t\n\r\x00\x1f\x7f0123456789-+.eEtrufalsn\x80\xbf\xc2\xe0\xed\xf0\xf4\xff'
longer = [b"null", b"true", b"NaN", b"\\u", b"\\ud83d", b"\\udc00", b"\\u0041", b"1e5", b'"a"', b'"a":1', b"\xc3\xa9"]
pieces = st.sampled_from([single[at : at + 1] for at in range(len(single))] + longer)


@st.composite
def mutated(draw: Any) -> bytes:
    """A document with pieces inserted, removed and replaced."""
    text: bytes = draw(documents)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(pieces | st.just(b"")) + text[at + draw(st.integers(0, 2)) :]
    return text


@given(documents | mutated() | st.lists(pieces, max_size=12).map(b"".join) | st.binary(max_size=30))
def test_our_validation_agrees_with_a_strict_json_parser(text: bytes) -> None:
    assert (fault(text) is None) == strict(text), fault(text)


@given(mutated() | documents)
def test_the_python_source_finds_the_same_error_as_the_compiled_module(text: bytes) -> None:
    assert fault(text) == python.find_fault(text, 0, len(text), DEPTH)


@given(documents | mutated(), st.binary(max_size=20))
def test_a_truncated_document_is_validated_only_up_to_its_end(text: bytes, before: bytes) -> None:
    for cut in range(len(text)):
        found = syntax.find_fault(before + text, len(before), len(before) + cut, DEPTH)
        assert found == fault(text[:cut])
        assert (found is None) == strict(text[:cut])


@pytest.mark.bulk
@pytest.mark.parametrize("module", sparse([syntax, python], of=2))
@pytest.mark.parametrize("size", sparse([0, 1, 65_500, 65_536, 70_000, 200_000], of=4))
def test_the_end_of_a_value_is_found_however_long_it_is(module: Any, size: int) -> None:
    for value in (b'"' + b"x" * size + b'"', b"1" * (size or 1), b"[" + b"1," * size + b"{}]", b"null"):
        for after in (b"", b"]", b" \n ,1]", b" " * 70_000 + b"]"):
            assert module.after_value(b"[ " + value + after, 2) == 2 + len(value)


@pytest.mark.bulk
def test_a_fault_of_a_long_text_is_found_where_it_is() -> None:
    text = b"[" + b"1," * 100_000
    for module in (syntax, python):
        assert module.find_fault(text + b"]", 0, len(text) + 1, DEPTH) == f"unexpected character at byte {len(text)}"
