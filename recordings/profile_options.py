"""The options of `hearth record` and `hearth import` that go into an episode's profile."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Request = Annotated[str | None, typer.Option(help="What is said to the home.")]
GroundingKind = Annotated[
    str | None,
    typer.Option(
        "--grounding",
        help="G0 speech, G1 gesture, G2 sound, G3 space, G4 identity: what the request refers by.",
    ),
]
QueryKind = Annotated[
    str | None,
    typer.Option("--query", help="Q1 inquiry, Q2 control, Q3 scheduling, Q4 implicit intent."),
]
FeasibilityKind = Annotated[
    str | None,
    typer.Option(
        "--feasibility", help="feasible, nonexistent_resource, physical_limit or temporal_contradiction."
    ),
]
Speaker = Annotated[str | None, typer.Option(help="Who speaks.")]
Target = Annotated[str | None, typer.Option(help="Id of the device that is meant.")]
Recording = Annotated[
    str | None,
    typer.Option("--consent", help="Consent to the recording: given, not_needed, unknown."),
]
Sharing = Annotated[
    str | None,
    typer.Option(
        "--sharing",
        help="Consent to sharing: given, refused, not_needed, unknown; the consent book decides where"
        " somebody is named.",
    ),
]
Notes = Annotated[str | None, typer.Option(help="Anything else.")]


def profile_fields(
    *,
    request: str | None,
    grounding: str | None,
    query: str | None,
    feasibility: str | None,
    speaker: str | None,
    target: str | None,
    consent: str | None,
    sharing: str | None,
    notes: str | None,
) -> dict[str, Any]:
    """The fields of a `recordings.profile.Profile` that these options say, without those not given."""
    agreed = {"recording": consent, "sharing": sharing}
    fields = {
        "request": request,
        "grounding": grounding,
        "query": query,
        "feasibility": feasibility,
        "speaker": speaker,
        "target_device": target,
        "consent": {use: said for use, said in agreed.items() if said is not None} or None,
        "notes": notes,
    }
    return {name: value for name, value in fields.items() if value is not None}
