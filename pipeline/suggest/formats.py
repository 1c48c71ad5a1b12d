"""The format of a topic's keys or values, from the forms that they have one by one."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_sidecar.pipeline.suggest.forms import BY_HEADER, BY_PREFIX, Form
from kafka_sidecar.pipeline.suggest.shape import Document
from kafka_sidecar.pipeline.suggest.summary import Part, Tally

INTEGERS = {4: "int32", 8: "int64"}
NONE, MIXED = "null", "mixed"
# What is one format, the first that fits: its name, how its schema's id is there, and the forms of it.
FAMILIES = (
    ("JSON", "bare", {Form.JSON, Form.SCALAR}),
    ("JSON", "prefix", {Form.PREFIX_JSON}),
    ("Protobuf", "prefix", {Form.PREFIX_PROTOBUF}),
    ("Avro", "prefix", {Form.PREFIX_AVRO, Form.PREFIX_PROTOBUF}),  # some data of Avro looks like Protobuf
    ("JSON", "header", {Form.HEADER_JSON}),
    ("Protobuf", "header", {Form.HEADER_PROTOBUF}),
    ("Avro", "header", {Form.HEADER_AVRO, Form.HEADER_PROTOBUF}),
    ("Avro container", "bare", {Form.CONTAINER}),
    ("empty", "bare", {Form.EMPTY}),
    ("text", "bare", {Form.TEXT, Form.SCALAR, Form.EMPTY}),
    ("bytes", "bare", {Form.BYTES, Form.TEXT, Form.SCALAR, Form.EMPTY}),
)


@dataclass(frozen=True, slots=True)
class Format:
    """What keys or values are, but for the exceptions."""

    name: str
    framing: str  # of the schema's id: "prefix", "header", or "bare" without one
    count: int  # that have it
    of: int  # that are not null
    nulls: int
    exceptions: dict[str, Tally]  # by form
    ids: dict[str, Tally] | None

    @property
    def is_schema_by_id(self) -> bool:
        return self.framing != "bare"

    @property
    def text(self) -> str:
        """For people.

        >>> Format("Avro", "header", 1, 1, 0, {}, {}).text
        'Avro, with the id of its schema in a header'
        """
        where = {
            "bare": "",
            "prefix": ", after the id of its schema",
            "header": ", with the id of its schema in a header",
        }
        return self.name + where[self.framing]

    def document(self, part: Part) -> Document | None:
        """The shape of its JSON."""
        return part.documents.get(self.framing) if self.name == "JSON" else None


def format_of(part: Part, tolerance: float) -> Format:
    """The format of a topic's keys or values."""
    of = part.others
    if of == 0:
        return Format(NONE, "bare", 0, 0, part.nulls, {}, {})
    if (integer := _integer(part, tolerance)) is not None:
        return Format(integer, "bare", of, of, part.nulls, {}, {})
    for name, framing, forms in FAMILIES:
        count = part.count(*forms)
        if count and of - count <= tolerance * of and not _only_scalars(part, name):
            others = {form: tally for form, tally in part.forms.items() if form not in forms and form != Form.NULL}
            return Format(name, framing, count, of, part.nulls, others, part.ids)
    return Format(MIXED, "bare", of, of, part.nulls, dict(part.forms), part.ids)


def _only_scalars(part: Part, name: str) -> bool:
    """Texts such as 17 and true are JSON, and mean just themselves."""
    return name == "JSON" and not part.count(Form.JSON, *BY_PREFIX, *BY_HEADER)


def _integer(part: Part, tolerance: float) -> str | None:
    least, most = part.sizes.ends(tolerance)
    if least != most or least not in INTEGERS:
        return None
    readable = part.count(Form.JSON, Form.SCALAR, Form.TEXT, Form.CONTAINER, *BY_HEADER)
    if part.others - readable <= tolerance * part.others:
        return None
    if part.count(*BY_PREFIX) == part.others == part.varints:
        return None  # as an Avro long of three bytes: all integers of eight bytes would hardly end like that
    return INTEGERS[int(least)]
