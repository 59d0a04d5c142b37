"""The commands `hearth keys make | list | allow | revoke | show`. Thin: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsp.errors import InputError

if TYPE_CHECKING:
    from edge.stream.keys import PublicKey
    from edge.stream.keys_folder import KeysFolder

keys = typer.Typer(
    name="keys",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Who may come to this rig over the network, and which rigs this machine trusts.",
)
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
Folder = Annotated[
    Path | None,
    typer.Option(help="Folder of keys; default: security.keys of rig.yaml here, else ~/.config/hearth/keys."),
]
Name = Annotated[str, typer.Argument(help="Name of the key: letters, digits, dots, dashes, underscores.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    for command in (make, list_keys, allow, revoke, show):
        keys.command(name="list" if command is list_keys else None)(command)
    app.add_typer(keys, name="keys", rich_help_panel="Set up")


def make(
    name: Annotated[
        str | None, typer.Argument(help="Name of the key; with --rig it may be left out.")
    ] = None,
    rig: Annotated[bool, typer.Option("--rig", help="The key of this rig itself, not of a client.")] = False,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Make a key pair on the machine that will use it, and say what to enter on the other one."""
    from recordings.terminal import emit

    if name is None and not rig:
        raise InputError(
            "which key? `hearth keys make NAME` makes a client's, `hearth keys make --rig` the rig's"
        )
    name = name or "rig"
    opened = _folder(folder)
    pair = opened.make(name, "rig" if rig else "client")
    there = "each client" if rig else "the rig"
    host = " --host ADDRESS" if rig else ""
    emit(
        {**_key(name, pair.public), "created_utc": pair.created_utc, "folder": str(opened.path)},
        as_json,
        [
            f"made {name} in {opened.path}; the secret half stays there",
            f"fingerprint {pair.public.fingerprint}",
            f"on {there}:",
            f"  hearth keys allow {name} {pair.public.word}{host}",
        ],
    )


def list_keys(folder: Folder = None, as_json: Json = False) -> None:
    """List the keys made here, those allowed and those revoked, with when each client was last let in."""
    import json

    opened = _folder(folder)
    rows = _rows(opened)
    if as_json:
        print(json.dumps({"folder": str(opened.path), "keys": rows}))
        return
    from rich.console import Console
    from rich.table import Column, Table

    table = Table("name", "what", Column("fingerprint", no_wrap=True), "since", "last let in", "from")
    for row in rows:
        what = {"own": "made here", "allowed": "allowed", "revoked": "revoked"}[row["list"]]
        hosts = f" at {', '.join(row['hosts'])}" if row["hosts"] else ""
        seen = (row["last_seen_utc"] or "", row["last_address"] or "")
        table.add_row(
            row["name"], f"{row['kind']}, {what}{hosts}", row["fingerprint"], row["since_utc"], *seen
        )
    Console().print(
        table
        if rows
        else f"no keys in {opened.path}; `hearth keys make --rig` or `hearth keys make NAME` begins"
    )


def allow(
    name: Name,
    key: Annotated[str, typer.Argument(help="client:... or rig:..., as `hearth keys show` prints it there.")],
    host: Annotated[
        list[str] | None, typer.Option(help="For a rig: an address at which it is reached; may be repeated.")
    ] = None,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Let a client in, or trust a rig. Takes effect at once, also for a rig that runs."""
    from recordings.terminal import emit

    listed = _folder(folder).allow(name, key, tuple(host or ()))
    done = "may come to this rig" if listed.public.kind == "client" else "is trusted by clients here"
    emit(
        {**_key(name, listed.public), "hosts": list(listed.hosts)},
        as_json,
        [f"{name} ({listed.public.fingerprint}) {done}; compare the fingerprint with the other machine's"],
    )


def revoke(name: Name, folder: Folder = None, as_json: Json = False) -> None:
    """Take a key off the list. A rig that runs cuts its connections within a second."""
    from recordings.terminal import emit

    listed = _folder(folder).revoke(name)
    emit(
        _key(name, listed.public),
        as_json,
        [f"{name} ({listed.public.fingerprint}) is off the list; its connections end within a second"],
    )


def show(
    name: Annotated[str | None, typer.Argument(help="Name of a key; default: those made here.")] = None,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Show public keys and fingerprints, to carry them to another machine or to compare them."""
    from recordings.terminal import emit

    opened = _folder(folder)
    rows = [
        {field: row[field] for field in ("name", "kind", "fingerprint", "key", "list")}
        for row in _rows(opened)
        if row["name"] == name or (name is None and row["list"] == "own")
    ]
    if not rows:
        wanted = f"no key {name!r}" if name else "no key made here"
        raise InputError(f"{wanted} in {opened.path}; `hearth keys list` shows what there is")
    lines = [f"{row['name']} {row['fingerprint']} {row['key']}" for row in rows]
    emit({"folder": str(opened.path), "keys": rows}, as_json, lines)


def _folder(path: Path | None) -> KeysFolder:
    """The folder that was asked for, else the one of the rig here, else the default."""
    from edge.stream.keys_folder import KeysFolder

    if path is None and Path("rig.yaml").is_file():
        from capture.rig import load_rig

        told = load_rig().security.keys
        path = Path(told) if told is not None else None
    return KeysFolder(path)


def _key(name: str, public: PublicKey) -> dict[str, Any]:
    return {"name": name, "kind": public.kind, "fingerprint": public.fingerprint, "key": public.word}


def _rows(folder: KeysFolder) -> list[dict[str, Any]]:
    seen = folder.seen()
    found: list[tuple[str, str, PublicKey, str, tuple[str, ...]]] = []
    for kind in ("rig", "client"):
        found += [("own", p.name, p.public, p.created_utc, ()) for p in folder.own(kind)]  # type: ignore[arg-type]
        for which, listed in (("allowed", folder.allowed(kind)), ("revoked", folder.revoked(kind))):  # type: ignore[arg-type]
            found += [(which, entry.name, entry.public, entry.since_utc, entry.hosts) for entry in listed]
    rows = []
    for which, name, public, since, hosts in found:
        last = seen.get(public.fingerprint)
        rows.append(
            {
                **_key(name, public),
                "list": which,
                "since_utc": since,
                "hosts": list(hosts),
                "last_seen_utc": last.utc if last else None,
                "last_address": last.address if last else None,
            }
        )
    return rows
