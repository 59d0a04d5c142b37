"""people.yaml: who agreed to what, when, how, until when; strict."""

from __future__ import annotations

import hashlib
import json
import secrets
from datetime import date
from typing import Annotated, Literal, get_args

import msgspec
import yaml
from msgspec import Meta

from dsp.errors import InputError
from recordings.profile import Name
from recordings.yaml_text import load_yaml

Use = Literal["recording", "sharing", "biometrics"]
USES: tuple[Use, ...] = get_args(Use)
Text = Annotated[str, Meta(min_length=1, max_length=300)]


class Grant(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One consent for one use. `until`: the last day on which it holds, and the retention date."""

    given: date
    form: Text  # how: "paper form 2, signed", "spoken, recorded", ...
    until: date
    witness: Text | None = None
    withdrawn: date | None = None


class Consenter(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One person. `names`: how episodes and notes call the person otherwise than by `person`."""

    person: Name
    pseudonym: Name
    names: tuple[Text, ...] = ()
    uses: dict[Use, Grant] = {}

    def called(self, name: str) -> bool:
        """Whether `name` means this person."""
        return name == self.person or name in self.names


class Agreed(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A visitor's agreement that the episode is kept, and perhaps shared, until a day."""

    given: date
    form: Text
    until: date
    sharing: bool = False


class Visit(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """An episode (`<session>/<episode>`) in which somebody was present who is not listed."""

    episode: Text
    noted: date
    delete_by: date
    agreed: Agreed | None = None


class AuditHead(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How long audit.jsonl was when this file was written: lines cut off its end are missed."""

    lines: int
    hash: str


class People(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The whole of people.yaml. `visitor_days`: how long an episode with a visitor is kept unless agreed."""

    hearth_consent: Literal[1] = 1
    visitor_days: Annotated[int, Meta(ge=0, le=365)] = 7
    people: tuple[Consenter, ...] = ()
    visits: tuple[Visit, ...] = ()
    audit: AuditHead | None = None


def people_to_yaml(people: People) -> str:
    """The text of people.yaml."""
    plain = msgspec.to_builtins(people, builtin_types=(date,))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110)


def content_hash(people: People) -> str:
    """SHA-256 of what people.yaml says, as sorted JSON without `audit` and what is empty: how it is laid out
    does not matter."""
    plain = msgspec.to_builtins(people, builtin_types=(date,))
    kept = {key: value for key, value in plain.items() if key != "audit" and value not in (None, (), [], {})}
    text = json.dumps(kept, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def people_from_yaml(text: str, where: str) -> People:
    """Read people.yaml strictly. Raises InputError with the key and the value."""
    try:
        people = msgspec.convert(load_yaml(text), People)
    except yaml.YAMLError as error:
        raise InputError(f"{where}: not valid YAML: {error}") from None
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}") from None
    check_people(people, where)
    return people


def check_people(people: People, where: str) -> None:
    """Raise InputError when a name means two persons, or dates contradict each other."""
    seen: dict[str, str] = {}
    for one in people.people:
        for name in {one.person, one.pseudonym, *one.names}:
            if name in seen:
                raise InputError(f"{where}: {name!r} means both {seen[name]} and {one.person}")
            seen[name] = one.person
        for use, grant in one.uses.items():
            if grant.until < grant.given:
                raise InputError(
                    f"{where}: {one.person}, {use}: until {grant.until} lies before given {grant.given}"
                )
            if grant.withdrawn is not None and grant.withdrawn < grant.given:
                raise InputError(
                    f"{where}: {one.person}, {use}: withdrawn {grant.withdrawn} lies before given"
                    f" {grant.given}"
                )


def new_pseudonym() -> str:
    """A random word that says nothing about the person."""
    return f"p-{secrets.token_hex(6)}"
