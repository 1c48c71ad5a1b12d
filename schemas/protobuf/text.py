"""The text of a .proto file as the descriptor that `protoc` makes of it, as far as bytes and names depend on it.

Names of types stay as they are written: the pool that the descriptor is added to resolves them. Custom options,
defaults, reserved numbers, services and documentation are read over: no byte of a value depends on them. What only a
compiler of programs would complain about, as two fields whose names in JSON are the same, is accepted.
docs/decisions/0033-protobuf-schemas.md
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2

from kafka_sidecar.schemas.protobuf.errors import ProtobufSchemaError

MAX_NESTING = 32  # messages in messages, as protoc has it
MAX_SHOWN = 60  # characters
_MAX_NUMBER = 536_870_911  # of a field
_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r\n\f\v]++|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)++)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*+)
      | (?P<number>0[xX][0-9a-fA-F]++|(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fF]?)
      | (?P<text>"(?:[^"\\\n]++|\\[^\n])*+"|'(?:[^'\\\n]++|\\[^\n])*+')
      | (?P<sign>[;{}\[\]()<>=,.:/+-])""",
    re.VERBOSE,
)
_Field = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    name: number
    for name, number in (
        (name.removeprefix("TYPE_").lower(), value.number)
        for name, value in _Field.Type.DESCRIPTOR.values_by_name.items()
    )
    if name not in ("message", "enum", "group")
}
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_KEYS = frozenset(_TYPES) - {"double", "float", "bytes"}
_OPENS, _CLOSES = frozenset("{[<("), frozenset("}]>)")
_FEATURES = ("field_presence", "enum_type", "repeated_field_encoding", "utf8_validation", "message_encoding")
# How a name of a file is written where one is meant: its escapes are none that a path has.
_ESCAPE = "\\"
_End = "the end"


def parse_proto(text: str) -> Any:
    """The FileDescriptorProto of a text, without a name.

    Raises:
        ProtobufSchemaError: it is not one.
    """
    return _Parser(text).file()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._kind, self._word, self._at = next(self._tokens)
        self._syntax = "proto2"

    def file(self) -> Any:
        file = descriptor_pb2.FileDescriptorProto()
        if self._word in ("syntax", "edition"):
            self._syntax_of(file)
        while self._word is not _End:
            self._statement(file)
        return file

    # Tokens

    def _next(self) -> str:
        token = self._word
        self._kind, self._word, self._at = next(self._tokens)
        return token

    def _take(self, sign: str) -> bool:
        if self._word != sign:
            return False
        self._next()
        return True

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise self._wrong(f"{sign!r} is expected")

    def _of(self, kind: str, what: str) -> str:
        if self._kind != kind:
            raise self._wrong(f"{what} is expected")
        return self._next()

    def _name(self) -> str:
        return self._of("name", "a name")

    def _full_name(self) -> str:
        name = "." if self._take(".") else ""
        name += self._name()
        while self._take("."):
            name += f".{self._name()}"
        return name

    def _string(self) -> str:
        parts = [self._of("text", "a text in quotes")]
        while self._kind == "text":
            parts.append(self._next())
        return "".join(part[1:-1] for part in parts)

    def _number(self, lowest: int, highest: int) -> int:
        sign = -1 if lowest < 0 and self._take("-") else 1
        at, text = self._at, self._of("number", "a whole number")
        try:
            number = sign * int(text if len(text) <= 20 else "", 8 if text[0] == "0" and text.isdigit() else 0)
        except ValueError:
            number = highest + 1
        if not lowest <= number <= highest:
            raise self._wrong(f"a whole number from {lowest} to {highest} is expected", text, at)
        return number

    def _wrong(self, rule: str, token: str | None = None, at: int | None = None) -> ProtobufSchemaError:
        line = self._text.count("\n", 0, self._at if at is None else at) + 1
        return ProtobufSchemaError(f"line {line}: {rule}, not {_shown(self._word if token is None else token)}")

    # Statements

    def _syntax_of(self, file: Any) -> None:
        is_edition = self._next() == "edition"
        self._expect("=")
        at, name = self._at, self._string()
        if is_edition:
            number = descriptor_pb2.Edition.DESCRIPTOR.values_by_name.get(f"EDITION_{name}")
            if not name.isdigit() or number is None:
                raise self._wrong("an edition that is known is expected", name, at)
            self._syntax, file.syntax, file.edition = "editions", "editions", number.number
        elif name not in ("proto2", "proto3"):
            raise self._wrong("'proto2' or 'proto3' is expected", name, at)
        else:
            self._syntax = name
            if name != "proto2":
                file.syntax = name
        self._expect(";")

    def _statement(self, file: Any) -> None:
        if self._take(";"):
            return
        at, word = self._at, self._of("name", "a declaration")
        if word == "import":
            self._import(file)
        elif word == "package":
            if file.package:
                raise self._wrong("there is one package", "a second one")
            file.package = self._full_name()
            self._expect(";")
        elif word == "option":
            self._option(file.options)
        elif word == "service":
            self._name()
            self._expect("{")
            self._pass_over()
        elif not self._declaration(word, file, file.message_type, file.extension, 0):
            raise self._wrong("a declaration is expected", word, at)

    def _import(self, file: Any) -> None:
        is_option = self._word == "option"
        if self._word in ("public", "weak", "option"):
            self._next()
        at, path = self._at, self._string()
        if _ESCAPE in path or not path:
            raise self._wrong("a path without escapes is expected", path, at)
        self._expect(";")
        if not is_option:  # of options alone: no value depends on it
            file.dependency.append(path)

    def _declaration(self, word: str, scope: Any, messages: Any, extensions: Any, depth: int) -> bool:
        """A declaration that can be in a file and in a message; False: it is none of them."""
        if word in ("export", "local"):
            word = self._next()
        if word == "message":
            self._message(messages.add(name=self._name()), depth)
        elif word == "enum":
            self._enum(scope.enum_type.add(name=self._name()))
        elif word == "extend":
            self._extend(messages, extensions, depth)
        else:
            return False
        return True

    def _message(self, message: Any, depth: int) -> None:
        if depth >= MAX_NESTING:
            raise self._wrong(f"messages are nested deeper than {MAX_NESTING} levels")
        self._expect("{")
        while not self._take("}"):
            if not self._take(";"):
                self._member(message, depth)
        # Oneofs that only mark presence come after those that are declared.
        names = {field.name for field in message.field} | {oneof.name for oneof in message.oneof_decl}
        for field in message.field:
            if field.proto3_optional:
                name = field.name if field.name.startswith("_") else f"_{field.name}"
                while name in names:
                    name = f"X{name}"
                names.add(name)
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=name)

    def _member(self, message: Any, depth: int) -> None:
        word = self._word if self._kind == "name" else ""
        if word == "oneof":
            self._next()
            self._oneof(message, depth)
        elif word == "extensions":
            self._next()
            self._extension_ranges(message)
        elif word == "reserved":
            self._pass_to_end()
        elif word == "option":
            self._next()
            self._option(message.options)
        elif word in ("message", "enum", "extend") or (word in ("export", "local") and self._syntax == "editions"):
            self._next()
            self._declaration(word, message, message.nested_type, message.extension, depth + 1)
        else:
            self._field(message.field, message.nested_type, depth)

    def _oneof(self, message: Any, depth: int) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._name())
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            if self._take("option"):
                self._option(None)
            else:
                self._field(message.field, message.nested_type, depth, oneof=index)

    def _extend(self, messages: Any, extensions: Any, depth: int) -> None:
        extendee = self._full_name()
        self._expect("{")
        while not self._take("}"):
            if not self._take(";"):
                self._field(extensions, messages, depth, extendee=extendee)

    def _field(self, fields: Any, messages: Any, depth: int, oneof: int | None = None, extendee: str = "") -> None:
        field = fields.add(label=1)
        if oneof is not None:
            field.oneof_index = oneof
        if extendee:
            field.extendee = extendee
        has_label = self._label(field)
        if self._take("group"):
            self._group(field, messages, depth)
            return
        key = 0
        if self._word == "map" and not has_label:
            key = self._map(field)
        else:
            self._type(field)
        field.name = self._name()
        self._expect("=")
        field.number = self._number(1, _MAX_NUMBER)
        self._field_options(field)
        self._expect(";")
        if key:
            _to_map(field, key, messages)

    def _label(self, field: Any) -> bool:
        word, in_oneof = self._word, field.HasField("oneof_index")
        if word not in _LABELS:
            if self._syntax == "proto2" and not in_oneof and word != "map":
                raise self._wrong("'optional', 'required' or 'repeated' is expected")
            return False
        allowed = {"proto2": tuple(_LABELS), "proto3": ("optional", "repeated"), "editions": ("repeated",)}
        if in_oneof or word not in allowed[self._syntax]:
            raise self._wrong("a type is expected")
        field.label = _LABELS[self._next()]
        if word == "optional" and self._syntax == "proto3" and not field.extendee:
            field.proto3_optional = True
        return True

    def _group(self, field: Any, messages: Any, depth: int) -> None:
        if self._syntax != "proto2":
            raise self._wrong("groups are of proto2")
        name = self._name()
        field.type, field.name, field.type_name = _Field.TYPE_GROUP, name.lower(), name
        self._expect("=")
        field.number = self._number(1, _MAX_NUMBER)
        self._field_options(field)
        self._message(messages.add(name=name), depth + 1)

    def _type(self, field: Any) -> None:
        self._set_type(field, self._full_name())

    def _set_type(self, field: Any, name: str) -> None:
        if name in _TYPES:
            field.type = _TYPES[name]
        else:
            field.type_name = name

    def _map(self, field: Any) -> int:
        """Sets the type of a map's values; the type of its keys. 0: it is a type of that name."""
        at, name = self._at, self._full_name()
        if name != "map" or self._word != "<":
            self._set_type(field, name)
            return 0
        if field.extendee or field.HasField("oneof_index"):
            raise self._wrong("a type that can be there is expected", "a map", at)
        self._expect("<")
        at, key = self._at, self._name()
        if key not in _KEYS:
            raise self._wrong("a type that keys can have is expected", key, at)
        self._expect(",")
        self._type(field)
        self._expect(">")
        return int(_TYPES[key])

    def _field_options(self, field: Any) -> None:
        if self._take("["):
            while True:
                self._option_of(field.options)
                if not self._take(","):
                    break
            self._expect("]")

    def _enum(self, enum: Any) -> None:
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            word = self._name()
            if word == "option":
                self._option(enum.options)
            elif word == "reserved":
                self._pass_to_end()
            else:
                self._expect("=")
                enum.value.add(name=word, number=self._number(-(2**31), 2**31 - 1))
                if self._take("["):
                    self._pass_over()
                self._expect(";")

    def _extension_ranges(self, message: Any) -> None:
        while True:
            first = last = self._number(1, _MAX_NUMBER)
            if self._take("to"):
                last = _MAX_NUMBER if self._take("max") else self._number(first, _MAX_NUMBER)
            message.extension_range.add(start=first, end=last + 1)
            if not self._take(","):
                break
        if self._take("["):
            self._pass_over()
        self._expect(";")

    # Options

    def _option(self, options: Any) -> None:
        self._option_of(options)
        self._expect(";")

    def _option_of(self, options: Any) -> None:
        """One option; kept are those that decide how bytes are read."""
        name = self._option_name()
        self._expect("=")
        if self._take("{"):
            values = self._aggregate()
            for part in _FEATURES if name == "features" else ():
                if part in values:
                    self._set_feature(options, part, values[part])
            return
        self._take("-")
        value = self._string() if self._kind == "text" else self._next()
        if self._kind == "sign" and self._word not in (";", ",", "]"):
            raise self._wrong("the end of an option is expected")
        if name == "message_set_wire_format" and value == "true":
            options.message_set_wire_format = True
        elif name.startswith("features.") and name[9:] in _FEATURES:
            self._set_feature(options, name[9:], value)

    def _option_name(self) -> str:
        parts = []
        while True:
            if self._take("("):
                parts.append(f"({self._full_name()})")
                self._expect(")")
            else:
                parts.append(self._name())
            if not self._take("."):
                return ".".join(parts)

    def _set_feature(self, options: Any, name: str, value: str) -> None:
        field = descriptor_pb2.FeatureSet.DESCRIPTOR.fields_by_name[name]
        number = field.enum_type.values_by_name.get(value)
        if number is None or self._syntax != "editions":
            raise self._wrong(f"a value of the feature {name} is expected", value)
        if options is not None:
            setattr(options.features, name, number.number)

    def _aggregate(self) -> dict[str, str]:
        """What is between braces, of which the first has been read: the names and their values of its first level."""
        values: dict[str, str] = {}
        depth, before = 1, ["", ""]
        while depth:
            if self._word is _End:
                raise self._wrong("'}' is expected")
            token, kind = self._word, self._kind
            self._next()
            if kind == "sign":
                depth += (token in _OPENS) - (token in _CLOSES)
            elif depth == 1 and before[1] == ":":
                values[before[0]] = token
            before = [before[1], token]
        return values

    def _pass_over(self) -> None:
        """What is between brackets, of which the first has been read."""
        self._aggregate()

    def _pass_to_end(self) -> None:
        while not self._take(";"):
            if self._word is _End:
                raise self._wrong("';' is expected")
            self._next()


def _to_map(field: Any, key: int, messages: Any) -> None:
    """The field of a map is a repeated message of keys and values."""
    name = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
    entry = messages.add(name=name)
    entry.options.map_entry = True
    keys = entry.field.add(name="key", number=1, label=1, type=key)
    values = entry.field.add(name="value", number=2, label=1)
    if field.type_name:
        values.type_name = field.type_name
    else:
        values.type = field.type
    if field.options.features.HasField("utf8_validation"):
        for one in (keys, values):
            one.options.features.utf8_validation = field.options.features.utf8_validation
    field.label, field.type, field.type_name = _LABELS["repeated"], _Field.TYPE_MESSAGE, name


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    at = 1 if text.startswith("\ufeff") else 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            line = text.count("\n", 0, at) + 1
            raise ProtobufSchemaError(f"line {line}: {_shown(text[at])} begins nothing that has an end")
        kind = token.lastgroup or ""
        if kind != "space":
            yield kind, token.group(), at
        at = token.end()
    while True:
        yield "end", _End, len(text)


def _shown(word: str) -> str:
    return word if word is _End else repr(word if len(word) <= MAX_SHOWN else f"{word[:MAX_SHOWN]}...")
